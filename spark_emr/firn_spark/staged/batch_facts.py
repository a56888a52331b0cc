"""Collects what sealed batches say about their tables, with Spark."""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.decode.row_decoder import ChangeId
from firn.commit.staged_changes import facts_of as facts_told
from firn.tables.batch_facts import TableFacts, collected
from firn_spark.arrow import map_in_arrow
from firn_spark.staged.facts import said_by_others
from firn_spark.staged.frames import packed_changes
from firn_spark.staged.packed import unpacked

_SAID = pa.schema(
    {
        "epoch": pa.int64(), "batch": pa.string(), "table": pa.string(), "flat": pa.bool_(), "schema_id": pa.string(),
        "fact": pa.string(), "value": pa.string(),
    }
)  # fmt: skip


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


def facts_without(
    mine: DataFrame, without: frozenset[ChangeId], schemas: Mapping[str, str]
) -> Mapping[str, TableFacts]:
    """What the changes of `mine` (packed.PACKED) but for these say of their columns, by source table. `schemas`: the
    texts of the inline schemas by id. A small Spark job."""

    def said(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in unpacked(batches):
            facts = list(said_by_others(pa.Table.from_batches([changes]), without, schemas))
            yield pa.RecordBatch.from_pylist(facts, _SAID)

    found = map_in_arrow(packed_changes(mine), said, _SAID).distinct().collect()
    return facts_told({}, [row.asDict() for row in found])
