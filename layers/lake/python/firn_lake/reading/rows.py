"""The rows that a read gives: as Arrow, DuckDB, pandas or Polars, or batch by batch in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import extract_field_ids, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from firn.errors import FirnError, TerminalError
from firn_lake.notebook import MOST_ROWS, html_table
from firn_lake.reading.files import read_file
from firn_lake.reading.positions import Positions
from firn_lake.reading.versions import Version
from firn_lake.schemas.arrow_types import arrow_schema
from firn_sql.nano_texts import row_values

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.expressions import BooleanExpression

BATCH_SIZE = 10_000


class NotInstalled(TerminalError):
    """A library that Firn does not need itself is not there; the text says how to get it."""


class Batches:
    """Record batches of one schema, which can be read any number of times; each time is read again.

    >>> for batch in table.read(columns=["order_id"]): ...
    >>> table.read().pandas()
    """

    def __init__(self, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.schema = schema
        self._read = read
        self._failed: FirnError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """One batch after the other. Raises UnreadableFile, StorageUnavailable."""
        return self._read()

    def arrow(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(self, self.schema)

    def reader(self) -> pa.RecordBatchReader:
        """The batches as an Arrow stream, which other libraries read without having all rows in memory."""
        return pa.RecordBatchReader.from_batches(self.schema, self._told())

    def pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries. Moments of nanoseconds, of which Python has none, are ISO 8601 texts."""
        return [row for batch in self for row in row_values(batch)]

    def pandas(self) -> Any:
        """A pandas.DataFrame. Raises NotInstalled."""
        _need("pandas")
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """A polars.DataFrame. Raises NotInstalled."""
        return _need("polars").from_arrow(self.arrow())

    def duckdb(self, connection: "duckdb.DuckDBPyConnection | None" = None) -> "duckdb.DuckDBPyRelation":
        """A DuckDB relation, on `connection` or one of its own. The rows are read again each time that it is."""
        import duckdb

        return (connection or duckdb.connect(":memory:")).from_arrow(self)

    def count(self) -> int:
        """How many rows there are; reads them."""
        return sum(batch.num_rows for batch in self)

    @property
    def failed(self) -> FirnError | None:
        """The error that ended the last Arrow stream: who reads one in another library sees only its text."""
        return self._failed

    def _repr_html_(self) -> str:
        """The first rows: reading ends behind them."""
        rows = (tuple(row.values()) for batch in self for row in row_values(batch.slice(0, MOST_ROWS + 1)))
        return html_table(self._title, self.schema.names, rows)

    @property
    def _title(self) -> str:
        return "rows"

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def _told(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self
        except FirnError as error:
            self._failed = error
            raise


class Rows(Batches):
    """The rows of a table at one snapshot. `snapshot`: its id, None for a table without any; `note`: Version's."""

    def __init__(
        self,
        version: Version,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
        files: "BooleanExpression | None" = None,
    ) -> None:
        """Rows of `version` with the columns of `schema` that fit `where`: at most `limit`, `batch_size` at once.

        `files`: read of data files and their row groups what may hold such rows, in place of what `where` needs.
        Raises BadFilter; ValueError for a size below 1.
        """
        if batch_size < 1 or (limit is not None and limit < 0):
            raise ValueError("batch_size is 1 or more, limit 0 or more")
        super().__init__(arrow_schema(schema), self._batches)
        self.snapshot, self.note = version.id, version.note
        self._version = version
        self._schema = schema
        self._where = None if where is None else version.parsed(where)
        self._files = self._where if files is None else files
        self._bound = rewrite_not(version.bound(self._where))
        self._at_most = self._bound if files is None else rewrite_not(version.bound(files))
        everything = isinstance(self._bound, AlwaysTrue)
        self._read_as = schema if everything else self._with_filtered()
        self._keep = None if everything else expression_to_pyarrow(self._bound, self._nested())
        self._size = batch_size
        self._limit = limit
        self.opened = (0, 0)
        """How many data files the last reading opened, and their bytes."""

    def __repr__(self) -> str:
        return f"<rows of {self._version.name} at snapshot {self.snapshot}: {', '.join(self.schema.names)}>"

    def arrow(self) -> pa.Table:
        """All rows, in memory: several files at once."""
        if self._limit is not None:
            return super().arrow()
        tasks, deletes = self._tasks()
        parts = [(task, deletes.of(task.file.file_path, task.delete_files)) for task in tasks]
        with ThreadPoolExecutor() as readers:
            found = readers.map(lambda part: list(self._of_file(*part)), parts)
            return pa.Table.from_batches(chain.from_iterable(found), self.schema)

    def count(self) -> int:
        """How many rows there are: without a filter from metadata and the files of deletes alone."""
        if self._limit is not None or self._keep is not None:
            return super().count()
        tasks, deletes = self._tasks()
        return sum(task.file.record_count - len(deletes.of(task.file.file_path, task.delete_files)) for task in tasks)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        for batch in self._found():
            for first in range(0, batch.num_rows, self._size):
                part = batch.slice(first, self._size)
                if left is not None:
                    part = part.slice(0, left)
                    left -= part.num_rows
                if part.num_rows:
                    yield part
                if left == 0:
                    return

    def _found(self) -> Iterator[pa.RecordBatch]:
        if self._limit == 0:
            return
        tasks, deletes = self._tasks()
        for task in tasks:
            yield from self._of_file(task, deletes.of(task.file.file_path, task.delete_files))

    def _of_file(self, task: FileScanTask, gone: pa.Array) -> Iterator[pa.RecordBatch]:
        where = None if isinstance(self._at_most, AlwaysTrue) else self._at_most
        for batch in read_file(self._version.source, task.file, self._read_as, gone, where=where):
            if self._keep is None:
                yield batch
            elif (found := batch.filter(self._keep)).num_rows:
                yield found.select(self.schema.names)

    def _tasks(self) -> tuple[Sequence[FileScanTask], Positions]:
        tasks = list(self._version.files(self._files))
        self.opened = len(tasks), sum(task.file.file_size_in_bytes for task in tasks)
        deleted_from = [task.file.file_path for task in tasks if task.delete_files]
        return tasks, Positions(self._version.source.io, self._version.name, self._version.id, deleted_from)

    def _nested(self) -> Schema | None:
        """For PyIceberg, to find columns in columns by; with it, it takes a name with dots for such a one."""
        top = {field.field_id for field in self._version.schema.fields}
        return None if extract_field_ids(self._bound) <= top else self._read_as

    def _with_filtered(self) -> Schema:
        """The columns asked for, and those that the filter looks at."""
        chosen = {field.field_id for field in self._schema.fields}
        looked_at = extract_field_ids(self._bound) - chosen
        more = [
            field
            for field in self._version.schema.fields
            if field.field_id not in chosen and looked_at & _ids_in(field.field_id, self._version.schema)
        ]
        return Schema(*self._schema.fields, *more)


def _ids_in(field: int, schema: Schema) -> set[int]:
    """The ids of a column and of all that is in it."""
    return set(Schema(schema.find_field(field)).field_ids)


def _need(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotInstalled(f"{name} is not installed here: pip install {name}, or use .arrow()") from error
