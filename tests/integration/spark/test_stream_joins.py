"""Pipelines that join: each event's rows once, with the table as it is when they are committed, in both homes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.decode.types import STRING
from firn.config.names import TableName
from firn.errors import TransientError
from firn.log import holds, published_configs
from firn.quarantine.lifting import resume
from firn.quarantine.rules import MAX_ATTEMPTS, Standing, failed_table
from firn.tables.joined_snapshots import Joined, recorded
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake as Reader
from firn_spark import commit
from firn_spark.driver import staged_changes
from firn_spark.slices import slice_engine
from firn_spark.tables import fence
from firn_spark.tables.columns import iceberg_type
from firn_spark.tables.evolve import Tables
from tests.integration.spark.committing import Died, Unsure, unknown
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event, letters
from tests.integration.spark.test_pipelines_rebuild import rebuilt
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

SQL = "SELECT k.id, c.name, c.n FROM app.t k {} lake.customers c ON k.cid = c.cid"
RULES = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    tables:
      app.customers: {to: lake.customers, key: [cid, n]}
    pipelines:
"""


def config(join: str = "JOIN") -> str:
    return f"{RULES}      rich: {{sql: 'INSERT INTO lake.rich {SQL.format(join)}'}}\n"


def customer(lsn: int, cid: int, n: int, name: str, op: str = "c") -> dict[str, Any]:
    return event(op, lsn, {"cid": cid, "n": n, "name": name}, table="customers")


def click(lsn: int, cid: int | None) -> dict[str, Any]:
    return event("c", lsn, {"id": lsn, "cid": cid})


def rows(lake: Lake) -> Counter[tuple[Any, ...]]:
    return Counter((row["id"], row["name"], row["n"]) for row in lake.rows("lake.rich"))


def snapshot(lake: Lake, table: str) -> tuple[str, int | None]:
    found = lake.catalog.load_table(TableName.parse(table).identifier).metadata
    return str(found.table_uuid), found.current_snapshot_id


