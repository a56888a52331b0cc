"""Collects what sealed batches say about their tables, with Spark."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.tables.batch_facts import TableFacts, collected


def facts_of(raw: DataFrame) -> dict[str, TableFacts]:
    """Collects what the rows of `raw` (columns packed.PACKED) say, by source table. A small Spark job."""
    of_epoch = f.when(f.col("fact").isin("count", "key"), f.col("epoch")).alias("of")
    rows = (
        raw.where(f.col("fact").isNotNull())
        .groupBy("table", "flat", "schema_id", "fact", "value", of_epoch)
        .agg(f.min(f.struct("epoch", "batch")).alias("first"), f.sum("count").alias("count"))
        .orderBy("first")
        .collect()
    )
    said = [row.asDict() | {"epoch": row["of"]} for row in rows if row["fact"] != "count"]
    return collected(said, [(r["table"], r["of"], r["value"], r["count"]) for r in rows if r["fact"] == "count"])
