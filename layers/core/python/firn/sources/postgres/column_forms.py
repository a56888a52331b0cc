"""A column of PostgreSQL in the words of a Connect schema, and its values' texts as JSON that fits it. Pure.

The types are those that Debezium's connector gives (docs/types.md), so that a table is the same whichever of both fills
it, and its own modes of decimals, bytes and intervals count (firn.yaml's `debezium:`). The values are not written as
Debezium writes them: dates, times and decimals stay PostgreSQL's own text, which the schema says, and which is exact.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from firn.changes.decode.source_encodings import DecodeSettings
from firn.sources.postgres import value_texts
from firn.sources.postgres.type_catalog import PgType, TypeCatalog

Write = Callable[[bytes], bytes]  # a value's text in UTF-8 -> its JSON; ValueError if it is no text of the type
_encode: Final = msgspec.json.encode


@dataclass(frozen=True)
class ColumnForm:
    """`field`: the Connect field, without the column's name. `write`: from a value's text to its JSON."""

    field: Mapping[str, Any]
    write: Write


def column_form(types: TypeCatalog, oid: int, modifier: int, settings: DecodeSettings) -> ColumnForm:
    """How a column of type `oid` with pg_attribute's `modifier` is written. A type that is not known is text."""
    known, modifier = types.plain(oid, modifier)
    if known is None:
        return _TEXT
    if known.element:
        return _array(types, known, modifier, settings)
    if known.kind == "e":
        return ColumnForm(_field("string", "io.debezium.data.Enum"), _text)
    if known.kind != "b":
        return _TEXT
    match known.name:
        case "numeric":
            return _numeric(modifier, settings)
        case "money":
            return _decimal(38, 2, settings, value_texts.decimal_of_money)
        case "bytea":
            return _BINARY[settings.binary]
        case "bit" | "varbit":
            return _bits(known.name, modifier)
        case "interval":
            return _INTERVALS[settings.interval]
        case name:
            return _SIMPLE.get(name, _TEXT)


def _field(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True} | ({"name": name} if name else {}) | more


def _text(value: bytes) -> bytes:
    return _encode(value.decode())


def _as_is(value: bytes) -> bytes:
    return value


def _through(change: Callable[[str], Any], value: bytes) -> bytes:
    return _encode(change(value.decode()))


def _raw(change: Callable[[str], bytes], value: bytes) -> bytes:
    return change(value.decode())


_SPECIAL: Final = {b"NaN": b'"NaN"', b"Infinity": b'"Infinity"', b"-Infinity": b'"-Infinity"', b"-0": b"-0.0"}


def _float(value: bytes) -> bytes:
    return _SPECIAL.get(value, value)


def _boolean(value: bytes) -> bytes:
    return b"true" if value == b"t" else b"false"


def _bit(value: bytes) -> bytes:
    return b"true" if value == b"1" else b"false"


def _base64(read: Callable[[str], bytes], value: bytes) -> bytes:
    return b'"' + b64encode(read(value.decode())) + b'"'


_TEXT: Final = ColumnForm(_field("string"), _text)
_OF_BYTEA: Final = value_texts.bytes_of


def _encoded(encode: Callable[[bytes], bytes], value: bytes) -> bytes:
    return b'"' + encode(_OF_BYTEA(value.decode())) + b'"'


