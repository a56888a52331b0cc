"""Adopted tables with columns that Firn has no type for: their values stay with their rows, in both homes."""

import random
from collections.abc import Callable, Mapping
from datetime import date, time
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform

from firn.changes.merge.fold import Row, fold
from firn_spark.slices import by_partition, slice_engine
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_specification import change
from tests.soak import long_only, seeds

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
ADDRESS = t.StructType(
    t.NestedField(20, "city", t.StringType(), required=True),
    t.NestedField(
        21, "at", t.StructType(t.NestedField(22, "u", t.DateType()), t.NestedField(23, "n", t.IntegerType()))
    ),
)
COLUMNS = (
    t.NestedField(1, "id", t.LongType()),
    t.NestedField(2, "v", t.StringType()),
    t.NestedField(3, "w", t.StringType()),
    t.NestedField(4, "address", ADDRESS),
    t.NestedField(5, "by", t.MapType(30, t.StringType(), 31, t.ListType(32, t.DoubleType(), False), False)),
    t.NestedField(6, "c", t.TimeType()),
    t.NestedField(7, "f", t.FixedType(3)),
    t.NestedField(8, "times", t.ListType(33, t.TimeType(), False)),
)
EXTRAS = ("address", "by", "c", "f", "times")


def extras_of(number: int) -> dict[str, Any]:
    """What the row of a key has in the columns that Firn has no type for; nothing in some."""
    if number % 7 == 6:
        return dict.fromkeys(EXTRAS)
    at = None if number % 3 else {"u": date(1, 1, 1 + number % 28), "n": number}
    return {
        "address": {"city": f"é{number}", "at": at}, "by": [("a", [number / 2]), ("b", [])],
        "c": time(1, number % 60, 2, 7), "f": bytes([number, 0, 255]), "times": [time(number % 24), None],
    }  # fmt: skip


def adopted(lake: Lake, keys: int, *, required: bool = False) -> None:
    """The table as another tool made it, with some keys."""
    lake.catalog.create_namespace_if_not_exists("lake")
    columns = [
        field.model_copy(update={"required": True}) if required and field.name == "c" else field for field in COLUMNS
    ]
    table = lake.catalog.create_table(("lake", "t"), Schema(*columns))
    rows = [{"id": n, "v": "first", "w": "first", **extras_of(n)} for n in range(keys)]
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
    with table.transaction() as change_of_table:
        change_of_table.set_properties({"write.format.default": "avro"})


