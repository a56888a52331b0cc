"""Sealed staged batches as one DataFrame of raw changes, with what they say about their tables.

Executors fetch the objects themselves with obstore, so that file://, s3:// and gs:// need no Hadoop file system.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from firn.changes.placing import PLACED_BY, Order, placed
from firn.jobs.facts import SAID_BY, facts_in
from firn.staging.store import get, open_store
from firn_spark.arrow import map_in_arrow

# Staged columns as they are, in the batch's order (docs/architecture.md, "The staged batch").
_STAGED = {
    "index": pa.int32(), "table": pa.string(), "op": pa.string(), "ts": pa.int64(), "connector": pa.string(),
    "order": pa.string(), "tx_order": pa.int64(), "emitted": pa.int64(), "flat": pa.bool_(), "key": pa.string(),
    "before": pa.string(), "after": pa.string(), "schema_id": pa.string(), "schema": pa.string(),
    "occurrence": pa.int32(), "generation": pa.int64(), "origin": pa.string(),
}  # fmt: skip
# pos, ord: see changes/positions.py. occurrence: how many equal changes came before it in the same request.
# fault, fault_text: why the change can't be placed. fact, value: a row that is no change but says something about the
# table: fact "columns" (value: inferred columns), "schema" (the inline schema), "key" (names of the record's key).
RAW = pa.schema(
    {"epoch": pa.int64(), "batch": pa.string()}
    | {name: kind for name, kind in _STAGED.items() if name != "schema"}
    | {"pos": pa.binary(), "ord": pa.binary(), "occurrence": pa.int32()}
    | dict.fromkeys(("fault", "fault_text", "fact", "value"), pa.string())
)
_ROWS_PER_BATCH = 20_000
_FETCHES_AT_ONCE = 8
_BYTES_PER_TASK = 32 * 1024 * 1024


@dataclass(frozen=True)
class SealedBatch:
    """One staged batch of an epoch. `place` numbers the batches of the range in the order they were sealed."""

    epoch: int
    place: int
    batch: str
    path: str
    bytes: int


def raw_changes(
    spark: SparkSession, staging: str, batches: Sequence[SealedBatch], order: Order, *, whole: bool = True
) -> DataFrame:
    """All rows of the batches, columns RAW. Fails if an object is missing or broken: acknowledged data is never
    skipped. `whole` False: objects that have expired are left out, of what is long committed."""
    cores = spark.sparkContext.defaultParallelism
    size = sum(batch.bytes for batch in batches)
    tasks = max(1, min(len(batches), max(cores, size // _BYTES_PER_TASK)))
    sealed = tuple(batches)

    def read(places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(staging)
        mine = [sealed[place] for batch in places for place in batch.column(0).to_pylist()]

        def fetch(batch: SealedBatch) -> bytes | None:
            body = get(store, batch.path)
            if body is None and whole:
                raise FileNotFoundError(
                    f"{batch.path} of epoch {batch.epoch} is missing from {staging}: restore it (bucket versioning), "
                    "never skip it: its sender was told 202"
                )
            return body

        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            for first in range(0, len(mine), _FETCHES_AT_ONCE):
                some = mine[first : first + _FETCHES_AT_ONCE]
                for batch, body in zip(some, pool.map(fetch, some), strict=True):
                    if body is not None:
                        yield from rows_of(batch, body, order)

    return map_in_arrow(spark.range(0, len(sealed), 1, int(tasks)), read, RAW)


def rows_of(batch: SealedBatch, body: bytes, order: Order) -> Iterator[pa.RecordBatch]:
    """The rows of one staged object, then its facts, as record batches of RAW."""
    table = _staged(body)
    rows = table.num_rows
    columns = {name: table.column(name) for name in _STAGED}
    where = placed({name: columns[name].to_pylist() for name in PLACED_BY}, batch.place, order)
    columns |= {name: pa.array(values, RAW.field(name).type) for name, values in where.items()}
    columns["epoch"] = pa.array([batch.epoch] * rows, pa.int64())
    columns["batch"] = pa.array([batch.batch] * rows, pa.string())
    for name in ("fact", "value"):
        columns[name] = pa.nulls(rows, pa.string())
    changes = pa.table([columns[name] for name in RAW.names], schema=RAW)
    yield from changes.to_batches(max_chunksize=_ROWS_PER_BATCH)
    said_by = {name: columns.get(name, table.column(name)).to_pylist() for name in SAID_BY}
    facts = list(facts_in(said_by))
    if facts:
        empty = dict.fromkeys(RAW.names) | {"epoch": batch.epoch, "batch": batch.batch}
        yield pa.RecordBatch.from_pylist([empty | fact for fact in facts], RAW)


def _staged(body: bytes) -> pa.Table:
    """All columns of one staged object; what says nothing is not in the file (docs/architecture.md)."""
    table = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False)  # pq.read_table takes twice as long
    rows = table.num_rows
    columns = []
    for name, kind in _STAGED.items():
        if name in table.column_names:
            column = table.column(name).cast(kind)
        elif name == "index":
            column = pa.array(range(rows), kind)
        elif name == "flat":
            column = pa.repeat(pa.scalar(False, kind), rows)
        else:
            column = pa.nulls(rows, kind)
        columns.append(column)
    return pa.table(columns, names=list(_STAGED))
