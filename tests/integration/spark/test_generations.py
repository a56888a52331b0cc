"""Raised generations over Spark and Iceberg: what comes again keeps the generation that it had, in every home."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn.log import published_configs
from firn_lake.lake import Lake as Reader
from firn_spark import ranges
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_rebuild import rebuilt
from tests.soak import LONG, few_cases

pytestmark = pytest.mark.spark

OLD = [
    event("r", 50, {"id": 1, "v": "read"}),
    event("u", 100, {"id": 1, "v": "old"}),
    event("c", 101, {"id": 2, "v": "old"}),
    event("u", 110, {"id": 3, "v": "moved"}, {"id": 2, "v": "old"}),
    event("u", 200, {"id": 1, "v": "newer"}),
]
NEW = [event("r", 30, {"id": 1, "v": "snapshot"}), event("r", 30, {"id": 4, "v": "snapshot"})]
LATER = [event("u", 40, {"id": 4, "v": "later"}), event("d", 41, None, {"id": 9, "v": ""})]
ROWS = [(1, "snapshot"), (3, "moved"), (4, "later")]
RAISED = "    generation: 1\n"


def told(lake: Lake, *, fresh: bool = False) -> list[tuple[int, str]]:
    found = Reader(lake.catalog, lambda: lake.store).table("lake.t").read(["id", "v"], fresh=fresh).pylist()
    return sorted((row["id"], row["v"]) for row in found)


@few_cases(1)
@pytest.mark.parametrize("way", ["driver", "slices", "driver, with a long log"])
def test_what_comes_again_after_the_generation_was_raised_changes_nothing_in_any_home(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "slices":
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    if way == "driver, with a long log":
        monkeypatch.setattr(ranges, "MOST_BYTES", 1)
    lake = Lake(spark, tmp_path, config())
    lake.land(OLD)
    lake.land(OLD[1:3])
    lake.post(OLD[3:])
    first = lake.seal()
    lake.config = published_configs.publish(lake.store, config(stream=RAISED))
    lake.post(OLD[::-1])
    lake.post(NEW)
    assert told(lake, fresh=True) == [(1, "snapshot"), (3, "moved"), (4, "snapshot")]
    assert lake.commit(first, lake.seal()) == 0
    for some in ([*LATER, *OLD], *([OLD[:3]] if LONG else []), [*NEW, *LATER]):
        lake.post(some)
        assert told(lake, fresh=True) == ROWS
        assert lake.commit(lake.seal()) == 0
        assert told(lake) == ROWS
    if way == "driver":  # the log is the same, and so is what a rebuild makes of it
        code, result = rebuilt(lake, check=True)
        assert (code, result["status"]) == (0, "done"), result


@pytest.mark.parametrize("way", ["driver", "slices"])
def test_an_append_table_has_each_event_of_every_generation_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "slices":
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    lake = Lake(spark, tmp_path, config("mode: append"))
    lake.land(OLD)
    lake.config = published_configs.publish(lake.store, config("mode: append", RAISED))
    lake.land([*NEW, *OLD[1:]])
    lake.land(OLD)
    assert sorted(told(lake)) == sorted((one["after"]["id"], one["after"]["v"]) for one in [*OLD, *NEW])
