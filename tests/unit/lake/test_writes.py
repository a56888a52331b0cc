"""Writing without Spark: tables made, rows added and replaced, each once, and what does not fit named."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

import firn_lake
from firn.errors import TransientError, UnknownOutcome
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.versions import BadFilter, version_at
from firn_lake.writing.coercion import BadRows, batches_of
from firn_lake.writing.commit import CannotWrite, MovedOn, land
from firn_lake.writing.stream_ownership import FedByStream
from firn_lake.writing.table_creation import CannotCreate
from tests.soak import seeds
from tests.unit.lake.row_delta import data_files, row_delta

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False), ("day", pa.date32()), ("total", pa.decimal128(10, 2)),
        ("note", pa.string()), ("at", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip
JANUARY, MARCH = date(2026, 1, 31), date(2026, 3, 1)


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    return Lake(catalog)


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return lake.create("own.sales", COLUMNS, key=["id"], partition_by=["month(day)"])


def ids(table: LakeTable, **how: Any) -> list[int]:
    return sorted(row["id"] for row in table.read(**how).pylist())


def rows(*ids: int, day: date = JANUARY) -> list[dict[str, Any]]:
    return [{"id": number, "day": day, "total": Decimal(number)} for number in ids]


def test_a_table_is_made_with_a_key_and_partitions(lake: Lake) -> None:
    parts = ["month(day)", "bucket(4, id)", "truncate(3, note)", "day(at)", "total"]
    table = lake.create("own.all", COLUMNS, key=["id"], partition_by=parts)
    assert table.key == ("id",)
    spec = table.iceberg.spec()
    assert [(one.name, str(one.transform)) for one in spec.fields] == [
        ("day_month", "month"), ("id_bucket", "bucket[4]"), ("note_trunc", "truncate[3]"), ("at_day", "day"),
        ("total", "identity"),
    ]  # fmt: skip
    assert table.snapshots() == []
    table.append(rows(1, 2))
    assert ids(table) == [1, 2]


def test_a_table_is_made_from_rows_in_one_commit(lake: Lake) -> None:
    table = lake.create("own.copy", pa.table({"id": [1, 2], "note": ["a", None]}), key=["id"])
    assert table.read().pylist() == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
    assert len(table.snapshots()) == 1
    again = lake.create("own.again", table.read(), partition_by=["id"])
    assert ids(again, filter="id = 2") == [2]


@pytest.mark.parametrize(
    ("name", "what", "how", "message"),
    [
        ("sales", COLUMNS, {}, "names no namespace: write namespace.table, such as shop.sales"),
        ("own.a", COLUMNS, {"key": ["ID"]}, "no column 'ID'; there are id, day"),
        ("own.a", COLUMNS, {"key": "id"}, r"write a list, such as \['id'\]"),
        ("own.a", pa.schema([("x", pa.float64())]), {"key": ["x"]}, "x is double, and keys are no floats"),
        ("own.a", COLUMNS, {"partition_by": "day"}, r"write a list, such as \['day'\]"),
        ("own.a", COLUMNS, {"partition_by": ["week(day)"]}, "week is not a partition transform; write a column"),
        ("own.a", COLUMNS, {"partition_by": ["hour(day)"]}, "day is date, which can have"),
        ("own.a", COLUMNS, {"partition_by": ["day(then)"]}, r"no column 'then'\. Columns: id, day"),
        ("own.a", COLUMNS, {"partition_by": ["day(day)", firn_lake.day("day")]}, r"'day\(day\)' is there twice"),
        ("own.a", pa.schema([("x", pa.month_day_nano_interval())]), {}, "Iceberg has no such column"),
        ("own.a", pa.schema([]), {}, "a table needs a column"),
        ("own.a", [{"id": 1}], {}, "a list tells no columns: give an Arrow schema"),
    ],
)
def test_a_table_that_can_not_be_is_not_made(lake: Lake, name: str, what: Any, how: Any, message: str) -> None:
    with pytest.raises(CannotCreate, match=message):
        lake.create(name, what, **how)
    assert lake.tables() == []


def test_a_table_is_not_made_twice(lake: Lake, table: LakeTable) -> None:
    with pytest.raises(CannotCreate, match=r"own\.sales exists already"):
        lake.create("own.sales", COLUMNS)


@pytest.mark.parametrize("kind", ["dictionaries", "table", "reader", "batch", "batches", "stream"])
def test_rows_come_in_any_kind(table: LakeTable, kind: str) -> None:
    plain = pa.Table.from_pylist(rows(1, 2), pa.schema([COLUMNS.field(name) for name in ("id", "day", "total")]))
    given: dict[str, Any] = {
        "dictionaries": iter(rows(1, 2)),
        "table": plain,
        "reader": plain.to_reader(),
        "batch": plain.to_batches()[0],
        "batches": iter(plain.to_batches(1)),
        "stream": type("Other", (), {"__arrow_c_stream__": plain.__arrow_c_stream__})(),
    }
    table.append(given[kind])
    assert [(row["id"], row["total"], row["note"]) for row in table.read().pylist()] == [
        (1, Decimal(1), None),
        (2, Decimal(2), None),
    ]


def test_values_are_brought_to_the_columns_types(lake: Lake) -> None:
    kinds = pa.schema(
        [("i", pa.int32()), ("d", pa.decimal128(9, 2)), ("s", pa.string()), ("t", pa.timestamp("us", "UTC")),
         ("b", pa.bool_()), ("u", pa.uuid()), ("l", pa.list_(pa.int64()))]
    )  # fmt: skip
    table = lake.create("own.kinds", kinds)
    key = UUID(int=7)
    told: dict[str, Any] = {"i": 1, "d": 10.1, "s": {"a": 1}, "t": "2026-01-31T12:00:00", "b": 1, "u": key, "l": [1]}
    table.append([told, dict.fromkeys(told)])
    [first, second] = table.read().pylist()
    assert first == {
        "i": 1, "d": Decimal("10.10"), "s": '{"a": 1}', "t": datetime(2026, 1, 31, 12, tzinfo=UTC), "b": True,
        "u": key, "l": [1],
    }  # fmt: skip
    assert set(second.values()) == {None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"id": 1}, {"id": "x"}], r"row 1 for own\.sales: 'id' is int64, and 'x' does not fit"),
        ([{"id": 1, "total": Decimal("1.234")}], "'total' is decimal128.*1.234.* does not fit"),
        ([{"id": 1}, {"day": JANUARY}], r"row 1 for own\.sales has no 'id', which is required"),
        (pa.table({"id": pa.array([1, None])}), "row 1 for own.sales has no 'id'"),
        (pa.table({"day": [JANUARY]}), "row 0 for own.sales has no 'id', which is required: the rows have only day"),
        (pa.table({"id": [1.0, 2.5]}), "row 1 for own.sales: 'id' is int64, and 2.5 does not fit"),
        (pa.table({"id": [1], "idd": [2]}), "has no column 'idd'; it has id, day, total, note, at. Leave it out"),
        ([{"id": 1, "x": 2}], "has no column 'x'"),
        (pa.table([[1], [2]], names=["id", "id"]), "have the column 'id' 2 times"),
        ([{"id": 1, "note": b"x"}], "a bytes is not text"),
        ([1], "row 0 is a int: rows are dictionaries"),
        ("id", "str holds no rows"),
        (7, "int holds no rows"),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_nothing_is_written(table: LakeTable, given: Any, message: str) -> None:
    with pytest.raises(BadRows, match=message):
        table.append(given)
    assert table.snapshots() == []


def test_a_field_that_a_struct_does_not_have_is_not_lost_silently(lake: Lake) -> None:
    inner = pa.struct([("a", pa.int64())])
    table = lake.create("own.nested", pa.schema([("one", inner), ("many", pa.list_(inner))]))
    table.append([{"one": {"a": 1}, "many": [{"a": 2}, None]}])
    for row in ({"one": {"a": 1, "b": 2}}, {"many": [{"b": 2}]}):
        with pytest.raises(BadRows, match="it has the field 'b', and the column has a"):
            table.append([row])
    assert table.read().pylist() == [{"one": {"a": 1}, "many": [{"a": 2}, None]}]


def test_rows_are_numbered_across_batches(table: LakeTable) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1, 2]})
        yield pa.record_batch({"id": pa.array([3, None])})

    with pytest.raises(BadRows, match="row 3 for x has no 'id'"):
        list(batches_of(batches(), table.iceberg.schema(), "x"))


def test_an_overwrite_replaces_all_or_what_fits_the_filter(table: LakeTable) -> None:
    table.append(rows(1, 2, 3))
    table.append(rows(4, day=MARCH))
    table.overwrite(rows(9), filter="id in (2, 4)")
    assert ids(table) == [1, 3, 9]
    table.overwrite([], filter="id = 1")
    assert ids(table) == [3, 9]
    table.overwrite(rows(5))
    assert ids(table) == [5]
    with pytest.raises(BadFilter):
        table.overwrite(rows(5), filter="idd = 1")


def test_an_overwrite_of_partitions_leaves_the_others(table: LakeTable) -> None:
    table.append(rows(1, 2))
    table.append(rows(4, day=MARCH))
    table.overwrite_partitions(rows(7))
    assert ids(table) == [4, 7]
    assert table.overwrite_partitions([]) == table.snapshots()[-1].id
    assert [one.operation for one in table.snapshots()] == ["append", "append", "overwrite"]


UTC_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "one", "other", "how"),
    [
        (pa.uuid(), UUID(int=1), UUID(int=2), "p"), (pa.uuid(), UUID(int=1), UUID(int=2), "bucket(4, p)"),
        (pa.timestamp("us", "UTC"), UTC_NOON, datetime(2026, 3, 1, tzinfo=UTC), "p"),
        (pa.timestamp("us", "UTC"), UTC_NOON, datetime(2026, 3, 1, tzinfo=UTC), "hour(p)"),
        (pa.decimal128(9, 2), Decimal("1.5"), Decimal(7), "truncate(2, p)"), (pa.binary(), b"ab", b"bc", "p"),
        (pa.string(), "a/b c", "b", "truncate(1, p)"), (pa.date32(), JANUARY, date(2025, 1, 1), "year(p)"),
    ],
)  # fmt: skip
def test_rows_are_told_apart_by_any_partition(lake: Lake, kind: Any, one: Any, other: Any, how: str) -> None:
    table = lake.create("own.parted", pa.schema([("id", pa.int64()), ("p", kind)]), partition_by=[how])
    table.append([{"id": 1, "p": one}, {"id": 2, "p": other}, {"id": 3, "p": None}])
    assert len(data_files(table.iceberg)) == 3
    table.overwrite_partitions([{"id": 4, "p": one}])
    assert ids(table) == [2, 3, 4]
    table.overwrite([{"id": 5, "p": None}], filter="id = 4")
    assert sorted(row["id"] for row in table.iceberg.scan(row_filter="p is null").to_arrow().to_pylist()) == [3, 5]


def test_only_a_table_with_one_partitioning_has_partitions_to_replace(lake: Lake, table: LakeTable) -> None:
    flat = lake.create("own.flat", COLUMNS)
    with pytest.raises(CannotWrite, match=r"own\.flat has no partitions: overwrite\(rows, filter="):
        flat.overwrite_partitions(rows(1))
    table.append(rows(1))
    with table.iceberg.update_spec() as spec:
        spec.add_identity("note")
    with pytest.raises(CannotWrite, match="has files of an earlier partitioning"):
        table.overwrite_partitions(rows(1))


@pytest.mark.parametrize("how", ["append", "overwrite", "overwrite_partitions"])
def test_a_write_with_an_id_is_done_once(table: LakeTable, how: str) -> None:
    done = getattr(table, how)(rows(1), id="monday")
    between = table.append(rows(2))
    assert getattr(table, how)(rows(3), id="monday") == done
    assert between == table.snapshots()[-1].id
    assert ids(table) == [1, 2]
    with pytest.raises(CannotWrite, match="id='': write a text"):
        getattr(table, how)(rows(3), id="")


def test_nothing_is_written_where_there_are_no_rows(table: LakeTable) -> None:
    assert table.append([]) is None
    done = table.append([], id="empty")
    assert table.append([], id="empty") == done
    assert len(table.snapshots()) == 1


def test_a_table_that_a_stream_feeds_is_not_written(catalog: Catalog, orders: Table) -> None:
    table = Lake(catalog).table("shop.orders")
    for write in (table.append, table.overwrite, table.overwrite_partitions):
        with pytest.raises((FedByStream, CannotWrite)) as found:
            write([{"id": 9}])
        assert "fed by stream shop" in str(found.value) or "no partitions" in str(found.value)
    assert table.read().count() == 5


def meanwhile(monkeypatch: pytest.MonkeyPatch, catalog: Catalog, times: int, what: Any) -> list[int]:
    """Before each of the first commits, `what` happens to the table."""
    commit, calls = type(catalog).commit_table, []

    def late(self: Catalog, *given: Any) -> Any:
        calls.append(1)
        if len(calls) <= times:
            with monkeypatch.context() as plain:
                plain.setattr(type(catalog), "commit_table", commit)
                what()
        return commit(self, *given)

    monkeypatch.setattr(type(catalog), "commit_table", late)
    return calls


def test_a_commit_that_comes_between_is_seen(
    catalog: Catalog, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    twin = lake.table("own.sales")
    calls = meanwhile(monkeypatch, catalog, 1, lambda: twin.append(rows(8)))
    table.overwrite(rows(9))
    assert len(calls) == 2
    assert ids(table) == [9]


def test_who_is_interrupted_after_a_commit_loses_no_file_of_it(
    lake: Lake, catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = type(catalog).commit_table

    def interrupted(self: Catalog, *given: Any) -> Any:
        commit(self, *given)
        raise KeyboardInterrupt

    table.append(rows(1))
    first = table.snapshots()[0].id
    with monkeypatch.context() as patch:
        patch.setattr(type(catalog), "commit_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lake.table("own.sales").append(rows(2))
        assert ids(lake.table("own.sales")) == [1, 2]
        with pytest.raises(KeyboardInterrupt):
            lake.table("own.sales").overwrite(rows(3))
        assert ids(lake.table("own.sales")) == [3]
        with pytest.raises(KeyboardInterrupt):
            lake.table("own.sales").rollback(first)
    assert ids(lake.table("own.sales")) == [1]


def test_the_same_write_by_two_at_once_is_done_once(
    lake: Lake, catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = lake.table("own.sales")
    meanwhile(monkeypatch, catalog, 1, lambda: twin.append(rows(1), id="once"))
    table.append(rows(1), id="once")
    assert ids(table) == [1]
    assert len(table.snapshots()) == 1


def test_a_column_that_came_meanwhile_ends_the_write_and_its_files_go(
    catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table.append(rows(1))

    def evolve() -> None:
        with catalog.load_table("own.sales").update_spec() as spec:
            spec.add_identity("note")

    meanwhile(monkeypatch, catalog, 1, evolve)
    table.append(rows(2))  # a fast append of files of the spec that they were written under
    stored = {f"file://{path}" for path in (tmp_path / "warehouse").rglob("data/**/*.parquet")}
    assert stored == set(data_files(table.iceberg))


def test_a_table_that_never_rests_is_told(
    catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("firn_lake.writing.writes.time.sleep", lambda _: None)

    def refuse(*_: Any) -> Any:
        raise CommitFailedException("another came first")

    monkeypatch.setattr(type(catalog), "commit_table", refuse)
    with pytest.raises(MovedOn, match=r"own\.sales moved on"):
        table.append(rows(1))
    assert list((tmp_path / "warehouse").rglob("*.parquet")) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda lake: lake.table("own.sales").append(rows(3)),
        lambda lake: lake.table("own.sales").overwrite(rows(3), filter="id = 1"),
        lambda lake: lake.create("own.next", pa.table({"id": [3]})),
    ],
    ids=["append", "overwrite", "create"],
)
def test_a_catalog_that_is_away_is_told_as_such_and_no_file_stays(
    lake: Lake,
    catalog: Catalog,
    table: LakeTable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    write: Callable[[Lake], Any],
) -> None:
    def away(*_: Any) -> Any:
        raise TransientError("PostgreSQL at db:5432 does not answer, try again")

    table.append(rows(1, 2))
    there = set((tmp_path / "warehouse").rglob("*.parquet"))
    with monkeypatch.context() as patch:
        patch.setattr(type(catalog), "commit_table", away)
        with pytest.raises(TransientError, match="does not answer, try again") as told:
            write(lake)
    assert not isinstance(told.value, MovedOn)
    assert set((tmp_path / "warehouse").rglob("*.parquet")) == there
    assert ids(lake.table("own.sales")) == [1, 2]
    assert [one.name for one in lake.tables()] == ["own.sales"]


def test_a_table_that_another_makes_meanwhile_is_told(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def made(*_: Any) -> Any:
        raise CommitFailedException("Requirement failed: Table already exists")

    monkeypatch.setattr(type(catalog), "commit_table", made)
    with pytest.raises(CannotCreate, match=r"own\.next can't be made: Requirement failed"):
        lake.create("own.next", pa.table({"id": [3]}))
    assert list((tmp_path / "warehouse").rglob("*.parquet")) == []


def test_a_lost_answer_leaves_the_files_and_the_same_id_finds_out(
    catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = type(catalog).commit_table

    def lost(self: Catalog, *given: Any) -> Any:
        commit(self, *given)
        raise ConnectionError("reset by peer")

    with monkeypatch.context() as cut_off:
        cut_off.setattr(type(catalog), "commit_table", lost)
        with pytest.raises(UnknownOutcome, match="may be in the table, or not"):
            table.append(rows(1), id="once")
    assert table.append(rows(1), id="once") == table.snapshots()[-1].id
    assert ids(table) == [1]


def test_a_newer_format_is_left_alone(lake: Lake) -> None:
    table = lake.create("own.newer", COLUMNS)
    table._iceberg.metadata = table._iceberg.metadata.model_copy(update={"format_version": 4})
    from firn_lake.writing import writes

    said = "format version 4; here versions up to 3 can be written"
    with pytest.raises(CannotWrite, match=said):
        writes.append(table._iceberg, rows(1))
    with pytest.raises(CannotWrite, match=said):
        land(table._iceberg, lambda transaction: transaction.set_properties(a="b"))


def delete_some(table: LakeTable, folder: Path, dice: random.Random) -> None:
    """By position, as Spark does it. Only in a table without partitions."""
    if table.iceberg.spec().is_unpartitioned() and table.snapshots():
        live = list(version_at(table.iceberg, None).files())
        gone = {task.file.file_path: [dice.randrange(task.file.record_count)] for task in live}
        if gone:
            row_delta(table.iceberg, folder, gone, None, {})


@pytest.mark.parametrize("seed", seeds(2, 50))
def test_any_writes_give_what_a_dictionary_gives(lake: Lake, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    plain = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
    table = lake.create("own.any", plain, key=["id"], partition_by=dice.choice([[], ["bucket(3, id)"]]))
    model: dict[int, int] = {}
    for step in range(8):
        some = dict.fromkeys(dice.sample(range(60), 8), step)
        given = [{"id": number, "n": n} for number, n in some.items()]
        kind = dice.choice(("append", "upsert", "upsert", "overwrite", "partitions", "deletes"))
        if kind == "append":
            table.append([row for row in given if row["id"] not in model])
            model = some | model
        elif kind == "upsert":
            before = len(model)
            done = table.upsert(given)
            model |= some
            assert (done.rows, done.inserted) == (8, len(model) - before)
        elif kind == "overwrite":
            high = dice.randint(0, 60)
            model = {number: n for number, n in model.items() if number >= high}
            table.overwrite([row for row in given if row["id"] not in model], filter=f"id < {high}")
            model = some | model
        elif kind == "partitions" and not table.iceberg.spec().is_unpartitioned():
            bucket = BucketTransform(3).transform(LongType())
            taken = {bucket(number) for number in some}
            model = {number: n for number, n in model.items() if bucket(number) not in taken} | some
            table.overwrite_partitions(given)
        elif kind == "deletes":
            delete_some(table, tmp_path, dice)
            left = set(ids(table))
            model = {number: n for number, n in model.items() if number in left}
    assert sorted((row["id"], row["n"]) for row in table.read().pylist()) == sorted(model.items())


def test_files_are_as_the_tables_properties_say(lake: Lake) -> None:
    table = lake.create("own.small", pa.schema([("id", pa.int64()), ("note", pa.string())]))
    with table.iceberg.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "gzip", "write.target-file-size-bytes": "100000"})
    table.append([{"id": number, "note": "x" * 100} for number in range(5_000)])
    files = [
        pq.read_metadata(task.file.file_path.removeprefix("file://")) for task in table.iceberg.scan().plan_files()
    ]
    assert len(files) == 5
    assert {file.row_group(0).column(0).compression for file in files} == {"GZIP"}
    assert ids(table) == list(range(5_000))
