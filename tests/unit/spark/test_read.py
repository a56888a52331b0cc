"""One staged object as rows, as an executor reads it. No JVM."""

import json

import pyarrow as pa
import pytest

from firn.changes.envelopes.parser import parse
from firn.log.batches import BatchMeta, write_batch
from firn_spark.staged import placing, read
from firn_spark.staged.packed import CHANGES, PACKED, Packer, unpacked
from firn_spark.staged.read import Order, SealedBatch, rows_of, rows_of_all

META = BatchMeta(1, "shop", "shop.x", "2026-03-01T12:30:00.000Z", "sha", 2, 0, {}, {"public.a": 2})


def test_columns_that_are_not_in_the_file_are_filled_in() -> None:
    source = {"connector": "postgresql", "schema": "public", "table": "a", "sequence": '["1","2"]'}
    events = [{"op": "c", "before": None, "after": {"id": n}, "source": source} for n in range(2)]
    body = write_batch(parse(json.dumps(events).encode(), "debezium"), META)
    found = rows_of(SealedBatch(1, 0, "shop.x", "p", len(body)), body, Order())
    changes, facts = found.changes, found.said
    assert changes.schema == CHANGES
    rows = changes.to_pylist()
    assert [(row["index"], row["flat"], row["ts"], row["key"], row["schema_id"]) for row in rows] == [
        (0, False, None, None, None),
        (1, False, None, None, None),
    ]
    assert [row["after"] for row in rows] == ['{"id": 0}', '{"id": 1}']
    assert {fact["fact"] for fact in facts} == {"columns"}, "a record without a key says nothing of keys"


def test_small_objects_are_put_together_up_to_some_bytes_and_never_with_those_of_another_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many they are: two gigabytes in one column are more than Arrow takes."""
    monkeypatch.setattr(read, "_BYTES", 100_000)
    source = {"connector": "postgresql", "schema": "public", "table": "a"}
    large = [
        {
            "op": "c",
            "before": None,
            "after": {"id": n, "v": "x" * 30_000},
            "source": source | {"sequence": f'["1","{n}"]'},
        }
        for n in range(250)
    ]
    some = []
    for place, epoch in enumerate([1] * 250 + [2] * 4):
        body = write_batch(parse(json.dumps([large[place % 250]]).encode(), "debezium"), META)
        some.append((SealedBatch(epoch, place, f"shop.{place:03}", "p", len(body)), body))
    empty = write_batch(parse(b"[]", "debezium"), META)
    some.insert(1, (SealedBatch(1, 999, "shop.000a", "p", len(empty)), empty))
    monkeypatch.setattr(placing, "FEW", 0)
    found = list(rows_of_all(some, Order()))
    assert {rows.changes.nbytes < 150_000 for rows in found} == {True}
    assert [len(rows.changes) for rows in found] == [3] * 83 + [1, 3, 1]
    assert [name for rows in found for name in rows.changes["batch"].to_pylist()] == [
        batch.batch for batch, body in some if body is not empty
    ]
    assert {fact["batch"] for rows in found for fact in rows.said} == {batch.batch for batch, _ in some} - {"shop.000a"}


def changes_of(epoch: int, batch: str, tables: str) -> pa.Table:
    rows = [
        dict.fromkeys(CHANGES.names) | {"epoch": epoch, "batch": batch, "index": index, "table": table, "op": "c"}
        for index, table in enumerate(tables)
    ]
    return pa.Table.from_pylist(rows, CHANGES)


def test_what_is_packed_comes_back_whole_by_epoch_and_table() -> None:
    given = [(1, "x", "abab"), (1, "y", "c"), (2, "z", "aaab")]
    packer = Packer()
    for epoch, batch, tables in given:
        packer.add(epoch, changes_of(epoch, batch, tables), ())
    rows = packer.packed()
    assert rows.schema == PACKED
    held = [row for row in rows.to_pylist() if row["changes"] is not None]
    found = []
    for row in held:
        (changes,) = unpacked([pa.RecordBatch.from_pydict({"changes": pa.array([row["changes"]], pa.binary())})])
        found += changes.to_pylist()
        assert {(change["epoch"], change["table"]) for change in changes.to_pylist()} == {(row["epoch"], row["table"])}
    assert [(row["epoch"], row["table"]) for row in held] == [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b")]
    wanted = [row for one in given for row in changes_of(*one).to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    counts = {(row["epoch"], row["table"]): row["count"] for row in rows.to_pylist() if row["fact"] == "count"}
    assert counts == {(1, "a"): 2, (1, "b"): 2, (1, "c"): 1, (2, "a"): 3, (2, "b"): 1}
    assert packer.packed().num_rows == 0


def test_a_fact_that_several_objects_say_is_said_once_with_the_first_of_them() -> None:
    packer = Packer()
    for batch in ("y", "x", "z"):
        fact = {"batch": batch, "table": "a", "flat": False, "schema_id": None, "fact": "columns", "value": "[]"}
        packer.add(1, changes_of(1, batch, ""), [fact, fact | {"fact": "key", "value": '["id"]'}])
    rows = packer.packed().to_pylist()
    assert [(row["fact"], row["batch"]) for row in rows] == [("columns", "x"), ("key", "x")]
