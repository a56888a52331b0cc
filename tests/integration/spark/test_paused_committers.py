"""A committer that sleeps while the table is altered under it, and wakes before its successor has committed: what it
wrote must not land, and the rows are in the end those of all changes."""

import base64
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_catalogs import made_again
from tests.integration.spark.test_commit import GONE, config, event, with_schema
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

NAME = TableName.parse("lake.t")
WAIT = 120.0
MODES = {"append": "", "mirror": "key: [id]"}
# What firn.yaml says later, and what the source then sends: each alters the table.
ALTERATIONS = {
    "retype": ("", {"n": "x"}),
    "rename": ("renames: {m: n}", {"m": 3}),
    "repartition": ("columns: {id: long}, partition_by: ['bucket(2, id)']", {"n": 3}),
}


def text(*rules: str) -> str:
    return config(", ".join(rule for rule in rules if rule))


@dataclass
class Sleeper:
    """Stands in for fence.commit: the first that comes to the commit of `table` sleeps there; the next one, which has
    altered the table by then, wakes it and waits for its end."""

    real: Callable[..., None]
    table: str
    asleep: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, spark: Any, table: Any, *rest: Any) -> None:
        if str(table.name) == self.table:
            if not self.asleep.is_set():
                self.asleep.set()
                assert self.wake.wait(WAIT)
            elif not self.wake.is_set():
                self.wake.set()
                assert self.ended.wait(WAIT)
        self.real(spark, table, *rest)

    def run(self, paused: Callable[[], int], meanwhile: Callable[[], int]) -> tuple[int, int]:
        """-> what `paused` and `meanwhile` said."""

        def job() -> int:
            try:
                return paused()
            finally:
                self.ended.set()

        with ThreadPoolExecutor(1) as pool:
            slept = pool.submit(job)
            try:
                assert self.asleep.wait(WAIT), "it never came to its commit"
                said = meanwhile()
            finally:
                self.wake.set()
            return slept.result(WAIT), said


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Sleeper]:
    def make(table: str = "lake.t") -> Sleeper:
        found = Sleeper(fence.commit, table)
        monkeypatch.setattr(fence, "commit", found)
        return found

    return make


def rows(lake: Lake) -> list[tuple[Any, Any]]:
    """(id, what the source calls n or m) of each row."""
    return sorted((row["id"], row.get("n", row.get("m"))) for row in lake.rows("lake.t"))


def marks(lake: Lake) -> list[str]:
    """What the marks of the table's alterations say, oldest first."""
    told = lake.snapshots("lake.t")
    return [one["firn.schema"] for one in told if "firn.schema" in one and "firn.epoch.spec" not in one]


def cases() -> Iterator[Any]:
    """In CI each alteration, each table and each way; all of them together in a soak."""
    quick = {
        ("retype", "append", False, "slices"), ("retype", "mirror", True, "driver"),
        ("rename", "append", True, "driver"), ("rename", "mirror", False, "driver"),
        ("repartition", "append", False, "driver"), ("repartition", "mirror", True, "slices"),
    }  # fmt: skip
    for what in ALTERATIONS:
        for mode in MODES:
            for first in (True, False):
                for way in ("driver", "slices"):
                    case = (what, mode, first, way)
                    name = f"{what}-{mode}-{'first' if first else 'later'}-{way}"
                    yield pytest.param(*case, id=name, marks=[] if case in quick else long_only)


@few_cases(1)
@pytest.mark.parametrize(("what", "mode", "first", "way"), list(cases()))
def test_a_committer_that_sleeps_over_an_alteration_lands_nothing_wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: Callable[[str], Sleeper],
    what: str, mode: str, first: bool, way: str,
) -> None:  # fmt: skip
    commit_in(way, monkeypatch)
    later, value = ALTERATIONS[what]
    paused, quick = Lake(spark, tmp_path, text(MODES[mode])), Lake(spark, tmp_path, text(MODES[mode]))
    if not first:
        paused.land([event("c", 10, {"id": 1, "n": 1})])
    paused.post([event("c", 20, {"id": 2, "n": 2})])
    n = paused.seal()
    quick.config = published_configs.publish(quick.store, text(MODES[mode], later))
    quick.post([event("c", 30, {"id": 3, **value})])
    assert quick.seal() == n + 1
    assert sleeper("lake.t").run(lambda: paused.commit(n), lambda: quick.commit(n, n + 1)) == (0, 0), (
        paused.lines,
        quick.lines,
    )
    told = str if what == "retype" else int
    assert rows(quick) == [*([] if first else [(1, told(1))]), (2, told(2)), (3, value.get("n", value.get("m")))]
    assert marks(quick) == (
        ["1"] if what != "repartition" else ["1", "2", "3"]
    )  # it goes back, by its own epoch's rules
    assert "firn.schema" in quick.snapshots("lake.t")[-1], "whoever commits later carries it on"


