"""Partition specs from the words of firn.yaml, and tables whose partitioning changes."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import firn_lake
from firn.config.partitions import Partition, misfit
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.writing.partitioning import (
    BadPartition,
    bucket,
    day,
    described,
    hour,
    identity,
    month,
    partition_by,
    spec_for,
    transform_of,
    truncate,
    year,
)

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "born", DateType()),
    NestedField(4, "name", StringType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "share", DoubleType()),
    NestedField(7, "tags", ListType(8, StringType())),
    NestedField(9, "dot.ted", StringType()),
    NestedField(10, "_firn_pos", BinaryType()),
)


def test_functions_and_the_words_of_the_configuration_are_the_same() -> None:
    words = ("day(at)", "bucket(16, id)", "truncate(4, name)", "born", "year(at)", "month(at)", "hour(at)")
    built = (
        day("at"), bucket(16, "id"), truncate(4, "name"), identity("born"), year("at"), month("at"), hour("at"),
    )  # fmt: skip
    assert firn_lake.partition_by(*words) == built
    assert tuple(map(str, partition_by(*built))) == words


def test_a_spec_is_what_the_commit_job_makes_of_the_same_words() -> None:
    spec = spec_for(SCHEMA, ["day(at)", "bucket(16, id)", truncate(4, "name"), "`dot.ted`", "month(born)"])
    assert [(field.name, str(field.transform), field.source_id) for field in spec.fields] == [
        ("at_day", "day", 2), ("id_bucket", "bucket[16]", 1), ("name_trunc", "truncate[4]", 4),
        ("dot.ted", "identity", 9), ("born_month", "month", 3),
    ]  # fmt: skip
    assert described(spec, SCHEMA) == ("day(at)", "bucket(16, id)", "truncate(4, name)", "dot.ted", "month(born)")
    assert spec_for(SCHEMA, []).is_unpartitioned()


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (["day(att)"], r"day\(att\): there is no column 'att'; do you mean 'at'\? Columns: id, at, born"),
        (["_firn_pos"], "there is no column '_firn_pos'"),
        (
            ["hour(born)"],
            r"born is date, which can have born itself, bucket\(16, born\), year\(born\), month\(born\), day",
        ),
        (["day(id)"], r"id is long, which can have id itself, bucket\(16, id\), truncate\(16, id\)$"),
        (["truncate(4, at)"], "at is timestamptz, which can have at itself, bucket"),
        (["bucket(4, share)"], "share is double, which can have share itself$"),
        (["tags"], "tags is list<string>, which can have no partition"),
        (["truncate(4, share)"], "share is double"),
        (["bukket(4, id)"], "bukket is not a partition transform; write a column"),
        (["bucket(0, id)"], "needs a number above 0"),
        (["day(at)", "day(at)"], r"'day\(at\)' is there twice"),
        (["year(at)", "day(at)"], r"year\(at\) and day\(at\): one of a column is enough"),
    ],
)
def test_what_can_not_be_had_says_what_can(entries: list[str | Partition], text: str) -> None:
    with pytest.raises(BadPartition, match=text):
        spec_for(SCHEMA, entries)


def test_sizes_are_whole_numbers_above_zero() -> None:
    for size in (0, -1, True, 2**31):
        with pytest.raises(BadPartition, match=r"write bucket\(16, 'id'\)"):
            bucket(size, "id")


@pytest.fixture
def orders(catalog: Catalog, tmp_path: Path) -> LakeTable:
    """A table without partitions that has one file of two rows, and Firn's progress."""
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1, 2], "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))})
    made = catalog.create_table("shop.orders", rows.schema)
    made.append(rows, snapshot_properties={"firn.epoch.shop": "7"})
    return LakeTable(Lake(catalog), made)


def add(table: LakeTable, path: Path, number: int, moment: datetime) -> None:
    rows = pa.table({"id": [number], "at": pa.array([moment], pa.timestamp("us", "UTC"))})
    pq.write_table(rows, path)
    table.iceberg.add_files([f"file://{path}"])


def test_new_files_are_partitioned_otherwise_and_old_ones_stay(orders: LakeTable, tmp_path: Path) -> None:
    told = orders.partition(["day(at)"], dry_run=True)
    assert (told.done, told.before, told.after, told.old_files) == (False, (), ("day(at)",), 1)
    assert orders.iceberg.spec().is_unpartitioned()
    assert str(orders.partition([day("at")])) == (
        "shop.orders is partitioned by day(at), not nothing, from here on; "
        "1 older files stay as they are until they are rewritten"
    )
    add(orders, tmp_path / "second.parquet", 3, datetime(2026, 1, 2, tzinfo=UTC))
    assert orders.snapshots()[0].epochs == {"shop": 7}
    assert orders.iceberg.current_snapshot() is not None

    changed = orders.partition(["month(at)", "id"])
    assert (changed.before, changed.after, changed.files) == (
        ("day(at)",), ("month(at)", "id"), {(): 1, ("day(at)",): 1},
    )  # fmt: skip
    add(orders, tmp_path / "third.parquet", 4, datetime(2026, 2, 2, tzinfo=UTC))
    text = "at >= '2026-01-02T00:00:00+00:00' and at < '2026-02-01T00:00:00+00:00'"
    assert [row["id"] for row in orders.read(filter=text).pylist()] == [3]
    assert {one.partition: one.verdict for one in orders.prune(text).files} == {
        "": "bounds", "at_day=2026-01-02": "read", "at_month=2026-02/id=4": "partition",
    }  # fmt: skip
    assert sorted(row["id"] for row in orders.read().pylist()) == [1, 2, 3, 4]

    assert str(orders.partition(["month(at)", "id"])) == "shop.orders is partitioned by month(at), id already"
    back = orders.partition(["day(at)"])
    assert (back.done, len(orders.iceberg.specs())) == (True, 3)  # the earlier spec, again
    assert orders.partition([]).after == ()


def test_a_partition_of_no_column_changes_nothing(orders: LakeTable) -> None:
    before = orders.iceberg.metadata_location
    with pytest.raises(BadPartition, match="Columns: id, at"):
        orders.partition(["day(at)", "nowhere"])
    assert orders.iceberg.metadata_location == before


@pytest.mark.parametrize("name", ["boolean", "int", "long", "float", "double", "decimal", "date", "time", "timestamp",
                                  "timestamptz", "string", "uuid", "binary"])  # fmt: skip
def test_the_configuration_takes_what_iceberg_takes_of_a_type(name: str) -> None:
    types = {
        "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(),
        "double": DoubleType(), "decimal": DecimalType(9, 2), "date": DateType(), "time": TimeType(),
        "timestamp": TimestampType(), "timestamptz": TimestamptzType(), "string": StringType(), "uuid": UUIDType(),
        "binary": BinaryType(),
    }  # fmt: skip
    for one in (identity("a"), bucket(4, "a"), truncate(4, "a"), year("a"), month("a"), day("a"), hour("a")):
        assert (misfit(one, name) is None) == transform_of(one).can_transform(types[name]), (one, name)
