"""Views in Spark's job: after each commit they are their query over the tables, whatever happened to these."""

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs
from firn.views import due
from firn_spark.tables.fence import CommitUnknown
from firn_spark.views import refreshed as refreshed_view
from firn_spark.views import view_table
from tests.integration.spark.committing import Died
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_pipelines_rebuild import rebuilt
from tests.integration.spark.test_random_histories import histories
from tests.soak import LONG, long_only, seeds

pytestmark = pytest.mark.spark

SUMS = "SELECT v, count(*) AS size, sum(n) AS total, avg(n) AS mean FROM lake.a GROUP BY v"
JOINED = "SELECT x.id, x.v, y.w, y.id AS other FROM lake.a x LEFT JOIN lake.b y ON x.n = y.n WHERE x.id % 5 <> 1"
LEAST = "SELECT w, min(v) AS least, count(DISTINCT n) AS some, max(id) FILTER (n > 1) AS top FROM lake.a GROUP BY w"
LATEST = "SELECT id, v, row_number() OVER (PARTITION BY w ORDER BY n DESC) AS place FROM lake.a"
OVER = "SELECT size, sum(total) AS total_of, list(v ORDER BY v) AS names FROM lake.sums GROUP BY size"
VIEWS = {"lake.sums": SUMS, "lake.joined": JOINED, "lake.least": LEAST, "lake.latest": LATEST, "lake.over": OVER}


def config(views: dict[str, str], more: str = "") -> str:
    return (
        "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        "    tables:\n      app.a: {to: lake.a, key: [id]}\n      app.b: {to: lake.b, key: [id]}\n"
        "views:\n" + "".join(f"  {name}: {{sql: {sql!r}{more}}}\n" for name, sql in views.items())
    )


def refreshed(lake: Lake) -> dict[str, dict[str, Any]]:
    """What the last job did to each view: the `way` of its outcome."""
    lines = [line for line in lake.lines if line.get("mode") == "view"]
    assert not [line["error"] for line in lines if line["status"] == "failed"]
    return {line["table"]: line["way"] for line in lines}


def plain(value: Any) -> Any:
    return f"{value:.9e}" if isinstance(value, float) else str(value)


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(plain, row)) for row in rows)


def visible(lake: Lake, table: str) -> Any:
    found = lake.catalog.load_table(TableName.parse(table).identifier).scan().to_arrow()
    return found.select([name for name in found.column_names if not name.startswith("_firn_")])


def check(lake: Lake, views: dict[str, str], tables: tuple[str, ...] = ("lake.a", "lake.b")) -> None:
    run = duckdb.connect()
    run.execute("CREATE SCHEMA lake")
    for name in (*tables, *views):
        run.register("rows", visible(lake, name)).execute(f"CREATE TABLE {name} AS FROM rows")
    for name, sql in views.items():
        assert bag(run.execute(f"FROM {name}").fetchall()) == bag(run.execute(sql).fetchall()), name


def told(number: int, lsn: int = 0, op: str = "c", table: str = "a", **more: Any) -> dict[str, Any]:
    row = {"id": number, "v": f"v{number % 3}", "w": "w", "n": number} | more
    return event(op, lsn or 10 + number, None if op == "d" else row, row if op == "d" else None, table=table)


def test_what_changed_is_all_that_a_refresh_looks_at(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config(VIEWS))
    lake.land([*(told(n) for n in range(40)), *(told(n, 60 + n, table="b") for n in range(0, 40, 2))])
    first = refreshed(lake)
    check(lake, VIEWS)
    assert {way["whole"] for way in first.values()} == {"new"}
    lake.land([told(3, 200, "u", v="x"), told(4, 201, "d"), told(8, 202, "d", "b")])
    second = refreshed(lake)
    check(lake, VIEWS)
    assert [way.get("whole") for way in second.values()] == [None] * 5
    assert {way["by"].partition(":")[0] for way in second.values()} == {"by change", "whole query"}
    del second["lake.sums"]["by"]
    assert second["lake.sums"] == {"lookup": "view", "changes": 3, "gone": 2, "come": 3}
    assert lake.commit(2) == 0  # again: nothing is left to do
    assert refreshed(lake) == {}


