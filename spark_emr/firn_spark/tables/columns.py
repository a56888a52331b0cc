"""Firn's types as Arrow, Spark and Iceberg's Java know them."""

import json
from typing import Any

import pyarrow as pa

from firn.changes.decode.iceberg_fields import type_json
from firn.changes.decode.types import Type
from firn_spark.arrow import spark_schema
from firn_sql.source_types import arrow_type

__all__ = ["arrow_type", "iceberg_type", "spark_type"]


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
