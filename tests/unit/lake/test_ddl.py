"""A table as SQL: the text for both dialects, every name and text quoted, and what they can't say."""

import pytest
import sqlglot
from pyiceberg import types as t
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from firn_lake.schemas.ddl import NoSuchDialect, statements
from firn_lake.schemas.ddl_writer import Described, NotInDialect

ORDERS = Described(
    ("shop", "orders"),
    Schema(
        t.NestedField(1, "order_id", t.LongType(), required=True, doc="the shop's own number"),
        t.NestedField(2, "placed", t.TimestamptzType()),
        t.NestedField(3, "total", t.DecimalType(12, 2)),
        t.NestedField(4, "address", t.StructType(
            t.NestedField(10, "city", t.StringType(), required=True, doc="where"),
            t.NestedField(11, "zip", t.IntegerType()),
        )),
        t.NestedField(5, "tags", t.ListType(12, t.StringType(), True)),
        t.NestedField(6, "counts", t.MapType(13, t.StringType(), 14, t.IntegerType(), False)),
        t.NestedField(7, "ref", t.UUIDType()),
        t.NestedField(8, "_firn_pos", t.BinaryType()),
        identifier_field_ids=[1],
    ),
    PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "placed_day"), PartitionField(1, 1001, BucketTransform(16), "shard"),
        PartitionField(10, 1002, TruncateTransform(3), "address.city_trunc"),
        PartitionField(3, 1003, VoidTransform(), "gone"),
    ),
    SortOrder(
        SortField(2, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST), SortField(1, IdentityTransform()),
    ),
    {
        "comment": "it's all orders", "firn.stream": "shop", "write.delete.granularity": "partition",
        "write.data.path": "s3://elsewhere", "write.metadata.metrics.column._firn_pos": "full", "owner": "me",
    },
)  # fmt: skip

SPARK = """\
-- the partition field shard will be called order_id_bucket
-- tags.element is never null, which spark can't say
-- ref is uuid in Iceberg, for which spark has only STRING
CREATE TABLE `shop`.`orders` (
  `order_id` BIGINT NOT NULL COMMENT 'the shop\\'s own number',
  `placed` TIMESTAMP,
  `total` DECIMAL(12,2),
  `address` STRUCT<`city`: STRING NOT NULL COMMENT 'where', `zip`: INT>,
  `tags` ARRAY<STRING>,
  `counts` MAP<STRING, INT>,
  `ref` STRING
)
USING iceberg
PARTITIONED BY (days(`placed`), bucket(16, `order_id`), truncate(3, `address`.`city`))
COMMENT 'it\\'s all orders'
TBLPROPERTIES (
  'format-version' = '2',
  'write.delete.granularity' = 'partition'
)"""

TRINO = """\
-- the partition field shard will be called order_id_bucket
-- address.city is never null, which trino can't say
-- address.city: where
-- tags.element is never null, which trino can't say
-- the identifier fields are order_id, which trino can't say
-- without the property write.delete.granularity, which trino can't set
CREATE TABLE "shop"."orders" (
  "order_id" BIGINT NOT NULL COMMENT 'the shop''s own number',
  "placed" TIMESTAMP(6) WITH TIME ZONE,
  "total" DECIMAL(12,2),
  "address" ROW("city" VARCHAR, "zip" INTEGER),
  "tags" ARRAY(VARCHAR),
  "counts" MAP(VARCHAR, INTEGER),
  "ref" UUID
)
COMMENT 'it''s all orders'
WITH (
  format = 'PARQUET',
  format_version = 2,
  partitioning = ARRAY['day(placed)', 'bucket(order_id, 16)', 'truncate("address.city", 3)'],
  sorted_by = ARRAY['placed DESC NULLS LAST', 'order_id ASC NULLS FIRST']
)"""


def test_spark() -> None:
    create, order, keys = statements(ORDERS)
    notes = sorted(line for line in create.splitlines() if line.startswith("--"))
    assert notes == sorted(line for line in SPARK.splitlines() if line.startswith("--"))
    assert create[create.index("CREATE") :] == SPARK[SPARK.index("CREATE") :]
    assert order == "ALTER TABLE `shop`.`orders` WRITE ORDERED BY `placed` DESC NULLS LAST, `order_id` ASC NULLS FIRST"
    assert keys == "ALTER TABLE `shop`.`orders` SET IDENTIFIER FIELDS `order_id`"


