"""Columns that were changed by hand, and the job that goes on filling the table."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn_lake.lake import Lake as Tables
from firn_lake.lake_table import LakeTable
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.soak import long_only

pytestmark = pytest.mark.spark

PARTITIONED = "key: [id], partition_by: ['bucket(2, id)']"
WAYS = pytest.mark.parametrize(
    "how", ["key: [id]", pytest.param(PARTITIONED, marks=long_only)], ids=["plain", "partitioned"]
)


def opened(lake: Lake) -> LakeTable:
    return Tables(lake.catalog).table("lake.t")


def rows(lake: Lake) -> dict[Any, dict[str, Any]]:
    found = lake.by_key("lake.t", "id").items()
    return {key: {name: value for name, value in row.items() if name[0] != "_"} for key, row in found}


def test_the_job_goes_on_with_what_was_changed(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10, {"id": 1, "v": "a", "n": 1}), event("c", 11, {"id": 2, "v": "b", "n": 2})])
    lake.land([event("u", 20, {"id": 1, "v": GONE, "n": 3})])
    before = opened(lake).snapshots()
    opened(lake).evolve(
        add={"extra": "long", "by_hand": "map<string,int>"}, reorder=["n"], docs={"v": "text"}, make_optional=["v"]
    )
    assert opened(lake).snapshots() == before
    lake.land([event("u", 21, {"id": 1, "v": GONE, "n": 4, "extra": 7}), event("d", 22, None, {"id": 2})])
    assert rows(lake) == {1: {"n": 4, "id": 1, "v": "a", "extra": 7, "by_hand": None}}
    assert [one.epochs["spec"] for one in opened(lake).snapshots()] == [1, 2, 3]
    assert opened(lake).iceberg.schema().find_field("v").doc == "text"


@WAYS
def test_a_column_that_was_dropped_comes_back_empty_with_the_next_change_that_has_it(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    lake = Lake(spark, tmp_path, config(how))
    lake.land([event("c", 10, {"id": 1, "v": "a", "n": 1}), event("c", 11, {"id": 2, "v": "b", "n": 2})])
    lake.land([event("u", 20, {"id": 1, "v": GONE, "n": 3})])  # v is held, by its id
    opened(lake).evolve(drop=["v"], despite_stream=True)
    lake.land([event("u", 21, {"id": 1, "n": 4})])
    assert rows(lake) == {1: {"id": 1, "n": 4}, 2: {"id": 2, "n": 2}}
    lake.land([event("u", 22, {"id": 1, "v": GONE, "n": 5}), event("c", 23, {"id": 3, "v": "c", "n": 6})])
    assert rows(lake) == {
        1: {"id": 1, "n": 5, "v": None}, 2: {"id": 2, "n": 2, "v": None}, 3: {"id": 3, "n": 6, "v": "c"},
    }  # fmt: skip
    lake.land([event("u", 15, {"id": 2, "v": "late", "n": 0})])
    assert rows(lake)[2] == {"id": 2, "n": 0, "v": "late"}
