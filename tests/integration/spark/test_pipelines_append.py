"""Pipelines into append tables: whatever the split, the home and the order, the table is the SQL over all events."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from firn_spark.slices import slice_engine
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.soak import seeds

pytestmark = pytest.mark.spark

RULES = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id]}
    pipelines:
"""
CLEAN = "INSERT INTO lake.clean SELECT id, lower(name) AS name, n * 2 AS twice FROM app.t WHERE id % 3 <> 0"
ITEMS = "INSERT INTO lake.items SELECT id, unnest(CAST(items AS BIGINT[])) AS item FROM app.t"


def config(**pipelines: str) -> str:
    return RULES + "".join(f"      {name}: {{sql: {sql!r}}}\n" for name, sql in pipelines.items())


def events(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Inserts and updates of some keys, each at a place of its own."""
    return [
        event(
            dice.choice("cu"), 10 + n,
            {"id": dice.randrange(9), "name": f"N{n}", "n": n, "items": [n] * dice.randrange(3)},
        )
        for n in range(count)
    ]  # fmt: skip


def selected(sql: str, told: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """DuckDB's own SELECT over the rows of all events."""
    run = duckdb.connect().execute("CREATE SCHEMA app")
    rows = pa.Table.from_pylist([one["after"] for one in told])  # noqa: F841 (DuckDB finds it by its name)
    run.execute("CREATE TABLE app.t AS FROM rows")
    return Counter(run.execute("SELECT" + sql.partition("SELECT")[2]).fetchall())


def rows_of(lake: Lake, table: str, *names: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in names) for row in lake.rows(table))


@pytest.fixture(params=["", "0"], ids=["driver", "slices"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", request.param)
    monkeypatch.setattr(slice_engine, "EVENTS", 7)
    return "slices" if request.param else "driver"


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_each_target_is_the_select_over_all_events_however_they_come(
    spark: SparkSession, tmp_path: Path, home: str, seed: int
) -> None:
    dice = random.Random(seed)
    told = events(dice, 30)
    come = dice.sample(told, len(told))
    lake = Lake(spark, tmp_path, config(clean=CLEAN, items=ITEMS))
    for first in range(0, len(come), 11):
        lake.post(come[first : first + 11], at_once=5)
        lake.land(dice.sample(come[: first + 11], 6), at_once=5)  # again, in requests of their own
        for name in ("clean", "items"):
            line = lake.line(f"lake.{name}")
            assert line["events"] == sum(line[one] for one in ("merged", "superseded", "ignored", "dead"))
            assert line["way"]["lookup"] == home
    assert rows_of(lake, "lake.clean", "id", "name", "twice") == selected(CLEAN, told)
    assert rows_of(lake, "lake.items", "id", "item") == selected(ITEMS, told)
    assert len(lake.by_key("lake.t", "id")) == len({one["after"]["id"] for one in told})
    names = [row["_firn_id"] for row in lake.rows("lake.items")]
    assert len(set(names)) == len(names)
    assert all("/items/" in name for name in names)
    assert all(row["_firn_before"] is None for row in lake.rows("lake.clean"))
