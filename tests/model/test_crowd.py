"""A stream makes no more tables of a pattern than it may, and a table gets no more columns: what is over that is a dead
letter, or held, and the stream goes on."""

import json
from collections import Counter
from typing import Any

import pytest

from firn.audit.verdict import Audit
from firn.commit.table_limit import refused
from firn.config.names import TableName
from firn.config.reader import parse
from firn.log import holds
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.layout import dead_prefix
from firn.log.store import paths
from firn.tables import planning
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.test_quarantine import go_on, release
from tests.unit.audit.audited import audited as audited_of

CONFIG = """
streams:
  shop:
    max_tables: 3
    tables:
      app.orders: {to: lake.orders, key: [id]}
      '*': {to: 'lake.{table}', key: [id]}
"""


@pytest.fixture
def stream() -> Stream:
    return Stream(MemoryGround(), CONFIG)


def rows(stream: Stream, *names: str) -> dict[str, list[Any]]:
    found = {name: stream.ground.rows(TableName("lake", name)) for name in names}
    return {name: sorted(row["id"] for row in some) for name, some in found.items()}


def letters(stream: Stream) -> list[DeadLetter]:
    found = paths(stream.store, dead_prefix(STREAM))
    return [letter for path in found for letter in read_dead(stream.store, path)]


def of(name: str, number: int) -> dict[str, Any]:
    return event("c", number, {"id": number, "v": "a"}, table=name)


def audited(stream: Stream) -> Audit:
    assert isinstance(stream.ground, MemoryGround)
    return audited_of(stream, stream.ground)


def test_changes_of_tables_over_the_limit_are_dead_letters_and_the_others_land(stream: Stream) -> None:
    stream.land(of("a", 10), of("b", 20))
    stream.land(of("e", 30), of("d", 40), of("c", 50), of("c", 51), of("a", 60), of("orders", 70))
    assert rows(stream, "a", "b", "c", "orders") == {"a": [10, 60], "b": [20], "c": [50, 51], "orders": [70]}
    assert Counter((one.table, one.reason) for one in letters(stream)) == {
        ("app.d", "too_many_tables"): 1,
        ("app.e", "too_many_tables"): 1,
    }
    assert stream.cut().known == {"lake.a", "lake.b", "lake.c", "lake.orders"}
    (line,) = (line for line in stream.lines if line.get("status") == "too_many_tables")
    assert (line["tables"], line["dead"], line["first"]) == (2, 2, ["lake.d", "lake.e"])
    found = audited(stream)
    assert (found.balanced, found.dead, found.merged) == (True, 2, 6), found.differences


def test_which_tables_come_first_does_not_depend_on_how_epochs_are_split_into_jobs() -> None:
    def made(*jobs: tuple[int, int]) -> tuple[frozenset[str], int]:
        stream = Stream(MemoryGround(), CONFIG)
        for number, name in enumerate(("z", "y", "b", "a", "c", "z")):
            stream.seal(of(name, 10 + number), of("orders", 100 + number))
        for first, last in jobs:
            assert stream.commit(first, last) == 0, stream.lines
        assert audited(stream).balanced
        return stream.cut().known, len(letters(stream))

    assert made((1, 6)) == made((1, 2), (3, 6)) == made(*((n, n) for n in range(1, 7)))
    assert made((1, 6)) == ({"lake.orders", "lake.b", "lake.y", "lake.z"}, 2)


