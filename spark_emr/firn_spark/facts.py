"""Collects what sealed batches say about their tables, with Spark."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.jobs.facts import TableFacts, collected


def facts_of(raw: DataFrame) -> dict[str, TableFacts]:
    """Collects what the rows of `raw` (columns read.RAW) say, by source table. Two small Spark jobs."""
    said = raw.groupBy("table", "flat", "schema_id", "fact", "value").agg(
        f.min(f.struct("epoch", "batch")).alias("first"),
    )
    counts = raw.where(f.col("fact").isNull()).groupBy("table", "epoch", "op").count()
    return collected(
        [row.asDict() for row in said.where(f.col("fact").isNotNull()).orderBy("first").collect()],
        [(row["table"], row["epoch"], row["op"], row["count"]) for row in counts.collect()],
    )