def test_a_row_that_lands_after_the_update_of_a_retype_is_converted_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, quick = Lake(spark, tmp_path, config("")), Lake(spark, tmp_path, config(""))
    paused.land([event("c", 10, {"id": 1, "n": 1})])
    paused.post([event("c", 20, {"id": 2, "n": 2})])
    assert paused.seal() == 2
    quick.post([event("c", 30, {"id": 3, "n": "x"})])
    assert quick.seal() == 3
    sleeper = Sleeper(fence.commit, "lake.t")
    monkeypatch.setattr(fence, "commit", sleeper)
    updates, sql = [], quick.spark.sql

    def update(words: str, *more: Any, **named: Any) -> Any:
        done = sql(words, *more, **named)
        if words.startswith("UPDATE"):
            updates.append(words)
            sleeper.wake.set()
            assert sleeper.ended.wait(WAIT)
        return done

    monkeypatch.setattr(quick.spark, "sql", update)
    assert sleeper.run(lambda: paused.commit(2), lambda: quick.commit(2, 3)) == (0, 0), (paused.lines, quick.lines)
    assert rows(quick) == [(1, "1"), (2, "2"), (3, "x")]
    assert len(updates) == 2, "the first one did not see the row"
    assert marks(quick) == ["1"]


@long_only
@pytest.mark.parametrize("way", ["driver", pytest.param("slices", marks=long_only)])
def test_a_committer_of_facts_that_sleeps_while_the_key_becomes_text_lands_nothing_wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: Callable[[str], Sleeper], way: str
) -> None:
    """A delete that is remembered under a field that nobody reads any more would let the row of an older change in."""
    commit_in(way, monkeypatch)
    paused, quick = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    paused.land([event("c", 10, {"id": 1, "n": 1}), event("d", 11, None, {"id": 1}), event("c", 12, {"id": 2, "n": 2})])
    paused.post([event("d", 20, None, {"id": 2})])
    assert paused.seal() == 2
    quick.post([event("c", 30, {"id": "x", "n": 3}), event("d", 31, None, {"id": "y"})])
    assert quick.seal() == 3
    slept = sleeper("lake.t__deletes")
    assert slept.run(lambda: paused.commit(2), lambda: quick.commit(2, 3)) == (0, 0), (paused.lines, quick.lines)
    quick.land([event("u", 5, {"id": 1, "n": 9}), event("u", 15, {"id": 2, "n": 9})])
    assert rows(quick) == [("x", 3)]


@few_cases(1)
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_committer_that_sleeps_while_its_table_is_made_again_starts_over_or_fails(
    spark: SparkSession, tmp_path: Path, sleeper: Callable[[str], Sleeper], first: bool
) -> None:
    """It starts over where it has all that the new table lacks; else the next job looks at what is missing."""
    paused = Lake(spark, tmp_path, config())
    if not first:
        paused.land([event("c", 10, {"id": 1, "n": 1})])
    paused.post([event("c", 20, {"id": 2, "n": 2})])
    n = paused.seal()

    def meanwhile() -> int:
        table = Tables(paused.spark).load(NAME)
        assert table is not None
        made_again(paused, table)
        return 0

    said, _ = sleeper("lake.t").run(lambda: paused.commit(n), meanwhile)
    if first:
        assert (said, rows(paused)) == (0, [(2, 2)]), paused.lines
        return
    assert (said, paused.line("lake.t")["failure"], rows(paused)) == (1, "transient", []), paused.lines
    assert paused.commit(n) == 0
    assert paused.line("lake.t")["status"] == "quarantined", paused.lines


@few_cases(1)
@pytest.mark.parametrize("way", ["driver", pytest.param("slices", marks=long_only)])
@pytest.mark.parametrize("what", ["retype", "rename"])
def test_a_row_that_was_deleted_before_an_alteration_gives_its_values_to_a_move_after_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, way: str
) -> None:
    """The halves of a changed key come in different epochs; in between the column gets another type, or another name,
    and the log no longer has the value. What the row had held stays held: a late change of before still counts."""
    commit_in(way, monkeypatch)
    lake = Lake(spark, tmp_path, config())
    gone = base64.b64encode(GONE.encode()).decode()

    def told(op: str, lsn: int, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> dict[str, Any]:
        altered = what == "retype" and lsn >= 20
        return with_schema(event(op, lsn, after, before), id="int32", n="int32", v="string" if altered else "bytes")

    lake.land([told("c", 10, {"id": 1, "v": "AAEC", "n": 1}), told("c", 11, {"id": 5, "v": "AAEC", "n": 1})])
    lake.land([told("u", 14, {"id": 1, "v": gone, "n": 2})])
    lake.now += timedelta(days=20)  # the log is read back for 15
    lake.land([told("d", 20, None, {"id": 1})])
    rule, column = ("key: [id]", "v") if what == "retype" else ("key: [id], renames: {val: v}", "val")
    lake.config = published_configs.publish(lake.store, config(rule))
    text = what == "retype"
    lake.land([told("c", 30, {"id": 3, "v": "text" if text else "AAEC", "n": 3})])
    lake.land([told("c", 20, {"id": 2, "v": GONE if text else gone, "n": 4})])
    found = {key: (row[column], row["n"]) for key, row in lake.by_key("lake.t", "id").items()}
    assert found[2] == ("AAEC" if text else b"\0\1\2", 4)
    lake.land([told("u", 12, {"id": 1, "v": "BAUG", "n": 9})])
    found = {key: (row[column], row["n"]) for key, row in lake.by_key("lake.t", "id").items()}
    assert (found[2], found.keys()) == (("BAUG" if text else b"\4\5\6", 4), {2, 3, 5})
