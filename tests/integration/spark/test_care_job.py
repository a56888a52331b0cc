"""The care job: all three kinds for several tables, what it leaves alone and why, and what is due afterwards."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import layout, pause, table_health
from firn.log.store import get
from firn.maintenance.schedule import KINDS, due
from firn_spark import maintenance_job
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event

pytestmark = pytest.mark.spark
CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
care: {expire: {keep: 1h, at_least: 20}}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id]}
      app.other: {to: lake.other, key: [id]}
      app.gone: {to: lake.gone, key: [id]}
"""
TABLES = tuple(map(TableName.parse, ("lake.t", "lake.other", "lake.gone", "lake.strange")))


def care(lake: Lake, run: str, *, dry_run: bool = False) -> list[dict[str, Any]]:
    """Runs the job for all tables. -> its lines, as it left them in the store."""
    request = maintenance_job.Request(run, KINDS, TABLES, dry_run=dry_run, all=True)
    lines: list[dict[str, Any]] = []
    assert (
        maintenance_job.run(request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=lines.append)
        == 0
    )
    body = get(lake.store, layout.care_path(run))
    assert body is not None
    told = json.loads(body)
    assert [line | {"care": run} for line in told["lines"]] == lines
    return list(told["lines"])


def test_each_table_gets_what_it_may_have_and_is_not_due_again(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, CONFIG)
    for n in range(6):
        events = [event("u", 100 + 10 * n + i, {"id": i, "n": n}, table="t") for i in range(3)]
        lake.land(
            [
                *events,
                event("c", 109 + 10 * n, {"id": n}, table="other"),
                event("c", 108 + 10 * n, {"id": n}, table="gone"),
            ]
        )
    lake.catalog.drop_table("lake.gone")
    # From here on a file in the folder of lake.other may be one of lake.t.
    with lake.catalog.load_table("lake.t").transaction() as changed:
        changed.set_properties({"write.data.path": lake.catalog.load_table("lake.other").location()})
    before = sorted((row["id"], row["n"]) for row in lake.rows("lake.t"))
    snapshots = len(lake.snapshots("lake.t"))

    tried = care(lake, "dry", dry_run=True)
    assert {line["status"] for line in tried} <= {"dry run", "left"}
    assert len(lake.snapshots("lake.t")) == snapshots
    (look,) = [line for line in tried if (line["table"], line.get("kind")) == ("lake.t", "expire")]
    assert sum(look["stay"].values()) == look["kept"] == snapshots
    assert "one of the newest" in look["stay"]

    lines = care(lake, "real")
    left = {line["table"]: line["why"] for line in lines if line["status"] == "left"}
    assert left["lake.gone"] == "it is not in the catalog"
    assert left["lake.strange"] == "no stream feeds it, and care.also in firn.yaml does not name it"
    assert "another table of the catalog has its files" in left["lake.other"]
    done = {(line["table"], line["kind"]) for line in lines if line["status"] == "done"}
    assert {("lake.t", kind) for kind in KINDS if kind != "statistics"} <= done, "those only where a rule asks"
    assert sorted((row["id"], row["n"]) for row in lake.rows("lake.t")) == before

    known = table_health.read(lake.store, "spec")
    assert set(known) >= {"lake.t", "lake.other"}
    assert not any(name.startswith("lake.gone") for name in known)
    later = datetime.now(UTC) + timedelta(days=30)
    assert due(known["lake.t"], lake.config.care_of(TABLES[0]), later) == {}, "nothing was committed since"
    soon = datetime.now(UTC) + timedelta(minutes=15)
    assert due(known["lake.other"], lake.config.care_of(TABLES[1]), soon) == {}, "what it does not allow is no work"


def test_a_job_that_is_paused_leaves_the_tables_that_come_next(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, CONFIG)
    lake.land([event("c", 100, {"id": 1}, table="t")])
    pause.begin(lake.store)
    left = {line["table"]: line["why"] for line in care(lake, "paused") if line["status"] == "left"}
    assert left["lake.t"] == "it was paused meanwhile: firn resume"
    pause.end(lake.store)
    assert "lake.t" not in {line["table"] for line in care(lake, "again") if line["status"] == "left"}
