"""The changes of a sink's source out of some epochs: read, placed and planned, in bounded memory."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, READ, AppendDecoder, Decoding
from firn.changes.merge import decoded_rows
from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early
from firn.commit.staged_changes import facts_of, once, schema_texts
from firn.config.model import TableRule
from firn.config.names import TableName
from firn.log.generations import Generations
from firn.log.store import Store
from firn.sinks.file_rows import SinkRange, reads
from firn.tables.batch_facts import columns_from_json, columns_to_json
from firn.tables.routing import Target
from firn_spark.sinks.spool import Spool
from firn_spark.staged.decode import decoded, decoded_schema
from firn_spark.staged.kept_generations import batches_of, early_of, kept_here
from firn_spark.staged.packed import by_table
from firn_spark.staged.read import SealedBatch, bodies, rows_of_all
from firn_sql.feed_plan import as_seen, input_plan
from firn_sql.source_types import source_schema

_NO_BOUND = 2**63
_DECODED_AT_ONCE = 20_000  # changes


@dataclass(frozen=True)
class SourceChanges:
    """Changes as they were staged (packed.CHANGES, in `parts`, epoch by epoch) and how they become rows.

    events   how many
    columns  what the source's columns are known to be from here on (Plan.columns)
    schemas  the inline schemas by id
    """

    parts: Spool
    events: int
    decoding: Decoding
    columns: str
    schemas: Mapping[str, str]

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, as the SQL sees them."""
        return source_schema(self.decoding.columns)

    def decoded(self, stream: str) -> "Iterator[Events]":
        """The changes, some at a time."""
        for part in self.parts:
            for first in range(0, len(part), _DECODED_AT_ONCE):
                yield _events(part.slice(first, _DECODED_AT_ONCE), self.decoding, stream)


def read(store: Store, staging: str, sink: SinkRange) -> SourceChanges:
    """The changes of the range. `store`: the one at `staging`. Raises FileNotFoundError if a staged object is gone,
    StorageUnavailable, TooManyColumns, and OSError if the disk is full."""
    log = Generations(store, sink.settings, max(sink.epochs))
    batches, order = batches_of(sink.epochs, log), sink.settings.order
    until = log.until({batch.generation for batch in batches})
    found = _Read(store, staging, sink, batches, order)
    if until is not None:
        early = reduce(or_, (early_of(part, until) for part in found.parts), Early())
        kept = kept_here(store, staging, log, batches, early, order, _NO_BOUND)
        if kept:  # redelivered changes keep the generation that they came under first, and so their identity
            found.parts.close()
            found = _Read(store, staging, sink, batches, replace(order, kept=kept))
    said = once(found.said)
    target = _target(sink, found)
    plan, decoding = input_plan(target, sink.pipeline, sink.settings, columns_from_json(sink.columns or "[]"))
    told = columns_to_json(as_seen(plan))
    return SourceChanges(found.parts, sum(found.counts.values()), decoding, told, schema_texts(said))


class _Read:
    """One pass over the staged objects."""

    def __init__(
        self, store: Store, staging: str, sink: SinkRange, batches: Sequence[SealedBatch], order: Order
    ) -> None:
        self.parts = Spool()
        self.counts: Counter[tuple[str, int, str]] = Counter()
        self.said: list[Mapping[str, Any]] = []
        known: dict[str, bool] = {}
        for rows in rows_of_all(bodies(store, staging, batches), order):
            for name, mine in by_table(rows.changes):
                if known.setdefault(name, reads(sink.settings, sink.pipeline, name)):
                    self.parts.add(mine)
                    for op in pc.value_counts(mine["op"]).to_pylist():
                        self.counts[name, rows.epoch, op["values"]] += op["counts"]
            self.said += [fact | {"epoch": rows.epoch} for fact in rows.said if known.get(fact["table"])]


def _target(sink: SinkRange, found: _Read) -> Target:
    """The source's tables as if they fed a table."""
    facts = facts_of(found.counts, found.said)
    sources, whole = tuple(sorted(facts)), sink.pipeline.source
    rule = TableRule(whole, "files.files", (), "append")
    names = {table: whole for table in sources if table != whole}
    return Target(TableName("files", sink.pipeline.name), rule, sources, tuple(facts[one] for one in sources), names)


@dataclass
class Events:
    """Some changes. `staged`: all of them, as they were; `rows`: the source's columns of those that could be decoded,
    `id`, `op`, `ts`, `batch`, `index`: of these; `why`: code and message of the others, by batch and index."""

    staged: pa.Table
    rows: pa.Table
    id: pa.Array
    op: pa.Array
    ts: pa.Array
    batch: pa.Array
    index: pa.Array
    why: dict[tuple[str, int], tuple[str, str]]

    def refuse(self, row: int, code: str, message: str) -> None:
        """A row's change is a dead letter; the first reason counts."""
        self.why.setdefault((self.batch[row].as_py(), self.index[row].as_py()), (code, message))

    def refused(self) -> list[Mapping[str, Any]]:
        """The staged changes of `why`."""
        if not self.why:
            return []
        there = zip(self.staged["batch"].to_pylist(), self.staged["index"].to_pylist(), strict=True)
        found: list[Mapping[str, Any]] = self.staged.filter(pa.array([one in self.why for one in there])).to_pylist()
        return found


def _events(changes: pa.Table, decoding: Decoding, stream: str) -> Events:
    """Changes decoded, in the order in which they arrived."""
    raw = changes.select(READ).combine_chunks().to_batches()
    found = pa.Table.from_batches(list(decoded(raw, decoding, AppendDecoder)), decoded_schema(decoding))
    bad = found.filter(pc.is_valid(found["_code"])).select(["_batch", "_index", "_code", "_message"]).to_pylist()
    good = found.filter(pc.is_null(found["_code"])) if bad else found
    good = good.take(pc.sort_indices(good, [("_batch", "ascending"), ("_index", "ascending")])).combine_chunks()
    names = [decoded_rows.identity(row, stream) for row in zip(*(good[one].to_pylist() for one in META), strict=True)]
    columns = {column.name: good[f"c{i}"] for i, column in enumerate(decoding.columns)}
    own = {one: _whole(good[f"_{one}"]) for one in ("op", "ts", "batch", "index")}
    why = {(one["_batch"], one["_index"]): (one["_code"], one["_message"]) for one in bad}
    return Events(changes, pa.table(columns), pa.array(names, pa.string()), **own, why=why)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