@HOMES
def test_rows_are_joined_with_what_came_beside_them_and_stay_what_they_were(
    spark: SparkSession, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in(home, monkeypatch, events=3)
    lake = Lake(spark, tmp_path, config("LEFT JOIN"))
    first = [customer(1, 1, 1, "Ada"), customer(2, 1, 2, "Bob"), customer(3, 2, 1, "Eve"), customer(4, 2, 2, "gone")]
    lake.land([*(click(lsn, cid) for lsn, cid in ((10, 1), (11, 2), (12, 3), (13, None))), *first])
    assert lake.line("lake.rich")["merged"] == 4
    expected = Counter([(10, "Ada", 1), (10, "Bob", 2), (11, "Eve", 1), (11, "gone", 2), (12, None, None)])
    expected[(13, None, None)] = 1
    assert rows(lake) == expected
    joined = [snapshot(lake, "lake.customers")]
    lake.post([click(14, 1)])
    with pytest.raises(NotFresh, match=r"are joined with lake.customers as that is when they are committed"):
        Reader(lake.catalog, lambda: lake.store).table("lake.rich").read(("id",), fresh=True).pylist()
    # What changes afterwards changes no row; an event that comes again, to more partners or fewer, adds none.
    lake.land(
        [
            customer(20, 1, 1, "ADA", "u"), customer(21, 1, 3, "Zoe"), customer(23, 3, 1, "late"),
            event("d", 22, None, {"cid": 2, "n": 2}, "customers"),
            *(click(lsn, cid) for lsn, cid in ((10, 1), (11, 2), (12, 3), (30, 1), (31, 2), (32, 3))),
        ]
    )  # fmt: skip
    assert lake.line("lake.rich")["superseded"] == 3
    joined.append(snapshot(lake, "lake.customers"))
    expected += Counter(
        [
            (14, "ADA", 1),
            (14, "Bob", 2),
            (14, "Zoe", 3),
            (30, "ADA", 1),
            (30, "Bob", 2),
            (30, "Zoe", 3),
            (31, "Eve", 1),
            (32, "late", 1),
        ]
    )
    assert rows(lake) == expected
    found = list(recorded("spec", lake.snapshots("lake.rich")))
    assert [(one.above, one.last) for one in found] == [(0, 1), (1, 2)]
    assert [one.by["rich"]["lake.customers"] for one in found] == [Joined(*one) for one in joined]


@few_cases(1)
@pytest.mark.parametrize("fate", ["before", "after", "lost"])
def test_a_commit_that_is_killed_or_unanswered_is_in_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([customer(1, 1, 1, "Ada"), click(10, 1)])
    lake.post([click(11, 1), click(12, 2)])
    n, real = lake.seal(), fence.commit

    def commit(spark_: Any, table: Any, update: Any, *rest: Any) -> None:
        if table.name != TableName("lake", "rich"):
            return real(spark_, table, update, *rest)
        monkeypatch.setattr(fence, "commit", real)

        def done() -> None:
            if fate != "before":
                update.commit()
            raise unknown(lake.spark) if fate == "lost" else Died(fate)

        return real(spark_, table, Unsure(update, done), *rest)

    monkeypatch.setattr(fence, "commit", commit)
    if fate == "lost":
        assert lake.commit(n) == 0, lake.lines
    else:
        with pytest.raises(Died):
            lake.commit(n)
        lake.post([customer(20, 1, 2, "Bob")])
        assert lake.commit(n, lake.seal()) == 0, lake.lines
    both = [] if fate != "before" else [(11, "Bob", 2)]  # the next job finds what came since
    assert rows(lake) == Counter([(10, "Ada", 1), (11, "Ada", 1), *both])


def test_a_pipeline_whose_table_is_not_there_waits_alone_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config() + "      plain: {sql: INSERT INTO lake.plain SELECT id FROM app.t}\n")
    lake.post([click(10, 1)])
    n = lake.seal()
    lake.lines = []
    code = commit.run(
        "spec", lake.staging, lake.warehouse, lake.catalog_uri, n, n, spark=lake.spark, log=lake.lines.append,
        attempt=MAX_ATTEMPTS,
    )  # fmt: skip
    assert code == 0, lake.lines
    assert lake.line("lake.rich")["status"] == "quarantined"
    assert "the table lake.customers, which it joins, is not there" in lake.line("lake.rich")["error"]
    assert [row["id"] for row in lake.rows("lake.plain")] == [10]
    assert letters(lake) == []


@pytest.mark.parametrize("dies_at", [0, pytest.param(1, marks=long_only), pytest.param(2, marks=long_only)])
def test_a_new_table_and_a_pipeline_that_joins_it_come_together_at_once_and_reach_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    before = RULES.partition("    tables:")[0] + "    tables:\n      app.t: {to: lake.t, key: [id]}\n"
    lake = Lake(spark, tmp_path, before)
    lake.land([click(9, 1)])
    lake.land([click(10, 2)])
    lake.config = published_configs.publish(lake.store, config())
    lake.post([click(11, 1), customer(20, 1, 1, "Ada"), customer(21, 2, 1, "Bob")])
    n, real, left = lake.seal(), fence.commit, [dies_at]

    def commit(spark_: Any, table: Any, *rest: Any) -> None:
        left[0] -= table.name == TableName("lake", "rich")
        if dies_at and not left[0]:
            monkeypatch.setattr(fence, "commit", real)
            raise Died(str(dies_at))
        return real(spark_, table, *rest)

    if dies_at:
        monkeypatch.setattr(fence, "commit", commit)
        with pytest.raises(Died):
            lake.commit(n)
    assert lake.commit(n) == 0, lake.lines
    assert rows(lake) == Counter([(9, "Ada", 1), (10, "Bob", 1), (11, "Ada", 1)])
    assert [(one.above, one.last) for one in recorded("spec", lake.snapshots("lake.rich"))] == [(0, 2), (2, 3)]


