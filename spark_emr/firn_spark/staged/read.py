"""Staged objects as raw changes (packed.py), with what they say about their tables: fetched, read and placed, by
executors, readers and the job's own process alike."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firn.changes.merge.ordering import Order
from firn.log import layout
from firn.log.store import Store, get
from firn_spark.staged.facts import facts_of
from firn_spark.staged.packed import CHANGES, STAGED
from firn_spark.staged.placing import placed

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
    by = replace(order, generation=batch.generation)
    changes = columns | placed(columns, batch.place, by, layout.accepted(batch.batch))
    said, bad = facts_of(columns)
    if bad:
        changes |= _with_faults(changes, {row: (why.code, str(why)) for row, why in bad.items()})
    changes["epoch"] = pa.repeat(pa.scalar(batch.epoch, pa.int64()), rows)
    changes["batch"] = pa.repeat(pa.scalar(batch.batch, pa.string()), rows)
    return pa.table([changes[name] for name in CHANGES.names], schema=CHANGES), said


def _with_faults(changes: Mapping[str, pa.Array], bad: Mapping[int, tuple[str, str]]) -> dict[str, pa.Array]:
    """The faults, and more of them: the first of a change counts."""
    codes, texts = changes["fault"].to_pylist(), changes["fault_text"].to_pylist()
    for row, why in bad.items():
        if codes[row] is None:
            codes[row], texts[row] = why
    return {"fault": pa.array(codes, pa.string()), "fault_text": pa.array(texts, pa.string())}


def _staged(body: bytes) -> dict[str, pa.Array]:
    """All columns of one staged object; what says nothing is not in the file (docs/architecture.md)."""
    table = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False)  # pq.read_table takes twice as long
    rows = table.num_rows
    columns = {}
    for name, kind in STAGED.items():
        if name in table.column_names:
            column = table.column(name)
            whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            columns[name] = whole if whole.type == kind else whole.cast(kind)
        elif name == "index":
            columns[name] = pa.array(range(rows), kind)
        elif name == "flat":
            columns[name] = pa.repeat(pa.scalar(False, kind), rows)
        else:
            columns[name] = pa.nulls(rows, kind)
    return columns
