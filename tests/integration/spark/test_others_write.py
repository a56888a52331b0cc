"""Other engines at work on fed tables, between Firn's commits: the tables keep their promises, or are held and say why.

Spark's own procedures and statements, in both homes of the engine (docs/how-to/others-write.md).
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from firn.changes.merge.fold import fold
from firn.config.names import TableName
from firn.log import holds
from firn.quarantine.lifting import resume
from firn_lake.lake import Lake as Reader
from firn_spark.maintenance.health import versions
from firn_spark.tables.evolve import Tables
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_rebuild import rebuilt
from tests.integration.spark.test_specification import change
from tests.soak import few_cases, long_only, seeds

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
Rounds = Sequence[tuple[Sequence[str], Sequence[str]]]
CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id], partition_by: ['bucket(2, id)']}
      app.log: {to: lake.log, mode: append}
"""
TABLES = ("t", "log", "t__deletes")
_NOW = "TIMESTAMP '2099-01-01 00:00:00'"
REWRITE = (
    "CALL firn.system.rewrite_data_files(table => 'lake.{t}', "
    "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
)
ORPHANS = "CALL firn.system.remove_orphan_files(table => 'lake.{t}', older_than => TIMESTAMP '2026-01-01 00:00:00')"
EXPIRE = f"CALL firn.system.expire_snapshots(table => 'lake.{{t}}', older_than => {_NOW}, retain_last => 1)"
# What is done between two commits: statements, and the tables that they are done to.
ROUNDS: Rounds = (
    ((REWRITE, "CALL firn.system.rewrite_manifests('lake.{t}')"), TABLES),
    ((EXPIRE, ORPHANS), ("t", "log")),
    (("CALL firn.system.rewrite_position_delete_files(table => 'lake.{t}', options => map('rewrite-all', 'true'))",
      "ALTER TABLE firn.lake.{t} WRITE ORDERED BY v DESC",
      "ALTER TABLE firn.lake.{t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '1000000', 'theirs' = 'yes')"),
     ("t", "log")),
    (("ALTER TABLE firn.lake.{t} ADD COLUMN theirs struct<a: int>", "ALTER TABLE firn.lake.{t} ALTER COLUMN w FIRST",
      "ALTER TABLE firn.lake.{t} ADD PARTITION FIELD truncate(1, v)", "ALTER TABLE firn.lake.{t} CREATE BRANCH theirs"),
     ("t", "log")),
    # Compacted first, so that the snapshot that stays tells nothing of what is remembered.
    ((REWRITE, EXPIRE), ("t__deletes",)),
    (("ALTER TABLE firn.lake.{t} DROP PARTITION FIELD id_bucket", "ALTER TABLE firn.lake.{t} CREATE TAG theirs_too",
      "CALL firn.system.rewrite_data_files(table => 'lake.{t}', strategy => 'sort', sort_order => 'zorder(id, v)', "
      "options => map('rewrite-all', 'true'))"), ("t",)),
)  # fmt: skip

# What is decided before the engine has its turn: `make soak` does it in both homes.
EITHER = pytest.mark.parametrize("home", ["driver", pytest.param("slices", marks=long_only)])


