"""Loading queries of other databases, and rows by key."""

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.errors import ConfigError
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.writing import writes
from firn_lake.writing.coercion import BadRows
from firn_lake.writing.commit import CannotWrite
from firn_lake.writing.sources import SourceFailed
from firn_lake.writing.stream_ownership import FedByStream
from firn_lake.writing.upsert import Upserted
from tests.unit.lake.row_delta import data_files, row_delta

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("price", pa.decimal128(9, 2))])
QUERY = "SELECT id, name, price FROM items ORDER BY id"


@pytest.fixture
def source() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    database.executemany("INSERT INTO items VALUES (?, ?, ?)", [(1, "ink", 2.5), (2, "pen", 10.1), (3, None, None)])
    yield database
    database.close()


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    return Lake(catalog)


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return lake.create("own.items", COLUMNS, key=["id"])


def told(table: LakeTable) -> dict[int, tuple[Any, Any]]:
    found = table.read().pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["name"], row["price"]) for row in found}


THREE = {1: ("ink", Decimal("2.50")), 2: ("pen", Decimal("10.10")), 3: (None, None)}


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_query_comes_in_by_key_in_one_snapshot(
    lake: Lake, table: LakeTable, source: sqlite3.Connection, size: int
) -> None:
    table.append([{"id": 2, "name": "old"}, {"id": 9, "name": "stays"}])
    done = lake.sync(QUERY, source, into="own.items", batch_size=size)
    newest = table.snapshots()[-1].id
    assert done == Upserted(rows=3, inserted=2, updated=1, unchanged=0, snapshot=newest)
    assert told(table) == THREE | {9: ("stays", None)}
    assert len(table.snapshots()) == 2
    assert table.changes(table.snapshots()[0].id).counts() == {"insert": 2, "update": 1, "delete": 0}


def test_the_same_result_again_writes_nothing(lake: Lake, table: LakeTable, source: sqlite3.Connection) -> None:
    first = lake.sync(QUERY, source, into="own.items")
    again = lake.sync(QUERY, source, into="own.items")
    assert again == Upserted(rows=3, inserted=0, updated=0, unchanged=3, snapshot=first.snapshot)
    assert len(table.snapshots()) == 1


def test_only_files_with_rows_to_replace_are_written_anew(
    lake: Lake, table: LakeTable, source: sqlite3.Connection
) -> None:
    table.append([{"id": 100, "name": "far"}])
    table.append([{"id": 1, "name": "x"}, {"id": 50, "name": "y"}])
    far, near = data_files(table.iceberg)
    lake.sync(QUERY, source, into="own.items")
    now = data_files(table.iceberg)
    assert far in now
    assert near not in now
    assert told(table) == THREE | {50: ("y", None), 100: ("far", None)}


def test_rows_deleted_by_position_do_not_come_back(
    lake: Lake, table: LakeTable, source: sqlite3.Connection, tmp_path: Path
) -> None:
    table.append([{"id": number, "name": "old"} for number in (7, 1, 8, 2)])
    iceberg = table.iceberg
    row_delta(iceberg, tmp_path, {data_files(iceberg)[0]: [0, 3]}, None, {})
    done = lake.sync(QUERY, source, into="own.items")
    assert (done.inserted, done.updated) == (2, 1)
    assert told(table) == THREE | {8: ("old", None)}


def test_an_append_adds_all_rows_and_with_an_id_once(lake: Lake, table: LakeTable, source: sqlite3.Connection) -> None:
    for _ in range(2):
        done = lake.sync(QUERY, source, into="own.items", mode="append", id="monday")
    assert done == Upserted(snapshot=table.snapshots()[-1].id)
    assert table.read().count() == 3
    assert lake.sync(QUERY, source, into="own.items", mode="append").inserted == 3
    assert table.read().count() == 6


def test_an_upsert_with_an_id_is_done_once(lake: Lake, table: LakeTable, source: sqlite3.Connection) -> None:
    first = lake.sync(QUERY, source, into="own.items", id="monday")
    source.execute("UPDATE items SET name = 'later'")
    assert lake.sync(QUERY, source, into="own.items", id="monday") == Upserted(snapshot=first.snapshot)
    assert told(table) == THREE


def test_a_table_that_is_not_there_is_made(lake: Lake, source: sqlite3.Connection) -> None:
    done = lake.sync("SELECT id, name FROM items WHERE id <= ?", source, into="own.new", key=["id"], parameters=(2,))
    table = lake.table("own.new")
    assert (done.inserted, table.key) == (2, ("id",))
    assert table.columns() == {"id": "long", "name": "string"}
    assert table.read().pylist() == [{"id": 1, "name": "ink"}, {"id": 2, "name": "pen"}]