@few_cases(1)
@pytest.mark.parametrize("customers_fail", [False, True])
def test_of_tables_that_are_released_together_the_joined_one_catches_up_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, customers_fail: bool
) -> None:
    lake = Lake(spark, tmp_path, config().replace("lake.rich", "lake.a_rich"))
    lake.land([customer(1, 1, 1, "Ada"), click(10, 1)])
    for n, table in enumerate(("lake.a_rich", "lake.customers"), 1):
        stand = Standing(1, 1)
        held = failed_table("spec", table, "terminal", "no reason", stand, n, 1, "2026-01-01T00:00:00Z")
        holds.hold(lake.store, held)
    lake.land([customer(2, 2, 1, "Bob"), click(11, 2)])
    for table in ("lake.a_rich", "lake.customers"):
        resume(lake.store, "spec", table, None, "retry", lake.now)
    if customers_fail:
        real = fence.commit

        def commit(spark_: Any, table: Any, *rest: Any) -> None:
            if table.name == TableName("lake", "customers"):
                monkeypatch.setattr(fence, "commit", real)
                raise TransientError("not now")
            return real(spark_, table, *rest)

        monkeypatch.setattr(fence, "commit", commit)
        lake.post([click(12, 1)])
        n = lake.seal()
        assert lake.commit(n) != 0
        assert lake.commit(n) == 0, lake.lines
    else:
        lake.land([click(12, 1)])
    found = Counter((row["id"], row["name"]) for row in lake.rows("lake.a_rich"))
    assert found == Counter([(10, "Ada"), (11, "Bob"), (12, "Ada")])


