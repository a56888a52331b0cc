"""Values of columns as the decoders give them: times are whole numbers (microseconds, days), since Python's own end
with the year 9999, and a uuid is its text. What is read from a table is made comparable with what was decoded, and what
was decoded is made a column again."""

import uuid
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from firn.changes.decode.iceberg_fields import HELD_TYPE
from firn.changes.decode.types import Type
from firn_lake.schemas.arrow_types import cast_array

_NUMBERS: Final = {"timestamp": pa.int64(), "timestamptz": pa.int64(), "date": pa.int32()}


def plain(column: pa.Array, kind: Type) -> list[Any]:
    """The values of an Arrow column of a table, where the table's type is `kind`."""
    if _holds(kind, "uuid"):
        return [_text(one) for one in column.to_pylist()]
    if kind == HELD_TYPE or (kind.element is None and kind.name not in _NUMBERS):
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.cast(_number(kind, column.type)).to_pylist()  # type: ignore[no-any-return]


def typed(values: Iterable[Any], kind: Type, into: pa.DataType) -> pa.Array:
    """The inverse of `plain`: an Arrow array of type `into`."""
    if _holds(kind, "uuid"):
        return cast_array(pa.array([_bytes(one) for one in values], _storage(into)), into)
    if kind == HELD_TYPE:
        return pa.array(values, into)
    return cast_array(pa.array(values, _number(kind, into)), into)


def _number(kind: Type, into: pa.DataType) -> pa.DataType:
    if kind.element is not None:
        return pa.list_(_number(kind.element, into.value_type))
    return _NUMBERS.get(kind.name, into)


def _storage(into: pa.DataType) -> pa.DataType:
    if pa.types.is_list(into):
        return pa.list_(_storage(into.value_type))
    return into.storage_type if isinstance(into, pa.BaseExtensionType) else into


def _holds(kind: Type, name: str) -> bool:
    return kind.name == name or (kind.element is not None and _holds(kind.element, name))


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    if value is None:
        return None
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value)))


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(one) for one in value]
    return None if value is None else uuid.UUID(value).bytes