class _Told:
    """A cursor that tells values of kinds that sqlite3 does not have."""

    description = (("id", None, None, None, None, None, None), ("n", 1700, None, None, 9, 4, True), ("doc",), ("m",))

    def __init__(self) -> None:
        self.left = [[(1, Decimal("1.5"), {"a": 1}, Decimal("2.25"))], [(2, Decimal(12), {"b": [2]}, Decimal(1000))]]

    def execute(self, sql: str) -> None:
        pass

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        return self.left.pop(0) if self.left else []


def test_a_table_that_is_made_has_room_for_later_numbers_and_documents(lake: Lake) -> None:
    lake.sync("SELECT …", _Told(), into="own.new", key=["id"])
    table = lake.table("own.new")
    assert table.columns() == {"id": "long", "n": "decimal(38, 4)", "doc": "string", "m": "decimal(38, 2)"}
    assert [row["doc"] for row in table.read().pylist()] == ['{"a": 1}', '{"b": [2]}']


def test_a_source_that_gives_arrow_is_read_as_such(lake: Lake, table: LakeTable) -> None:
    with duckdb.connect(":memory:") as source:
        lake.sync("SELECT 1 AS id, 'ink' AS name, 2.5::DECIMAL(9, 2) AS price", source, into="own.items")
        lake.sync("SELECT 5 AS id, TIMESTAMPTZ '2026-01-31 12:00:00Z' AS at", source, into="own.times", key=["id"])
    assert told(table) == {1: ("ink", Decimal("2.50"))}
    assert lake.table("own.times").read().pylist() == [{"id": 5, "at": datetime(2026, 1, 31, 12, tzinfo=UTC)}]


class _Adbc:
    """A cursor as ADBC has them: rows come as an Arrow stream, and the connection has no fetchmany."""

    closed = False

    def cursor(self) -> "_Adbc":
        return self

    def execute(self, sql: str) -> None:
        self.description = [("id", None)]

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        return pa.table({"id": [1, 2], "name": ["a", "b"]}).to_reader()

    def close(self) -> None:
        self.closed = True


def test_adbc_is_a_source(lake: Lake, table: LakeTable) -> None:
    source = _Adbc()
    assert lake.sync("SELECT …", source, into="own.items").inserted == 2
    assert source.closed


def test_a_cursor_is_a_source_and_stays_open(lake: Lake, table: LakeTable, source: sqlite3.Connection) -> None:
    cursor = source.cursor()
    lake.sync(QUERY, cursor, into="own.items")
    assert cursor.execute("SELECT 1").fetchone() == (1,)
    assert told(table) == THREE


