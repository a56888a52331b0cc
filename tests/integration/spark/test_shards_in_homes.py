"""Tables of several shards whose changes Spark's tasks read and decode: each shard is what the job's process makes."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.placement.map_changes import merge, split_values
from firn.changes.placement.shard_map import Home
from firn.commit import range_parts
from firn_spark.driver.range import small
from firn_spark.not_eligible import Unfit
from firn_spark.ranges import Ranges
from firn_spark.slices import slice_engine
from tests.integration.spark.dying_jobs import delivered
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_changing_shards import at_the_cut, change_map, check, random_change
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_shard_commits import KINDS, REST, TENANTS, lake_of, told
from tests.soak import LONG, SEED, few_cases, seeds

pytestmark = pytest.mark.spark


def way(lake: Lake) -> tuple[Any, ...]:
    line = lake.line(REST)
    counts = ("events", "merged", "superseded", "ignored", "dead")
    return line["way"].get("by"), line["way"].get("shards"), *(line.get(name, 0) for name in counts)


@few_cases(1)
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_both_homes_bring_each_shard_to_the_same_at_each_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    homes = {home: lake_of(spark, tmp_path / home, TENANTS) for home in ("driver", "slices")}
    events, dice, size = told(seed, 300 if LONG else 60, 8), random.Random(seed), 50 if LONG else 12
    dice.shuffle(events)  # late, too
    for first in range(0, len(events), size):
        some = events[max(0, first - 2) : first + size]  # some twice
        for home, lake in homes.items():
            commit_in(home, monkeypatch, one_task=3)  # several tasks decode
            if first == 2 * size:
                change_map(lake, lambda now: split_values(now, "rest", "c", Home("c.orders"), ["c", "z"]))
            if first == 4 * size:
                change_map(lake, lambda now: merge(now, ["b"], "a"))
            lake.land(some)
            assert lake.line(REST)["way"].get("read") == ("slices" if home == "slices" else None)
            check(lake, events[: first + size])
        assert at_the_cut(homes["driver"]) == at_the_cut(homes["slices"])
        assert way(homes["driver"]) == way(homes["slices"])


@few_cases(1)
@pytest.mark.parametrize("seed", range(SEED, SEED + (12 if LONG else 2)))
def test_every_cut_is_what_fold_places_though_homes_take_turns_and_jobs_die(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(range_parts, "MOST_ONE_BY_ONE", 20)
    dice = random.Random(f"homes {seed}")
    lake = lake_of(spark, tmp_path, KINDS[seed % len(KINDS)], 1 + seed % 3)
    events = told(seed, 300 if LONG else 45, 8)

    def turned() -> bool:
        """What one home left half-way the other makes good."""
        commit_in(dice.choice(("slices", "slices", "driver")), monkeypatch, one_task=3)
        return dice.random() < 0.3 and random_change(lake, dice, events)

    print(seed, delivered(lake, events, dice, monkeypatch, 15, partial(check, lake), turned))


def test_what_this_process_can_not_read_the_tasks_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def died(*_: Any, **__: Any) -> None:
        raise Unfit("a process that reads died")

    lake = lake_of(spark, tmp_path)
    monkeypatch.setattr(Ranges, "_held", died)
    lake.land(some := told(SEED, 12, 4))
    assert lake.line(REST)["way"]["read"] == "slices"
    check(lake, some)
    lake.post([event("u", 10_000 + n, {"id": n, "w": "b", "v": "v", "n": n}) for n in range(12)])
    last = lake.seal()
    with monkeypatch.context() as patch:
        patch.setattr(slice_engine, "small", partial(small, most_events=11))
        assert lake.commit(last) == 1
    assert "post them in smaller requests" in lake.line(REST)["error"]
    assert lake.commit(last) == 0
