"""Every change once into an append table: Iceberg's own writers, then one fenced commit through the Java API.

`apply` is the engine's whole interface.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as SqlColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.types import Column
from firn.changes.metadata_columns import BEFORE, IDENTITY, OP, POSITION, TIME
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table
from firn_spark.tables.writing import write_rows


def identified(changes: DataFrame, stream: str) -> DataFrame:
    """`changes` with their identity `_id`, one row for each: what was delivered twice is one change.

    The identity is changes.merge.decoded_rows.identity, of which this is the expression for Spark.
    """
    number = f.concat(f.lit("t"), f.col("_tx_order").cast("string"))
    which = f.coalesce(number, f.concat(f.lit("o"), f.col("_occurrence").cast("string")))
    identity = _hashed(f.concat_ws(":", f.lit(stream), f.hex("_ord"), which, "_table"))
    return changes.withColumn("_id", identity).dropDuplicates(["_id"])


def first_identity() -> SqlColumn:
    """changes.told.first_identity."""
    return _hashed(f.concat_ws(":", f.hex("_pos"), "_op", f.coalesce(
        f.concat(f.lit("t"), f.col("_tx_order").cast("string")),
        f.concat(f.lit("o"), f.hex("_ord"), f.lit(":"), f.col("_occurrence").cast("string")),
    )))  # fmt: skip


def _hashed(placed: SqlColumn) -> SqlColumn:
    """Of what has no position the batch and the place in it count; a replayed dead letter keeps its first."""
    first = f.coalesce("_origin", f.concat_ws(":", "_batch", f.col("_index").cast("string")))
    return f.md5(f.when(f.col("_pos").isNotNull(), placed).otherwise(f.concat_ws(":", f.lit("b"), first)))


def new_rows(
    spark: SparkSession, table: Table, changes: DataFrame, columns: Sequence[Column], stream: str
) -> DataFrame:
    """The rows that `changes` (as `identified` gives them) add to the table: those whose identity is not in it yet.

    The columns carry the table's own names. Looks only at rows of the positions that the changes span.
    """
    low, high = changes.agg(f.min("_pos"), f.max("_pos")).first() or (None, None)
    there = spark.table(table.sql).select(f.col(IDENTITY).alias("there"), f.col(POSITION).alias("at"))
    near = f.lit(False) if low is None else f.col("at").between(f.lit(low), f.lit(high))
    there = there.where(near | f.col("at").isNull()).select("there")
    new = changes.join(there, f.col("_id") == f.col("there"), "left_anti")
    if stream in table.state.first_identity:
        new = new.join(there, first_identity() == f.col("there"), "left_anti")
    return new.select(
        *(f.col(f"c{i}").alias(column.name) for i, column in enumerate(columns)),
        f.col("_op").alias(OP),
        f.col("_pos").alias(POSITION),
        f.timestamp_millis("_ts").alias(TIME),
        f.col("_before").alias(BEFORE),
        f.col("_id").alias(IDENTITY),
    )


def apply(spark: SparkSession, table: Table, rows: DataFrame, properties: Mapping[str, str], stream: str) -> None:
    """Appends `rows` (names as in the table) in one snapshot whose summary carries `properties`.

    Raises fence.LostRace if the table moved (nothing was applied: look again), fence.CommitUnknown.
    """
    files = write_rows(spark, table, rows)
    append = table.java.newAppend()
    for file in files:
        append.appendFile(file)
    fence.commit(spark, table, append, files, properties, stream)