def at_home(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    commit_in(home, monkeypatch, events=100)
    monkeypatch.setattr(slice_engine, "_TIMES_LARGER", 3)
    monkeypatch.setattr(by_partition, "WORTH", 20)


def told_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that Firn has no type for, as extras_of has them."""
    return {name: row[name] for name in EXTRAS}


@long_only
@HOMES
@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("how", ["merge-on-read", "copy-on-write"])
def test_a_row_keeps_them_as_long_as_it_lives(
    lake: Make, monkeypatch: pytest.MonkeyPatch, how: str, seed: int, home: str
) -> None:
    at_home(monkeypatch, home)
    dice, keys = random.Random(f"{seed} {how}"), 60
    one = lake(config(f"key: [id], write: {how}"))
    adopted(one, keys)
    expected = {number: extras_of(number) for number in range(keys)}
    base = {(n,): Row({"id": n, "v": "first", "w": "first"}, b"") for n in range(keys)}
    come = []
    for epoch in range(3):
        some = []
        for lsn in range(1_000 * (epoch + 1), 1_000 * (epoch + 1) + 120):
            number, chance = dice.randrange(keys + 10), dice.random()
            row = {"id": number, "v": f"v{lsn}", "w": f"w{lsn}"}
            if epoch == 2 and lsn % 1_000 == 30:
                some.append(event("t", lsn, None))
                expected = {}
            elif chance < 0.25:
                some.append(event("d", lsn, None, {"id": number}))
                expected.pop(number, None)
            else:
                some.append(event("u", lsn, row | ({"v": GONE} if chance < 0.5 else {})))
                expected.setdefault(number, dict.fromkeys(EXTRAS))
        come += some
        dice.shuffle(some)
        one.land(some, at_once=50)
        rows = {row["id"]: row for row in one.rows("lake.t")}
        told = fold(base, map(change, come)).rows
        assert {n: (row["v"], row["w"]) for n, row in rows.items()} == {
            key: (row.values["v"], row.values["w"]) for (key,), row in told.items()
        }
        assert {n: told_of(row) for n, row in rows.items()} == expected
        said = one.line("lake.t")
        assert said["way"]["lookup"] == home, said
        assert home == "driver" or said["way"]["slices"] > 1, said
    assert len({row["id"] for row in one.rows("lake.t")}) == len(one.rows("lake.t"))


@HOMES
def test_parts_of_a_struct_are_known_by_their_ids(lake: Make, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    at_home(monkeypatch, home)
    one = lake(config("key: [id]"))
    adopted(one, 5)
    with one.catalog.load_table(("lake", "t")).update_schema(allow_incompatible_changes=True) as schema:
        schema.rename_column("address.city", "town")
        schema.delete_column("address.at")
    with one.catalog.load_table(("lake", "t")).update_schema() as schema:
        schema.add_column(("address", "at"), t.StringType())
    one.land([event("u", 10 + n, {"id": n, "v": "b", "w": "b"}) for n in range(6)])
    found = {row["id"]: (row["address"], row["c"]) for row in one.rows("lake.t")}
    assert found == {
        **{n: ({"town": f"é{n}", "at": None}, time(1, n, 2, 7)) for n in range(5)},
        5: (None, None),
    }
    assert one.line("lake.t")["way"]["lookup"] == home


@HOMES
def test_partitions_by_them_are_those_of_their_values(lake: Make, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    at_home(monkeypatch, home)
    one = lake(config("key: [id]"))
    adopted(one, 12)
    with one.catalog.load_table(("lake", "t")).update_spec() as spec:
        spec.add_identity("c")
        spec.add_field("f", "bucket[4]", "f_bucket")
        spec.add_field("address.city", "truncate[1]", "city")
    one.land([event("u", 10 + n, {"id": n, "v": "b", "w": "b"}) for n in range(13)])
    assert one.line("lake.t")["way"]["lookup"] == home
    assert {row["id"]: told_of(row) for row in one.rows("lake.t")} == {
        **{n: extras_of(n) for n in range(12)}, 12: dict.fromkeys(EXTRAS),
    }  # fmt: skip
    table = one.catalog.load_table(("lake", "t"))
    files = [file for file in table.inspect.data_files().to_pylist() if file["spec_id"] == table.spec().spec_id]
    buckets = BucketTransform(4).transform(t.FixedType(3))
    expected = [(extras_of(n)["c"], buckets(extras_of(n)["f"]), "é" if n % 7 < 6 else None) for n in range(12)]
    found = [(one["partition"]["c"], one["partition"]["f_bucket"], one["partition"]["city"]) for one in files]
    assert sorted(set(found), key=str) == sorted({*expected, (None, None, None)}, key=str)
    assert [row["id"] for row in table.scan("c = '01:03:02.000007'").to_arrow().to_pylist()] == [3]


def test_a_partition_by_bytes_of_one_length_is_refused_rather_than_spoil_the_table(lake: Make) -> None:
    """Iceberg would write manifests that can't be read again."""
    one = lake(config("key: [id]"))
    adopted(one, 3)
    with one.catalog.load_table(("lake", "t")).update_spec() as spec:
        spec.add_identity("f")
    one.post([event("u", 10, {"id": 1, "v": "b", "w": "b"})])
    assert one.commit(one.seal()) == 1
    assert "partition the table by bucket" in one.line("lake.t")["error"]
    assert {row["v"] for row in one.rows("lake.t")} == {"first"}


@HOMES
def test_one_that_was_required_is_null_in_new_rows(lake: Make, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    at_home(monkeypatch, home)
    one = lake(config("key: [id]"))
    adopted(one, 3, required=True)
    one.land([event("u", 10, {"id": 1, "v": "b", "w": "b"}), event("c", 11, {"id": 9, "v": "b", "w": "b"})])
    assert {row["id"]: row["c"] for row in one.rows("lake.t")} == {
        **{n: extras_of(n)["c"] for n in range(3)}, 9: None
    }  # fmt: skip
    assert one.line("lake.t")["way"]["lookup"] == home


@HOMES
def test_a_row_of_an_append_table_has_none_of_them(lake: Make, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    at_home(monkeypatch, home)
    one = lake(config("mode: append"))
    adopted(one, 2)
    one.land([event("c", 10 + n, {"id": n, "v": "b", "w": "b"}) for n in range(2)])
    assert sorted((row["id"], row["v"], row["c"]) for row in one.rows("lake.t") if row["v"] == "b") == [
        (0, "b", None), (1, "b", None),
    ]  # fmt: skip
    assert one.line("lake.t")["way"]["lookup"] == home
