"""Ranges of which most changes are plain: those go by columns, the keys of the others one by one, in one commit."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import fold
from firn.config.names import TableName
from firn_spark import ranges
from firn_spark.driver import engine
from firn_spark.driver.range import ALONE
from firn_spark.driver.staged_log import SparkLog
from firn_spark.maintenance.delete_memory_expiry import GRACE, forget
from firn_spark.merge import decision
from firn_spark.not_eligible import Unfit
from firn_spark.slices import by_partition
from firn_spark.slices import slice_engine as slices
from firn_spark.tables.evolve import Tables
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event, letters
from tests.integration.spark.test_specification import change
from tests.soak import few_cases, long_only, seeds

pytestmark = pytest.mark.spark

COLUMNS = "columns: {id: long, of: string, v: string, w: string, n: long}"
KEYS = {"one": ("id",), "two": ("id", "of"), "moving": ("id",)}
# A row's partition changes with its values.
MOVING = ", partition_by: ['bucket(3, id)', 'truncate(3, v)']"
NOTHING: dict[str, Any] = {"v": None, "w": None, "n": 0}


def several(rule: str) -> str:
    """Two source tables feed one."""
    return (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n"
        f"      app.a: {{to: lake.t, {rule}}}\n      app.b: {{to: lake.t, {rule}}}\n"
    )


def mostly_plain(dice: random.Random, changes: int, keys: int, tables: str) -> list[dict[str, Any]]:
    """Statements in the source's order, of which one in ten is not plain."""
    told = []
    for lsn in range(1_000, 1_000 + changes):
        table, chance, number = dice.choice(tables), dice.random(), dice.randrange(keys)
        key = {"id": number, "of": f"of {number % 3}"}
        row = key | {"v": f"v{lsn}", "w": f"w{lsn}", "n": lsn}
        gone = {name: GONE for name in ("v", "w") if dice.random() < 0.6}
        if lsn % 170 == 0:
            told.append(event("t", lsn, None, table=table))
        elif chance < 0.12:
            told.append(event("d", lsn, None, NOTHING | key, table=table))
        elif chance < 0.18:
            told.append(event("u", lsn, row | gone, table=table))
        elif chance < 0.22:
            old = (number + 1 + dice.randrange(keys - 1)) % keys
            was = {"id": old, "of": f"of {old % 3}"}
            told.append(event("d", lsn, None, NOTHING | was, table=table))
            told.append(event("c", lsn, row | (gone if dice.random() < 0.5 else {}), table=table))
        else:
            told.append(event(dice.choice("cur"), lsn, row, table=table))
    return told


