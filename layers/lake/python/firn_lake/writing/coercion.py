"""Rows of any kind as batches with a table's columns; what does not fit is named by column and row."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema

from firn.errors import TerminalError
from firn_lake.schemas.arrow_types import arrow_schema, cast

Given = Any
"""Arrow (table, batch, reader, batches, or anything that is an Arrow stream: pandas, Polars, a read of Firn's), or
dictionaries."""

_ROWS_AT_ONCE: Final = 10_000
_MISFIT: Final = (ValueError, TypeError, OverflowError, pa.ArrowException)


class BadRows(TerminalError):
    """Rows that the table can't take: the text names the column, the row (from 0) and the value."""


def batches_of(rows: Given, schema: Schema, name: str) -> Iterator[pa.RecordBatch]:
    """The rows as batches of arrow_schema(schema): columns by name, null where an optional one is missing.

    name  the table's, for the text of errors

    Raises BadRows, from the first batch on that does not fit.
    """
    into = arrow_schema(schema)
    first = 0
    for batch in _batches(rows, into, name):
        yield _fitted(batch, into, name, first)
        first += batch.num_rows


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values, as JSON or a database gives them, as a column of this type. Raises one of `_MISFIT`."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([_text(value) for value in values], kind)
    if pa.types.is_nested(kind):
        for value in values:
            _known_fields(value, kind)
    if pa.types.is_integer(kind):
        values = [_whole(value) for value in values]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        values = [_zoned(value) for value in values]
    if isinstance(kind, pa.UuidType):
        values = [value.bytes if isinstance(value, UUID) else value for value in values]
    try:
        return pa.array(values, kind)
    except _MISFIT:
        if pa.types.is_boolean(kind) and set(values) <= {0, 1, None}:
            return pa.array([None if value is None else bool(value) for value in values], kind)
        found = pa.array(values)
        if pa.types.is_decimal(kind) and pa.types.is_floating(found.type):
            # What a float is shown as is what was meant; its binary value has more digits than any column.
            return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)
        return found.cast(kind)


def _known_fields(value: Any, kind: pa.DataType) -> None:
    # Arrow would leave out fields that a struct does not have.
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        unknown = [name for name in value if kind.get_field_index(name) < 0]
        if unknown:
            raise ValueError(
                f"it has the field {unknown[0]!r}, and the column has {', '.join(one.name for one in kind)}"
            )
        for one in kind:
            _known_fields(value.get(one.name), one.type)
    elif pa.types.is_list(kind) and isinstance(value, list | tuple):
        for one in value:
            _known_fields(one, kind.value_type)


def _whole(value: Any) -> Any:
    # Arrow would cut the fraction off.
    if isinstance(value, float | Decimal):
        if value != int(value):
            raise ValueError("it has a fraction")
        return int(value)
    return value


def _zoned(value: Any) -> Any:
    """Text as a time: UTC without a zone, as everywhere in Firn."""
    if not isinstance(value, str):
        return value
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, bytes | bytearray | memoryview | bool | float):
        raise TypeError(f"a {type(value).__name__} is not text")
    return str(value)  # a UUID, a number, an address


def _batches(rows: Given, into: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
    if type(rows).__module__.partition(".")[0] == "pandas":
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, pa.RecordBatch):
        yield rows
    elif hasattr(rows, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(rows)
    elif isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
        yield from _of_each(iter(rows), into, name)
    else:
        raise BadRows(
            f"{type(rows).__name__} holds no rows: give an Arrow table or reader, a DataFrame, or dictionaries"
        )


def _of_each(rows: Iterator[Any], into: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
    first = next(rows, None)
    if first is None:
        return
    if isinstance(first, pa.RecordBatch | pa.Table):
        for one in chain([first], rows):
            yield from one.to_batches() if isinstance(one, pa.Table) else [one]
        return
    start, rest = 0, chain([first], rows)
    while part := list(islice(rest, _ROWS_AT_ONCE)):
        for place, row in enumerate(part):
            if not isinstance(row, Mapping):
                raise BadRows(f"row {start + place} is a {type(row).__name__}: rows are dictionaries, or Arrow batches")
            if not row.keys() <= set(into.names):
                raise _unknown([str(one) for one in row if one not in set(into.names)], into, name)
        columns = [[row.get(field.name) for row in part] for field in into]
        yield of_columns(columns, into, name, start)
        start += len(part)


def of_columns(columns: Sequence[Sequence[Any]], into: pa.Schema, name: str, first: int) -> pa.RecordBatch:
    """Columns of Python values as a batch of this schema. `first`: the number of its first row. Raises BadRows."""
    arrays = []
    for values, field in zip(columns, into, strict=True):
        try:
            arrays.append(column_of(values, field.type))
        except _MISFIT as error:
            raise _misfit(values, field, name, first, error) from error
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in into]))
    return _fitted(batch, into, name, first)


def _fitted(batch: pa.RecordBatch, into: pa.Schema, name: str, first: int) -> pa.RecordBatch:
    unknown = [one for one in batch.schema.names if one not in set(into.names)]
    if unknown:
        raise _unknown(unknown, into, name)
    arrays = [_column(batch, field, name, first) for field in into]
    return pa.RecordBatch.from_arrays(arrays, schema=into)


def _column(batch: pa.RecordBatch, field: pa.Field, name: str, first: int) -> pa.Array:
    places = batch.schema.get_all_field_indices(field.name)
    if len(places) > 1:
        raise BadRows(f"the rows for {name} have the column {field.name!r} {len(places)} times")
    array = batch.column(places[0]) if places else pa.nulls(batch.num_rows, field.type)
    if not field.nullable and array.null_count:
        row = first + array.is_null().index(True).as_py()
        raise BadRows(
            f"row {row} for {name} has no {field.name!r}, which is required"
            + ("" if places else f": the rows have only {', '.join(batch.schema.names)}")
        )
    if array.type == field.type:
        return array
    try:
        return _strictly(array, field.type)
    except _MISFIT as error:
        raise _misfit(array, field, name, first, error) from error


def _strictly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in another type, if no value loses anything."""
    if pa.types.is_floating(array.type) and pa.types.is_decimal(kind):
        return column_of(array.to_pylist(), kind)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or isinstance(array, pa.ExtensionArray):
        return cast([array], pa.schema([pa.field("", kind)])).column(0)
    return array.cast(kind)


def _misfit(values: "Sequence[Any] | pa.Array", field: pa.Field, name: str, first: int, error: Exception) -> BadRows:
    """The error for the first of the values that does not fit."""
    for place, value in enumerate(values):
        try:
            if isinstance(value, pa.Scalar):
                _strictly(pa.array([value.as_py()], value.type), field.type)
            else:
                column_of([value], field.type)
        except _MISFIT as why:
            shown = value.as_py() if isinstance(value, pa.Scalar) else value
            return BadRows(
                f"row {first + place} for {name}: {field.name!r} is {field.type}, and {_short(shown)} does not fit: "
                f"{_line(why)}"
            )
    return BadRows(f"column {field.name!r} for {name} is {field.type}, and the values do not fit: {_line(error)}")


def _unknown(names: Sequence[str], into: pa.Schema, name: str) -> BadRows:
    return BadRows(
        f"{name} has no column {', '.join(map(repr, names))}; it has {', '.join(into.names)}. Leave it out, or add it "
        "to the table first"
    )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "…"


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
