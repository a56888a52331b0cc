"""Staged objects as raw changes (packed.py), with what they say about their tables: fetched, read and placed, by
executors, readers and the job's own process alike."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.changes.change import TIMES
from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.log import layout
from firn.log.store import Store, get
from firn.tables.batch_facts import SAID_BY, facts_in
from firn_spark.staged.packed import CHANGES, STAGED

_FETCHES_AT_ONCE = 8


@dataclass(frozen=True)
class SealedBatch:
    """One staged batch of an epoch, and the generation that it counts under (firn.log.generations). `place` numbers
    the batches of the range in the order they were sealed."""

    epoch: int
    place: int
    batch: str
    path: str
    bytes: int
    generation: int = 0


def bodies(
    store: Store, staging: str, batches: Sequence[SealedBatch], *, whole: bool = True
) -> Iterator[tuple[SealedBatch, bytes]]:
    """The objects of the batches, some fetched ahead. `store`: the one at `staging`; `whole`: as for `raw_changes`."""

    def fetch(batch: SealedBatch) -> bytes | None:
        body = get(store, batch.path)
        if body is None and whole:
            raise FileNotFoundError(
                f"{batch.path} of epoch {batch.epoch} is missing from {staging}: restore it (bucket versioning), "
                "never skip it: its sender was told 202"
            )
        return body

    with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
        for first in range(0, len(batches), _FETCHES_AT_ONCE):
            some = batches[first : first + _FETCHES_AT_ONCE]
            for batch, body in zip(some, pool.map(fetch, some), strict=True):
                if body is not None:
                    yield batch, body


def rows_of(batch: SealedBatch, body: bytes, order: Order) -> tuple[pa.Table, list[dict[str, Any]]]:
    """The changes of one staged object, columns packed.CHANGES, and its facts. `order`: the stream's; the generation is
    the batch's own."""
    columns = _staged(body)
    rows = len(columns["table"])
    nothing = [None] * rows
    lists = {
        name: nothing if columns[name].null_count == rows else columns[name].to_pylist()
        for name in {*PLACED_BY, *SAID_BY}
    }
    by = replace(order, generation=batch.generation)
    times = {"ts": columns["ts"].to_pylist()} if order.kept or not _in_time(columns["ts"]) else {}
    named = {name: lists[name] for name in PLACED_BY} | times
    where = placed(named, batch.place, by, layout.accepted(batch.batch))
    said, bad = facts_in({name: lists[name] for name in SAID_BY})
    for row, why in bad.items():
        if where["fault"][row] is None:
            where["fault"][row], where["fault_text"][row] = why.code, str(why)
    changes = columns | {name: pa.array(values, CHANGES.field(name).type) for name, values in where.items()}
    changes["epoch"] = pa.repeat(pa.scalar(batch.epoch, pa.int64()), rows)
    changes["batch"] = pa.repeat(pa.scalar(batch.batch, pa.string()), rows)
    table = pa.table([changes[name] for name in CHANGES.names], schema=CHANGES)
    return table, said


def _in_time(times: Any) -> bool:
    ends = pc.min_max(times).as_py()
    return all(end is None or end in TIMES for end in ends.values())


def _staged(body: bytes) -> dict[str, Any]:
    """All columns of one staged object; what says nothing is not in the file (docs/architecture.md)."""
    table = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False)  # pq.read_table takes twice as long
    rows = table.num_rows
    columns = {}
    for name, kind in STAGED.items():
        if name in table.column_names:
            column = table.column(name)
            columns[name] = column if column.type == kind else column.cast(kind)
        elif name == "index":
            columns[name] = pa.array(range(rows), kind)
        elif name == "flat":
            columns[name] = pa.repeat(pa.scalar(False, kind), rows)
        else:
            columns[name] = pa.nulls(rows, kind)
    return columns