@pytest.mark.parametrize("how", ["two jobs", "one job", "a job that died before its cut"])
def test_a_table_that_a_rule_names_takes_no_other_tables_place(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    stream.seal(of("a", 1), of("b", 2), of("c", 3))
    if how == "a job that died before its cut":
        with monkeypatch.context() as patch:
            patch.setattr("firn.commit.job.write_cut", lambda *_: pytest.fail("it dies here"))
            with pytest.raises(BaseException, match="it dies here"):
                stream.commit(1)
    elif how == "two jobs":
        assert stream.commit(1) == 0
    stream.seal(of("orders", 4), of("c", 5))
    assert stream.commit(1, 2) == 0, stream.lines
    assert letters(stream) == []
    assert rows(stream, *"abc", "orders") == {"a": [1], "b": [2], "c": [3, 5], "orders": [4]}
    assert audited(stream).balanced


CHANGES = {
    "lowered": CONFIG.replace("max_tables: 3", "max_tables: 1"),
    "raised": CONFIG.replace("max_tables: 3", "max_tables: 10"),
    "named": CONFIG.replace("      '*'", "      app.e: {to: lake.e, key: [id]}\n      '*'"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_limit_that_changes_between_two_tries_makes_no_change_both_a_row_and_a_letter(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """An epoch is judged by the limit that it was sealed under, whatever comes after it into its range."""

    def made(*jobs: tuple[int, int], dies: bool) -> tuple[dict[str, list[Any]], set[tuple[Any, ...]], frozenset[str]]:
        stream = Stream(MemoryGround(), CONFIG)
        stream.seal(*(of(name, ord(name)) for name in "abcde"))
        if dies:
            with monkeypatch.context() as patch:
                patch.setattr("firn.commit.job.write_cut", lambda *_: pytest.fail("it dies here"))
                with pytest.raises(BaseException, match="it dies here"):
                    stream.commit(1)
        stream.publish(CHANGES[how])
        stream.seal(*(of(name, 100 + ord(name)) for name in "abcdef"))
        for first, last in jobs:
            assert stream.commit(first, last) == 0, stream.lines
        found = rows(stream, *(name for name in "abcdef" if f"lake.{name}" in stream.cut().known))
        dead = [(one.table, json.loads(one.original)["after"]["id"]) for one in letters(stream)]
        landed = [(f"app.{name}", id) for name, ids in found.items() for id in ids]
        assert Counter(dead + landed) == Counter((f"app.{n}", i + ord(n)) for i in (0, 100) for n in "abcdef"
                                                 if (n, i) != ("f", 0))  # fmt: skip
        assert audited(stream).balanced, audited(stream).differences
        assert stream.commit(*jobs[-1]) == 0
        assert len(letters(stream)) == len(dead)
        return found, set(dead), stream.cut().known

    expected = made((1, 1), (2, 2), dies=False)
    assert made((1, 2), dies=False) == expected
    assert made((1, 2), dies=True) == expected


def test_a_job_that_runs_again_refuses_the_same_once(stream: Stream) -> None:
    for name in "abcde":
        stream.seal(of(name, ord(name)))
    assert stream.commit(1, 5) == 0
    before = letters(stream)
    assert len(before) == 2
    assert stream.commit(1, 5) == 0
    assert letters(stream) == before


def test_a_table_over_the_limit_is_made_once_the_limit_is_raised(stream: Stream) -> None:
    stream.land(*(of(name, ord(name)) for name in "abcde"))
    assert len(letters(stream)) == 2
    stream.publish(CONFIG.replace("max_tables: 3", "max_tables: 10"))
    stream.land(of("e", 200))
    assert rows(stream, "e") == {"e": [200]}
    assert stream.cut().known == {f"lake.{name}" for name in "abce"}
    assert audited(stream).balanced


def test_tables_that_are_there_go_on_whatever_the_limit_is_now(stream: Stream) -> None:
    stream.publish(CONFIG.replace("max_tables: 3", "max_tables: 10"))
    stream.land(*(of(name, ord(name)) for name in "abcde"))
    stream.publish(CONFIG)
    stream.land(*(of(name, 200 + ord(name)) for name in "abcdef"))
    assert [one.table for one in letters(stream)] == ["app.f"]
    assert all(len(found) == 2 for found in rows(stream, *"abcde").values())


def test_what_several_source_tables_feed_is_one_table() -> None:
    settings = parse("streams: {shop: {max_tables: 1, tables: {'*': {to: lake.all, mode: append}}}}").streams["shop"]
    assert refused((), [(1, settings, [f"app.t{n}" for n in range(100)])]) == {1: frozenset()}


def test_changes_that_would_make_a_table_too_wide_hold_it_and_no_other(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "MOST_COLUMNS", 50)

    def wide(number: int, first: int) -> dict[str, Any]:
        return event("c", number, {"id": number, **{f"c{n}": 1 for n in range(first, first + 30)}}, table="a")

    stream.land(wide(10, 0), of("b", 11))
    stream.land(wide(20, 30), of("b", 21))
    assert rows(stream, "a", "b") == {"a": [10], "b": [11, 21]}
    held = holds.read_all(stream.store, STREAM).held()["lake.a"]
    assert "30 columns that the table does not have" in held.message
    assert "61 in all; a table may have 50" in held.message
    assert "declare" in held.advice
    # Released with the columns declared, it gets them all.
    columns = json.dumps({f"c{n}": "int" for n in range(60)})
    declared = CONFIG.replace("      '*'", f"      app.a: {{to: lake.a, key: [id], columns: {columns}}}\n      '*'")
    stream.publish(declared)
    assert holds.lift(stream.store, held, "retry", "2026-11-22T00:00:00.000Z")
    stream.land(wide(30, 0))
    assert rows(stream, "a") == {"a": [10, 20, 30]}
    assert audited(stream).balanced


@pytest.mark.parametrize("how", ["declared", "skipped", "as it was"])
def test_a_table_that_is_too_wide_is_released_with_its_columns_declared_or_without_what_holds_it(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """By `firn resume`, without any newer change; as it was it is held again, and lacks no more than before."""
    monkeypatch.setattr(planning, "MOST_COLUMNS", 5)
    row = {f"c{number}": "1" for number in range(10)}
    stream.land(of("a", 10), of("b", 10))
    stream.land(event("c", 20, {"id": 20, "v": "a", **row}, table="a"), of("b", 20))
    if how == "declared":
        columns = json.dumps(dict.fromkeys(row, "string"))
        declared = f"      app.a: {{to: lake.a, key: [id], columns: {columns}}}\n      '*'"
        stream.publish(CONFIG.replace("      '*'", declared))
    release(stream, "lake.a", "skip" if how == "skipped" else "retry")
    go_on(stream)
    assert rows(stream, "a", "b") == {"a": [10, 20] if how == "declared" else [10], "b": [10, 20]}
    held = holds.read_all(stream.store, STREAM).held()
    assert list(held) == (["lake.a"] if how == "as it was" else [])
    assert audited(stream).balanced, audited(stream).differences
    if how == "as it was":
        assert (held["lake.a"].epoch, held["lake.a"].upto >= 2) == (2, True)
    else:
        stream.land(of("a", 30))
        assert rows(stream, "a")["a"][-1] == 30
