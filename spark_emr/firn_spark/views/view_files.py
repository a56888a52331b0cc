"""Rows of a view as the files of its table have them, written by whatever process has them."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from firn.changes.metadata_columns import VIEW_METADATA
from firn_spark.files.write import Layout, rows_of
from firn_sql.result_batches import batches_of
from firn_sql.views.stored import Stored
from firn_sql.views.view_connection import Connection

_BATCH: Final = 65_536  # rows
_AT_ONCE: Final = 400_000  # rows that are written as files of their own, and bytes of them
_AT_ONCE_BYTES: Final = 64 * 1024 * 1024


def portions(connection: Connection, layout: Layout, how: Stored, rows: str) -> Iterator[pa.Table]:
    """What a SELECT of the view's rows (Stored.rows) gives, as `cells`: in portions that are worth a file, and not too
    large. Raises duckdb.Error."""
    for some in _portions(batches_of(connection.sql(rows).to_arrow_reader(_BATCH))):
        yield cells(layout, how, some)


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _AT_ONCE or sum(one.nbytes for one in held) >= _AT_ONCE_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def cells(layout: Layout, how: Stored, rows: pa.Table | None) -> pa.Table:
    """Rows (Stored.rows) as the files have them."""
    if rows is None:
        return pa.schema(layout.fields).empty_table()
    columns = [*how.columns, *VIEW_METADATA]
    return rows_of(layout, columns, {one.name: rows[one.name] for one in columns}, {})
