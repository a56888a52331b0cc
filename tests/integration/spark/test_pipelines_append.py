"""Pipelines into append tables: whatever the split, the home and the order, the table is the SQL over all events."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from firn.log import holds, published_configs
from firn.quarantine.lifting import resume
from firn.quarantine.rules import Standing, failed_table
from firn_lake.lake import Lake as Reader
from firn_spark.merge import shared_decoding
from firn_spark.slices import shared_changes, slice_engine
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import event, letters
from tests.integration.spark.test_dead_replay import replayed
from tests.soak import long_only, seeds

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
    told, most = events(dice, 30 if home == "driver" else 11), 11 if home == "driver" else 6
    come = dice.sample(told, len(told))
    made = {"clean": CLEAN, "items": ITEMS} if home == "driver" else {"items": ITEMS}
    text = config(**made)
    if home == "slices":  # and no rule at all: pipelines alone read the table
        text = text.replace("    tables:\n      app.t: {to: lake.t, key: [id]}\n", "")
    lake = Lake(spark, tmp_path, text)
    for first in range(0, len(come), most):
        lake.post(come[first : first + most], at_once=5)
        lake.land(dice.sample(come[: first + most], 6), at_once=5)  # again, in requests of their own
        for name in made:
            line = lake.line(f"lake.{name}")
            assert line["events"] == sum(line[one] for one in ("merged", "superseded", "ignored", "dead"))
            assert line["way"]["lookup"] == home
    assert rows_of(lake, "lake.items", "id", "item") == selected(ITEMS, told)
    names = [row["_firn_id"] for row in lake.rows("lake.items")]
    assert len(set(names)) == len(names)
    assert all("/items/" in name for name in names)
    if home == "driver":
        assert rows_of(lake, "lake.clean", "id", "name", "twice") == selected(CLEAN, told)
        assert len(lake.by_key("lake.t", "id")) == len({one["after"]["id"] for one in told})
        assert all(row["_firn_before"] is None for row in lake.rows("lake.clean"))


@long_only
def test_five_pipelines_of_one_source_decode_its_changes_once(
    spark: SparkSession, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def seen(which: Any, count: Callable[..., int]) -> None:
        before = getattr(which, "beside" if home == "driver" else "map_in_arrow")

        def counting(*arguments: Any) -> Any:
            decoded.append(count(*arguments))
            return before(*arguments)

        monkeypatch.setattr(which, before.__name__, counting)

    if home == "driver":
        seen(shared_decoding, lambda changes, _: len(changes))
    else:
        seen(shared_changes, lambda *_: len(told))  # a frame of all of them
    told = events(random.Random(1), 12)
    five = {f"p{n}": f"INSERT INTO lake.p{n} SELECT id, name, n FROM app.t WHERE id % 5 <> {n}" for n in range(5)}
    lake = Lake(spark, tmp_path, config(**five))
    lake.post(told, at_once=12)
    assert lake.commit(lake.seal()) == 0, lake.lines
    for name, sql in five.items():
        assert rows_of(lake, f"lake.{name}", "id", "name", "n") == selected(sql, told)
    assert decoded == [12]


def row(n: int, **more: Any) -> dict[str, Any]:
    return event("c", n, {"id": n, "name": f"N{n}", "n": n, "items": []} | more)


def publish(lake: Lake, **pipelines: str) -> None:
    lake.config = published_configs.publish(lake.store, config(**pipelines))


def test_each_epoch_runs_under_the_sql_that_it_names_though_they_are_committed_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config(clean=CLEAN))
    lake.land([row(1)])
    lake.post([row(2)])
    second = lake.seal()
    publish(lake, clean=CLEAN.replace("n * 2", "n * 10"))
    lake.post([row(4), row(2)])
    fresh = Reader(lake.catalog, lambda: lake.store).table("lake.clean").read(("id", "twice"), fresh=True).pylist()
    assert lake.commit(second, lake.seal()) == 0, lake.lines
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 2), (2, 4), (4, 40)])
    assert Counter((one["id"], one["twice"]) for one in fresh) == rows_of(lake, "lake.clean", "id", "twice")
    assert [one["firn.events"] for one in lake.snapshots("lake.clean")] == ["1", "1", "2"]


def test_what_a_released_table_lacks_comes_under_the_sql_that_its_epochs_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config(clean=CLEAN))
    lake.land([row(1)])
    stand = Standing(1, 1)
    held = failed_table("spec", "lake.clean", "terminal", "no reason", stand, 1, 1, "2026-01-01T00:00:00Z")
    holds.hold(lake.store, held)
    lake.land([row(2)])
    broken = "INSERT INTO lake.clean SELECT id, abs(name) AS twice FROM app.t"
    publish(lake, clean=broken)  # of texts there is no such number: it binds to nothing
    lake.land([row(4)])
    publish(lake, clean=CLEAN.replace("n * 2", "n * 10"))
    lake.land([row(5)])
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 2)])
    resume(lake.store, "spec", "lake.clean", None, "retry", lake.now)
    lake.land([row(7)])
    # All but the third can run as they are: that runs as it was corrected.
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 2), (2, 4), (4, 40), (5, 50), (7, 70)])
    assert {one["status"] for one in lake.lines if one.get("table") == "lake.clean"} == {"committed"}


def test_a_new_pipeline_reaches_back_as_far_as_the_log(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([row(1)])
    lake.land([row(2)])
    publish(lake, clean=CLEAN)
    lake.land([row(4)])
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 2), (2, 4), (4, 8)])
    told = next(line for line in lake.lines if line.get("status") == "reached back")
    assert (told["first"], told["last"], told["events"]) == (1, 2, 2)
    assert [one["firn.events"] for one in lake.snapshots("lake.clean")] == ["0", "1"]
    lake.land([row(5), row(1)])
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 2), (2, 4), (4, 8), (5, 10)])


def test_an_event_that_the_sql_fails_on_is_a_dead_letter_and_comes_into_the_target_that_lacks_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config(clean=CLEAN.replace("n * 2", "CAST(name AS BIGINT)"), items=ITEMS))
    lake.land([row(1, name="7", items=[3]), row(2, items=[4, 5])])
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 7)])
    (letter,) = letters(lake)
    assert (letter.reason, letter.table) == ("pipeline_failed", "app.t")
    assert letter.message.startswith("pipeline clean: ")
    publish(lake, clean=CLEAN.replace("n * 2", "TRY_CAST(name AS BIGINT)"), items=ITEMS)
    again = replayed(lake)
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert sum(one.letters for one in again) == 1
    assert rows_of(lake, "lake.clean", "id", "twice") == Counter([(1, 7), (2, None)])
    assert rows_of(lake, "lake.items", "id", "item") == Counter([(1, 3), (2, 4), (2, 5)])
    assert lake.line("lake.items")["superseded"] == 1


@long_only
def test_columns_that_no_event_had_yet_are_null_and_come_with_their_type(spark: SparkSession, tmp_path: Path) -> None:
    late = "INSERT INTO lake.clean SELECT id, late, coalesce(late, 7) AS l FROM app.t"
    lake = Lake(spark, tmp_path, config(clean=late))
    lake.land([row(1)])
    assert lake.line("lake.clean")["way"]["unseen"] == "late"
    lake.land([row(2, late=3)])
    assert rows_of(lake, "lake.clean", "id", "late", "l") == Counter([(1, None, 7), (2, 3, 3)])


def test_one_table_takes_the_rows_of_a_rule_and_of_two_pipelines(spark: SparkSession, tmp_path: Path) -> None:
    made = {"big": "INSERT INTO lake.log SELECT id, name FROM app.t WHERE n > 1",
            "small": "INSERT INTO lake.log SELECT id, 'small' AS name FROM app.t WHERE n <= 2"}  # fmt: skip
    text = config(**made).replace("    pipelines:", "      app.u: {to: lake.log, mode: append}\n    pipelines:")
    lake = Lake(spark, tmp_path, text)
    lake.land([row(1), row(2), event("c", 9, {"id": 9, "name": "u"}, table="u")])
    assert rows_of(lake, "lake.log", "id", "name") == Counter([(1, "small"), (2, "small"), (2, "N2"), (9, "u")])
    line = lake.line("lake.log")
    assert (line["events"], line["merged"]) == (3, 3)


@long_only
def test_the_audit_counts_a_change_once_for_each_table_that_it_goes_to(spark: SparkSession, tmp_path: Path) -> None:
    mirror = "INSERT INTO lake.m SELECT id, n FROM app.t"
    text = (
        config(clean=CLEAN.replace("n * 2", "CAST(name AS BIGINT)")) + f"      m: {{mode: mirror, sql: {mirror!r}}}\n"
    )
    lake = Lake(spark, tmp_path, text)
    lake.land([row(1, name="7"), row(2), row(3)])
    lake.post([row(4)])
    for _ in range(2):
        found = audited(lake)
        assert found.balanced, found.differences
        lake.seal()
    by = {one.table: one for one in found.tables}
    assert (found.acked, found.copies, found.pending) == (4, 4, 2)
    clean, base, rest = by["lake.clean"], by["lake.t"], by["lake.m"]
    assert (clean.events, clean.merged, clean.ignored, clean.dead, clean.pending) == (4, 1, 1, 1, 1)
    assert (base.events, base.merged, base.pending) == (4, 3, 1)
    assert (rest.events, rest.merged, rest.pending, rest.state) == (0, 0, 0, "ok")


def test_a_rule_fills_several_tables_and_one_that_comes_later_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    """Snapshot reads that the rule leaves out are left out of all."""
    rules = "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n"
    rules += "      app.t: {to: [lake.log, %s], mode: append, snapshot_reads: ignore, metadata: [source]}\n"
    rules += "      app.m: {to: [lake.m, %s], key: [id]}\n"
    lake = Lake(spark, tmp_path, rules % ("lake.second", "lake.n"))
    told = [row(1), event("r", 2, {"id": 2}), event("d", 3, before={"id": 1, "name": "N1"})]
    mirrored = [event("c", 10 + n, {"id": n, "name": f"M{n}"}, table="m") for n in range(3)]
    lake.land(told + mirrored)
    lake.config = published_configs.publish(lake.store, rules % ("lake.second, lake.third", "lake.n, lake.o"))
    lake.land([row(4), event("d", 20, before={"id": 1}, table="m")])
    first = rows_of(lake, "lake.log", "id", "name", "_firn_op", "_firn_source")
    assert first == Counter([(1, "N1", "c", "app.t"), (1, "N1", "d", "app.t"), (4, "N4", "c", "app.t")])
    for table in ("lake.second", "lake.third"):
        assert rows_of(lake, table, "id", "name", "_firn_op", "_firn_source") == first
        assert all(f"/{table}/" in one["_firn_id"] for one in lake.rows(table))
    for table in ("lake.m", "lake.n", "lake.o"):
        assert rows_of(lake, table, "id", "name") == Counter([(0, "M0"), (2, "M2")])
    found = audited(lake)
    assert found.balanced, found.differences
