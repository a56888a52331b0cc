"""A table as DuckDB scans it: DuckDB says which columns and rows of it a query needs, and only these are read.

`duckdb._sources` is DuckDB's own seam for what it scans, and not public: pyproject.toml holds DuckDB to the version
that this is written for (docs/adr/0027-queries-over-http.md).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from operator import and_
from typing import Any

import pyarrow as pa
from duckdb._sources import ArrowScanSource
from duckdb._sources.nodes import Node, Untranslatable
from duckdb._sources.to_arrow import to_arrow
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from firn.errors import FirnError
from firn_lake.reading.rows import Batches, Rows
from firn_lake.reading.versions import Version
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.sql.pushdown import columns_of, superset

Read = Callable[[Schema, BooleanExpression], Batches]


class TableScan(ArrowScanSource):
    """The rows of a table at one moment, for `register` of a DuckDB connection; each scan reads them again."""

    def __init__(self, version: Version, read: Read | None = None) -> None:
        """`read`: how to read rows with the columns of a schema that may fit an expression; None: the version's own."""
        self._version = version
        self._read = read or (lambda schema, files: Rows(version, schema, files=files))
        self._schema = version.select(None, metadata=True)
        self._arrow = arrow_schema(self._schema)
        self.failed: FirnError | None = None
        super().__init__(self)

    def read_by(self, through: Callable[[Read], Read]) -> "TableScan":
        """The same, its rows read through something."""
        return TableScan(self._version, through(self._read))

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self._version.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, Firn's own among them."""
        return self._version.columns

    @property
    def snapshot(self) -> int | None:
        """The id of the snapshot that is read; None for a table without any."""
        return self._version.id

    @property
    def note(self) -> str:
        """What is to be said of what is read; "" if nothing is."""
        return self._version.note

    def accepts(self, predicate: Node) -> bool:
        """Whether rows can be filtered here as DuckDB would do it; what isn't accepted DuckDB does itself."""
        try:
            to_arrow(predicate, self._arrow)
        except Untranslatable:
            return False
        return True

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Node]) -> tuple[object, bool]:
        """An Arrow stream of the rows that fit all `filters`, with the columns at these places in this order."""
        fields = self._schema.fields
        names = [fields[place].name for place in columns or range(len(fields))]
        looked_at = columns_of(filters)
        read = [one for one in fields if one.name in names or one.name in looked_at]
        rows = partial(self._read, Schema(*read), superset(filters, self._schema))
        keep = reduce(and_, (to_arrow(one, self._arrow) for one in filters)) if filters else None
        schema = pa.schema([self._arrow.field(name) for name in names])
        reader = pa.RecordBatchReader.from_batches(schema, self._told(rows, names, keep))
        return reader.__arrow_c_stream__(), bool(columns)

    def __arrow_c_schema__(self) -> object:
        return self._arrow.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.stream(None, ())[0]

    def _told(self, rows: Callable[[], Batches], names: Sequence[str], keep: Any) -> Iterator[pa.RecordBatch]:
        # DuckDB tells only the text of an error: who asked looks here for the error itself.
        try:
            for batch in rows():
                left = batch if keep is None else batch.filter(keep)
                if left.num_rows:
                    yield left.select(names)
        except FirnError as error:
            self.failed = error
            raise
