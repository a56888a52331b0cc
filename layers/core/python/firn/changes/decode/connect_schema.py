"""Inline Kafka Connect schemas to columns, by the semantic names of Connect and Debezium (see docs/types.md)."""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from firn.changes.decode import types
from firn.changes.decode.types import MAX_PRECISION, Column, Encoding, Type, decimal, list_of
from firn.changes.decode.unavailable import MARKED, UNAVAILABLE_AS
from firn.changes.decode.values import MAX_SCALE
from firn.errors import EventError


class _Field(msgspec.Struct, frozen=True):
    type: str
    field: str = ""
    name: str | None = None
    optional: bool = False
    fields: tuple["_Field", ...] = ()
    items: "_Field | None" = None
    keys: "_Field | None" = None
    values: "_Field | None" = None
    parameters: dict[str, Any] | None = None


_decode: Final = msgspec.json.Decoder(_Field).decode

# Lists in lists beyond it are JSON text. Readers of Parquet give up at some 30, and then on the whole table.
_DEEPEST: Final = 16
_BITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_TEXT: Final = (types.STRING, Encoding("string"))
_JSON: Final = (types.STRING, Encoding("json"))

# Connect's own types, for fields without a semantic name.
_PLAIN: Final[Mapping[str, tuple[Type, Encoding]]] = MappingProxyType(
    {
        "boolean": (types.BOOLEAN, Encoding("boolean")),
        "int8": (types.INT, Encoding("integer")),
        "int16": (types.INT, Encoding("integer")),
        "int32": (types.INT, Encoding("integer")),
        "int64": (types.LONG, Encoding("integer")),
        "float": (types.FLOAT, Encoding("float32")),
        "float32": (types.FLOAT, Encoding("float32")),
        "double": (types.DOUBLE, Encoding("float64")),
        "float64": (types.DOUBLE, Encoding("float64")),
        "string": _TEXT,
        "bytes": (types.BINARY, Encoding("binary_base64")),
        "struct": _JSON,
        "map": _JSON,
    }
)

# Semantic names whose type and encoding need no parameters. A name that is in neither table (Enum, EnumSet, Xml, Ltree,
# Tsvector, Interval, Year, ZonedTime, an emitter's own) counts by its Connect type.
_NAMED: Final[Mapping[str, tuple[Type, Encoding]]] = MappingProxyType(
    {
        "io.debezium.time.Date": (types.DATE, Encoding("date_days")),
        "io.debezium.time.IsoDate": (types.DATE, Encoding("date_text")),
        "org.apache.kafka.connect.data.Date": (types.DATE, Encoding("date_days")),
        "io.debezium.time.Time": (types.STRING, Encoding("time_ms")),
        "io.debezium.time.MicroTime": (types.STRING, Encoding("time_us")),
        "io.debezium.time.NanoTime": (types.STRING, Encoding("time_ns")),
        "io.debezium.time.IsoTime": (types.STRING, Encoding("time_text")),
        "org.apache.kafka.connect.data.Time": (types.STRING, Encoding("time_ms")),
        "io.debezium.time.Timestamp": (types.TIMESTAMP, Encoding("timestamp_ms")),
        "io.debezium.time.MicroTimestamp": (types.TIMESTAMP, Encoding("timestamp_us")),
        "io.debezium.time.NanoTimestamp": (types.TIMESTAMP, Encoding("timestamp_ns")),
        "io.debezium.time.IsoTimestamp": (types.TIMESTAMP, Encoding("timestamp_text")),
        # An instant to Connect, a local time to Debezium: a table may hold it as either.
        "org.apache.kafka.connect.data.Timestamp": (types.TIMESTAMP, Encoding("timestamp_ms", zoned=None)),
        "io.debezium.time.ZonedTimestamp": (types.TIMESTAMPTZ, Encoding("timestamp_text", zoned=True)),
        "io.debezium.time.MicroDuration": (types.LONG, Encoding("integer")),
        "io.debezium.time.NanoDuration": (types.LONG, Encoding("integer")),
        "io.debezium.data.Uuid": (types.UUID, Encoding("uuid")),
        "io.debezium.data.Json": _JSON,
        "io.debezium.data.VariableScaleDecimal": (types.STRING, Encoding("decimal_variable")),
        "io.debezium.data.geometry.Point": (types.STRING, Encoding("geometry")),
        "io.debezium.data.geometry.Geometry": (types.STRING, Encoding("geometry")),
        "io.debezium.data.geometry.Geography": (types.STRING, Encoding("geometry")),
    }
)

# Where the connector runs with datatype.propagate.source.type (or column.propagate.source.type), the source's own type.
_SOURCE_TYPE: Final = "__debezium.source.column.type"
_UNSIGNED: Final = re.compile(r"(BIGINT|INT8)\b.*\bUNSIGNED\b", re.IGNORECASE)

# What ExtractNewRecordState may add to a flattened row (add.fields with its default prefix), `__deleted` included.
_SOURCE_FIELDS: Final = (
    "version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence", "schema", "table", "txId",
    "lsn", "xmin", "change_lsn", "commit_lsn", "event_serial_no", "scn", "commit_scn", "rs_id", "ssn", "lcr_position",
    "redo_thread", "user_name", "row_id", "server_id", "gtid", "file", "pos", "row", "thread", "query", "origin",
    "origin_lsn", "msg_lsn", "collection", "ord", "lsid", "txnNumber", "wallTime",
)  # fmt: skip
FLAT_METADATA: Final = frozenset(
    {"__deleted", "__op", "__transaction_id", "__transaction_total_order", "__transaction_data_collection_order"}
    | {f"__{field}" for field in _SOURCE_FIELDS}
    | {f"__source_{field}" for field in _SOURCE_FIELDS}
)


