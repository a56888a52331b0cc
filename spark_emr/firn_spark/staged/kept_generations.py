"""The generation that changes keep when they come again after their stream's was raised (firn.changes.redelivery):
which changes of some batches may have come before, and what the log says of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early, Placed, early, generation_of, lowest, may_be_early, name_of
from firn.commit.lake import place_of
from firn.log.epochs import Epoch
from firn.log.generations import Generations
from firn.log.store import Store
from firn_spark.arrow import map_in_arrow
from firn_spark.staged.frames import packed_changes, raw_changes
from firn_spark.staged.packed import unpacked
from firn_spark.staged.read import SealedBatch, bodies, rows_of

_EARLY = pa.schema({"name": pa.binary(), "table": pa.string(), "time": pa.int64()})
_HELD = pa.schema({"name": pa.binary(), "generation": pa.int64()})


def batches_of(sealed: Mapping[int, Epoch], log: Generations) -> list[SealedBatch]:
    """The batches of the epochs, in the order that they were sealed in."""
    generations = log.of(sealed.values())
    in_order = [(n, number, batch) for n in sorted(sealed) for number, batch in enumerate(sealed[n].batches)]
    return [
        SealedBatch(n, place_of(n, number), batch.id, batch.path, batch.bytes, generations[batch.id])
        for n, number, batch in in_order
    ]


def early_of(columns: Mapping[str, pa.ChunkedArray], until: int) -> Early:
    """redelivered.early of changes in columns `table`, `ord` and `ts`."""
    times = pa.table({"ts": columns["ts"]})["ts"]
    there = pc.fill_null(pc.less_equal(times, until), False)
    if not pc.any(there).as_py():
        return Early()
    return early(_placed({name: pc.filter(columns[name], there) for name in ("table", "ord", "ts")}), until)


def kept_here(
    store: Store, staging: str, log: Generations, batches: Sequence[SealedBatch], found: Early, order: Order, most: int
) -> Mapping[bytes, int] | None:
    """The generations that these changes had, read in this process; None: there are more than `most` bytes to read."""
    older = _older(log, batches, found)
    if sum(batch.bytes for batch in older) > most:
        return None
    parts = (
        lowest(found.names, _placed(rows_of(batch, body, order).changes))
        for batch, body in bodies(store, staging, older, whole=False)
    )
    nothing: dict[bytes, int] = {}
    return reduce(_lower, parts, nothing)


def raw_in_place(
    spark: SparkSession,
    staging: str,
    log: Generations,
    batches: Sequence[SealedBatch],
    order: Order,
    *,
    whole: bool = True,
) -> DataFrame:
    """frames.raw_changes, each change in the generation that it came under first."""
    raw = raw_changes(spark, staging, batches, order, whole=whole)
    until = log.until({batch.generation for batch in batches})
    kept = {} if until is None else _kept_by_spark(spark, staging, log, batches, raw, order, until)
    return raw_changes(spark, staging, batches, replace(order, kept=kept), whole=whole) if kept else raw


def _kept_by_spark(
    spark: SparkSession,
    staging: str,
    log: Generations,
    batches: Sequence[SealedBatch],
    raw: DataFrame,
    order: Order,
    until: int,
) -> dict[bytes, int]:
    def look(packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in unpacked(packed):
            there = changes.filter(pc.less_equal(changes["ts"], until))
            some = [one for one in _placed(there) if may_be_early(*one, until)]
            rows = [{"name": name_of(*one), "table": one[0], "time": one[2]} for one in some]
            yield pa.RecordBatch.from_pylist(rows, _EARLY)

    def said(packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in unpacked(packed):
            some = [(name_of(*one), generation_of(one[1])) for one in _placed(changes) if one[1][:1] == b"\1"]
            yield pa.RecordBatch.from_pylist([{"name": name, "generation": n} for name, n in some], _HELD)

    names = map_in_arrow(packed_changes(raw), look, _EARLY)
    oldest = names.groupBy("table").agg(f.min("time").alias("oldest")).collect()
    tables = frozenset(row["table"] for row in oldest)
    older = _older(log, batches, Early(tables=tables, oldest=min((row["oldest"] for row in oldest), default=0)))
    if not older:
        return {}
    there = map_in_arrow(packed_changes(raw_changes(spark, staging, older, order, whole=False)), said, _HELD)
    both = there.join(names.select("name").distinct(), "name", "left_semi")
    rows = both.groupBy("name").agg(f.min("generation").alias("generation")).collect()
    return {bytes(row["name"]): row["generation"] for row in rows}


def _older(log: Generations, batches: Sequence[SealedBatch], found: Early) -> list[SealedBatch]:
    holding = log.holding(found, {batch.generation for batch in batches}) if found.tables else []
    return batches_of({epoch.n: epoch for epoch in holding}, log)


def _placed(changes: pa.Table | pa.RecordBatch | Mapping[str, pa.ChunkedArray]) -> Iterator[Placed]:
    return zip(*(changes[name].to_pylist() for name in ("table", "ord", "ts")), strict=True)


def _lower(one: dict[bytes, int], other: Mapping[bytes, int]) -> dict[bytes, int]:
    return one | {name: min(n, one.get(name, n)) for name, n in other.items()}