@pytest.fixture(autouse=True)
def at_home(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_in(home, monkeypatch, events=12, one_task=12)


def by_others(one: Lake, *statements: str, tables: Sequence[str] = ("t",)) -> None:
    for table in tables:
        for statement in statements:
            one.spark.sql(statement.format(t=table)).collect()


def row(number: int, value: str) -> dict[str, Any]:
    return {"id": number, "v": value, "w": f"w{number}"}


def told(one: Lake) -> dict[int, tuple[str, str]]:
    rows = one.rows("lake.t")
    found = {row["id"]: (row["v"], row["w"]) for row in rows}
    assert len(found) == len(rows), "a key has one row"
    return found


def wanted(events: list[dict[str, Any]]) -> dict[int, tuple[str, str]]:
    mine = [change(each) for each in events if each["source"]["table"] == "t"]
    return {key: (row.values["v"], row.values["w"]) for (key,), row in fold({}, mine).rows.items()}


def logged(one: Lake) -> list[str]:
    return sorted(row["v"] for row in one.rows("lake.log"))


def drawn(dice: random.Random, lsn: int) -> list[dict[str, Any]]:
    """Changes of a few keys, and one for the log."""
    events = [event("c", lsn, row(lsn, f"l{lsn}"), table="log")]
    for n in range(lsn, lsn + 12):
        key = dice.randrange(20)
        kind = dice.choice("cuud")
        events.append(event("d", n, None, {"id": key}) if kind == "d" else event(kind, n, row(key, f"v{n}")))
    return events


@few_cases(1)
@HOMES
@pytest.mark.parametrize("rounds", [ROUNDS[:3], ROUNDS[3:]], ids=["compacts", "alters"])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_spark_at_work_between_commits_changes_no_row(lake: Make, home: str, rounds: Rounds, seed: int) -> None:
    one, dice = lake(CONFIG), random.Random(seed)
    come = drawn(dice, 100)
    one.land(come)
    for number, (statements, tables) in enumerate(rounds, start=2):
        *new, late = drawn(dice, 100 * number)
        by_others(one, *statements, tables=tables)
        one.land([*new, *dice.sample(come, len(come) // 2)])  # the older ones come once more
        assert one.line("lake.t")["way"]["lookup"] == home
        come += new
        assert told(one) == wanted(come), statements
        come.append(late)
        one.post([late])  # for the next epoch
    last = event("c", 5_000, row(99, "last"))
    one.land([last])
    assert told(one) == wanted([*come, last])
    assert logged(one) == sorted(each["after"]["v"] for each in come if each["source"]["table"] == "log")
    assert audited(one).differences == []


FIRST = [event("c", 10 + n, row(n, f"a{n}")) for n in range(6)] + [event("c", 30, row(30, "l30"), table="log")]
SECOND = [event("u", 40, row(1, "b1")), event("d", 41, None, {"id": 5}), event("c", 42, row(42, "l42"), table="log")]
THIRD = [event("u", 50, row(2, "c2")), event("u", 20, row(1, "late")), event("u", 35, row(5, "late")), *SECOND]


def held(one: Lake, table: str = "lake.t") -> Any:
    return holds.read_all(one.store, "spec").held().get(table)


@HOMES
@pytest.mark.parametrize("how", ["RENAME COLUMN w TO label", pytest.param("DROP COLUMN w", marks=long_only)])
def test_a_column_that_somebody_took_away_holds_the_table_until_it_is_back(lake: Make, home: str, how: str) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    by_others(one, "ALTER TABLE firn.lake.{t} " + how)
    one.post(SECOND)
    assert one.commit(one.seal()) == 0
    assert held(one).reason == "failed"
    assert "the column w of the table" in held(one).message
    assert "firn resume spec lake.t" in held(one).advice
    assert one.line("lake.log")["status"] == "committed", "no other table waits"
    if how.startswith("RENAME"):
        by_others(one, "ALTER TABLE firn.lake.{t} RENAME COLUMN label TO w")
    else:
        assert rebuilt(one, in_place=True)[0] == 0
    resume(one.store, "spec", "lake.t", None, "retry", one.now)
    one.land(THIRD)
    assert told(one) == wanted([*FIRST, *SECOND, *THIRD])


@HOMES
@pytest.mark.parametrize(
    "statement", [pytest.param("RENAME COLUMN _firn_pos TO p", marks=long_only), "DROP COLUMN _firn_pos"]
)
def test_without_the_positions_of_its_rows_a_table_is_held(lake: Make, home: str, statement: str) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    by_others(one, "ALTER TABLE firn.lake.{t} " + statement)
    before = told(one)
    one.post(SECOND)
    assert one.commit(one.seal()) == 0
    assert "no column _firn_pos any more" in held(one).message
    assert told(one) == before


@few_cases(1)
@EITHER
@pytest.mark.parametrize("how", ["RENAME COLUMN id TO key", "DROP COLUMN _firn_pos"])
def test_without_what_tells_which_rows_were_deleted_a_table_is_held(lake: Make, home: str, how: str) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    one.land([event("d", 45, None, {"id": 4})])
    before = told(one)
    by_others(one, f"ALTER TABLE firn.lake.{{t}} {how}", tables=("t__deletes",))
    one.post([event("u", 36, row(4, "late"))])
    assert one.commit(one.seal()) == 0
    assert told(one) == before, "what was deleted stays so"
    assert "lake.t__deletes" in held(one).message
    assert "firn rebuild lake.t" in held(one).advice


@long_only
@EITHER
def test_a_column_that_somebody_added_again_is_filled_from_then_on(lake: Make, home: str) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    by_others(one, "ALTER TABLE firn.lake.{t} DROP COLUMN w", "ALTER TABLE firn.lake.{t} ADD COLUMN w string")
    one.land(SECOND)
    assert told(one) == {0: ("a0", None), 1: ("b1", "w1"), **{n: (f"a{n}", None) for n in (2, 3, 4)}}


@long_only
@EITHER
def test_who_expires_what_tells_the_progress_has_the_table_held_and_a_replay_doubles_nothing(
    lake: Make, home: str
) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    one.land(SECOND)
    by_others(one, REWRITE, EXPIRE, tables=TABLES)
    one.post(THIRD)
    assert one.commit(one.seal()) == 0
    for table in ("lake.t", "lake.log"):
        assert held(one, table).reason == "rolled_back"
        assert "expired by another tool" in held(one, table).message
        resume(one.store, "spec", table, None, "replay", one.now)
    one.land([event("u", 60, row(3, "d3"))])
    assert told(one) == wanted([*FIRST, *SECOND, *THIRD, event("u", 60, row(3, "d3"))])
    assert logged(one) == ["l30", "l42"]


@EITHER
def test_what_is_remembered_outlives_the_snapshots_that_told_it(lake: Make, home: str) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    one.land(SECOND)
    one.land([event("d", 45, None, {"id": 4})])
    by_others(one, REWRITE, EXPIRE, tables=("t__deletes",))
    assert not any("firn.newest" in summary for summary in one.snapshots("lake.t__deletes"))
    late = [event("u", 35, row(5, "late")), event("u", 36, row(4, "late"))]
    one.post(late)
    read = Reader(one.catalog, lambda: one.store)
    assert {each["id"] for each in read.sql("SELECT id FROM lake.t", fresh=True).pylist()} == {0, 1, 2, 3}
    assert one.commit(one.seal()) == 0
    assert set(told(one)) == {0, 1, 2, 3}


@long_only
@EITHER
def test_rows_that_others_wrote_stay_until_their_next_change_and_the_audit_names_them(lake: Make, home: str) -> None:
    one = lake(CONFIG)
    one.land(FIRST)
    merge_on_read = "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
    by_others(
        one,
        f"ALTER TABLE firn.lake.{{t}} SET TBLPROPERTIES ({merge_on_read})",
        "INSERT INTO firn.lake.{t} SELECT 100, 'theirs', 'x', null, null",
        "DELETE FROM firn.lake.{t} WHERE id IN (3, 4)",
        "MERGE INTO firn.lake.{t} t USING (SELECT 2 AS id UNION ALL SELECT 101) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'merged' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'merged')",
    )
    one.land(SECOND)
    assert one.line("lake.t")["way"]["rows_by_others"] == 3
    table = Tables(one.spark).load(TableName.parse("lake.t"))
    assert table is not None
    assert versions(one.spark, table).by_others == 3, "as long as these snapshots are kept"
    others = {100: ("theirs", "x"), 101: ("merged", None)}
    assert told(one) == {0: ("a0", "w0"), 1: ("b1", "w1"), 2: ("merged", "w2")} | others
    found = next(rows for rows in audited(one).rows if rows.table == "lake.t")
    # Rows without a position are taken for those that an adopted table had.
    assert (found.missing, found.surplus, found.differs) == (2, 0, 1)
    again = [event("u", 70 + n, row(n, f"e{n}")) for n in (2, 3, 4, 100)]
    one.land(again)
    assert "rows_by_others" not in one.line("lake.t")["way"]
    assert told(one) == wanted([*FIRST, *SECOND, *again]) | {101: others[101]}