def crossing(dice: random.Random, told: list[dict[str, Any]], late: int) -> list[dict[str, Any]]:
    """As requests that cross each other on their way, some of them twice."""
    some = told + dice.choices(told, k=len(told) // 10)
    return sorted(some, key=lambda one: one["source"]["lsn"] + dice.randrange(late))


@few_cases(1)
@HOMES
@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize(
    ("key", "tables", "write"),
    [
        ("one", "t", "copy-on-write"),
        pytest.param("two", "t", "merge-on-read", marks=long_only),
        ("two", "ab", "merge-on-read"),
        ("moving", "t", "merge-on-read"),
    ],
)
def test_they_equal_the_specification_after_each_epoch(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    tables: str,
    write: str,
    seed: int,
    home: str,
) -> None:
    dice = random.Random(f"{seed}-{key}-{tables}")
    names = KEYS[key]
    commit_in(home, monkeypatch, events=50)
    monkeypatch.setattr(by_partition, "WORTH", 20)
    monkeypatch.setattr(ranges, "ALONE", dice.choice((0, ALONE)))
    monkeypatch.setattr(ranges, "cores", lambda: 2)
    delivered = crossing(dice, mostly_plain(dice, 500, 150, tables), dice.choice((60, 200)))
    rule = f"key: [{', '.join(names)}], {COLUMNS}{MOVING if key == 'moving' else ''}, write: {write}"
    lake = Lake(spark, tmp_path, several(rule) if len(tables) > 1 else config(rule))
    come, ways = [], Counter[str]()
    for first in range(0, len(delivered), 140):
        come += delivered[first : first + 140]
        lake.land(delivered[first : first + 140], at_once=50)
        told = [one if one.op == "t" else replace(one, key=_key(it, names)) for it in come for one in [change(it)]]
        expected = {key: dict(row.values) for key, row in fold({}, told).rows.items()}
        found = {tuple(row[name] for name in names): row for row in lake.rows("lake.t")}
        assert {
            key: {name: row[name] for name in ("id", "of", "v", "w", "n")} for key, row in found.items()
        } == expected
        ways[lake.line("lake.t")["way"]["lookup"], lake.line("lake.t")["way"]["by"]] += 1
        table = lake.catalog.load_table(TableName.parse("lake.t").identifier)
        assert write == "merge-on-read" or not len(table.inspect.delete_files()), "the files themselves lose the rows"
    assert {where for where, _ in ways} == {home}, ways
    # With a truncate of one of several source tables all keys are decided one by one.
    assert {by for _, by in ways} <= {"both"} if tables == "t" else {"both", "rows", "columns"}, ways


@HOMES
def test_a_truncate_takes_the_values_that_a_newer_row_had_from_before_it(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = lake(config(f"key: [id], {COLUMNS}"))
    row = lambda number, **more: {"id": number, "of": "a", "v": "old", "w": "old", "n": 1} | more  # noqa: E731
    one.land([event("c", 10 + n, row(n)) for n in range(9)])
    one.land([event("u", 100, row(1, v="new", w=GONE)), event("c", 101, row(20))])
    # The truncate comes late: between the rows of the first range and those of the second.
    one.land([event("t", 50), *(event("u", 200 + n, row(n, v="last")) for n in range(2, 5))])
    found = {key: (each["v"], each["w"]) for key, each in one.by_key("lake.t", "id").items()}
    assert found == {1: ("new", None), 20: ("old", "old"), **dict.fromkeys((2, 3, 4), ("last", "old"))}
    assert one.line("lake.t")["way"]["lookup"] == home


@few_cases(1)
@HOMES
@pytest.mark.parametrize("much", [True, False])
def test_what_only_the_staged_log_tells_is_looked_for_there_however_much_it_holds(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str, *, much: bool
) -> None:
    commit_in(home, monkeypatch)
    one = lake(config(f"key: [id], {COLUMNS}"))
    row = lambda number, **more: {"id": number, "of": "a", "v": f"v{number}", "w": "w", "n": 1} | more  # noqa: E731
    told = [
        [event("c", 10 + n, row(n)) for n in range(6)],
        [event("u", 20, row(1, v="last")), event("u", 21, row(2, n=2))],
        # Their first halves come later, and one of them after its key is there again.
        [event("c", 30 + n, row(100 + n, v=GONE, w="moved")) for n in range(3)] + [event("c", 40, row(1, v="again"))],
        [event("u", 25, row(2, v="late")), *(event("d", 30 + n, None, row(n)) for n in range(3))],
    ]
    by_spark: list[Any] = []
    real = SparkLog.rows
    monkeypatch.setattr(SparkLog, "rows", lambda *given: by_spark.append(given) or real(*given))
    for number, part in enumerate(told):
        if much and number == 3:
            monkeypatch.setattr(ranges, "MOST_BYTES", 1)
        one.land(part)
        assert one.line("lake.t")["way"]["lookup"] == home, one.line("lake.t")
    expected = fold({}, [change(each) for part in told for each in part]).rows.values()
    names = ("id", "of", "v", "w", "n")
    assert sorted(tuple(found[name] for name in names) for found in one.rows("lake.t")) == sorted(
        tuple(made.values[name] for name in names) for made in expected
    )
    assert bool(by_spark) == much


def _key(one: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    image = one["after"] or one["before"]
    return tuple(image[name] for name in names)


@long_only
def test_what_is_not_plain_is_bounded_and_what_is_plain_is_not(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "MOST_ROWS", 2)
    monkeypatch.setattr("firn_spark.driver.engine.MOST_ODD", 2)
    one = lake(config())
    one.land([event("c", 10 + n, {"id": n, "v": "a", "w": "b"}) for n in range(5)])
    late = [event("u", 20 + n, {"id": n, "v": GONE, "w": "c"}) for n in range(2)]
    one.land([*late, *(event("u", 30 + n, {"id": n, "v": "d", "w": "d"}) for n in range(2, 5))])
    assert one.line("lake.t")["way"] == {"lookup": "driver", "by": "both"}
    assert {row["id"]: row["v"] + row["w"] for row in one.rows("lake.t")} == {
        0: "ac",
        1: "ac",
        2: "dd",
        3: "dd",
        4: "dd",
    }
    one.land([event("u", 40 + n, {"id": n, "v": GONE, "w": "e"}) for n in range(3)])
    assert one.line("lake.t")["way"]["driver"] == "more than 2 changes that are not plain"
    assert [row["w"] for row in sorted(one.rows("lake.t"), key=lambda row: row["id"])] == ["e", "e", "e", "d", "d"]


@long_only
def test_what_is_late_or_lacks_values_is_decided_by_the_slices(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is connected to other keys comes to the job."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    one = lake(config())
    first = [event("c", 10 + n, {"id": n, "v": "a", "w": "b"}) for n in range(8)]
    one.land(first + [event("d", 50 + n, None, {"id": 4 + n, "v": None, "w": None}) for n in range(4)])
    late = [event("u", 30 + n, {"id": n, "v": "late", "w": "late"}) for n in range(4, 8)]
    one.land([*late, *(event("u", 70 + n, {"id": n, "v": GONE, "w": "c"}) for n in range(4))])
    said = one.line("lake.t")
    assert (said["way"]["lookup"], said["way"]["by"], said["merged"]) == ("slices", "columns", 4)
    one.land([event("u", 65, {"id": 0, "v": "d", "w": "d"}), event("u", 90, {"id": 0, "v": GONE, "w": "e"})])
    rows = {row["id"]: row["v"] + row["w"] for row in one.rows("lake.t")}
    assert rows == {0: "de", 1: "ac", 2: "ac", 3: "ac"}


@long_only
def test_wide_rows_make_more_slices_and_a_hot_key_makes_one(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    monkeypatch.setattr(slices, "_ONE_TASK", 10)
    monkeypatch.setattr(slices, "_BYTES", 20_000)
    one = lake(config())
    one.land([event("c", 10 + n, {"id": n, "v": "x" * 1_000, "w": "y"}) for n in range(100)])
    assert 5 <= one.line("lake.t")["way"]["slices"] <= 8
    one.land([event("u", 200 + n, {"id": 7, "v": "z" * 1_000, "w": str(n)}) for n in range(100)])
    assert one.line("lake.t")["way"]["slices"] <= 2
    rows = one.by_key("lake.t", "id")
    assert len(rows) == 100
    assert (rows[7]["w"], rows[8]["w"]) == ("99", "y")


@long_only
def test_dead_letters_are_new_once_whichever_way_a_table_goes_in_the_end(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's own process wrote them, and then found a table that it can't look through."""
    one = lake(config("key: [id], columns: {id: long, n: long}"))
    one.land([event("c", 50 + n, {"id": n, "n": 0}) for n in range(3)])
    real = engine.unmoved
    refusals = iter([Unfit("for the test")])

    def unmoved(*given: Any) -> None:
        for why in refusals:
            raise why
        real(*given)

    monkeypatch.setattr(engine, "unmoved", unmoved)
    one.land([event("u", 60, {"id": 4, "n": 4}), event("c", 70, {"id": 5, "n": "no number"})])
    said = one.line("lake.t")
    assert (said["way"]["lookup"], said["way"]["driver"]) == ("slices", "for the test")
    assert (said["dead"], said["dead_new"]) == (1, {"app.t": {"type_mismatch": 1}})
    assert sorted(row["id"] for row in one.rows("lake.t")) == [0, 1, 2, 4]


def test_dead_letters_among_many_plain_changes_are_those_changes(lake: Callable[[str], Lake]) -> None:
    one = lake(config("key: [id], columns: {id: long, n: long}"))
    one.land([event("c", 10 + n, {"id": n, "n": "no number" if n % 10 == 3 else n}) for n in range(40)])
    said = one.line("lake.t")
    assert (said["dead"], said["merged"], said["way"]["by"]) == (4, 36, "columns")
    dead = sorted(letter.change.after or "" for letter in letters(one) if letter.change)
    assert dead == [f'{{"id": {n}, "n": "no number"}}' for n in (13, 23, 3, 33)]
    assert sorted(row["id"] for row in one.rows("lake.t")) == [n for n in range(40) if n % 10 != 3]


@long_only
@pytest.mark.parametrize("driver_events", ["20000", "0"], ids=["driver", "slices"])
def test_what_has_no_position_is_too_old_where_its_key_is(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, driver_events: str
) -> None:
    """It is older than all that has one: what becomes of it is told, as of the other changes of its key."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", driver_events)
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    one.land([event("d", 20, None, {"id": 1, "v": None})])
    tables, now = Tables(one.spark), datetime.now(UTC) + timedelta(hours=1)
    for turn in range(2):
        facts = tables.load(TableName("lake", "t__deletes"))
        assert facts is not None
        forget(one.spark, tables, facts, now + turn * GRACE, keep=timedelta(0))
    unplaced = event("u", 14, {"id": 1, "v": "no position"})
    unplaced["source"] |= {"sequence": None, "lsn": None}
    one.land([unplaced, event("u", 15, {"id": 1, "v": "late"}), event("c", 35, {"id": 4, "v": "above the floor"})])
    assert [row["v"] for row in one.rows("lake.t")] == ["above the floor"]
    assert [letter.reason for letter in letters(one)] == ["too_old"] * 2
    said = one.line("lake.t")
    assert (said["dead"], said["merged"], said["superseded"]) == (2, 1, 0)
