"""The types of a source's columns as SQL and Spark get their values: Firn's own, as Arrow."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from firn.changes.decode.types import Column, Type, storable

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.string(),
    "variant": pa.string(),  # as its JSON
    "uuid": pa.string(),  # as text: Spark has no uuid
    "binary": pa.binary(),
    "fixed": pa.binary(),  # of one length in files alone: Spark and SQL know no such type
    "held": pa.map_(pa.int32(), pa.binary()),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of decoded values of `kind`."""
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    if kind.entry is not None:
        return pa.map_(*map(arrow_type, kind.entry))
    if kind.fields:
        return pa.struct([(name, arrow_type(part)) for name, part in kind.fields])
    return _ARROW[kind.name]


def source_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns of a source as SQL sees them."""
    return pa.schema([(column.name, arrow_type(storable(column.type))) for column in columns])
