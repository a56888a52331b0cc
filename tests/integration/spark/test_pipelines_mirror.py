"""Mirrors that rest on a mirror: after each commit they are the SQL over their base, whatever happened to it."""

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_random_histories import expected, histories
from tests.soak import seeds

pytestmark = pytest.mark.spark

SOME = "INSERT INTO lake.some SELECT n % 7 AS rest, id AS key, upper(v) AS v, w FROM app.a WHERE n % 3 <> 0"
ALL = "INSERT INTO lake.every SELECT * FROM app.a"


def config(**pipelines: str) -> str:
    made = "".join(f"      {name}: {{mode: mirror, sql: {sql!r}}}\n" for name, sql in pipelines.items())
    return (
        "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        "    tables:\n      app.a: {to: lake.a, key: [id]}\n" + (f"    pipelines:\n{made}" if made else "")
    )


def selected(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's own SELECT over the base as PyIceberg reads it."""
    base = lake.catalog.load_table(("lake", "a")).scan().to_arrow()
    visible = base.select([name for name in base.column_names if not name.startswith("_firn_")])
    run = duckdb.connect().execute("CREATE SCHEMA app").register("base", visible)
    run.execute("CREATE TABLE app.a AS FROM base")
    return sorted(run.execute(sql[sql.index("SELECT") :]).fetchall(), key=repr)


def rows_of(lake: Lake, table: str, names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names.split()) for row in lake.rows(table)), key=repr)


def check(lake: Lake) -> None:
    assert rows_of(lake, "lake.some", "rest key v w") == selected(lake, SOME)
    assert rows_of(lake, "lake.every", "id v w n") == selected(lake, ALL.replace("*", "id, v, w, n"))


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_after_each_epoch_of_a_random_history_the_mirror_is_the_sql_over_its_base(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Shuffled, doubled and split, on either way of a commit: late changes, deletes, truncates, values left out."""
    dice = random.Random(seed)
    told = [one for some in histories(dice, "a") for one in some]
    come = told + dice.choices(told, k=len(told) // 4)
    dice.shuffle(come)
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL))
    size = -(-len(come) // 3)
    for first in range(0, len(come), size):
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", dice.choice(("20000", "0")))
        lake.land(come[first : first + size], at_once=300)
        check(lake)
    found = {row["id"]: {name: row[name] for name in ("id", "v", "w", "n")} for row in lake.rows("lake.every")}
    assert found == expected(come)


def test_a_small_change_of_the_base_costs_the_mirror_a_small_one(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL))
    lake.land([event("c", 10 + n, {"id": n, "v": "a", "w": "b", "n": n}, table="a") for n in range(40)])
    assert lake.line("lake.every")["way"] == {"lookup": "follow", "whole": "new", "rows": 40}
    changed = event("u", 100, {"id": 3, "v": "x", "w": "b", "n": 1}, table="a")
    lake.land([changed, event("d", 101, None, {"id": 4}, "a")])
    check(lake)
    assert lake.line("lake.every")["way"] == {"lookup": "follow", "keys": 2, "rows": 1}
    assert lake.line("lake.some")["way"] == {"lookup": "follow", "keys": 2, "rows": 1}
    cut = lake.lines
    assert lake.commit(2) == 0  # again: nothing is left to do
    assert not [line for line in lake.lines if line.get("table") == "lake.every"], cut
