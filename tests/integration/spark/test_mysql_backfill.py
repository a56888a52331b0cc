"""A backfill from a real MariaDB into tables, beside its stream, and again after the server was replaced."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from firn.backfill import backfill_request as requests
from firn.backfill.backfill_request import Request
from firn.backfill.mysql_log import place_of
from firn.log import layout, published_configs
from firn.log.batches import FORMAT
from firn_spark import backfill_job
from tests.integration.spark.spark_lake import Lake
from tests.mariadb import mariadb
from tests.soak import long_only

CONFIG = """
streams:
  spec:
    generation: {generation}
    debezium: {{decimal.handling.mode: string}}
    tables:
      shop.*: {{to: 'lake.{{table}}', key: [id], columns: {{amount: 'decimal(12,2)'}}}}
"""
Lakes = Callable[[str], Lake]


def event(place: str, op: str, row: dict[str, Any]) -> dict[str, Any]:
    """A change of the table at a place in the binlog."""
    at = place_of(place)
    source = {"connector": "mariadb", "db": "shop", "table": "t", "ts_ms": 1_770_000_000_000}
    told = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {"op": op, "source": source | {"file": at.file, "pos": at.offset, "row": 0}, **told}


@long_only  # tests/integration/backfill/test_mysql_chunks.py has the rule, test_backfill.py the chunks by Spark
@pytest.mark.spark
def test_reads_stand_between_changes_and_a_replaced_servers_rows_replace(lake: Lakes) -> None:
    with mariadb("shop") as server:
        address = f"mysql://cdc:{quote(server.password)}@127.0.0.1:{server.port}/shop"
        server.run(
            "CREATE TABLE t (id int PRIMARY KEY, amount decimal(12,2), note text)",
            "INSERT INTO t SELECT seq, seq / 100, 'read' FROM seq_1_to_900",
        )
        one = lake(CONFIG.format(generation=0))
        one.post([event("binlog.000001:4", "c", {"id": 7, "amount": "1.00", "note": "stale"})])
        assert one.commit(one.seal()) == 0
        run(one, address, "b1", verify=True, chunk_rows=300)
        one.post([event("binlog.999999:4", "u", {"id": 8, "amount": "2.00", "note": "newer"})])
        one.post([event("binlog.999999:5", "d", {"id": 9, "amount": None, "note": None})])
        assert one.commit(one.seal()) == 0
        rows = one.by_key("lake.t", "id")
        assert len(rows) == 899
        assert [rows[key]["note"] for key in (7, 8)] == ["read", "newer"]
        assert str(rows[7]["amount"]) == "0.07"

        # Its places are below the stream's now: another server took its place.
        request = written(one, address, "b2")
        assert job(one, request) == 1
        assert "this is not the server that the stream comes from" in one.lines[-1]["error"]
        requests.end(one.store, "spec", "b2", requests.End(FORMAT, "cancelled", request.made_at))
        server.run("DELETE FROM t WHERE id % 2 = 0")
        one.config = published_configs.publish(one.store, CONFIG.format(generation=1))
        run(one, address, "b3", replace=True)
        assert one.commit(one.seal()) == 0
        assert one.by_key("lake.t", "id").keys() == {row[0] for row in server.rows("SELECT id FROM t")}


def written(lake: Lake, address: str, name: str, **asked: Any) -> Request:
    made = layout.instant(datetime.now(UTC))
    request = Request(FORMAT, name, "spec", address, made, **asked)
    assert requests.write(lake.store, request)
    return request


def job(lake: Lake, request: Request) -> int:
    places = lake.staging, lake.warehouse, lake.catalog_uri
    return backfill_job.run("spec", request.id, *places, spark=lake.spark, log=lake.lines.append)


def run(lake: Lake, address: str, name: str, **asked: Any) -> None:
    assert job(lake, written(lake, address, name, **asked)) == 0, lake.lines
