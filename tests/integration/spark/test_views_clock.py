"""Views whose WHERE asks for the time, in Spark's job: brought on as time passes by the files whose rows it touches."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from firn.commit.view_turn import ViewTurn
from firn.log import published_configs
from firn_spark.files import row_lookup
from firn_spark.lake import SparkLake
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_views import bag, refreshed, told, visible

pytestmark = pytest.mark.spark

VIEWS = {
    "lake.recent": "SELECT id, v, seen FROM lake.a WHERE seen > now() - INTERVAL 7 DAY",
    "lake.today": "SELECT v, count(*) AS n FROM lake.a WHERE day = current_date GROUP BY v",
    "lake.over": "SELECT v, count(*) AS n, max(id) AS top FROM lake.recent GROUP BY v",
}
CONFIG = """
warehouse: file:///x
catalog: {type: sql}
streams:
  spec: {tables: {app.a: {to: lake.a, key: [id], columns: {seen: timestamptz, day: date}}}}
views:
""" + "".join(
    f"  {name}: {{sql: {sql!r}{', every: 1h' if name != 'lake.over' else ''}}}\n" for name, sql in VIEWS.items()
)


def at(lake: Lake, now: datetime) -> dict[str, Any]:
    """The views' turn at a moment. -> the way of those that have a new snapshot"""
    lake.lines = []
    job = SparkLake(lake.store, lake.staging, lake.warehouse, lake.catalog_uri, lake.spark)
    ViewTurn(lake.store, job, lake.stream, lake.lines.append, lambda: now).take(published_configs.current(lake.store))
    return refreshed(lake)


def check(lake: Lake) -> None:
    """Each is its query at the moment that its newest snapshot names."""
    with duckdb.connect() as run:
        run.execute("SET TimeZone = 'UTC'")
        run.execute("CREATE SCHEMA lake")
        for name in ("lake.a", *VIEWS):
            run.register("rows", visible(lake, name)).execute(f"CREATE TABLE {name} AS FROM rows")
        for name, sql in VIEWS.items():
            now = f"TIMESTAMPTZ '{lake.snapshots(name)[-1].get('firn.view.now', '')}'"
            said = sql.replace("now()", now).replace("current_date", f"CAST({now} AS DATE)")
            stored, made = (f"SELECT COLUMNS(*)::VARCHAR FROM ({one})" for one in (f"FROM {name}", said))
            assert bag(run.execute(stored).fetchall()) == bag(run.execute(made).fetchall()), name


def row(number: int, when: datetime, lsn: int = 0, **more: Any) -> dict[str, Any]:
    return told(number, lsn, "u" if lsn else "c", seen=f"{when:%Y-%m-%dT%H:%M:%S.%fZ}", day=f"{when:%Y-%m-%d}", **more)


def test_rows_come_and_go_as_time_passes(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, begun = Lake(spark, tmp_path, CONFIG), datetime.now(UTC)
    for day in range(10):  # a file each
        lake.land([row(day * 10 + n, begun - timedelta(days=day, hours=-n)) for n in range(4)])
    at(lake, begun + timedelta(minutes=90))
    check(lake)
    planned: list[int] = []
    plan = row_lookup.plan

    def counted(spark: Any, table: Any, wanted: Any, limits: Any) -> Any:
        found = plan(spark, table, wanted, limits)
        if wanted.between is not None:
            planned.append(len(found.files))
        return found

    monkeypatch.setattr(row_lookup, "plan", counted)
    later = at(lake, begun + timedelta(minutes=165))
    assert {name: way.get("whole") for name, way in later.items()} == dict.fromkeys(later)
    assert later["lake.recent"]["gone"] == 1
    assert later["lake.over"]["changes"] == 1
    assert planned[0] == 1, "of ten files the one of that time"
    check(lake)
    count = len(lake.snapshots("lake.recent"))
    at(lake, begun + timedelta(hours=9))
    settled = len(lake.snapshots("lake.recent"))
    at(lake, begun + timedelta(hours=11))
    assert (settled - count, len(lake.snapshots("lake.recent"))) == (1, settled), "no snapshot of no change"
    at(lake, begun + timedelta(days=1, hours=2))
    check(lake)
    # A late row, one that is moved out and one that is deleted, with a moment that is later too.
    lake.land(
        [row(500, begun - timedelta(days=6, hours=1)), row(0, begun - timedelta(days=30), 900), told(10, 901, "d")]
    )
    at(lake, begun + timedelta(days=3))
    check(lake)
    at(lake, begun + timedelta(days=40))
    check(lake)
    assert not lake.rows("lake.recent")
