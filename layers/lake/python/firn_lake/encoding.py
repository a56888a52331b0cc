"""A result as bytes, part by part: JSON, an Arrow stream, CSV or Parquet. What a format can't hold is an error that
names the column, never another value."""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import partial
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from firn_lake.sql.query_errors import NotEncodable, QueryError
from firn_sql.nano_texts import row_values, values_of

Format = Literal["json", "arrow", "csv", "parquet"]

CONTENT_TYPES: Final[Mapping[Format, str]] = {
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}

# Rows as Python's objects are many times as large as they are: so many bytes of them at a time, as Arrow has them.
_JSON_BYTES: Final = 2_000_000
_ROW_GROUP_BYTES: Final = 32_000_000
_FAULTS: Final = (
    pa.ArrowException, OverflowError, ValueError, TypeError, NotImplementedError, RecursionError, msgspec.MsgspecError,
)  # fmt: skip


def encoded(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: Format, about: Mapping[str, Any]
) -> Iterator[bytes]:
    """The rows in that format. `about`: what JSON says besides `columns` and `rows`; the other formats have no place
    for it. Raises QueryError for columns of one name in JSON, NotEncodable for what a format can't hold.

    In JSON a row is an object; decimals, times and UUIDs are text, bytes base64, NaN and infinities null, maps lists of
    [key, value], intervals [months, days, nanoseconds].
    """
    match form:
        case "json":
            return _json(schema, batches, about)
        case "arrow":
            return _written(schema, batches, form, pa.ipc.new_stream)
        case "csv":
            return _written(schema, _in_years(batches, form), form, csv.CSVWriter)
        case "parquet":
            grouped = _grouped(batches, _ROW_GROUP_BYTES)
            return _written(schema, grouped, form, partial(parquet.ParquetWriter, compression="zstd"))


_Opened = Callable[["_Sink", pa.Schema], Any]
"""Begins a file of that format, and gives its writer."""


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], about: Mapping[str, Any]) -> Iterator[bytes]:
    twice = [name for name, times in Counter(schema.names).items() if times > 1]
    if twice:
        raise QueryError(
            f"several columns are named {twice[0]!r}: give them names of their own with AS, or ask for arrow"
        )
    columns = [{"name": field.name, "type": str(field.type)} for field in schema]
    yield msgspec.json.encode({**about, "columns": columns})[:-1] + b',"rows":['
    comma = b""
    for batch in _in_years(batches, "json"):
        for part in _sliced(batch, _JSON_BYTES):
            yield comma + _rows(part)
            comma = b","
    yield b"]}"


def _rows(batch: pa.RecordBatch) -> bytes:
    try:
        return msgspec.json.encode(row_values(batch), enc_hook=str)[1:-1]
    except _FAULTS as error:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            try:
                msgspec.json.encode(values_of(column), enc_hook=str)
            except _FAULTS as fault:
                raise _not_encodable(field, "json", fault) from error
        raise


class _Sink(io.RawIOBase):
    """A file of which what was written can be taken away."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, content: Any) -> int:
        self._parts.append(bytes(content))
        self._at += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def _written(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: Format, opened: _Opened) -> Iterator[bytes]:
    sink = _Sink()
    try:
        writer = opened(sink, schema)
    except _FAULTS as error:
        raise _first_fault(schema, None, form, opened, error) from error
    for batch in batches:
        try:
            writer.write_batch(batch)
        except _FAULTS as error:
            raise _first_fault(schema, batch, form, opened, error) from error
        yield sink.taken()
    writer.close()
    yield sink.taken()


def _first_fault(
    schema: pa.Schema, batch: pa.RecordBatch | None, form: Format, opened: _Opened, error: Exception
) -> NotEncodable:
    """The error for the first column that the format can't hold alone."""
    for place, field in enumerate(schema):
        try:
            writer = opened(_Sink(), pa.schema([field]))
            if batch is not None:
                writer.write_batch(pa.record_batch([batch.column(place)], schema=pa.schema([field])))
        except _FAULTS as fault:
            return _not_encodable(field, form, fault)
    names = ", ".join(f"{field.name} ({field.type})" for field in schema)
    return NotEncodable(f"{form} can't hold these columns, {names}: {error}")


def _not_encodable(field: pa.Field, form: Format, why: object) -> NotEncodable:
    return NotEncodable(
        f"the column {field.name!r} ({field.type}) has what {form} can't hold: {why}; have it as text, with ::VARCHAR, "
        "or ask for arrow"
    )


def _in_years(batches: Iterable[pa.RecordBatch], form: Format) -> Iterator[pa.RecordBatch]:
    """Batches whose dates and times are in years 1 to 9999 and of a day's 24 hours. Raises NotEncodable."""
    for batch in batches:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if any(_is_out_of_years(one) for one in _temporal(column)):
                raise _not_encodable(field, form, "a date out of the years 1 to 9999, such as infinity, or hour 24")
        yield batch


def _temporal(column: pa.Array) -> Iterator[pa.Array]:
    """The column if it holds dates or times, or those parts of it that do."""
    kind = column.type
    if pa.types.is_temporal(kind):
        yield column
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _temporal(part)
    elif pa.types.is_map(kind):
        yield from _temporal(column.keys)
        yield from _temporal(column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _temporal(column.flatten())


def _is_out_of_years(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_date32(kind):
        first, last = (date(1, 1, 1) - _EPOCH).days, (date(9999, 12, 31) - _EPOCH).days
        numbers = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        a_second = _UNITS[kind.unit]
        first, last = (date(1, 1, 1) - _EPOCH).days * 86400 * a_second, 253_402_300_800 * a_second - 1
        numbers = column.cast(pa.int64())
    elif pa.types.is_time64(kind):
        first, last = 0, 86400 * _UNITS[kind.unit] - 1
        numbers = column.cast(pa.int64())
    else:
        return False
    found = pc.min_max(numbers)
    return bool(found["min"].is_valid and (found["min"].as_py() < first or found["max"].as_py() > last))


_EPOCH: Final = datetime(1970, 1, 1).date()
_UNITS: Final[Mapping[str, int]] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _sliced(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about so many bytes, each of a row at least."""
    if batch.num_rows > 1 and batch.nbytes > most:
        half = batch.num_rows // 2
        yield from _sliced(batch.slice(0, half), most)
        yield from _sliced(batch.slice(half), most)
    elif batch.num_rows:
        yield batch


def _grouped(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The batches put together to ones of about so many bytes."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.nbytes for one in waiting) >= size:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)