def test_trino() -> None:
    (create,) = statements(ORDERS, "trino")
    notes = sorted(line for line in create.splitlines() if line.startswith("--"))
    assert notes == sorted(line for line in TRINO.splitlines() if line.startswith("--"))
    assert create[create.index("CREATE") :] == TRINO[TRINO.index("CREATE") :]
    assert isinstance(sqlglot.parse_one(create, dialect="trino"), sqlglot.exp.Create)


def test_firns_own_columns_come_when_asked_for() -> None:
    create = statements(ORDERS, metadata=True)[0]
    assert "`_firn_pos` BINARY" in create
    assert "'write.metadata.metrics.column._firn_pos' = 'full'" in create


def one(kind: t.IcebergType, name: str = "c") -> Described:
    schema = Schema(t.NestedField(1, name, kind))
    return Described(("n", "t"), schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, {})


@pytest.mark.parametrize(
    ("kind", "spark", "trino"),
    [
        (t.TimeType(), "STRING", "TIME(6)"), (t.UUIDType(), "STRING", "UUID"), (t.FixedType(4), "BINARY", "VARBINARY"),
        (t.BinaryType(), "BINARY", "VARBINARY"), (t.StringType(), "STRING", "VARCHAR"),
    ],
)  # fmt: skip
def test_a_type_that_an_engine_lacks_is_said_in_a_comment(kind: t.IcebergType, spark: str, trino: str) -> None:
    for dialect, word in (("spark", spark), ("trino", trino)):
        (create,) = statements(one(kind), dialect)
        assert word in create
        assert (f"-- c is {kind} in Iceberg, for which {dialect} has only {word}\n" in create) == (
            word in ("STRING", "BINARY", "VARBINARY") and str(kind) not in ("string", "binary")
        )


@pytest.mark.parametrize("dialect", ["spark", "trino"])
def test_what_an_engine_has_nothing_near_for_is_refused(dialect: str) -> None:
    with pytest.raises(NotInDialect, match=f"c is timestamp_ns, and {dialect} has nothing for that"):
        statements(one(t.TimestampNanoType()), dialect)


def test_names_and_texts_are_quoted() -> None:
    odd = "a`b\"c'd.e\\"
    schema = Schema(
        t.NestedField(
            1,
            odd,
            t.StructType(t.NestedField(2, odd, t.StringType(), doc="x'; DROP TABLE y; --\n\\")),
            doc="\\",
        )
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), f"{odd}.{odd}"))
    table = Described((odd, odd), schema, spec, UNSORTED_SORT_ORDER, {})
    (spark,) = statements(table)
    assert sqlglot.tokenize(spark, dialect="spark")[-1].text == ")"
    quoted = "`" + odd.replace("`", "``") + "`"
    assert f"PARTITIONED BY ({quoted}.{quoted})" in spark
    assert "'x\\'; DROP TABLE y; --\\n\\\\'" in spark
    (trino,) = statements(table, "trino")
    assert '"' + odd.replace('"', '""') + '"' in trino
    assert isinstance(sqlglot.parse_one(trino, dialect="trino"), sqlglot.exp.Create)


def test_trino_is_told_that_its_names_are_lower_case() -> None:
    assert (
        "-- Mixed will be called mixed: trino's names are lower case\n"
        in statements(one(t.LongType(), "Mixed"), "trino")[0]
    )


def test_periods_and_unknown_dialects() -> None:
    table = one(t.TimestamptzType())
    spec = PartitionSpec(PartitionField(1, 1000, YearTransform(), "c_year"))
    table = Described(table.name, table.schema, spec, table.order, {})
    assert "PARTITIONED BY (years(`c`))" in statements(table)[0]
    assert "ARRAY['year(c)']" in statements(table, "trino")[0]
    with pytest.raises(NoSuchDialect, match="write spark or trino"):
        statements(table, "duckdb")
