"""Values of columns as Python holds them here: exact, comparable, and equal for what was decoded and what was read.

As the decoders give them: times are whole numbers (micro-, nanoseconds, days), since Python's own end with the year
9999; a uuid is its text.

Keys are compared by Arrow in a type of their own (`key_type`), where equal values are equal bits and all values have an
order: of uuids their bytes, of floats whole numbers, of lists texts.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.types import Type
from firn.changes.decode.values import text_of_nanos
from firn.changes.merge import fold
from firn.errors import TerminalError
from firn_spark.files import defaults
from firn_spark.tables.columns import arrow_type
from firn_sql import variant_columns

# Types of keys that decoded changes have a column more for, as `key_type`: the values alone are not to be compared.
FORMED = frozenset({"float", "double", "list"})
# Iceberg is not asked for files by these. Java compares uuids otherwise than files are sorted, bounds of floats say
# nothing of NaN and tell -0.0 from 0.0, lists have none, and those of booleans are not worth a question.
_UNASKED = FORMED | {"uuid", "boolean"}
_KEYS = {"uuid": pa.binary(), "boolean": pa.int8(), "float": pa.int64(), "double": pa.int64(), "list": pa.string()}
_VALUE_BITS = (1 << 63) - 1  # of a float, all but its sign
_INT = 1 << 31  # what Java gets as an int, which Iceberg takes for no moment
_ID = b"PARQUET:field_id"
_OTHERS = {  # types of files that those of columns say otherwise, or that only adopted tables have
    "uuid": pa.uuid(), "time": pa.time64("us"),
}  # fmt: skip
_PLAIN = {
    "timestamp": pa.int64(),
    "timestamptz": pa.int64(),
    "timestamp_ns": pa.int64(),
    "timestamptz_ns": pa.int64(),
    "date": pa.int32(),
}


def plain_type(kind: Type) -> pa.DataType:
    """The Arrow type whose Python values stand for those of `kind`."""
    if kind.element is not None:
        return pa.list_(plain_type(kind.element))
    if kind.entry is not None:
        return pa.map_(*map(plain_type, kind.entry))
    if kind.fields:
        return pa.struct([(name, plain_type(part)) for name, part in kind.fields])
    return _PLAIN.get(kind.name) or arrow_type(kind)


def key_type(kind: Type) -> pa.DataType:
    """The Arrow type in which keys are compared."""
    return _KEYS.get(kind.name) or plain_type(kind)


def sought(column: Any, kind: Type) -> Any:
    """A column of decoded changes that keys are compared by (columns.arrow_type; of FORMED types, `formed`) as
    `key_type`."""
    if kind.name != "uuid":
        return column.cast(key_type(kind))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [_uuid_bytes(chunk) for chunk in chunks]
    return pa.chunked_array(found, pa.binary()) if isinstance(column, pa.ChunkedArray) else found[0]


def found(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """A column of a file, or rows of it, as `key_type`."""
    if kind.element is not None:
        return pa.chunked_array([_texts_of(read(column, kind))])
    if kind.name in FORMED:
        return _numbers(column)
    if isinstance(column.type, pa.ExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column if column.type == key_type(kind) else column.cast(key_type(kind))


def literal(value: Any, kind: Type) -> Any:
    """An end of some keys (key_type) as Iceberg is asked for it; None where it can't be."""
    if kind.name in ("timestamp_ns", "timestamptz_ns"):  # Iceberg takes a number for microseconds
        return text_of_nanos(value, zoned=kind.name == "timestamptz_ns")
    if kind.name in _UNASKED or (kind.name.startswith("timestamp") and -_INT <= value < _INT):
        return None
    return value


