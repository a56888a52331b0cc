"""A result as bytes: JSON, an Arrow stream, CSV or Parquet."""

import io
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet

from firn_lake.sql.query import QueryError

Format = Literal["json", "arrow", "csv", "parquet"]

_AT_ONCE: Final = 10_000

CONTENT_TYPES: Final[Mapping[Format, str]] = {
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def encoded(table: pa.Table, form: Format, about: Mapping[str, Any]) -> bytes:
    """The rows in that format. `about`: what JSON says besides `columns` and `rows`; the other formats have no place
    for it. Raises QueryError for what a format can't hold.

    In JSON a row is an object; decimals, times and UUIDs are text, bytes base64, NaN and infinities null.
    """
    match form:
        case "json":
            return _json(table, about)
        case "arrow":
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return bytes(sink.getvalue())
        case "csv":
            return _csv(table)
        case "parquet":
            file = io.BytesIO()
            parquet.write_table(table, file, compression="zstd")
            return file.getvalue()


def _json(table: pa.Table, about: Mapping[str, Any]) -> bytes:
    twice = [name for name, times in Counter(table.column_names).items() if times > 1]
    if twice:
        raise QueryError(
            f"several columns are named {twice[0]!r}: give them names of their own with AS, or ask for arrow"
        )
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    head = msgspec.json.encode({**about, "columns": columns})[:-1]
    # Rows as Python's objects are many times as large as they are: some of them at a time.
    batches = (batch for batch in table.to_batches(_AT_ONCE) if batch.num_rows)
    parts = [msgspec.json.encode(batch.to_pylist(), enc_hook=str)[1:-1] for batch in batches]
    return head + b',"rows":[' + b",".join(parts) + b"]}"


def _csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    try:
        csv.write_csv(table, sink)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        kinds = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
        raise QueryError(f"CSV can't hold these columns, {kinds}: {error}; ask for json, arrow or parquet") from error
    return sink.getvalue()
