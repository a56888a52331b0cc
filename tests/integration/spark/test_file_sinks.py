"""File sinks beside tables, in a real job: the files hold what the SQL selects, and name rows as the table does."""

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn.log.store import get, open_store, paths
from firn.sinks import report
from firn.sinks.turn import open_files
from tests.integration.spark.spark_lake import Lake, ndjson

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  spec:
    envelope: rows
    tables: {{clicks: {{to: web.clicks, mode: append, columns: {{id: long}}}}}}
    pipelines:
      clean:
        sql: INSERT INTO web.clean SELECT id, upper(region) AS region FROM clicks WHERE id > 1
      out:
        sql: SELECT id, upper(region) AS region FROM clicks WHERE id > 1
        files: {{to: "{to}", path: "region={{region}}", roll: {{every: 1s, size: 1KB}}}}
"""


def post(lake: Lake, *rows: dict[str, Any]) -> int:
    lake.now += timedelta(seconds=1)
    accept.accept(lake.store, lake.config, lake.stream, ndjson(list(rows)), now=lake.now, table="clicks")
    return lake.seal()


def test_files_and_a_table_of_one_sql_hold_the_same(spark: SparkSession, tmp_path: Path) -> None:
    to = f"file://{tmp_path}/files"
    lake = Lake(spark, tmp_path, CONFIG.format(to=to))
    assert lake.commit(post(lake, {"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}, {"id": 3})) == 0, lake.lines
    assert lake.commit(post(lake, {"id": 4, "region": "a/b"}, {"id": "x", "region": "us"})) == 0, lake.lines
    found = report.of(lake.store, "spec.out")
    store = open_store(to)
    assert paths(store, "") == sorted(file.path for one in found.manifests for file in one.files)
    assert {path.partition("/")[0] for path in paths(store, "")} == {"region=EU", "region=__null__", "region=A%2FB"}
    rows = [row for path in paths(store, "") for row in pq.read_table(io.BytesIO(get(store, path) or b"")).to_pylist()]
    assert sorted((row["id"], row["region"]) for row in rows) == [(2, "EU"), (3, None), (4, "A/B")]
    by_id = {row["_firn_id"].partition("/")[0]: row["id"] for row in rows}
    assert by_id == {row["_firn_id"].partition("/")[0]: row["id"] for row in lake.rows("web.clean")}
    assert list(report.check(lake.store, found, open_files)) == []
    store.put(found.manifests[0].files[0].path, b"", mode="overwrite")
    assert [one.rpartition(" ")[2] for one in report.check(lake.store, found, open_files)] == ["written"]