def formed(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """A decoded column (columns.arrow_type) of a key of a FORMED type as `key_type`."""
    return _numbers(column) if kind.element is None else pa.chunked_array([_texts_of(decoded(column, kind))])


def keyed(some: Iterable[Any], kind: Type) -> Any:
    """Values of keys (fold.Key) as a column of decoded changes that keys are compared by."""
    if kind.name not in FORMED:
        return typed(some, kind)
    column = typed(some, kind)
    return formed(pa.chunked_array([column]), kind).combine_chunks()


def keys(column: pa.ChunkedArray, kind: Type) -> list[Any]:
    """The values of such a column, as keys have them."""
    if kind.name not in FORMED:
        return decoded(column, kind)
    if kind.element is not None:
        return [None if text is None else _value(json.loads(text), kind) for text in column.to_pylist()]
    return list(fold.key_of(_viewed(_turned(column), pa.float64()).to_pylist()))


def _numbers(column: pa.ChunkedArray) -> Any:
    """Floats as whole numbers: in their order, both zeros the same, NaN one and above all."""
    wide = pc.add(column.cast(pa.float64()), 0.0)  # -0.0 + 0.0 = 0.0
    return _turned(_viewed(pc.if_else(pc.is_nan(wide), pa.scalar(float("nan")), wide), pa.int64()))


def _viewed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The same bits as another type."""
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)


def _turned(bits: Any) -> Any:
    """The bits of floats so that those below zero rise too, and back."""
    return pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, _VALUE_BITS), bits)


def _texts_of(lists: Iterable[Any]) -> pa.Array:
    """Lists as texts that are equal if they are."""
    return pa.array([None if one is None else json.dumps(_told(one)) for one in lists], pa.string())


def _told(value: Any) -> Any:
    """A value of a list as JSON has it."""
    if isinstance(value, list):
        return [_told(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return value + 0.0
    return str(value) if isinstance(value, Decimal) else value


def _value(told: Any, kind: Type) -> Any:
    """The same back, as keys have it."""
    if kind.element is not None and told is not None:
        return fold.key_of(_value(one, kind.element) for one in told)
    if told is None or kind.name not in ("binary", "fixed", "decimal"):
        return told
    return Decimal(told) if kind.name == "decimal" else bytes.fromhex(told)


def _uuid_bytes(texts: pa.Array) -> pa.Array:
    """All at once: one by one it takes four times as long."""
    if texts.null_count:
        return pa.array([None if one is None else uuid.UUID(one).bytes for one in texts.to_pylist()], pa.binary())
    whole = bytes.fromhex("".join(texts.to_pylist()).replace("-", ""))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(texts), [None, pa.py_buffer(whole)]).cast(
        pa.binary()
    )


def read(column: pa.ChunkedArray, kind: Type) -> list[Any]:
    """Values of a file's column, in the type of the table as it is now: Iceberg's promotions only. Raises
    pa.ArrowInvalid for a variant that is none."""
    if kind.name == "variant":
        return [text for chunk in column.chunks for text in variant_columns.texts_of(chunk)]
    if differs_in_files(kind):
        return [_texts(one, kind) for one in _numbered(column, kind).to_pylist()]
    if kind.name == "held":
        return column.to_pylist()  # type: ignore[no-any-return]
    typed = arrow_type(kind)
    return _cast(column if column.type == typed else column.cast(typed), plain_type(kind))


def _numbered(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """A column that holds uuids among other things, with its times as whole numbers."""
    return column if not kind.nested else column.cast(_raw_type(kind, column.type))


def _raw_type(kind: Type, there: pa.DataType) -> pa.DataType:
    """The type `there` of a file, but for times, which are whole numbers, and what the table has promoted since."""
    if kind.element is not None:
        return pa.list_(_raw_type(kind.element, there.value_type))
    if kind.entry is not None:
        return pa.map_(_raw_type(kind.entry[0], there.key_type), _raw_type(kind.entry[1], there.item_type))
    if kind.fields:
        inside = {one.name: one.type for one in there}
        return pa.struct([(name, _raw_type(part, inside[name])) for name, part in kind.fields])
    return there if kind.name == "uuid" else plain_type(kind)


def decoded(column: pa.ChunkedArray, kind: Type) -> list[Any]:
    """Values of a decoded column (columns.arrow_type)."""
    return _cast(column, plain_type(kind))


def typed(values: Iterable[Any], kind: Type) -> pa.Array:
    """Values as a decoded column."""
    return pa.array(values, plain_type(kind)).cast(arrow_type(kind))


def written(values: Iterable[Any], kind: Type, field: pa.Field) -> pa.Array:
    """The values as the column `field` of a file."""
    if kind.name == "variant":
        return variant_columns.groups_of(values)
    if differs_in_files(kind):
        return pa.array([_bytes(one, kind) for one in values], _bytes_type(kind)).cast(field.type)
    if kind.name == "held":
        return pa.array(values, field.type)
    found = pa.array(values, plain_type(kind))
    return found if found.type == field.type else found.cast(field.type)


def file_field(field: Mapping[str, Any]) -> pa.Field:
    """A column of a data file, from the table's field (Iceberg's JSON): with the ids by which readers find it, and the
    values it has where none is told (defaults)."""
    found = _field(field["name"], field["type"], int(field["id"]), required=bool(field["required"]))
    return found.with_metadata({**found.metadata, **defaults.metadata_of(field)})


def _cast(column: Any, kind: pa.DataType) -> list[Any]:
    return (column if column.type == kind else column.cast(kind)).to_pylist()  # type: ignore[no-any-return]


def differs_in_files(kind: Type) -> bool:
    """Whether the values are uuids, or hold them: text here, 16 bytes in a file; variants, which are JSON here; or
    bytes of one length in structs, which Arrow does not cast where a struct is null."""
    return kind.holds("uuid") or kind.name == "variant" or (kind.holds("fixed") and kind.holds("struct"))


def _bytes_type(kind: Type) -> pa.DataType:
    if kind.element is not None:
        return pa.list_(_bytes_type(kind.element))
    if kind.entry is not None:
        return pa.map_(*map(_bytes_type, kind.entry))
    if kind.fields:
        return pa.struct([(name, _bytes_type(part)) for name, part in kind.fields])
    if kind.length is not None:
        return pa.binary(kind.length)
    return pa.binary(16) if kind.name == "uuid" else plain_type(kind)


def _bytes(value: Any, kind: Type) -> Any:
    return _each(value, kind, lambda text: uuid.UUID(text).bytes)


def _texts(value: Any, kind: Type) -> Any:
    return _each(value, kind, lambda one: str(one if isinstance(one, uuid.UUID) else uuid.UUID(bytes=bytes(one))))


def _each(value: Any, kind: Type, turn: Callable[[Any], str | bytes]) -> Any:
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


def _field(name: str, kind: Any, number: int, *, required: bool) -> pa.Field:
    return pa.field(name, _file_type(kind), nullable=not required, metadata={"PARQUET:field_id": str(number)})


def field_id(field: pa.Field) -> int:
    """By which readers find a column (file_field)."""
    return int(field.metadata[_ID])


def now(rows: pa.Table, name: str | None, field: pa.Field) -> pa.ChunkedArray:
    """The column `name` of a file's rows (None: it has none) as the table has it now (file_field): promoted as Iceberg
    allows, parts of a struct by their ids. Raises pa.ArrowException where it can't be."""
    if name is None:
        return lacking(len(rows), field)
    column = rows[name]
    if not pa.types.is_nested(field.type):
        return column if column.type == field.type else column.cast(field.type)
    return pa.chunked_array([_now(chunk, rows.schema.field(name), field) for chunk in column.chunks], field.type)


