"""Raw changes between the tasks that read them and those that decode them: packed, many changes of one table in a row.

Spark moves, keeps and counts rows one by one, which costs it more than decoding costs Python. A packed row holds up to
some thousand changes as one Arrow record batch, in the bytes that Arrow reads without a copy.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Staged columns as they are, in the batch's order (docs/architecture.md, "The staged batch").
STAGED = {
    "index": pa.int32(), "table": pa.string(), "op": pa.string(), "ts": pa.int64(), "connector": pa.string(),
    "order": pa.string(), "tx_order": pa.int64(), "emitted": pa.int64(), "flat": pa.bool_(), "key": pa.string(),
    "before": pa.string(), "after": pa.string(), "schema_id": pa.string(), "schema": pa.string(),
    "transaction": pa.string(), "occurrence": pa.int32(), "generation": pa.int64(), "origin": pa.string(),
}  # fmt: skip
# pos, ord: see changes/positions.py. occurrence: how many equal changes came before it in the same request,
# or ordering.OWN_PLACE.
# fault, fault_text: why the change can't be placed.
CHANGES = pa.schema(
    {"epoch": pa.int64(), "batch": pa.string()}
    | {name: kind for name, kind in STAGED.items() if name != "schema"}
    | {"pos": pa.binary(), "ord": pa.binary(), "occurrence": pa.int32()}
    | dict.fromkeys(("fault", "fault_text"), pa.string())
)
# A row with `changes` holds changes of one epoch and table. The others say something of the table in `fact` and
# `value`: "columns" (inferred columns), "schema" (the inline schema), "key" (names of the record's key), "count" (how
# many changes of the epoch have the op that `value` names). `batch`: the first that says so.
PACKED = pa.schema(
    {
        "epoch": pa.int64(), "batch": pa.string(), "table": pa.string(), "flat": pa.bool_(), "schema_id": pa.string(),
        "fact": pa.string(), "value": pa.string(), "count": pa.int64(), "changes": pa.binary(),
    }
)  # fmt: skip
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_TOGETHER = 20_000  # changes in a row, at most
_FULL = 16 * 1024 * 1024  # bytes of changes that a reader holds before it packs them

_Fact = tuple[int, str, bool | None, str | None, str, str | None]


class Packer:
    """Collects the changes and facts of staged objects. Not thread-safe."""

    def __init__(self) -> None:
        self._changes: dict[int, list[pa.Table]] = {}
        self._facts: dict[_Fact, str] = {}
        self._bytes = 0

    def add(self, epoch: int, changes: pa.Table, facts: Iterable[Mapping[str, Any]]) -> None:
        """Take objects: their changes with the columns CHANGES, and what firn.tables.batch_facts says of them, each
        fact with its `batch`."""
        self._changes.setdefault(epoch, []).append(changes)
        self._bytes += changes.nbytes
        for said in facts:
            fact = epoch, said["table"], said.get("flat"), said.get("schema_id"), said["fact"], said["value"]
            self._facts[fact] = min(said["batch"], self._facts.get(fact, said["batch"]))

    @property
    def full(self) -> bool:
        """Whether it is time to pack."""
        return self._bytes >= _FULL

    def packed(self) -> pa.RecordBatch:
        """All that was collected, as rows of PACKED; what comes next starts again."""
        rows: list[dict[str, Any]] = []
        for epoch, tables in self._changes.items():
            for name, changes in by_table(pa.concat_tables(tables)):
                of_table = {"epoch": epoch, "table": name}
                ops = pc.value_counts(changes["op"]).to_pylist()
                rows += [of_table | {"fact": "count", "value": op["values"], "count": op["counts"]} for op in ops]
                batches = changes.combine_chunks().to_batches(max_chunksize=_TOGETHER)
                rows += [of_table | {"changes": bytes_of(batch)} for batch in batches]
        names = ("epoch", "table", "flat", "schema_id", "fact", "value")
        rows += [dict(zip(names, fact, strict=True)) | {"batch": batch} for fact, batch in self._facts.items()]
        self._changes, self._facts, self._bytes = {}, {}, 0
        return pa.RecordBatch.from_pylist(rows, PACKED)


def by_table(changes: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The changes of each source table, in their order."""
    ordered, tables = in_order_of_tables(changes)
    for name, first, count in tables:
        yield name, ordered.slice(first, count)


def in_order_of_tables(changes: pa.Table) -> tuple[pa.Table, list[tuple[str, int, int]]]:
    """The changes, those of each source table one after the other; and of each table where they begin, and how many."""
    if len(pc.unique(changes["table"])) > 1:
        changes = changes.take(pc.sort_indices(changes["table"]))
    counts = pc.value_counts(changes["table"]).to_pylist()  # in order of first appearance
    ends = accumulate((one["counts"] for one in counts), initial=0)
    return changes, [(one["values"], first, one["counts"]) for one, first in zip(counts, ends, strict=False)]


def bytes_of(rows: pa.RecordBatch) -> bytes:
    """Rows with their schema, compressed: Spark copies these bytes half a dozen times, and keeps them on disk."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as writer:
        writer.write_batch(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def rows_in(body: bytes | pa.Buffer) -> pa.RecordBatch:
    """The rows again."""
    return pa.ipc.open_stream(body).read_next_batch()


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Record batches with the columns CHANGES out of those with one column, `changes` of PACKED."""
    for batch in batches:
        for row in batch.column(0):
            yield rows_in(row.as_buffer())
