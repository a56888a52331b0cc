"""Firn's types as Arrow, Spark and Iceberg's Java know them."""

import json
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.changes.decode.iceberg_fields import typed_json
from firn.changes.decode.types import Type
from firn_spark.arrow import spark_schema
from firn_spark.tables.java import java_class
from firn_sql.source_types import arrow_type

__all__ = ["arrow_type", "iceberg_type", "spark_type"]


def spark_type(kind: Type) -> Any:
    """The Spark type of such values."""
    return spark_schema(pa.schema([("x", arrow_type(kind))])).fields[0].dataType


def iceberg_type(spark: SparkSession, kind: Type) -> Any:
    """The Java `org.apache.iceberg.types.Type`. Iceberg gives fresh ids to fields and elements when it commits."""
    field = {"id": 1, "name": "x", "required": False, "type": typed_json(kind, count(2))}
    parser = java_class(spark, "org.apache.iceberg.SchemaParser")
    return parser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": [field]})).findType("x")
