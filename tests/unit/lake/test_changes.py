"""Changes between snapshots of tables that PyIceberg writes; those of the commit job: tests/integration/spark."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)  # fmt: skip

from firn_lake.changes import row_diff
from firn_lake.changes.row_changes import BadColumn, Changes, NotOneLine
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.versions import NoSuchColumn, version_of
from tests.applying import applied, rows_of
from tests.soak import times


def lake_table(catalog: Catalog, table: Table) -> LakeTable:
    return Lake(catalog).table(".".join(table.name()))


ITEMS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("_firn_pos", pa.binary())])


@pytest.fixture
def stock(catalog: Catalog) -> LakeTable:
    """Items by id. Snapshots: three rows; one of them updated, one deleted, one new."""
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table(
        "shop.stock",
        ITEMS,
        properties={"firn.key": '["id"]'},
    )
    table.append(items((1, "ink"), (2, "pen"), (3, "nib")))
    with table.transaction() as both:
        both.delete("id in (2, 3)")
        both.append(items((2, "pencil"), (4, "pad")))
    return lake_table(catalog, table)


def items(*rows: tuple[int, str]) -> pa.Table:
    columns = {"id": [one for one, _ in rows], "name": [one for _, one in rows], "_firn_pos": [b"1"] * len(rows)}
    return pa.table(columns, ITEMS)


def by_id(changes: Changes) -> dict[int, tuple[str, Any, Any]]:
    return {
        row["id"]: (row["_change"], row["name"], row["_before"] and row["_before"]["name"]) for row in changes.pylist()
    }


def ends(table: LakeTable) -> tuple[int, int]:
    kept = table.snapshots()
    return kept[0].id, kept[-1].id


def test_changes_are_inserts_updates_with_what_was_and_deletes(stock: LakeTable) -> None:
    first, last = ends(stock)
    changes = stock.changes(first, last)
    assert by_id(changes) == {
        2: ("update", "pencil", "pen"),
        3: ("delete", "nib", "nib"),
        4: ("insert", "pad", None),
    }
    assert changes.counts() == {"insert": 1, "update": 1, "delete": 1}
    assert changes.schema.names == ["_change", "id", "name", "_before"]


def test_changes_backwards_undo(stock: LakeTable) -> None:
    first, last = ends(stock)
    assert by_id(stock.changes(last, first)) == {
        2: ("update", "pen", "pencil"),
        3: ("insert", "nib", None),
        4: ("delete", "pad", "pad"),
    }


def test_changes_from_nothing_are_all_rows_and_to_itself_none(stock: LakeTable) -> None:
    first, last = ends(stock)
    assert by_id(stock.changes(None)) == {
        n: ("insert", name, None) for n, name in ((1, "ink"), (2, "pencil"), (4, "pad"))
    }
    assert stock.changes(first, first).pylist() == []
    assert stock.changes(last).pylist() == []


def test_columns_are_those_asked_for_and_always_the_key(stock: LakeTable) -> None:
    first, _ = ends(stock)
    assert stock.changes(first, columns=["name"]).schema.names == ["_change", "id", "name", "_before"]
    assert stock.changes(first, metadata=True).schema.names == ["_change", "id", "name", "_firn_pos", "_before"]
    with pytest.raises(NoSuchColumn, match="no column 'nam'; do you mean 'name'"):
        stock.changes(first, columns=["nam"])


def test_a_change_of_a_column_that_is_not_read_is_none(stock: LakeTable) -> None:
    first, _ = ends(stock)
    assert by_id_of(stock.changes(first, columns=[])) == [3, 4]


def by_id_of(changes: Changes) -> list[int]:
    return sorted(row["id"] for row in changes.pylist())


def test_steps_are_each_snapshots_own(stock: LakeTable) -> None:
    table = stock.iceberg
    table.delete("id = 4")
    first = stock.snapshots()[0].id
    steps = stock.changes(first, steps=True).pylist()
    assert ("insert", 4) in {(row["_change"], row["id"]) for row in steps}
    assert steps[-1]["_change"] == "delete"
    assert steps[-1]["id"] == 4
    order = {one.id: number for number, one in enumerate(stock.snapshots())}
    assert [order[row["_snapshot"]] for row in steps] == sorted(order[row["_snapshot"]] for row in steps)
    times = {one.id: one.time for one in stock.snapshots()}
    assert all(row["_committed_at"] == times[row["_snapshot"]] for row in steps)
    assert 4 not in by_id(stock.changes(first))


def test_steps_backwards_are_refused(stock: LakeTable) -> None:
    first, last = ends(stock)
    with pytest.raises(NotOneLine, match="leave steps out"):
        stock.changes(last, first, steps=True)


def test_an_intermediate_snapshot_may_have_expired(stock: LakeTable) -> None:
    table = stock.iceberg
    table.append(items((5, "cap")))
    middle = [one.id for one in stock.snapshots()][1:-1]
    table.maintenance.expire_snapshots().by_ids(middle).commit()
    first, last = ends(stock)
    assert set(by_id(stock.changes(first, last))) == {2, 3, 4, 5}
    with pytest.raises(NotOneLine, match="have expired"):
        stock.changes(first, last, steps=True)


def test_a_column_that_changes_have_too_is_refused(catalog: Catalog, orders: Table) -> None:
    with orders.update_schema() as update:
        update.add_column("_before", StringType())
    table = lake_table(catalog, orders)
    with pytest.raises(BadColumn, match="_before"):
        table.changes(None)
    assert table.changes(None, columns=["amount"]).count() == 5


def test_a_key_that_is_no_column_says_so(catalog: Catalog, orders: Table) -> None:
    with orders.transaction() as change:
        change.set_properties({"firn.key": '["order_id"]'})
    with pytest.raises(BadColumn, match="key \\(order_id\\) but no column 'order_id'"):
        lake_table(catalog, orders).changes(None)


def test_without_a_key_equal_rows_are_counted(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.clicks", pa.schema([("page", pa.string())]))
    table.append(pa.table({"page": ["a", "a", "b", "b"]}))
    table.overwrite(pa.table({"page": ["a", "a", "a", "b", "c"]}))
    clicks = lake_table(catalog, table)
    first, last = ends(clicks)
    found = Counter((row["_change"], row["page"]) for row in clicks.changes(first, last).pylist())
    assert found == {("insert", "a"): 1, ("delete", "b"): 1, ("insert", "c"): 1}


def test_rows_that_share_a_key_are_matched_one_by_one(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.twins", ITEMS, properties={"firn.key": '["id"]'})
    table.append(items((1, "a"), (1, "b"), (2, "x")))
    table.overwrite(items((1, "b"), (1, "c"), (1, "d"), (2, "x")))
    twins = lake_table(catalog, table)
    first, last = ends(twins)
    found = Counter((row["_change"], row["name"]) for row in twins.changes(first, last).pylist())
    assert sum(found.values()) == 2
    assert {kind for kind, _ in found} == {"update", "insert"}
    assert {name for _, name in found} == {"c", "d"}


WIDE = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "u", UUIDType()),
    NestedField(3, "f", FixedType(2)),
    NestedField(4, "m", MapType(5, StringType(), 6, BinaryType(), False)),
    NestedField(7, "l", ListType(8, FixedType(16), False)),
    NestedField(9, "dot.ted", StringType()),
    NestedField(10, "s", StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", StringType()))),
    NestedField(13, "n", DecimalType(38, 9)),
    NestedField(14, "d", DateType()),
    NestedField(15, "r", DoubleType()),
    NestedField(16, "DOT.TED", StringType()),
    identifier_field_ids=[1],
)


def wide(number: int, said: str | None) -> dict[str, Any]:
    name = said or ""
    return {
        "id": number, "u": name.ljust(16, "x").encode(), "f": b"ab", "m": {name: name.encode()},
        "l": [b"1" * 16, None], "dot.ted": said, "s": {"x": number, "y": said}, "n": Decimal(number) / 8,
        "d": date(2026, 1, 1), "r": float("nan"), "DOT.TED": "other",
    }  # fmt: skip


def test_rows_of_every_type_are_counted_without_a_key(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.keyless", Schema(*WIDE.fields))
    kind = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([wide(1, "a"), wide(1, "a"), wide(2, None)], kind))
    table.overwrite(pa.Table.from_pylist([wide(1, "a"), wide(2, None), wide(2, None), wide(3, "c")], kind))
    found = lake_table(catalog, table)
    first, last = ends(found)
    told = Counter((row["_change"], row["id"]) for row in found.changes(first, last).pylist())
    assert told == {("delete", 1): 1, ("insert", 2): 1, ("insert", 3): 1}


def test_values_of_every_type_come_back_as_they_are(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.wide", WIDE)
    kind = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([wide(1, "a"), wide(2, None), wide(3, "c")], kind))
    table.overwrite(pa.Table.from_pylist([wide(1, "a"), wide(2, "b"), wide(4, None)], kind))
    found = lake_table(catalog, table)
    assert found.key == ("id",)
    first, last = ends(found)
    changes = found.changes(first, last)
    assert changes.counts() == {"insert": 1, "update": 1, "delete": 1}  # NaN is NaN: row 1 did not change
    table_of_changes = changes.arrow()
    assert table_of_changes.schema.field("u").type == pa.uuid()
    assert table_of_changes.schema.field("f").type == pa.binary(2)
    both = {row["id"]: row for row in found.read(as_of=first).pylist() + found.read(as_of=last).pylist()}
    for row in table_of_changes.to_pylist():
        assert repr({name: row[name] for name in both[row["id"]]}) == repr(both[row["id"]])
    changed = next(row for row in table_of_changes.to_pylist() if row["_change"] == "update")
    assert repr(changed["_before"]) == repr(found.read(as_of=first, filter="id = 2").pylist()[0])


@pytest.mark.parametrize("key", [(0,), ()])
def test_two_sides_larger_than_the_memory_go_over_disk(monkeypatch: pytest.MonkeyPatch, key: tuple[int, ...]) -> None:
    monkeypatch.setattr(row_diff, "_MEMORY", "64MB")
    rows = pa.schema([("id", pa.int64()), ("body", pa.binary())])
    text = random.Random(1).randbytes(10_000)

    def side(changed: bool) -> Iterator[pa.RecordBatch]:
        for first in range(0, 100_000, 10_000):
            ids = range(first, first + 10_000)
            body = [b"new" if changed and one % 1_000 == 0 else text[one % 9_000 :][:500] for one in ids]
            yield pa.record_batch([pa.array(ids, pa.int64()), pa.array(body, pa.binary())], schema=rows)

    found = Counter(
        kind for batch in row_diff.matched(side(False), side(True), rows, key) for kind in batch.column(0).to_pylist()
    )
    assert found == ({"update": 100} if key else {"delete": 100, "insert": 100})


@pytest.mark.parametrize("seed", range(times(1, 20, 2)))
def test_changes_applied_to_the_earlier_rows_give_the_later_ones(catalog: Catalog, seed: int) -> None:
    dice = random.Random(seed)
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.random", ITEMS, properties={"firn.key": '["id"]'})
    there: dict[int, str] = {}
    for _ in range(8):
        wanted = dict.fromkeys(dice.sample(range(12), dice.randint(1, 6)), "".join(dice.choices("abc", k=2)))
        gone = dice.sample(range(12), 2)
        with table.transaction() as together:
            if old := there.keys() & {*wanted, *gone}:
                together.delete(f"id in ({', '.join(map(str, old))})")
            together.append(items(*wanted.items()))
        there = {number: name for number, name in there.items() if number not in gone} | wanted
    found = lake_table(catalog, table)
    assert {row["id"]: row["name"] for row in found.read().pylist()} == there
    pairs = list(itertools.product([None, *found.iceberg.metadata.snapshots], found.iceberg.metadata.snapshots))
    for before, after in dice.sample(pairs, 30):
        version = version_of(found.iceberg, after)
        changes = Changes(before, version)
        assert applied(rows_of(found.iceberg, before, version.schema), changes) == rows_of(found.iceberg, after), pairs