def columns_of(schema_json: bytes, flat: bool = False) -> tuple[Column, ...]:
    """The columns of an inline Connect schema, in its order, each with how the source encodes it.

    schema_json  the `schema` of an event's value: of an envelope (the row is its `after`, else its `before`), or with
                 `flat` of a flattened row (its metadata fields, `__op` and the like, are left out).

    -> () if the schema describes no row (MongoDB's `after` is a string). EventError bad_schema if it is unreadable.
    """
    try:
        root = _decode(schema_json)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise EventError("bad_schema", f"the inline schema is not a Connect schema: {error}") from error
    except RecursionError:
        raise EventError("bad_schema", "the inline schema is nested too deeply") from None
    if flat:
        return tuple(_column(field) for field in root.fields if field.field not in FLAT_METADATA)
    rows = {field.field: field for field in root.fields if field.type == "struct"}
    row = rows.get("after") or rows.get("before")
    columns = tuple(_column(field) for field in row.fields) if row else ()
    if (root.parameters or {}).get(UNAVAILABLE_AS) == MARKED:
        return tuple(replace(one, source=replace(one.source, marked=True)) for one in columns if one.source)
    return columns


def _column(field: _Field) -> Column:
    if not field.field:
        raise EventError("bad_schema", "the inline schema has a column without a name, which no table can have")
    kind, encoding = _meaning(field)
    return Column(field.field, kind, required=not field.optional, source=encoding)


def _meaning(field: _Field, depth: int = 0) -> tuple[Type, Encoding]:
    """The Iceberg type and the encoding of one field, or of an array's items, which are in `depth` arrays."""
    if field.name == "org.apache.kafka.connect.data.Decimal":
        return _decimal(field.parameters or {})
    if field.name == "firn.data.Decimal":
        return _digits(field.parameters or {}), Encoding("decimal_text")
    if field.name == "firn.data.Number":
        return _digits(field.parameters or {}), Encoding("decimal_number")
    if field.name == "firn.data.Text":
        return _PLAIN.get(field.type, _JSON)[0], Encoding("text")
    if field.name == "firn.data.Hex":
        return types.BINARY, Encoding("binary_hex")
    if field.name == "io.debezium.data.Bits":
        length = str((field.parameters or {}).get("length", ""))
        return types.BINARY, Encoding("bits", bits=int(length) if _BITS.fullmatch(length) else 0)
    if field.name is not None and field.name in _NAMED:
        return _NAMED[field.name]
    if field.type == "int64" and _UNSIGNED.match(str((field.parameters or {}).get(_SOURCE_TYPE, ""))):
        return types.storable(types.UNSIGNED), Encoding("unsigned")
    if field.type == "array" and field.items and depth < _DEEPEST:
        kind, encoding = _meaning(field.items, depth + 1)
        return list_of(kind), Encoding("array", element=encoding)
    if field.type == "map" and field.keys and field.values and depth < _DEEPEST:
        of_key, of_value = (_meaning(one, depth + 1)[1] for one in (field.keys, field.values))
        return types.STRING, Encoding("json", element=of_value, key=of_key)  # what a declared map is read by
    return _PLAIN.get(field.type, _JSON)


def _decimal(parameters: Mapping[str, Any]) -> tuple[Type, Encoding]:
    """decimal(p,s) where Iceberg has it, else string with the exact digits: PostgreSQL goes to numeric(1000,1000)."""
    try:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", MAX_PRECISION))
    except (TypeError, ValueError) as error:
        raise EventError(
            "bad_schema", "the inline schema has a Decimal whose scale or precision is not a number"
        ) from error
    if abs(scale) > MAX_SCALE:
        raise EventError("bad_schema", f"the inline schema has a Decimal with a scale beyond {MAX_SCALE}")
    encoding = Encoding("decimal_base64", scale=scale)
    if scale > 1000:  # PostgreSQL's numeric(5,-2): Debezium takes the 11 bits of the scale as unsigned, and scales so
        scale -= 2048
    return _fitting(precision, scale), encoding


def _digits(parameters: Mapping[str, Any]) -> Type:
    """Of digits, in a string or as a JSON number: `precision` and `scale` as the source's column has them; string
    without them."""
    try:
        precision, scale = int(parameters.get("precision", 0)), int(parameters.get("scale", 0))
    except (TypeError, ValueError) as error:
        raise EventError(
            "bad_schema", "the inline schema has a decimal of Firn's whose scale or precision is not a number"
        ) from error
    if abs(scale) > MAX_SCALE:
        raise EventError("bad_schema", f"the inline schema has a decimal of Firn's with a scale beyond {MAX_SCALE}")
    return _fitting(precision, scale)


def _fitting(precision: int, scale: int) -> Type:
    """decimal(p,s) for a source's precision and scale, string where Iceberg has none."""
    if scale < 0:  # whole numbers of precision - scale digits
        precision, scale = precision - scale, 0
    precision = max(precision, scale)  # numeric(3,5) holds 0.00999: five digits for Iceberg
    return decimal(precision, scale) if 1 <= precision <= MAX_PRECISION else types.STRING
