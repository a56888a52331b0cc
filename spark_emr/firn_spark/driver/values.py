"""Values of columns as Python holds them here: exact, comparable, and equal for what was decoded and what was read.

As the decoders give them: times are whole numbers (microseconds, days), since Python's own end with the year 9999; a
uuid is its text.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from firn.changes.decode.types import Type
from firn_spark.tables.columns import arrow_type

# Types that have an order, by whose ranges rows are looked up.
RANGED = frozenset({"int", "long", "date", "string", "uuid", "decimal", "timestamp", "timestamptz"})
_INT = 1 << 31  # what Java gets as an int, which Iceberg takes for no moment
_PLAIN = {
    "timestamp": pa.int64(),
    "timestamptz": pa.int64(),
    "date": pa.int32(),
}


def plain_type(kind: Type) -> pa.DataType:
    """The Arrow type whose Python values stand for those of `kind`."""
    if kind.element is not None:
        return pa.list_(plain_type(kind.element))
    return _PLAIN.get(kind.name) or arrow_type(kind)


def key_type(kind: Type) -> pa.DataType:
    """The Arrow type in which keys are compared: that of uuids is their bytes, in the order of their texts."""
    return pa.binary() if kind.name == "uuid" else plain_type(kind)


def sought(column: Any, kind: Type) -> Any:
    """A decoded column of keys (columns.arrow_type, or plain_type) as `key_type`."""
    if kind.name != "uuid":
        return column.cast(key_type(kind))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [_uuid_bytes(chunk) for chunk in chunks]
    return pa.chunked_array(found, pa.binary()) if isinstance(column, pa.ChunkedArray) else found[0]


def found(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """A column of a file, or rows of it, as `key_type`."""
    if isinstance(column.type, pa.ExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column if column.type == key_type(kind) else column.cast(key_type(kind))


def literal(value: Any, kind: Type) -> Any:
    """An end of some keys (key_type) as Iceberg is asked for it; None where it can't be. Java compares uuids otherwise
    than files are sorted."""
    if kind.name == "uuid" or (kind.name.startswith("timestamp") and -_INT <= value < _INT):
        return None
    return value


def _uuid_bytes(texts: pa.Array) -> pa.Array:
    """All at once: one by one it takes four times as long."""
    if texts.null_count:
        return pa.array([None if one is None else uuid.UUID(one).bytes for one in texts.to_pylist()], pa.binary())
    whole = bytes.fromhex("".join(texts.to_pylist()).replace("-", ""))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(texts), [None, pa.py_buffer(whole)]).cast(
        pa.binary()
    )


def read(column: pa.ChunkedArray, kind: Type) -> list[Any]:
    """Values of a file's column, in the type of the table as it is now: Iceberg's promotions only."""
    if holds_uuids(kind):
        return [_texts(one) for one in column.to_pylist()]
    if kind.name == "held":
        return column.to_pylist()  # type: ignore[no-any-return]
    typed = arrow_type(kind)
    return _cast(column if column.type == typed else column.cast(typed), plain_type(kind))


def decoded(column: pa.ChunkedArray, kind: Type) -> list[Any]:
    """Values of a decoded column (columns.arrow_type)."""
    return column.to_pylist() if holds_uuids(kind) else _cast(column, plain_type(kind))


def typed(values: Iterable[Any], kind: Type) -> pa.Array:
    """Values as a decoded column."""
    if holds_uuids(kind):
        return pa.array(values, arrow_type(kind))
    return pa.array(values, plain_type(kind)).cast(arrow_type(kind))


def written(values: Iterable[Any], kind: Type, field: pa.Field) -> pa.Array:
    """The values as the column `field` of a file."""
    if holds_uuids(kind):
        return pa.array([_bytes(one) for one in values], _bytes_type(kind)).cast(field.type)
    if kind.name == "held":
        return pa.array(values, field.type)
    found = pa.array(values, plain_type(kind))
    return found if found.type == field.type else found.cast(field.type)


def file_field(field: Mapping[str, Any]) -> pa.Field:
    """A column of a data file, from the table's field (Iceberg's JSON): with the ids by which readers find it."""
    return _field(field["name"], field["type"], int(field["id"]), required=bool(field["required"]))


def _cast(column: Any, kind: pa.DataType) -> list[Any]:
    return (column if column.type == kind else column.cast(kind)).to_pylist()  # type: ignore[no-any-return]


def holds_uuids(kind: Type) -> bool:
    """Whether the values are uuids, or lists of them: text here, 16 bytes in a file."""
    return kind.name == "uuid" or (kind.element is not None and holds_uuids(kind.element))


def _bytes_type(kind: Type) -> pa.DataType:
    return pa.list_(_bytes_type(kind.element)) if kind.element is not None else pa.binary(16)


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(one) for one in value]
    return None if value is None else uuid.UUID(value).bytes


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_texts(one) for one in value]
    if value is None:
        return None
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value)))


def _field(name: str, kind: Any, number: int, *, required: bool) -> pa.Field:
    return pa.field(name, _file_type(kind), nullable=not required, metadata={"PARQUET:field_id": str(number)})


def _file_type(kind: Any) -> pa.DataType:
    if isinstance(kind, Mapping) and kind["type"] == "list":
        return pa.list_(_field("element", kind["element"], kind["element-id"], required=bool(kind["element-required"])))
    if isinstance(kind, Mapping):
        key = _field("key", kind["key"], kind["key-id"], required=True)
        return pa.map_(key, _field("value", kind["value"], kind["value-id"], required=bool(kind["value-required"])))
    if kind == "uuid":
        return pa.uuid()
    precision, _, scale = kind.removeprefix("decimal(").removesuffix(")").partition(",")
    return arrow_type(Type("decimal", int(precision), int(scale)) if scale else Type(kind))
