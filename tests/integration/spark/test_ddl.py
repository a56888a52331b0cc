"""What `to_sql` says, in real Spark: the created table has the same columns, partitions, order and keys."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform, YearTransform
from pyspark.sql import SparkSession

from firn_lake.lake import Lake as Tables
from tests.integration.spark.spark_lake import Lake

pytestmark = pytest.mark.spark

ODD = "it's a `col\"umn.with\\\\ all"
SCHEMA = Schema(
    t.NestedField(1, "id", t.LongType(), required=True, doc="the shop's \\n own \"number\""),
    t.NestedField(2, "at", t.TimestamptzType()),
    t.NestedField(3, "local", t.TimestampType()),
    t.NestedField(4, "day", t.DateType()),
    t.NestedField(5, "price", t.DecimalType(12, 2), doc="two\nlines"),
    t.NestedField(6, "flag", t.BooleanType()),
    t.NestedField(7, "small", t.IntegerType(), required=True),
    t.NestedField(8, "real", t.FloatType()),
    t.NestedField(9, "double", t.DoubleType()),
    t.NestedField(10, "bytes", t.BinaryType()),
    t.NestedField(11, ODD, t.StringType()),
    t.NestedField(12, "address", t.StructType(
        t.NestedField(20, "city", t.StringType(), required=True, doc="where"),
        t.NestedField(21, "dot.ted", t.IntegerType()),
    )),
    t.NestedField(13, "items", t.ListType(22, t.StructType(t.NestedField(23, "sku", t.StringType())), False)),
    t.NestedField(14, "by", t.MapType(24, t.StringType(), 25, t.ListType(26, t.DoubleType(), False), False)),
    identifier_field_ids=[1, 7],
)  # fmt: skip
SPEC = PartitionSpec(
    PartitionField(2, 1000, DayTransform(), "at_day"), PartitionField(1, 1001, BucketTransform(16), "id_bucket"),
    PartitionField(20, 1002, TruncateTransform(3), "address.city_trunc"),
    PartitionField(11, 1003, IdentityTransform(), ODD), PartitionField(4, 1004, YearTransform(), "day_year"),
)  # fmt: skip
ORDER = SortOrder(
    SortField(4, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST), SortField(1, BucketTransform(4))
)


def layout(table: Table) -> dict[str, Any]:
    """All that should be the same, by names: ids are the catalog's."""
    schema = table.schema()
    name = schema.find_column_name
    return {
        "schema": assign_fresh_schema_ids(schema).as_struct(),
        "keys": schema.identifier_field_names(),
        "spec": [(one.name, str(one.transform), name(one.source_id)) for one in table.spec().fields],
        "order": [
            (name(one.source_id), str(one.transform), one.direction, one.null_order)
            for one in table.sort_order().fields
        ],
        "kept": {key: value for key, value in table.properties.items() if key.startswith("write.delete")},
        "comment": table.properties.get("comment"),
    }


def test_the_table_that_spark_makes_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, "streams: {spec: {tables: {a.b: {to: x.y}}}}")
    lake.catalog.create_namespace("shop")
    lake.catalog.create_namespace("other")
    properties = {
        "comment": "it's all; -- of \\\\ them",
        "write.delete.granularity": "partition",
        "firn.stream": "spec",
    }
    lake.catalog.create_table(("shop", "Mixed `x"), SCHEMA, None, SPEC, ORDER, properties)
    opened = Tables(lake.catalog)
    sql = opened.table('shop."Mixed `x"').to_sql()
    assert "--" not in sql.replace("; -- of", "")  # Spark has words for all of it
    lake.spark.sql("USE firn")
    for statement in sql.replace("`shop`.", "`other`.").split(";\n\n"):
        lake.spark.sql(statement)
    made = lake.catalog.load_table(("other", "Mixed `x"))
    assert layout(made) == layout(lake.catalog.load_table(("shop", "Mixed `x")))
    again = opened.table('other."Mixed `x"').to_sql().replace("`other`.", "`shop`.")
    assert again.partition("TBLPROPERTIES")[0] == sql.partition("TBLPROPERTIES")[0]  # Spark adds its own properties
    assert "firn.stream" not in made.properties