_BINARY: Final[Mapping[str, ColumnForm]] = {
    "bytes": ColumnForm(_field("bytes"), partial(_encoded, b64encode)),
    "base64": ColumnForm(_field("string"), partial(_encoded, b64encode)),
    "base64-url-safe": ColumnForm(_field("string"), partial(_encoded, urlsafe_b64encode)),
    "hex": ColumnForm(_field("string"), partial(_encoded, lambda data: data.hex().encode())),
}
_INTERVALS: Final[Mapping[str, ColumnForm]] = {
    "numeric": ColumnForm(
        _field("int64", "io.debezium.time.MicroDuration"), partial(_through, value_texts.micros_of_interval)
    ),
    "string": ColumnForm(_field("string", "io.debezium.time.Interval"), partial(_through, value_texts.iso_interval)),
}
_JSON: Final = ColumnForm(_field("string", "io.debezium.data.Json"), _text)
_GEOMETRY: Final = partial(_raw, value_texts.geometry_json)
_SIMPLE: Final[Mapping[str, ColumnForm]] = {
    "bool": ColumnForm(_field("boolean"), _boolean),
    "int2": ColumnForm(_field("int16"), _as_is),
    "int4": ColumnForm(_field("int32"), _as_is),
    "int8": ColumnForm(_field("int64"), _as_is),
    "oid": ColumnForm(_field("int64"), _as_is),
    "float4": ColumnForm(_field("float"), _float),
    "float8": ColumnForm(_field("double"), _float),
    "date": ColumnForm(_field("string", "io.debezium.time.IsoDate"), _text),
    "time": ColumnForm(_field("string", "io.debezium.time.IsoTime"), _text),
    "timetz": ColumnForm(_field("string", "io.debezium.time.ZonedTime"), partial(_through, value_texts.utc_time)),
    "timestamp": ColumnForm(_field("string", "io.debezium.time.IsoTimestamp"), _text),
    "timestamptz": ColumnForm(_field("string", "io.debezium.time.ZonedTimestamp"), _text),
    "uuid": ColumnForm(_field("string", "io.debezium.data.Uuid"), _text),
    "json": _JSON,
    "jsonb": _JSON,
    "hstore": ColumnForm(_JSON.field, partial(_through, value_texts.hstore_json)),
    "xml": ColumnForm(_field("string", "io.debezium.data.Xml"), _text),
    "ltree": ColumnForm(_field("string", "io.debezium.data.Ltree"), _text),
    "tsvector": ColumnForm(_field("string", "io.debezium.data.Tsvector"), _text),
    "point": ColumnForm(_field("struct", "io.debezium.data.geometry.Point"), partial(_raw, value_texts.point_json)),
    "geometry": ColumnForm(_field("struct", "io.debezium.data.geometry.Geometry"), _GEOMETRY),
    "geography": ColumnForm(_field("struct", "io.debezium.data.geometry.Geography"), _GEOMETRY),
}


def _numeric(modifier: int, settings: DecodeSettings) -> ColumnForm:
    # numeric's modifier is ((precision << 16) | scale as 11 bits, signed) + 4: numeric.c, make_numeric_typmod.
    if modifier < 4:
        # Text with the exact digits, unless the mode or the table says otherwise.
        return _DOUBLE if settings.decimal == "double" else _TEXT
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    return _decimal(precision, scale, settings)


_DOUBLE: Final = ColumnForm(_field("double"), _float)


def _decimal(
    precision: int, scale: int, settings: DecodeSettings, change: Callable[[str], str] | None = None
) -> ColumnForm:
    write = _text if change is None else partial(_through, change)
    if settings.decimal == "string":
        return ColumnForm(_TEXT.field, write)
    if settings.decimal == "double":
        return _DOUBLE if change is None else ColumnForm(_DOUBLE.field, lambda value: change(value.decode()).encode())
    parameters = {"precision": str(precision), "scale": str(scale)}
    return ColumnForm(_field("string", "firn.data.Decimal", parameters=parameters), write)


def _bits(name: str, modifier: int) -> ColumnForm:
    if name == "bit" and modifier in (-1, 1):
        return ColumnForm(_field("boolean"), _bit)
    length = {"length": str(modifier)} if modifier > 0 else {}
    return ColumnForm(
        _field("bytes", "io.debezium.data.Bits", parameters=length), partial(_base64, value_texts.bits_of)
    )


def _array(types: TypeCatalog, known: PgType, modifier: int, settings: DecodeSettings) -> ColumnForm:
    """Lists of the elements' form. A value of several dimensions is lists in lists, which no list<T> holds."""
    element = column_form(types, known.element, modifier, settings)
    write, delimiter = element.write, known.delimiter

    def write_items(items: value_texts.Items) -> bytes:
        return b"[" + b",".join(map(write_item, items)) + b"]"

    def write_item(item: "str | value_texts.Items | None") -> bytes:
        if item is None:
            return b"null"
        return write_items(item) if isinstance(item, list) else write(item.encode())

    def write_array(value: bytes) -> bytes:
        return write_items(value_texts.items_of(value.decode(), delimiter))

    return ColumnForm(_field("array", items=dict(element.field)), write_array)