@HOMES
def test_a_rebuild_joins_with_the_recorded_snapshots_or_refuses(
    spark: SparkSession, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in(home, monkeypatch)
    lake = Lake(spark, tmp_path, config())
    lake.land([click(8, 2), customer(1, 1, 1, "Ada")])  # no row, and a table: what it was joined with is recorded
    assert rows(lake) == Counter()
    lake.land([click(9, 1)])
    lake.land([click(10, 1), customer(20, 1, 1, "ADA", "u")])
    lake.land([click(11, 2)])  # to no partner, which is recorded too
    lake.land([click(12, 1), customer(30, 2, 1, "Bob"), customer(31, 1, 1, "last", "u")])
    expected = Counter([(9, "Ada", 1), (10, "ADA", 1), (12, "last", 1)])
    assert rows(lake) == expected
    before = list(recorded("spec", lake.snapshots("lake.rich")))
    assert rebuilt(lake, "lake.rich", check=True)["status"] == "done"
    lake.spark.sql("DELETE FROM firn.lake.rich WHERE id = 10")
    assert rebuilt(lake, "lake.rich", in_place=True)["status"] == "done"
    assert rows(lake) == expected
    assert [one.by for one in recorded("spec", lake.snapshots("lake.rich"))][-5:] == [one.by for one in before]
    gone = before[2].by["rich"]["lake.customers"].snapshot
    lake.spark.sql(f"CALL firn.system.expire_snapshots(table => 'lake.customers', snapshot_ids => ARRAY({gone}))")
    refused = rebuilt(lake, "lake.rich", in_place=True)
    assert refused["status"] == "failed"
    assert f"of epoch 3 of spec, pipeline rich, the snapshot {gone} of lake.customers has expired" in refused["error"]
    java = Tables(lake.spark).load(TableName("lake", "customers"))
    assert java is not None
    java.java.updateSchema().deleteColumn("name").commit()
    java.java.updateSchema().addColumn("name", iceberg_type(lake.spark, STRING)).commit()
    refused = rebuilt(lake, "lake.rich", check=True)
    assert (
        "of epoch 1 of spec, pipeline rich, the column name of lake.customers was made again since" in refused["error"]
    )
    assert rows(lake) == expected


@long_only
def test_few_events_of_many_partners_are_committed_by_slices_of_what_they_give(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_changes, "MOST_MADE", 100_000)
    monkeypatch.setattr(slice_engine, "_BYTES", 500_000)
    lake = Lake(spark, tmp_path, config())
    lake.land([*(customer(1, 1, n, "Ada") for n in range(600)), customer(2, 2, 0, "Bob")])
    clicks = [click(10 + n, 1 if n % 3 else 2) for n in range(30)]
    lake.land(clicks)
    expected = Counter(
        (one["id"], *said)
        for one in (each["after"] for each in clicks)
        for said in ([("Ada", n) for n in range(600)] if one["cid"] == 1 else [("Bob", 0)])
    )
    assert rows(lake) == expected
    way = lake.line("lake.rich")["way"]
    assert way["driver"] == "30 changes give more than 100000 bytes of rows"
    assert way["slices"] > 3
    lake.land([*clicks, click(50, 1)])
    assert (lake.line("lake.rich")["merged"], lake.line("lake.rich")["superseded"]) == (1, 30)
    assert rows(lake) == expected + Counter((50, "Ada", n) for n in range(600))


@long_only
def test_a_rebuild_asks_for_snapshots_of_those_pipelines_alone_that_had_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    more = (
        "      other: {sql: 'INSERT INTO lake.rich SELECT k.id, c.name, c.n FROM app.o k JOIN lake.customers c"
        " ON k.cid = c.cid'}\n"
        "      plain: {sql: 'INSERT INTO lake.rich SELECT id FROM app.p'}\n"
    )
    lake = Lake(spark, tmp_path, config() + more)
    lake.land([customer(1, 1, 1, "Ada"), click(9, 1)])
    lake.land([event("c", 10, {"id": 10}, table="p")])
    lake.land([event("c", 11, {"id": 11, "cid": 1}, table="o"), customer(20, 1, 1, "ADA", "u")])
    lake.land([event("c", 12, {"id": 12}, table="p")])
    lake.land([event("c", 13, {"id": 13}, table="p"), click(14, 1), customer(30, 1, 1, "last", "u")])
    expected = Counter([(9, "Ada", 1), (10, None, None), (11, "ADA", 1), (12, None, None), (13, None, None)])
    expected[(14, "last", 1)] = 1
    assert rows(lake) == expected
    before = [one.by for one in recorded("spec", lake.snapshots("lake.rich"))]
    result = rebuilt(lake, "lake.rich", in_place=True)
    assert result["status"] == "done", result
    assert rows(lake) == expected
    assert [one.by for one in recorded("spec", lake.snapshots("lake.rich"))][-3:] == before


@long_only
def test_a_rebuild_joins_by_a_column_that_has_another_name_since(spark: SparkSession, tmp_path: Path) -> None:
    rule = "app.customers: {to: lake.customers, key: [cid, n]}"
    sql = "INSERT INTO lake.rich SELECT k.id, c.name, c.n FROM app.t k JOIN lake.customers c ON k.w = c."
    lake = Lake(spark, tmp_path, f"{RULES}      rich: {{sql: '{sql}name'}}\n")
    lake.land([customer(1, 1, 1, "Ada"), event("c", 9, {"id": 9, "w": "Ada"})])
    assert rows(lake) == Counter([(9, "Ada", 1)])
    renamed = RULES.replace(rule, rule.replace("n]", "n], renames: {label: name}"))
    new = sql.replace("c.name,", "c.label AS name,")
    lake.config = published_configs.publish(lake.store, f"{renamed}      rich: {{sql: '{new}label'}}\n")
    lake.land([customer(20, 2, 1, "Bob"), event("c", 10, {"id": 10, "w": "Bob"})])
    expected = Counter([(9, "Ada", 1), (10, "Bob", 1)])
    assert rows(lake) == expected
    result = rebuilt(lake, "lake.rich", in_place=True)
    assert result["status"] == "done", result
    assert rows(lake) == expected
