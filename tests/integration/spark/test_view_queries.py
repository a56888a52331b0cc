"""Queries of the whole grammar as views in Spark's job: after each commit each is what its plan makes of the tables."""

import random
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from firn_sql.views.planner import plan
from firn_sql.views.refresh import AFTER, Refresh
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_views import bag, refreshed, visible
from tests.property.test_views import COLUMNS, QUERIES, TABLES, Tables, queries
from tests.soak import LONG, long_only, seeds, times

pytestmark = pytest.mark.spark

CONFIG = """
warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    debezium: {decimal.handling.mode: string}
    tables:
      app.t: {to: lake.t, key: [id], columns: {id: int, a: int, b: string, x: double, m: "decimal(9,2)"}}
      app.u: {to: lake.u, key: [id], columns: {id: int, a: int, c: string}}
      app.v: {to: lake.v, key: [a], columns: {a: int, d: string}}
views:
"""


def config(some: list[str]) -> str:
    views = (re.sub(r"(FROM|JOIN|,) ([tuv])(?=[ ,)]|$)", r"\1 lake.\2", sql) for sql in some)
    return CONFIG + "".join(f"  views.v{n}: {{sql: {sql!r}}}\n" for n, sql in enumerate(views))


class Source:
    """Tables that change by chance, and the events that say so."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.lsn = 10
        self.state: dict[str, dict[int, tuple[Any, ...]]] = {"t": {}, "u": {}, "v": {}}

    def changes(self, count: int) -> list[dict[str, Any]]:
        return [self._change() for _ in range(count)]

    def _change(self) -> dict[str, Any]:
        dice, table = self.dice, self.dice.choice("tttuuv")
        key, key_name = dice.randrange(8), COLUMNS[table][1][0]
        self.lsn += 1
        if key in self.state[table] and dice.random() < 0.3:
            del self.state[table][key]
            return event("d", self.lsn, None, {key_name: key}, table=table)
        small = lambda: dice.choice([None, 0, 1, 2, 3])  # noqa: E731
        text = lambda: dice.choice([None, "p", "q", ""])  # noqa: E731
        row: tuple[Any, ...] = (small(), text())
        if table == "v":
            row = (text(),)
        elif table == "t":
            row = (*row, dice.choice([None, 0.5, -1.25, 1e9]), dice.choice([None, "1.50", "-2.25"]))
        self.state[table][key] = (*row[:3], None if row[3] is None else Decimal(row[3])) if table == "t" else row
        names = [one.split()[0] for one in COLUMNS[table][0].split(", ")]
        return event("u", self.lsn, dict(zip(names, (key, *row), strict=True)), table=table)


def check(lake: Lake, source: Source, some: list[str]) -> None:
    with duckdb.connect() as run:
        tables = Tables(run, [source.state, source.state])
        for n, sql in enumerate(some):
            found = plan(sql, TABLES)
            rows = f"SELECT {', '.join(found.root.columns)} FROM ({Refresh(run, found, tables).whole(AFTER)})"
            wanted = bag(run.execute(rows).fetchall())
            there = visible(lake, f"views.v{n}").to_pylist()
            assert bag([tuple(row.values()) for row in there]) == wanted, sql


def histories(spark: SparkSession, folder: Path, some: list[str], dice: random.Random) -> None:
    lake, source = Lake(spark, folder, config(some)), Source(dice)
    ways: Counter[str] = Counter()
    first = [
        event("c", n + 1, {"id": 90 + n} if table != "v" else {"a": 90 + n}, table=table)
        for n, table in enumerate("tuv")
    ]
    for n, table in enumerate("tuv"):
        source.state[table][90 + n] = (None,) * (len(TABLES[table].columns) - 1)
    for count in (12, 5, 2, 5) if LONG else (12, 5, 2):
        lake.land(first + source.changes(count))
        first = []
        ways.update(str(way.get("whole", "")) for way in refreshed(lake).values())
        check(lake, source, some)
    assert ways[""] > 0, ways


@long_only
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_queries_as_people_write_them(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    histories(spark, tmp_path, dice.sample(QUERIES, times(5, len(QUERIES))), dice)


@long_only  # tests/property/test_views.py draws them too
@given(some=st.lists(queries(), min_size=5, max_size=5), seed=st.integers(0, 2**32))
@settings(max_examples=times(1, 40), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_queries(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, some: list[tuple[str, Any]], seed: int
) -> None:
    histories(spark, tmp_path_factory.mktemp("views"), [sql for sql, _ in some], random.Random(seed))