@pytest.mark.parametrize(
    ("sql", "how", "error", "message"),
    [
        ("SELECT 1 AS id, 'x' AS price", {}, BadRows, "row 0 for own.items: 'price' is decimal128.*'x' does not fit"),
        ("SELECT 1 AS id UNION ALL SELECT 1", {}, BadRows, "2 rows for own.items have the key id = 1: which is it"),
        ("SELECT NULL AS name", {"key": ["name"]}, BadRows, "row 0 for own.items has no 'id', which is required"),
        ("SELECT 1 AS id, NULL AS name", {"key": ["name"]}, BadRows, r"row 0 for own.items has no key \(name\)"),
        ("SELECT 1 AS id, 2 AS cost", {}, BadRows, "gives 'cost', and own.items has no such column: it has id, name"),
        ("SELECT 1 AS id, 2 AS id", {}, BadRows, "the column 'id' more than once"),
        ("SELECT 1 AS id", {"key": ["no"]}, CannotWrite, "own.items has no key 'no': it has id, name, price"),
        ("SELECT 1 AS id", {"key": "id"}, CannotWrite, r"write key=\['id'\]"),
        ("SELEC 1", {}, SourceFailed, "the query's database says: OperationalError"),
        ("CREATE TABLE other (id INTEGER)", {}, SourceFailed, "gives no rows: write a SELECT"),
        ("SELECT ? AS id", {"parameters": ()}, SourceFailed, "ProgrammingError"),
        ("SELECT 1 AS id", {"mode": "merge"}, ConfigError, "write 'upsert' or 'append'"),
        ("SELECT NULL AS x", {"into": "own.new"}, BadRows, "do not tell the type of column 'x': make the table first"),
        (
            "SELECT 1 AS x UNION SELECT 'a'",
            {"into": "own.new"},
            BadRows,
            "'x' of the query has values of several kinds",
        ),
    ],
)
def test_what_can_not_be_loaded_is_told_and_nothing_is_written(
    lake: Lake, table: LakeTable, source: sqlite3.Connection, sql: str, how: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lake.sync(sql, source, **({"into": "own.items"} | how))
    assert table.snapshots() == []
    assert len(lake.tables()) == 1


def test_other_things_than_connections_are_refused(lake: Lake, table: LakeTable) -> None:
    with pytest.raises(SourceFailed, match="a str is not a database connection"):
        lake.sync("SELECT 1", "postgres://", into="own.items")


def test_a_table_without_a_key_asks_for_one(lake: Lake, source: sqlite3.Connection) -> None:
    lake.create("own.plain", COLUMNS)
    with pytest.raises(CannotWrite, match=r"own\.plain has no key of its own: write key=\['id'\]"):
        lake.sync(QUERY, source, into="own.plain")


def test_a_table_that_a_stream_feeds_is_not_loaded(lake: Lake, orders: Table, source: sqlite3.Connection) -> None:
    with pytest.raises(FedByStream, match="fed by stream shop"):
        lake.sync("SELECT id FROM items", source, into="shop.orders")


def test_an_upsert_looks_again_when_another_commit_comes_first(
    lake: Lake, table: LakeTable, source: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    land, times = writes.land_files, 0

    def late(*given: Any) -> None:
        nonlocal times
        times += 1
        if times == 1:
            lake.table("own.items").append([{"id": 1, "name": "between"}, {"id": 7, "name": "new"}])
        land(*given)

    monkeypatch.setattr(writes, "land_files", late)
    done = lake.sync(QUERY, source, into="own.items")
    assert (done.inserted, done.updated) == (2, 1)
    assert told(table) == THREE | {7: ("new", None)}
    known = {path for one in table.iceberg.metadata.snapshots for path in files_of(table, one.snapshot_id)}
    assert {f"file://{path}" for path in (tmp_path / "warehouse").rglob("*.parquet")} == known


def files_of(table: LakeTable, snapshot: int) -> set[str]:
    return {task.file.file_path for task in table.iceberg.scan(snapshot_id=snapshot).plan_files()}


def test_rows_that_break_off_leave_no_file(lake: Lake, table: LakeTable, tmp_path: Path) -> None:
    class Breaks:
        description = (("id",),)
        left = 2

        def execute(self, sql: str) -> None:
            pass

        def fetchmany(self, size: int) -> list[tuple[int]]:
            self.left -= 1
            if not self.left:
                raise ConnectionResetError("gone")
            return [(1,)]

    for mode in ("append", "upsert"):
        with pytest.raises(SourceFailed, match="ConnectionResetError: gone"):
            lake.sync("SELECT …", Breaks(), into="own.items", mode=mode)  # type: ignore[arg-type]
    assert list((tmp_path / "warehouse").rglob("*.parquet")) == []
    assert table.snapshots() == []


def test_rows_of_any_kind_come_in_by_key(table: LakeTable) -> None:
    table.append([{"id": 1, "name": "a"}])
    done = table.upsert(pa.table({"id": [1, 2], "name": ["b", "c"]}))
    assert (done.inserted, done.updated) == (1, 1)
    assert told(table) == {1: ("b", None), 2: ("c", None)}


def test_a_partitioned_table_takes_an_upsert_across_partitions(lake: Lake) -> None:
    table = lake.create("own.parted", COLUMNS, key=["id"], partition_by=["truncate(1, name)", "bucket(4, id)"])
    table.append([{"id": number, "name": f"{'ab'[number % 2]}{number}"} for number in range(20)])
    table.upsert([{"id": 3, "name": "a-moved"}, {"id": 21, "name": None}])
    found = told(table)
    assert len(found) == 21
    assert (found[3], found[21]) == (("a-moved", None), (None, None))


def test_twenty_thousand_rows_take_a_second_or_two(lake: Lake, table: LakeTable, source: sqlite3.Connection) -> None:
    count = 20_000
    source.execute("DELETE FROM items")
    source.executemany("INSERT INTO items VALUES (?, ?, ?)", ((n, f"item {n}", n / 4) for n in range(count)))
    started = time.process_time()
    assert lake.sync(QUERY, source, into="own.items").inserted == count
    source.execute("UPDATE items SET name = 'new' WHERE id % 10 = 0")
    done = lake.sync(QUERY, source, into="own.items")
    assert (done.updated, done.unchanged) == (count // 10, count - count // 10)
    assert table.read().count() == count
    assert time.process_time() - started < 15
