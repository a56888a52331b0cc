"""Views made by Spark's tasks, in parts: they are what one process makes, column for column, and refreshes go on."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn_sql.views import fill_way
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_pipelines_rebuild import rebuilt
from tests.integration.spark.test_view_queries import Source, check, config
from tests.integration.spark.test_views import bag, refreshed

pytestmark = pytest.mark.spark

SOME = [
    "SELECT b, count(*) AS n, sum(m) AS s, avg(x) AS v, min(x) AS lo, count(DISTINCT a) AS k FROM t GROUP BY b",
    "SELECT a, count(*) AS n, sum(m) AS s FROM t GROUP BY a",
    "SELECT a, t.id, u.id AS uid, c FROM t FULL JOIN u USING (a)",
    "SELECT a FROM t UNION ALL SELECT a FROM u",
    "SELECT id, a FROM t ORDER BY a DESC LIMIT 3",
]


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size are large, and parts and small tables small."""
    for name, value in (("LEAST", 0), ("ROWS", 5), ("SMALL", 4)):
        monkeypatch.setattr(fill_way, name, value)


def held(lake: Lake, view: str) -> Counter[Any]:
    """All that a view's table has, hidden columns too."""
    return bag([tuple(row.values()) for row in lake.rows(view)])


def made_in_both(
    spark: SparkSession, folder: Path, some: list[str], dice: random.Random, partitions: str = ""
) -> list[dict[str, Any]]:
    """How views were filled."""
    said = config(some)
    if partitions:
        said = said.replace(f"v0: {{sql: {some[0].replace('FROM t', 'FROM lake.t')!r}", "v0: {", 1)
    lake, source = Lake(spark, folder, config(some)), Source(dice)
    lake.land(source.changes(25))
    filled = list(refreshed(lake).values())
    check(lake, source, some)
    views = [f"views.v{n}" for n in range(len(some))]
    before = [held(lake, one) for one in views]
    lake.land(source.changes(6))
    check(lake, source, some)
    least, fill_way.LEAST = fill_way.LEAST, 10**9  # type: ignore[misc]
    try:
        for one, rows in zip(views, before, strict=True):
            now = held(lake, one)
            assert "parts" not in rebuilt(lake, one, in_place=True)
            assert held(lake, one) == now
            assert rows is not None
    finally:
        fill_way.LEAST = least  # type: ignore[misc]
    return filled


def test_views_are_made_by_tasks(spark: SparkSession, tmp_path: Path, in_parts: None) -> None:
    ways = made_in_both(spark, tmp_path, SOME, random.Random(3))
    assert [way.get("parts", 1) > 1 for way in ways] == [True, True, True, True, False], ways
