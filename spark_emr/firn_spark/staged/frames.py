"""Raw changes as DataFrames: read, unpacked and surveyed by the executors.

Executors fetch the staged objects themselves with obstore, so that file://, s3:// and gs:// need no Hadoop file system.
"""

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.merge.ordering import Order
from firn.log.store import open_store
from firn.quarantine.rules import High, Span
from firn_spark.arrow import map_in_arrow
from firn_spark.staged.packed import CHANGES, PACKED, Packer, unpacked
from firn_spark.staged.read import SealedBatch, bodies, rows_of_all
from firn_spark.staged.span import span_of_batch, together

_SPANS = pa.schema({"span": pa.binary()})
_BYTES_PER_TASK = 32 * 1024 * 1024


def raw_changes(
    spark: SparkSession, staging: str, batches: Sequence[SealedBatch], order: Order, *, whole: bool = True
) -> DataFrame:
    """All changes of the batches and what they say, columns packed.PACKED. Fails if an object is missing or broken:
    acknowledged data is never skipped. `whole` False: objects that have expired are left out, of what is long
    committed."""
    cores = spark.sparkContext.defaultParallelism
    size = sum(batch.bytes for batch in batches)
    tasks = max(1, min(len(batches), max(cores, size // _BYTES_PER_TASK)))
    sealed = tuple(batches)

    def read(places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [sealed[place] for batch in places for place in batch.column(0).to_pylist()]
        packer = Packer()
        for rows in rows_of_all(bodies(open_store(staging), staging, mine, whole=whole), order):
            packer.add(rows.epoch, rows.changes, rows.said)
            if packer.full:
                yield packer.packed()
        yield packer.packed()

    return map_in_arrow(spark.range(0, len(sealed), 1, int(tasks)), read, PACKED)


def packed_changes(raw: DataFrame) -> DataFrame:
    """The column `changes` of the rows of `raw` (PACKED) that have one."""
    return raw.where(f.col("changes").isNotNull()).select("changes")


def changes_in(raw: DataFrame, names: Sequence[str] = tuple(CHANGES.names)) -> DataFrame:
    """The changes of `raw` (PACKED) as rows, with these columns of CHANGES."""
    wanted = list(names)

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in unpacked(batches):
            yield changes.select(wanted)

    return map_in_arrow(packed_changes(raw), unpack, pa.schema([CHANGES.field(name) for name in wanted]))


def schemas_in(raw: DataFrame, ids: Collection[str]) -> dict[str, str]:
    """The inline schemas of these ids, which `raw` (PACKED) holds as facts. A Spark job, if there are any."""
    if not ids:
        return {}
    facts = raw.where((f.col("fact") == "schema") & f.col("schema_id").isin(*ids))
    return {row["schema_id"]: row["value"] for row in facts.select("schema_id", "value").distinct().collect()}


def span_in(raw: DataFrame, high: High | None) -> Span:
    """The span of all changes of `raw` (columns packed.PACKED). One Spark job, of which a few rows come back."""

    def spans(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in unpacked(batches):
            span = pickle.dumps(span_of_batch(changes, high))
            yield pa.RecordBatch.from_pydict({"span": [span]}, _SPANS)

    rows = map_in_arrow(packed_changes(raw), spans, _SPANS).collect()
    return together([pickle.loads(row["span"]) for row in rows])  # noqa: S301 (our own executors wrote it)
