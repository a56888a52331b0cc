"""A column's type does not depend on how its changes were split over epochs."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event

pytestmark = pytest.mark.spark

EVENTS = [
    event("c", 10, {"id": 1, "v": 7, "w": 1, "n": 3, "flag": True, "big": 2**60, "f": "NaN"}),
    event("c", 11, {"id": 2, "v": 8, "w": 2, "n": 4, "flag": False, "big": 5, "f": 3}),
    event("u", 12, {"id": 1, "v": GONE, "w": 1.5, "n": 5, "flag": "maybe", "big": 0.5, "f": 2.5}),
    event("c", 13, {"id": 3, "v": "text", "w": 3, "n": 6, "flag": None, "big": None, "f": "-Infinity"}),
    event("u", 14, {"id": 2, "v": GONE, "w": 4, "n": 7, "flag": True, "big": 6, "f": 4}),
]


def rows(lake: Lake) -> dict[Any, dict[str, Any]]:
    return {key: {k: v for k, v in row.items() if k[0] != "_"} for key, row in lake.by_key("lake.t", "id").items()}


def test_one_epoch_or_one_for_each_change_give_the_same_columns(spark: SparkSession, tmp_path: Path) -> None:
    at_once, one_by_one = Lake(spark, tmp_path / "a", config()), Lake(spark, tmp_path / "b", config())
    at_once.land(EVENTS)
    for one in EVENTS:
        one_by_one.land([one])
    assert rows(one_by_one) == rows(at_once)
    assert rows(at_once)[1] == {"id": 1, "v": "7", "w": 1.5, "n": 5, "flag": "maybe", "big": "0.5", "f": 2.5}
    names = {field.name for field in one_by_one.catalog.load_table(("lake", "t")).schema().fields}
    assert not [name for name in names if name.endswith("__firn_new")]
    # What was held stays held under the column's new id: a late full change fills it.
    late = event("u", 13, {"id": 2, "v": "late", "w": 9, "n": 9, "flag": None, "big": None})
    one_by_one.land([late])
    assert rows(one_by_one)[2] == rows(at_once)[2] | {"v": "late"}


def test_a_key_that_becomes_text_still_meets_its_rows_and_its_deletes(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"})])
    lake.land([event("d", 20, None, {"id": 2})])
    lake.land([event("c", 30, {"id": "x", "v": "c"}), event("u", 31, {"id": 1, "v": "d"}), event("u", 15, {"id": 2})])
    assert {key: row["v"] for key, row in lake.by_key("lake.t", "id").items()} == {"1": "d", "x": "c"}


def test_a_table_that_has_lost_all_its_files_is_retyped(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10, {"id": 1, "v": 1})])
    lake.spark.sql("DELETE FROM firn.lake.t")
    lake.land([event("c", 20, {"id": 2, "v": "x"})])
    assert {key: row["v"] for key, row in lake.by_key("lake.t", "id").items()} == {2: "x"}
