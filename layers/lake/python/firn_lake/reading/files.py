"""One data file after the other, a bounded number of rows at a time.

PyIceberg's own readers hold whole files, of all that it reads at once. Here memory follows the size of a row group (in
files with very large ones, of some pages), and not that of a file or of the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import _get_column_projection_values, _to_requested_schema
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import ListType, MapType

from firn_lake.reading.positions import NONE, between, without
from firn_lake.reading.row_groups import chosen, file_schema
from firn_lake.reading.unreadable import UnreadableFile, reading
from firn_lake.schemas import null_lists  # noqa: F401 (as it is imported)
from firn_lake.schemas.arrow_types import arrow_schema, cast
from firn_sql.variant_columns import as_texts, ids_of, texts

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

_AT_ONCE: Final = 8 * 1024 * 1024  # bytes that are decoded at once
_LEAST_ROWS, _MOST_ROWS = 1_000, 65_536
_LARGE_GROUP: Final = 64 * 1024 * 1024  # of a row group: from here on its columns are read in parts
_PART: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """Where files belong: what their reading needs beside themselves. `snapshot` is for the text of errors."""

    io: "FileIO"
    metadata: "TableMetadata"
    table: str
    snapshot: int | None


def read_file(
    source: Source,
    file: DataFile,
    schema: Schema,
    gone: pa.Array = NONE,
    only: pa.Array | None = None,
    where: BooleanExpression | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file as `schema` has them: columns by field id, null where the file has no such column.

    gone  sorted places of rows to leave out
    only  sorted places of the rows to read; None: all. Row groups without any are not read
    where a filter, bound to the table's schema, without NOT: row groups that can't hold rows of it are not read. Rows
          that do not fit it may come all the same

    Batches have the types of arrow_schema(schema) and between 1 and 65,536 rows. Raises UnreadableFile,
    StorageUnavailable.
    """
    if file.file_format != FileFormat.PARQUET:
        raise UnreadableFile(
            f"{file.file_path}, which snapshot {source.snapshot} of {source.table} needs, is {file.file_format}: "
            "Firn reads Parquet. Spark reads it, and can write it again"
        )
    only = None if only is None else without(only, gone)
    with reading(file.file_path, source.table, source.snapshot), source.io.new_input(file.file_path).open() as opened:
        yield from _rows(source, file, opened, schema, gone, only, where)


def _rows(
    source: Source,
    file: DataFile,
    opened: Any,
    schema: Schema,
    gone: pa.Array,
    only: pa.Array | None,
    where: BooleanExpression | None,
) -> Iterator[pa.RecordBatch]:
    fitting = None if where is None else chosen(opened, where, source.metadata)
    if fitting is not None and not fitting.kept:
        return
    about = pq.read_metadata(opened) if fitting is None else fitting.footer
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    large = max((_stored_bytes(group) for group in groups), default=0) > _LARGE_GROUP
    # A row group is fetched as a whole, which is fewest requests, unless it is large.
    parquet = pq.ParquetFile(opened, metadata=about, buffer_size=_PART if large else 0, pre_buffer=not large)
    to_schema = _Projection(source, file, parquet.schema_arrow, schema)
    end = 0
    for number, group in enumerate(groups):
        first, end = end, end + group.num_rows
        if fitting is not None and number not in fitting.kept:
            continue
        if only is not None and not len(between(only, first, end)):
            continue
        at = first
        for batch in parquet.iter_batches(_rows_at_once(group), row_groups=[number], columns=to_schema.names):
            start, at = at, at + batch.num_rows
            left = _left(batch, start, gone, only)
            if left.num_rows:
                yield to_schema(left)


def _left(batch: pa.RecordBatch, start: int, gone: pa.Array, only: pa.Array | None) -> pa.RecordBatch:
    """The rows of a batch, the first of which is row `start` of its file, that are to be read."""
    end = start + batch.num_rows
    if only is not None:
        return batch.take(pc.subtract(between(only, start, end), start))
    taken = between(gone, start, end)
    if not len(taken):
        return batch
    return batch.filter(pc.invert(pc.is_in(pa.arange(start, end), value_set=taken)))


class _Projection:
    """Brings the columns of one file to a schema, by field id."""

    def __init__(self, source: Source, file: DataFile, physical: pa.Schema, schema: Schema) -> None:
        metadata = source.metadata
        self._schema = schema
        self._physical, self._variants = physical, any(ids_of(physical))
        self._into = arrow_schema(schema)
        self._down = metadata.format_version <= 2  # versions 1 and 2 know microseconds only
        there = file_schema(physical, metadata)
        wanted = {one for one in schema.field_ids if not isinstance(schema.find_type(one), MapType | ListType)}
        self._there = prune_columns(there, wanted, select_full_types=False)
        self._missing = _get_column_projection_values(
            file, schema, metadata.schema(), metadata.specs().get(file.spec_id), there.field_ids
        )
        # Without any column of its own a file still has rows.
        self.names = [field.name for field in self._there.fields] or physical.names[:1]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._variants:
            fields = [self._physical.field(name) for name in batch.schema.names]
            columns = [texts(array, field) for array, field in zip(batch.columns, fields, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(map(as_texts, fields)))
        found = _to_requested_schema(
            self._schema, self._there, batch, self._down, projected_missing_fields=self._missing,
            allow_timestamp_tz_mismatch=True,
        )  # fmt: skip
        return cast(found.columns, self._into)


def _rows_at_once(group: Any) -> int:
    a_row = max(1, group.total_byte_size // max(1, group.num_rows))
    return int(min(_MOST_ROWS, max(_LEAST_ROWS, _AT_ONCE // a_row)))


def _stored_bytes(group: Any) -> int:
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))