def test_a_query_that_is_not_kept_by_what_changed_is_run_whole(spark: SparkSession, tmp_path: Path) -> None:
    views = {"lake.without": "SELECT w, v FROM lake.a WHERE n NOT IN (SELECT n FROM lake.b)"}
    lake = Lake(spark, tmp_path, config(views, ", refresh: full"))
    lake.land([*(told(n) for n in range(20)), *(told(n, 60 + n, table="b") for n in range(5))])
    check(lake, views)
    assert refreshed(lake)["lake.without"]["whole"] == "new"
    ids = set(lake.catalog.load_table(("lake", "without")).scan().to_arrow()["_firn_id"].to_pylist())
    lake.land([told(8, 200, "d"), told(4, 201, "d", "b")])
    check(lake, views)
    assert refreshed(lake)["lake.without"] == {"lookup": "view", "whole": "refresh: full", "rows": 15}
    now = lake.catalog.load_table(("lake", "without")).scan().to_arrow()["_firn_id"].to_pylist()
    assert (len(ids), len(set(now)), len(ids & set(now))) == (15, 15, 14)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_after_each_epoch_of_a_random_history_each_view_is_its_query(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Shuffled, doubled and split, on either way of a commit: late changes, deletes, truncates, other columns."""
    dice = random.Random(seed)
    come = [one for table in "ab" for some in histories(dice, table) for one in some]
    come += dice.choices(come, k=len(come) // 4)
    dice.shuffle(come)
    lake = Lake(spark, tmp_path, config(VIEWS, f", write: {dice.choice(('merge-on-read', 'copy-on-write'))}"))
    lake.land([told(100 + n, 1 + n, table=table) for n in range(3) for table in "ab"])
    ways: Counter[str] = Counter()
    size = -(-len(come) // (4 if LONG else 3))
    for first in range(0, len(come), size):
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", dice.choice(("20000", "0")))
        lake.land(come[first : first + size], at_once=300)
        ways.update(str(way.get("whole", "")) for way in refreshed(lake).values())
        check(lake, VIEWS)
    assert ways[""] > 0, ways


def test_another_sql_gives_a_view_other_columns_and_rows_in_one_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    first, then = (
        {"lake.one": SUMS},
        {"lake.one": "SELECT v, w, count(*) AS total, max(id) AS top FROM lake.a GROUP BY ALL"},
    )
    lake = Lake(spark, tmp_path, config(first))
    lake.land([told(n) for n in range(9)])
    refreshed(lake)
    before = len(lake.snapshots("lake.one"))
    lake.config = published_configs.publish(lake.store, config(then))
    lake.land([told(9)])
    found = refreshed(lake)
    check(lake, then, ("lake.a",))
    assert visible(lake, "lake.one").column_names == ["v", "w", "total", "top"]
    assert found["lake.one"]["whole"] == "its SQL is another one"
    assert len(lake.snapshots("lake.one")) == before + 1
    lake.land([told(10), told(2, 70, "d")])
    assert refreshed(lake)["lake.one"]["changes"] == 2
    check(lake, then, ("lake.a",))
    turned = {"lake.one": "SELECT count(*) AS total, max(id) AS top, w, v FROM lake.a GROUP BY ALL"}
    lake.config = published_configs.publish(lake.store, config(turned))
    lake.land([told(11, v=None)])
    check(lake, turned, ("lake.a",))
    assert visible(lake, "lake.one").column_names == ["total", "top", "w", "v"]
    assert len(lake.snapshots("lake.one")) == before + 3
    lake.land([told(12)])
    assert refreshed(lake)["lake.one"]["changes"] == 1


class Dies:
    """A job that dies once: before it lands or after, or that gets no answer."""

    def __init__(self, when: str) -> None:
        self.when = when
        self.died = False

    def at(self, real: Any) -> Any:
        def landing(*given: Any) -> None:
            if self.died or self.when != "before":
                real(*given)
            if not self.died:
                self.died = True
                raise CommitUnknown("no answer") if self.when == "unsure" else Died

        return landing


@long_only
@pytest.mark.parametrize("landed", ["before", "after", "unsure"])
def test_a_job_that_dies_at_a_view_is_made_good_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: str
) -> None:
    """At its first commit and at a later one; `unsure`: the catalog's answer is lost."""
    monkeypatch.setattr(due, "_TRANSIENT", (timedelta(0), timedelta(0)))  # else the next job waits
    lake = Lake(spark, tmp_path, config(VIEWS))
    for n, some in enumerate(([told(one) for one in range(1, 9)] + [told(3, table="b")], [told(2, 50, "u", v="late")])):
        lake.post(some)
        sealed, dies = lake.seal(), Dies(landed)
        with monkeypatch.context() as patch:
            patch.setattr(view_table.Remake, "land", dies.at(view_table.Remake.land))
            patch.setattr(refreshed_view, "land_rows", dies.at(refreshed_view.land_rows))
            if landed == "unsure":
                assert lake.commit(sealed) == 0, lake.lines
            else:
                with pytest.raises(Died):
                    lake.commit(sealed)
        assert lake.commit(sealed) == 0, lake.lines
        check(lake, VIEWS)
        times = [one["firn.epoch._view"] for one in lake.snapshots("lake.sums") if "firn.epoch._view" in one]
        assert times == [str(one + 1) for one in range(n + 1)]


@long_only
def test_what_others_do_to_tables_and_views_is_made_good(spark: SparkSession, tmp_path: Path) -> None:
    """Compaction changes nothing; rows that others write into a table count, and those in a view are found out."""
    lake = Lake(spark, tmp_path, config(VIEWS))
    for n in (1, 5, 9):
        lake.land([told(n), told(n + 1), told(n, 30 + n, table="b")])
    for name in ("a", "sums"):
        lake.spark.sql(
            f"CALL firn.system.rewrite_data_files(table => 'lake.{name}', options => map('rewrite-all', 'true'))"
        )
    lake.land([told(2, 50, "u", v="late")])
    check(lake, VIEWS)
    way = refreshed(lake)["lake.sums"]
    assert (way["changes"], way["gone"], way["come"]) == (2, 1, 2)
    lake.spark.sql("UPDATE firn.lake.a SET v = 'by hand' WHERE id = 5")
    lake.spark.sql("DELETE FROM firn.lake.a WHERE id = 6")
    lake.land([told(11)])
    check(lake, VIEWS)
    lake.spark.sql("DELETE FROM firn.lake.latest WHERE id = 9")
    lake.land([told(9, 80, "u", n=0)])
    refreshed(lake)
    check(lake, VIEWS)
    assert refreshed(lake)["lake.latest"]["whole"] == "others wrote rows into it"


def test_a_rebuild_makes_a_view_again(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config({"lake.sums": SUMS}))
    lake.land([told(1), told(2)])
    lake.spark.sql("DELETE FROM firn.lake.sums WHERE v = 'v1'")
    assert rebuilt(lake, "lake.sums", in_place=True)["rows"] == 2
    check(lake, {"lake.sums": SUMS}, ("lake.a",))
    refused = rebuilt(lake, "lake.sums", check=True)
    assert "the SQL of a view over lake.a" in refused["error"]
    lake.land([told(1, 50, "u", v="x")])
    check(lake, {"lake.sums": SUMS}, ("lake.a",))


@long_only
def test_a_retyped_and_a_renamed_column_of_a_table_reach_its_views(spark: SparkSession, tmp_path: Path) -> None:
    views = {"lake.one": "SELECT w, max(n) AS top, sum(n) AS total FROM lake.a GROUP BY w"}
    lake = Lake(spark, tmp_path, config(views))
    lake.land([told(n) for n in range(9)])
    lake.land([told(9, n=1.5)])
    check(lake, views, ("lake.a",))
    lake.land([told(3, 50, "u", n=2**40)])
    check(lake, views, ("lake.a",))
    lake.spark.sql("ALTER TABLE firn.lake.a RENAME COLUMN n TO amount")
    renaming = config(views).replace("key: [id]}", "key: [id], renames: {amount: n}}", 1)
    lake.config = published_configs.publish(lake.store, renaming)
    lake.land([told(4, 51, "u", w="other")])
    assert refreshed(lake)["lake.one"]["whole"].startswith("the column n of the base has another")
    lake.land([told(5, 52, "u", w="other", n=77)])
    assert refreshed(lake)["lake.one"]["changes"] == 2
    check(lake, {"lake.one": views["lake.one"].replace("(n)", "(amount)")}, ("lake.a",))
    lake.spark.sql("ALTER TABLE firn.lake.a DROP COLUMN w")
    lake.post([event("c", 60, {"id": 20, "v": "a", "n": 1}, table="a")])
    assert lake.commit(lake.seal()) == 0
    line = next(line for line in lake.lines if line.get("table") == "lake.one")
    assert (line["status"], "w" in line["error"]) == ("failed", True), line