def nothing(rows: int, field: pa.Field) -> pa.ChunkedArray:
    """Nulls of a column of the table (file_field)."""
    return sealed(pa.chunked_array([pa.nulls(rows, field.type)]), field)


def lacking(rows: int, field: pa.Field) -> pa.ChunkedArray:
    """What rows have of a column of the table (file_field) that their file lacks. Raises pa.ArrowInvalid."""
    found = defaults.lacking(rows, field)
    return nothing(rows, field) if found is None else pa.chunked_array([found])


def untold(rows: int, field: pa.Field) -> pa.ChunkedArray:
    """What new rows have of a column of the table (file_field) that nobody tells. Raises pa.ArrowInvalid."""
    found = defaults.untold(rows, field)
    return nothing(rows, field) if found is None else pa.chunked_array([found])


def or_untold(column: pa.ChunkedArray, told: pa.Array, field: pa.Field) -> pa.ChunkedArray:
    """The column, with what `untold` says where it is not told."""
    usual = defaults.untold(len(column), field)
    if usual is None:
        return column
    both = pa.concat_arrays([*column.chunks, usual])
    numbers = pa.arange(0, len(column))
    return pa.chunked_array([both.take(pc.if_else(told, numbers, pc.add(numbers, len(column))))])


def sealed(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column as Parquet takes it: what a struct must have is not null in it even where the struct is."""
    if not pa.types.is_nested(field.type):
        return column
    return pa.chunked_array([_now(chunk, field, field) for chunk in column.chunks], field.type)


def _filled(array: Any) -> Any:
    """An array without a null, with whatever lies there."""
    kind = array.type
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, _filled(array.storage))
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([array.field(i) for i in range(kind.num_fields)], fields=list(kind))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=kind)
    whole = array.take(pa.arange(0, len(array))) if array.offset else array
    return pa.Array.from_buffers(kind, len(whole), [None, *whole.buffers()[1:]], null_count=0)


def _now(array: Any, there: pa.Field, field: pa.Field) -> Any:
    kind, lost = field.type, array.is_null()
    if array.offset and pa.types.is_nested(kind):
        array = array.take(pa.arange(0, len(array)))  # from its beginning: its parts don't know of an offset
    if kind == variant_columns.GROUP:
        return variant_columns.groups_in(array)
    if pa.types.is_struct(kind):
        known = {_told_by(one): array.field(i) for i, one in enumerate(there.type)}
        inside = {_told_by(one): one for one in there.type}
        parts = []
        for one in kind:
            name = _told_by(one)
            part = _now(known[name], inside[name], one) if name in known else lacking(len(array), one).combine_chunks()
            parts.append(part if one.nullable or not part.null_count else _filled(part))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=lost)
    if pa.types.is_map(kind):
        keys_now = _now(array.keys, there.type.key_field, kind.key_field)
        items = _now(array.items, there.type.item_field, kind.item_field)
        return pa.MapArray.from_arrays(array.offsets, keys_now, items, type=kind, mask=lost)
    if pa.types.is_list(kind):
        inside_now = _now(array.values, there.type.value_field, kind.value_field)
        return pa.ListArray.from_arrays(array.offsets, inside_now, type=kind, mask=lost)
    return array if array.type == kind else array.cast(kind)


def _told_by(field: pa.Field) -> Any:
    """By what a part of a struct is known: its id, or its name where a file tells no id."""
    return (field.metadata or {}).get(_ID, field.name)


def _file_type(kind: Any) -> pa.DataType:
    if isinstance(kind, Mapping) and kind["type"] == "struct":
        return pa.struct([file_field(one) for one in kind["fields"]])
    if isinstance(kind, Mapping) and kind["type"] == "list":
        return pa.list_(_field("element", kind["element"], kind["element-id"], required=bool(kind["element-required"])))
    if kind == "variant":
        return variant_columns.GROUP
    if isinstance(kind, Mapping):
        key = _field("key", kind["key"], kind["key-id"], required=True)
        return pa.map_(key, _field("value", kind["value"], kind["value-id"], required=bool(kind["value-required"])))
    if kind.startswith("fixed["):
        return pa.binary(int(kind.removeprefix("fixed[").removesuffix("]")))
    if kind in _OTHERS:
        return _OTHERS[kind]
    precision, _, scale = kind.removeprefix("decimal(").removesuffix(")").partition(",")
    try:
        return arrow_type(Type("decimal", int(precision), int(scale)) if scale else Type(kind))
    except (KeyError, ValueError):
        raise TerminalError(f"a column of type {kind}, of which Firn can't write files; drop it") from None
