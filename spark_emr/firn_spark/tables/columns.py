"""Firn's types as Arrow, Spark and Iceberg's Java know them."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from firn.changes.decode.iceberg_fields import type_json
from firn.changes.decode.types import Type
from firn_spark.arrow import spark_schema

_ARROW: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.string(),  # Spark has no uuid: Iceberg's reader and writer turn it to text and back
    "binary": pa.binary(),
    "held": pa.map_(pa.int32(), pa.binary()),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type in which decoded values of `kind` reach Spark."""
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    if kind.fields:
        return pa.struct([(name, arrow_type(part)) for name, part in kind.fields])
    return _ARROW[kind.name]


def spark_type(kind: Type) -> Any:
    """The Spark type of such values."""
    return spark_schema(pa.schema([("x", arrow_type(kind))])).fields[0].dataType


def iceberg_type(jvm: Any, kind: Type, element_id: int = 0) -> Any:
    """The Java `org.apache.iceberg.types.Type`. Iceberg gives fresh ids to fields and elements when it commits."""
    types = jvm.org.apache.iceberg.types.Types
    if kind.name == "decimal":
        return types.DecimalType.of(kind.precision, kind.scale)
    if kind.element is not None:
        return types.ListType.ofOptional(element_id, iceberg_type(jvm, kind.element, element_id + 1))
    if kind.fields:
        return jvm.org.apache.iceberg.SchemaParser.fromJson(
            json.dumps(type_json(kind, 1) | {"schema-id": 0})
        ).asStruct()
    return {
        "boolean": lambda: types.BooleanType.get(),
        "int": lambda: types.IntegerType.get(),
        "long": lambda: types.LongType.get(),
        "float": lambda: types.FloatType.get(),
        "double": lambda: types.DoubleType.get(),
        "date": lambda: types.DateType.get(),
        "timestamp": lambda: types.TimestampType.withoutZone(),
        "timestamptz": lambda: types.TimestampType.withZone(),
        "string": lambda: types.StringType.get(),
        "uuid": lambda: types.UUIDType.get(),
        "binary": lambda: types.BinaryType.get(),
        "held": lambda: types.MapType.ofOptional(
            element_id, element_id + 1, types.IntegerType.get(), types.BinaryType.get()
        ),
    }[kind.name]()
