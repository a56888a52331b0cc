"""Following a table: consumers that stop anywhere and go on, cursors that are of no use any more."""

import json
import random
import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn_lake.changes.cursor import BadCursor, Cursor
from firn_lake.changes.row_changes import Changes
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.lineage import hops, line
from tests.applying import applied, rows_of
from tests.soak import times

ITEMS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def made(catalog: Catalog) -> Table:
    catalog.create_namespace_if_not_exists("shop")
    return catalog.create_table("shop.followed", ITEMS, properties={"firn.key": '["id"]'})


@pytest.fixture
def table(catalog: Catalog, made: Table) -> LakeTable:
    return Lake(catalog).table("shop.followed")


def put(made: Table, *rows: tuple[int, str]) -> None:
    made.append(pa.Table.from_pylist([{"id": one, "name": name} for one, name in rows], ITEMS))


def told(changes: Changes) -> list[tuple[str, int]]:
    return sorted((row["_change"], row["id"]) for row in changes.pylist())


def test_without_a_cursor_all_rows_come_first_and_then_what_changes(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"), (2, "b"))
    put(made, (3, "c"))
    seen = table.follow(poll=0.01)
    assert told(next(seen)) == [("insert", 1), ("insert", 2), ("insert", 3)]
    put(made, (4, "d"))
    assert told(next(seen)) == [("insert", 4)]
    made.delete("id = 2")
    assert told(next(seen)) == [("delete", 2)]


def test_from_now_on_only_what_comes_is_told(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    seen = table.follow("main", poll=0.01)
    threading.Timer(0.3, put, (made, (2, "b"))).start()
    assert told(next(seen)) == [("insert", 2)]


def test_it_waits_for_the_first_row_of_an_empty_table(table: LakeTable, made: Table) -> None:
    threading.Timer(0.3, put, (made, (1, "a"))).start()
    assert told(next(table.follow(poll=0.01))) == [("insert", 1)]


def test_it_ends_at_a_time_or_at_a_snapshot(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    began = time.monotonic()
    assert len(list(table.follow(poll=5, until=datetime.now(UTC) + timedelta(seconds=0.3)))) == 1
    assert time.monotonic() - began < 4
    put(made, (2, "b"))
    assert [told(one) for one in table.follow(until="main")] == [[("insert", 1), ("insert", 2)]]
    first = table.snapshots()[0].id
    assert [told(one) for one in table.follow(until=first)] == [[("insert", 1)]]


def test_a_cursor_beyond_the_end_tells_nothing(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    put(made, (2, "b"))
    [changes] = table.follow(until="main")
    assert list(table.follow(changes.cursor, until=table.snapshots()[0].id)) == []


def test_a_cursor_is_json_and_goes_on_where_it_stands(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    [first] = table.follow(until="main")
    put(made, (2, "b"))
    text = first.cursor.json()
    assert json.loads(text) == {"table": str(made.metadata.table_uuid), "snapshot": table.snapshots()[0].id}
    for stored in (text, json.loads(text), first.cursor):
        assert [told(one) for one in table.follow(stored, until="main")] == [[("insert", 2)]]


@pytest.mark.parametrize("seed", range(times(1, 30, 3)))
def test_a_consumer_that_dies_anywhere_and_goes_on_takes_each_change_once(
    table: LakeTable, made: Table, seed: int
) -> None:
    """It stores its copy and its cursor together, and dies before, between and after batches."""
    dice = random.Random(seed)
    stored: dict[str, Any] = {"copy": {}, "cursor": None, "log": []}
    there: dict[int, str] = {}
    for _ in range(12):
        change_something(made, there, dice)
        if dice.random() < 0.7:
            consume(table, stored, dice)
    while stored["cursor"] is None or json.loads(stored["cursor"])["snapshot"] != table.snapshots()[-1].id:
        consume(table, stored, dice)
    assert stored["copy"] == there
    assert rows_of(table.iceberg, table.iceberg.current_snapshot()) == applied_all(stored["log"])


def change_something(made: Table, there: dict[int, str], dice: random.Random) -> None:
    numbers = dice.sample(range(20), 4)
    made.refresh()
    with made.transaction() as together:
        if old := there.keys() & set(numbers):
            together.delete(f"id in ({', '.join(map(str, old))})")
        new = {number: f"{dice.random():.3f}" for number in numbers[:3]}
        together.append(pa.table({"id": list(new), "name": list(new.values())}, ITEMS))
    for number in old:
        del there[number]
    there.update(new)


def consume(table: LakeTable, stored: dict[str, Any], dice: random.Random) -> None:
    """One life of a consumer: each step is applied to a copy of its own, then all is stored at once, or nothing."""
    for changes in table.follow(stored["cursor"], until="main", batch_size=2):
        copy = dict(stored["copy"])
        for batch in changes:
            if dice.random() < 0.1:
                return
            for row in batch.to_pylist():
                if row["_change"] == "delete":
                    assert copy.pop(row["id"]) == row["name"]
                else:
                    assert (row["id"] in copy) == (row["_change"] == "update")
                    copy[row["id"]] = row["name"]
        if dice.random() < 0.2:
            return
        stored.update(copy=copy, cursor=changes.cursor.json(), log=[*stored["log"], changes])
        if dice.random() < 0.2:
            return


def applied_all(log: list[Changes]) -> Any:
    rows = rows_of(None, None)
    for changes in log:
        rows = applied(rows, changes)
    return rows


def test_an_expired_cursor_says_what_to_do(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    [first] = table.follow(until="main")
    put(made, (2, "b"))
    table.iceberg.maintenance.expire_snapshots().by_id(first.to or 0).commit()
    with pytest.raises(BadCursor, match=r"has expired: the oldest kept one is .* start without a cursor"):
        next(table.follow(first.cursor))


def test_a_cursor_of_another_table_is_refused(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    with pytest.raises(BadCursor, match="of another table"):
        next(table.follow(Cursor(str(uuid4()), None)))


@pytest.mark.parametrize("stored", ['{"table": 1}', "{", {"snapshot": 1}, '{"table": "x", "snapshot": "1"}'])
def test_what_is_no_cursor_is_refused(table: LakeTable, stored: Any) -> None:
    with pytest.raises(BadCursor):
        table.follow(stored)


def test_after_a_rollback_what_it_took_back_is_told(table: LakeTable, made: Table) -> None:
    put(made, (1, "a"))
    put(made, (2, "b"))
    [all_rows] = table.follow(until="main")
    table.iceberg.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].id).commit()
    assert [told(one) for one in table.follow(all_rows.cursor, until="main")] == [[("delete", 2)]]


class Made:
    """A snapshot, as far as lineage looks at it."""

    def __init__(self, number: int, operation: str = "append") -> None:
        from pyiceberg.table.snapshots import Operation, Summary

        self.snapshot_id = number
        self.parent_snapshot_id = number - 1 if number > 1 else None
        self.summary = Summary(Operation(operation))


def test_what_was_only_written_anew_lies_in_no_step_with_changes() -> None:
    kinds = ["append", "overwrite", "append", "replace", "append", "replace", "replace", "delete", "append"]
    chain: Any = [Made(number, kind) for number, kind in enumerate(kinds, 1)]
    steps = [(one.snapshot_id, two.snapshot_id) for one, two in hops(chain[0], chain[1:])]
    assert steps == [(1, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 9)]


def test_a_chain_that_is_broken_is_none() -> None:
    chain: Any = {number: Made(number) for number in (1, 3, 4)}

    metadata: Any = SimpleNamespace(snapshots=list(chain.values()))
    assert [one.snapshot_id for one in line(metadata, chain[3], chain[4]) or ()] == [4]
    assert line(metadata, chain[1], chain[4]) is None
    assert line(metadata, None, chain[4]) is None
    assert line(metadata, chain[4], chain[3]) is None
    assert line(metadata, chain[4], chain[4]) == []
