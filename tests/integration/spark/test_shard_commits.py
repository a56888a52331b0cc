"""Tables of several shards, committed by real jobs: at each cut every shard is what `fold` places there."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.log import cuts
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  spec:
    tables:
      app.t:
        to: '{shard}.orders'
        key: [id]
        columns: {id: long, w: string, v: string}
        shard: SHARD
"""
TENANTS = "{by: tenant(w), tenants: [a, b]}"


def lake_of(spark: SparkSession, folder: Path, shard: str = TENANTS) -> Lake:
    return Lake(spark, folder, CONFIG.replace("SHARD", shard))


def rows_at(lake: Lake) -> dict[str, dict[int, tuple[Any, Any]]]:
    """What the newest cut names."""
    cut = cuts.last(lake.store, lake.stream)
    assert cut is not None
    found = {}
    for name, snapshot in cut.tables.items():
        table = lake.catalog.load_table(tuple(name.split(".")))
        rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        found[name.split(".")[0]] = {row["id"]: (row["w"], row["v"]) for row in rows}
        assert len(found[name.split(".")[0]]) == len(rows)
    return found


def test_a_row_whose_shard_changes_leaves_one_table_and_enters_the_other(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    lake.land([event("c", 100 + n, {"id": n, "w": "ab"[n % 2] if n < 4 else None, "v": f"v{n}"}) for n in range(5)])
    assert rows_at(lake) == {
        "a": {0: ("a", "v0"), 2: ("a", "v2")}, "b": {1: ("b", "v1"), 3: ("b", "v3")}, "rest": {4: (None, "v4")}
    }  # fmt: skip
    lake.land([
        event("u", 200, {"id": 0, "w": "b", "v": "w0"}), event("u", 201, {"id": 1, "w": "zz", "v": "w1"}),
        event("d", 202, None, {"id": 2, "w": "a", "v": "v2"}), event("u", 203, {"id": 4, "w": "a", "v": "w4"}),
    ])  # fmt: skip
    assert rows_at(lake) == {
        "a": {4: ("a", "w4")}, "b": {0: ("b", "w0"), 3: ("b", "v3")}, "rest": {1: ("zz", "w1")}
    }  # fmt: skip
    line = lake.line("rest.orders")
    assert (line["events"], line["merged"], line["dead"] if "dead" in line else 0) == (4, 4, 0)
    # A late change of the deleted one, and a doubled one.
    lake.land([event("u", 150, {"id": 2, "w": "b", "v": "late"}), event("u", 200, {"id": 0, "w": "b", "v": "w0"})])
    assert rows_at(lake) == {
        "a": {4: ("a", "w4")}, "b": {0: ("b", "w0"), 3: ("b", "v3")}, "rest": {1: ("zz", "w1")}
    }  # fmt: skip
    _ = random
