"""Values of columns as the decoders give them: times are whole numbers (micro-, nanoseconds, days), since Python's own
end with the year 9999, and a uuid is its text. What is read from a table is made comparable with what was decoded, and
what was decoded is made a column again."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

from firn.changes.decode.iceberg_fields import HELD_TYPE
from firn.changes.decode.types import Type
from firn_lake.schemas.arrow_types import cast_array

_NUMBERS: Final = {
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), pa.int64()), "date": pa.int32()
}  # fmt: skip


def plain(column: pa.Array, kind: Type) -> list[Any]:
    """The values of an Arrow column of a table, where the table's type is `kind`."""
    if kind == HELD_TYPE:
        return column.to_pylist()  # type: ignore[no-any-return]
    if kind.holds("uuid"):
        return [_each(one, kind, _text) for one in cast_array(column, _storage(kind, column.type)).to_pylist()]
    if not kind.nested and kind.name not in _NUMBERS:
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.cast(_number(kind, column.type)).to_pylist()  # type: ignore[no-any-return]


def typed(values: Iterable[Any], kind: Type, into: pa.DataType) -> pa.Array:
    """The inverse of `plain`: an Arrow array of type `into`."""
    if kind == HELD_TYPE:
        return pa.array(values, into)
    if kind.holds("uuid"):
        told = [_each(one, kind, lambda text: uuid.UUID(text).bytes) for one in values]
        return cast_array(pa.array(told, _storage(kind, into)), into)
    return cast_array(pa.array(values, _number(kind, into)), into)


def _number(kind: Type, into: pa.DataType) -> pa.DataType:
    """The type `into` with times as whole numbers."""
    if kind.element is not None:
        return pa.list_(_number(kind.element, into.value_type))
    if kind.entry is not None:
        return pa.map_(_number(kind.entry[0], into.key_type), _number(kind.entry[1], into.item_type))
    if kind.fields:
        inside = {field.name: field.type for field in into}
        return pa.struct([(name, _number(part, inside[name])) for name, part in kind.fields])
    return _NUMBERS.get(kind.name, into)


def _storage(kind: Type, into: pa.DataType) -> pa.DataType:
    """The same with uuids as bytes."""
    if kind.element is not None:
        return pa.list_(_storage(kind.element, into.value_type))
    if kind.entry is not None:
        return pa.map_(_storage(kind.entry[0], into.key_type), _storage(kind.entry[1], into.item_type))
    if kind.fields:
        inside = {field.name: field.type for field in into}
        return pa.struct([(name, _storage(part, inside[name])) for name, part in kind.fields])
    if kind.name == "uuid":
        return into.storage_type if isinstance(into, pa.BaseExtensionType) else into
    return _NUMBERS.get(kind.name, into)


def _each(value: Any, kind: Type, turn: Callable[[Any], Any]) -> Any:
    """The value with its uuids turned."""
    if value is None:
        return None
    if kind.element is not None:
        return [_each(one, kind.element, turn) for one in value]
    if kind.entry is not None:
        return [(_each(key, kind.entry[0], turn), _each(one, kind.entry[1], turn)) for key, one in value]
    if kind.fields:
        return {name: _each(value[name], part, turn) for name, part in kind.fields}
    return turn(value) if kind.name == "uuid" else value


def _text(value: Any) -> str:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value)))
