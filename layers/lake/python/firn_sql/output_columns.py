"""What a pipeline's SQL gives, as columns of a table: their types, and the rows in the types that the table has."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode import types
from firn.changes.decode.nanoseconds import TIMESTAMP_NS, TIMESTAMPTZ_NS
from firn.changes.decode.types import Column, Type, storable
from firn.errors import TerminalError
from firn_sql.source_types import arrow_type
from firn_sql.transform import Transform

_KINDS: Final[tuple[tuple[pa.DataType, Type], ...]] = (
    (pa.bool_(), types.BOOLEAN), (pa.int32(), types.INT), (pa.int64(), types.LONG), (pa.float32(), types.FLOAT),
    (pa.float64(), types.DOUBLE), (pa.date32(), types.DATE), (pa.timestamp("us"), types.TIMESTAMP),
    (pa.timestamp("us", "UTC"), types.TIMESTAMPTZ), (pa.timestamp("ns"), TIMESTAMP_NS),
    (pa.timestamp("ns", "UTC"), TIMESTAMPTZ_NS), (pa.string(), types.STRING), (pa.binary(), types.BINARY),
)  # fmt: skip


def columns_of(pipeline: str, transform: Transform) -> tuple[Column, ...]:
    """The columns of its output, but for those of whose type nothing is known. Raises TerminalError for a type that
    tables do not have."""
    known = [field for field in transform.schema if field.name not in transform.unknown]
    return tuple(Column(field.name, column_kind(f"pipeline {pipeline}", field.name, field.type)) for field in known)


def column_kind(owner: str, name: str, kind: pa.DataType) -> Type:
    """The type of the column `name` of these Arrow values. `owner`: what gives it, for the error. Raises
    TerminalError."""
    if pa.types.is_list(kind):
        return types.list_of(column_kind(owner, name, kind.value_type))
    if pa.types.is_struct(kind):
        return types.struct_of((part.name, column_kind(owner, name, part.type)) for part in kind)
    if pa.types.is_map(kind):
        return types.map_of(column_kind(owner, name, kind.key_type), column_kind(owner, name, kind.item_type))
    if pa.types.is_decimal(kind):
        return types.decimal(kind.precision, kind.scale)
    found = next((own for arrow, own in _KINDS if arrow == kind), None)
    if found is None:
        raise TerminalError(
            f"{owner}: the column {name} is of the type {kind}, which tables do not have; "
            f"write to_json({name}), or a column for each of its parts"
        )
    return found


def fitted(rows: pa.Table, columns: Sequence[Column]) -> tuple[list[pa.ChunkedArray], dict[int, str]]:
    """The rows as the table has its columns (columns.arrow_type), null where they have none; and why rows can't be
    that, by their places."""
    found: list[pa.ChunkedArray] = []
    bad: dict[int, str] = {}
    for column in columns:
        kind = arrow_type(storable(column.type))
        if column.name not in rows.column_names:
            found.append(pa.chunked_array([pa.nulls(len(rows), kind)]))
            continue
        array = rows[column.name]
        for place in _of_other_length(array, column.type):
            bad.setdefault(place, f"{column.name} does not fit the table's type {column.type}")
        try:
            found.append(array if array.type == kind else array.cast(kind))
        except pa.ArrowInvalid:
            found.append(_one_by_one(array, kind, column, bad))
        except pa.ArrowNotImplementedError as error:
            raise TerminalError(
                f"the column {column.name} is {column.type} in the table, and the SQL gives {array.type}; cast it there"
            ) from error
    return found, bad


def _of_other_length(array: pa.ChunkedArray, kind: Type) -> list[int]:
    """The places of values with bytes that are not of their type's length: SQL knows no such type."""
    if not kind.holds("fixed"):
        return []
    if kind.length is not None and (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        lengths = pc.binary_length(array)
        return pc.indices_nonzero(pc.fill_null(pc.not_equal(lengths, kind.length), False)).to_pylist()  # type: ignore[no-any-return]
    return [place for place, value in enumerate(array.to_pylist()) if not _is_long_enough(value, kind)]


def _is_long_enough(value: Any, kind: Type) -> bool:
    if value is None:
        return True
    if kind.length is not None:
        return not isinstance(value, bytes) or len(value) == kind.length
    if kind.element is not None:
        return all(_is_long_enough(one, kind.element) for one in value)
    if kind.entry is not None:
        return all(_is_long_enough(one, of) for pair in value for one, of in zip(pair, kind.entry, strict=True))
    return all(_is_long_enough(value.get(name), part) for name, part in kind.fields)


def _one_by_one(array: pa.ChunkedArray, kind: pa.DataType, column: Column, bad: dict[int, str]) -> pa.ChunkedArray:
    parts = []
    for place in range(len(array)):
        try:
            parts.append(array.slice(place, 1).combine_chunks().cast(kind))
        except pa.ArrowInvalid:
            parts.append(pa.nulls(1, kind))
            bad.setdefault(place, f"{column.name} does not fit the table's type {column.type}")
    return pa.chunked_array(parts, kind)


def dropped(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    """The rows but for those at these places."""
    if not places:
        return rows
    gone = pa.array(sorted(places), pa.int64())
    return rows.filter(pc.invert(pc.is_in(pa.arange(0, len(rows)), value_set=gone)))
