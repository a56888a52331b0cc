"""Views made by Spark's tasks, in parts: they are what one process makes, column for column, and refreshes go on."""

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from firn.views import due
from firn_spark.views import view_table
from firn_sql.views import fill_way
from tests.integration.spark.committing import Died
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_pipelines_rebuild import rebuilt
from tests.integration.spark.test_view_queries import Source, check, config
from tests.integration.spark.test_views import Dies, bag, refreshed
from tests.property.test_views import QUERIES, queries
from tests.soak import long_only, seeds, times

pytestmark = pytest.mark.spark

SOME = {  # and in how many steps each is made: 0 in one process
    "SELECT b, count(*) AS n, sum(m) AS s, avg(x) AS v, min(x) AS lo, count(DISTINCT a) AS k FROM t GROUP BY b": 1,
    "SELECT d, count(*) AS n, sum(m) AS s FROM t JOIN v USING (a) GROUP BY d": 2,
    "SELECT a, t.id, u.id AS uid, c FROM t FULL JOIN u USING (a)": 1,
    "SELECT id, a FROM t ORDER BY a DESC LIMIT 3": 0,
}


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size are large, and parts and small tables small."""
    for name, value in (("LEAST", 0), ("ROWS", 10), ("SMALL", 4)):
        monkeypatch.setattr(fill_way, name, value)


def held(lake: Lake, view: str) -> Counter[Any]:
    """All that a view's table has, hidden columns too."""
    return bag([tuple(row.values()) for row in lake.rows(view)])


def made_in_both(
    spark: SparkSession, folder: Path, some: list[str], dice: random.Random, more: str = ""
) -> list[dict[str, Any]]:
    """How views were filled, which they are by tasks, then refreshed, and then filled by one process."""
    said = config(some).replace("}\n  views.v1", f"{more}}}\n  views.v1")
    lake, source = Lake(spark, folder, said), Source(dice)
    lake.land(source.changes(25))
    filled = list(refreshed(lake).values())
    check(lake, source, some)
    lake.land(source.changes(6))
    assert not any("parts" in way for way in refreshed(lake).values())
    check(lake, source, some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fill_way, "LEAST", 10**9)
        for number in range(len(some)):
            before = held(lake, f"views.v{number}")
            assert "parts" not in rebuilt(lake, f"views.v{number}", in_place=True).get("way", {})
            assert held(lake, f"views.v{number}") == before, some[number]
    return filled


@pytest.mark.usefixtures("in_parts")
def test_views_are_made_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    ways = made_in_both(spark, tmp_path, list(SOME), random.Random(3), ", partition_by: [b]")
    assert [bool(way.get("parts")) for way in ways] == [steps > 0 for steps in SOME.values()], ways


@long_only
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("landed", ["before", "after", "unsure"])
def test_a_job_that_dies_with_all_parts_written_is_made_good_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: str
) -> None:
    monkeypatch.setattr(due, "_TRANSIENT", (timedelta(0), timedelta(0)))  # else the next job waits
    lake, source, dies = Lake(spark, tmp_path, config([*SOME])), Source(random.Random(4)), Dies(landed)
    lake.post(source.changes(25))
    sealed = lake.seal()
    with monkeypatch.context() as patch:
        patch.setattr(view_table.Remake, "land", dies.at(view_table.Remake.land))
        if landed == "unsure":
            assert lake.commit(sealed) == 0, lake.lines
        else:
            with pytest.raises(Died):
                lake.commit(sealed)
    assert lake.commit(sealed) == 0, lake.lines
    check(lake, source, [*SOME])
    assert len([one for one in lake.snapshots("views.v0") if "firn.epoch._view" in one]) == 1


@long_only
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_queries_as_people_write_them_by_tasks(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    made_in_both(spark, tmp_path, dice.sample(QUERIES, 8), dice)


@long_only  # tests/property/test_view_parts.py draws them too
@pytest.mark.usefixtures("in_parts")
@given(some=st.lists(queries(), min_size=4, max_size=4), seed=st.integers(0, 2**32))
@settings(max_examples=times(1, 30), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_queries_by_tasks(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, some: list[tuple[str, Any]], seed: int
) -> None:
    made_in_both(spark, tmp_path_factory.mktemp("views"), [sql for sql, _ in some], random.Random(seed))
