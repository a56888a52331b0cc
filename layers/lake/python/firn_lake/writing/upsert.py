"""Rows into a table by key: new ones come in, those whose values differ take the place of the old, others stay.

The incoming rows wait in DuckDB, which goes over disk. The table's files that may hold one of the keys are read once to
match, and those with rows to replace once more, to be rewritten without them.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.types import DateType, IntegerType, LongType, StringType

from firn_lake.reading.files import read_file
from firn_lake.reading.positions import Positions, between
from firn_lake.reading.progress_bar import switch_off
from firn_lake.reading.versions import version_at
from firn_lake.schemas.arrow_types import arrow_schema, cast, stored_schema
from firn_lake.tables import shown
from firn_lake.writing.coercion import BadRows
from firn_lake.writing.commit import CannotWrite
from firn_lake.writing.data_files import remove_files, write_files
from firn_lake.writing.kept_rows import KeptRows
from firn_lake.writing.writes import Change, begun, write

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from firn_lake.reading.versions import Version

_MEMORY: Final = "512MB"
_BATCH: Final = 65_536
_ORDERED: Final = (IntegerType, LongType, DateType, StringType)
"""Types of keys by whose bounds files are left out."""


@dataclass
class Upserted:
    """What became of the rows. `snapshot`: the one that has them; main's newest if nothing changed; None if there is
    none. All counts are 0 where the write of this id had been done before."""

    rows: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    snapshot: int | None = None


def upsert(table: "Table", batches: Iterable[pa.RecordBatch], key: Sequence[str], id: str | None = None) -> Upserted:
    """Brings whole rows into a table by key, in one snapshot; where nothing differs, in none.

    batches  as firn_lake.schemas.arrow_types.arrow_schema(table.schema()) has them; each key at most once
    key      the columns that tell rows apart

    Memory: some batches, 512 MB of DuckDB's, and 8 bytes for each row that is replaced. Raises BadRows (a key that is
    null or there twice), CannotWrite, FedByStream, MovedOn, UnknownOutcome, UnreadableFile, StorageUnavailable.
    """
    done = begun(table, id)
    if done is not None:
        return Upserted(snapshot=done)
    names = [field.name for field in table.schema().fields]
    missing = [one for one in key if one not in names]
    if missing or not key or isinstance(key, str):
        raise CannotWrite(
            f"{shown(table)} has no key {missing[0]!r}: it has {', '.join(names)}"
            if missing and not isinstance(key, str)
            else f"{shown(table)} has no key of its own: write key=['id'], the columns that tell its rows apart"
        )
    with tempfile.TemporaryDirectory(prefix="firn-") as folder, duckdb.connect(f"{folder}/rows.db") as connection:
        connection.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{folder}'; SET TimeZone = 'UTC'")
        switch_off(connection)
        one = _Upsert(table, connection, [names.index(name) for name in key])
        one.take(batches)
        one.found.snapshot = write(table, [], one.change, id)
        return one.found


class _Upsert:
    """The SQL here names tables and columns of this module's own alone: incoming, matched, c0, c1, …"""

    def __init__(self, table: "Table", connection: duckdb.DuckDBPyConnection, key: Sequence[int]) -> None:
        self._table = table
        self._connection = connection
        self._key = key
        self._by = [f"c{place}" for place in key]
        self._rows = arrow_schema(table.schema())
        self._stored = stored_schema(self._rows)
        self._columns = [f"c{place}" for place in range(len(self._stored))]
        self.found = Upserted()

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Reads the incoming rows. Raises BadRows."""
        self._register(pa.Table.from_batches([], self._stored), "incoming_batch", "rid")
        self._connection.execute("CREATE TABLE incoming AS SELECT * FROM incoming_batch")
        for batch in batches:
            self._register(pa.Table.from_batches([self._inside(batch)]), "incoming_batch", "rid", self.found.rows)
            self._connection.execute("INSERT INTO incoming SELECT * FROM incoming_batch")
            self.found.rows += batch.num_rows
        self._connection.unregister("incoming_batch")
        self._check_keys()

    def change(self) -> Change:
        """What to take out of main as it is now, and what to put in."""
        version = version_at(self._table, None)
        self._connection.execute("CREATE OR REPLACE TABLE matched (rid BIGINT, same BOOLEAN)")
        positions, kept = Positions(version.source.io, version.name, version.id), KeptRows(version)
        removed: list[DataFile] = []
        added: list[DataFile] = []
        try:
            for task in version.files(self._range()) if self.found.rows else ():
                gone = positions.of(task.file.file_path, task.delete_files)
                out = self._match(version, task, gone)
                if len(out):
                    removed.append(task.file)
                    rows = _without(kept.read(task.file, gone), out)
                    added += write_files(self._table.metadata, self._table.io, rows, kept=True)
            added += write_files(self._table.metadata, self._table.io, self._new())
        except BaseException:
            remove_files(self._table.io, added)
            raise
        self._count()
        return Change(removed, added)

    def _match(self, version: "Version", task: "FileScanTask", gone: pa.Array) -> pa.Array:
        """Notes which incoming rows a file holds. -> the rows that differ, numbered among those that are read."""
        same = " AND ".join(f"f.{one} IS NOT DISTINCT FROM i.{one}" for one in self._columns)
        by = " AND ".join(f"f.{one} = i.{one}" for one in self._by)
        out: list[pa.Array] = []
        first = 0
        for batch in read_file(version.source, task.file, version.schema, gone):
            self._register(pa.Table.from_batches([self._inside(batch)]), "file", "place", first)
            first += batch.num_rows
            found = self._connection.sql(
                f"SELECT f.place, i.rid, {same} AS same FROM file f JOIN incoming i ON {by}"  # noqa: S608
            ).to_arrow_table()
            if found.num_rows:
                self._connection.register("found", found)
                self._connection.execute("INSERT INTO matched SELECT rid, same FROM found")
                self._connection.unregister("found")
                out.append(found.filter(pc.invert(found.column("same"))).column("place").combine_chunks())
        places = pa.concat_arrays(out) if out else pa.array([], pa.int64())
        return places.take(pc.sort_indices(places))

    def _new(self) -> Iterator[pa.RecordBatch]:
        """The incoming rows that the table does not have as they are."""
        columns = ", ".join(f"i.{one}" for one in self._columns)
        reader = self._connection.sql(
            f"SELECT {columns} FROM incoming i "  # noqa: S608
            "WHERE NOT EXISTS (SELECT 1 FROM matched m WHERE m.rid = i.rid AND m.same)"
        ).to_arrow_reader(_BATCH)
        for batch in reader:
            yield cast(batch.columns, self._rows)

    def _count(self) -> None:
        [(self.found.unchanged, self.found.updated)] = self._rows_of(
            "SELECT count(*) FILTER (same), count(*) FILTER (NOT same) "
            "FROM (SELECT rid, bool_or(same) AS same FROM matched GROUP BY rid)"
        )
        self.found.inserted = self.found.rows - self.found.unchanged - self.found.updated

    def _check_keys(self) -> None:
        by = ", ".join(self._by)
        names = [self._rows.names[place] for place in self._key]
        missing = " OR ".join(f"{one} IS NULL" for one in self._by)
        [(first,)] = self._rows_of(f"SELECT min(rid) FROM incoming WHERE {missing}")  # noqa: S608
        if first is not None:
            raise BadRows(f"row {first} for {shown(self._table)} has no key ({', '.join(names)})")
        for twice in self._rows_of(
            f"SELECT {by}, count(*) FROM incoming GROUP BY {by} HAVING count(*) > 1 LIMIT 1"  # noqa: S608
        ):
            told = ", ".join(f"{name} = {value!r}" for name, value in zip(names, twice, strict=False))
            raise BadRows(
                f"{twice[-1]} rows for {shown(self._table)} have the key {told}: which is it? "
                "Take one of each in the query"
            )

    def _range(self) -> BooleanExpression:
        """What rows with one of the keys fit: the first column's bounds."""
        field = self._table.schema().fields[self._key[0]]
        if not isinstance(field.field_type, _ORDERED):
            return AlwaysTrue()
        one = self._by[0]
        [(first, last)] = self._rows_of(f"SELECT min({one}), max({one}) FROM incoming")  # noqa: S608
        low: Any = GreaterThanOrEqual
        high: Any = LessThanOrEqual  # mypy knows only their parts by name
        return And(low(field.name, first), high(field.name, last))

    def _rows_of(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def _inside(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return cast(batch.columns, self._stored)

    def _register(self, rows: pa.Table, name: str, numbered: str, first: int = 0) -> None:
        numbers = pa.arange(first, first + rows.num_rows)
        arrays = [*(column.combine_chunks() for column in rows.columns), numbers]
        self._connection.register(name, pa.Table.from_arrays(arrays, [*self._columns, numbered]))


def _without(batches: Iterable[pa.RecordBatch], out: pa.Array) -> Iterator[pa.RecordBatch]:
    """The rows but for those numbered in `out`, which is sorted."""
    first = 0
    for batch in batches:
        end = first + batch.num_rows
        taken = between(out, first, end)
        yield batch.filter(pc.invert(pc.is_in(pa.arange(first, end), value_set=taken)))
        first = end
