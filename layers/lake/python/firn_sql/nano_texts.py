"""Rows as Python's values, which know no nanoseconds: moments of these are their texts, with all nine digits."""

from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

_EPOCH: Final = datetime(1970, 1, 1)


def row_values(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch, as its `to_pylist` gives them but for nanoseconds."""
    if not any(has_nanoseconds(field.type) for field in batch.schema):
        return batch.to_pylist()  # type: ignore[no-any-return]
    columns = [values_of(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(column: pa.Array) -> list[Any]:
    """The same of a column."""
    kind = column.type
    if not has_nanoseconds(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    return [_with_texts(value, kind) for value in column.cast(_counted(kind)).to_pylist()]


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(place).type for place in range(kind.num_fields)]


def has_nanoseconds(kind: pa.DataType) -> bool:
    """Whether a type is of nanoseconds, or has a part that is."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return pa.types.is_nested(kind) and any(map(has_nanoseconds, _parts(kind)))


def _counted(kind: pa.DataType) -> pa.DataType:
    """The type with moments of nanoseconds as whole numbers."""
    if not has_nanoseconds(kind):
        return kind
    if pa.types.is_map(kind):
        return pa.map_(_counted(kind.key_type), _counted(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _counted(one.type), one.nullable) for one in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_counted(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_counted(kind.value_type))
    return pa.list_(_counted(kind.value_type)) if pa.types.is_nested(kind) else pa.int64()


def _with_texts(value: Any, kind: pa.DataType) -> Any:
    if value is None or not has_nanoseconds(kind):
        return value
    if pa.types.is_map(kind):
        return [(_with_texts(key, kind.key_type), _with_texts(one, kind.item_type)) for key, one in value]
    if pa.types.is_struct(kind):
        return {one.name: _with_texts(value[one.name], one.type) for one in kind}
    if pa.types.is_nested(kind):
        return [_with_texts(one, kind.value_type) for one in value]
    seconds, rest = divmod(value, 10**9)
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}.{rest:09}{'Z' if kind.tz else ''}"
