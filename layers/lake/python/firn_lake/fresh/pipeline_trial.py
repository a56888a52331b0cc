"""A pipeline's SQL tried on the newest staged events of its source. Nothing is written."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import STRING, Type, storable
from firn.changes.merge import decoded_rows
from firn.changes.merge.decoded_rows import BATCH, CODE, INDEX, MESSAGE, OP, WIDTH
from firn.commit.staged_changes import facts_of
from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.rule_lookup import SourceNames
from firn.errors import TerminalError
from firn.log import cuts, epochs, layout
from firn.log.store import Store
from firn.tables.batch_facts import TableFacts
from firn.tables.iceberg_format import keeps_nanoseconds
from firn.tables.routing import Target
from firn_lake.fresh.decoded_batch import Batch
from firn_lake.fresh.pending import MOST_CHANGES, Place, Places
from firn_lake.fresh.plain_values import typed
from firn_sql.bound_sql import bound, rows_for
from firn_sql.feed_plan import input_plan
from firn_sql.source_types import source_schema
from firn_sql.transform import NOW, Result

_MOST_EPOCHS: Final = 10_000  # looked through for events of the source
_BATCHES_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Trial:
    """What SQL makes of events.

    events    that were read, oldest first: (batch, index), when each was accepted
    rejected  those that are dead letters before any SQL: place -> code and message
    deletes   places of deletes, which have no row for the SQL of a mirror
    rows      what the SQL gives, by column
    origin    of each row the place of its event
    failed    place of an event -> why it gives no rows
    unseen    columns that the SQL names and no event has: null
    """

    events: Sequence[tuple[str, int]]
    rejected: Mapping[int, str]
    deletes: Sequence[int]
    rows: pa.Table
    origin: Sequence[int]
    failed: Mapping[int, str]
    unseen: Sequence[str]

    def of_each(self) -> Mapping[int, list[dict[str, Any]]]:
        """The rows of each event that gives some."""
        found: dict[int, list[dict[str, Any]]] = {}
        for place, row in zip(self.origin, self.rows.to_pylist(), strict=True):
            found.setdefault(place, []).append(row)
        return found


@dataclass
class Sample:
    """The newest staged changes of one source table of a stream, at most `most`, oldest first."""

    store: Store
    settings: StreamConfig
    source: str
    most: int
    changes: list[Mapping[str, Any]] = field(default_factory=list)
    facts: Mapping[str, TableFacts] = field(default_factory=dict)

    def read(self) -> "Sample":
        """Reads them, looking at MOST_CHANGES staged changes of the stream at most. Raises StorageUnavailable,
        UnreadableBatch."""
        names = SourceNames([self.source])
        found: list[tuple[int, Batch]] = []
        there = looked = 0
        for batches in self._newest_first():
            found[:0] = batches
            looked += sum(batch.size for _, batch in batches)
            there += sum(len(batch.changes[one]) for _, batch in batches for one in batch.changes if _is_it(names, one))
            if there >= self.most or looked >= MOST_CHANGES:
                break
        tables = {table for _, batch in found for table in batch.changes if _is_it(names, table)}
        self.changes = [one for _, batch in found for one in _in_order(batch, tables)][-self.most :]
        counts = Counter((one["table"], one["epoch"], one["op"]) for one in self.changes)
        kept = {one["batch"] for one in self.changes}
        said = [fact for _, batch in found for fact in batch.said if fact["table"] in tables and fact["batch"] in kept]
        self.facts = facts_of(counts, said)
        return self

    def _newest_first(self) -> Iterator[list[tuple[int, Batch]]]:
        """Batches, some at once, those of each time in their order."""
        store, stream = self.store, self.settings.name
        committed = cuts.newest(store, stream) or 0
        free = epochs.candidates(store, stream, datetime.now(UTC), above=committed)
        numbers = epochs.numbers(store, stream)
        places = Places(store, self.settings, max([committed, *numbers[-1:]]))
        waiting = (
            Place(free.next_n, MOST_CHANGES + number, batch, places.log.of_batch(batch.id, None))
            for number, batch in enumerate([*free.batches, *free.left])
        )
        for where in _from_the_end(list(waiting)):
            yield places.read(where, whole=False)
        names = SourceNames([self.source])
        for n in reversed(numbers[-_MOST_EPOCHS:]):
            epoch = epochs.read(store, stream, n)
            if epoch is not None and any(_is_it(names, table) for table in epoch.tables):
                for where in _from_the_end(places.of([epoch])):
                    yield places.read(where, whole=False)


def _from_the_end(where: list[Place]) -> Iterator[list[Place]]:
    for end in range(len(where), 0, -_BATCHES_AT_ONCE):
        yield where[max(0, end - _BATCHES_AT_ONCE) : end]


def _is_it(names: SourceNames, table: str) -> bool:
    return names.find(table) is not None


def _in_order(batch: Batch, tables: set[str]) -> list[Mapping[str, Any]]:
    changes = [one for table in sorted(tables) for one in batch.changes.get(table, ())]
    return sorted(changes, key=lambda one: int(one["index"]))


def try_sql(pipeline: Pipeline, settings: StreamConfig, sample: Sample) -> Trial:
    """What the pipeline's SQL makes of these events. Raises TerminalError for SQL that does not bind to them, or that
    joins tables."""
    if pipeline.joins:
        read = " and ".join(map(str, pipeline.joins))
        raise TerminalError(
            f"pipeline {pipeline.name} joins {read} as it is when rows are committed, and a try commits nothing: take "
            "the JOIN and its columns out to try the rest"
        )
    decoding = _decoding(pipeline, settings, sample)
    decoder = decoded_rows.decoder(decoding, mirror=False)
    good, bad = decoded_rows.decoded_by(decoder, sample.changes)
    events = [(one["batch"], one["index"]) for one in sample.changes]
    places = {event: place for place, event in enumerate(events)}
    rejected = {places[row[BATCH], row[INDEX]]: f"{row[CODE]}: {row[MESSAGE]}" for row in bad}
    deletes = [places[row[BATCH], row[INDEX]] for row in good if pipeline.is_mirror and row[OP] == "d"]
    taken = [row for row in good if not (pipeline.is_mirror and row[OP] == "d") and row[OP] != "t"]
    schema = source_schema(decoding.columns)
    found = bound(pipeline.name, pipeline.sql, schema)
    result = found.transform.run(rows_for(found, _table(taken, decoding, schema)))
    at = [places[row[BATCH], row[INDEX]] for row in taken]
    failed = {at[place]: why for place, why in result.failed.items()}
    return Trial(events, rejected, deletes, result.rows, _origin(result, at), failed, found.unseen)


def _origin(result: Result, at: Sequence[int]) -> list[int]:
    return [at[place] for place in result.origin.to_pylist()]


def _decoding(pipeline: Pipeline, settings: StreamConfig, sample: Sample) -> Decoding:
    tables = tuple(sorted(sample.facts))
    names = {table: sample.source for table in tables if table != sample.source}
    rule = settings.rule_for(pipeline.source) or TableRule(pipeline.source, "firn.trial", mode="append")
    target = Target(TableName("firn", "trial"), rule, tables, tuple(sample.facts[one] for one in tables), names)
    nanoseconds = keeps_nanoseconds(None, pipeline.rule.writing.format if pipeline.rule else None)
    return input_plan(target, pipeline, settings, (), nanoseconds=nanoseconds)[1]


def _table(rows: Sequence[Sequence[Any]], decoding: Decoding, schema: pa.Schema) -> pa.Table:
    arrays = [
        typed([row[WIDTH + place] for row in rows], _as_text(storable(column.type)), schema.field(place).type)
        for place, column in enumerate(decoding.columns)
    ]
    times = pa.array([layout.accepted(row[BATCH]) * 1000 for row in rows], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table([*arrays, times], [*schema.names, NOW])


def _as_text(kind: Type) -> Type:
    return STRING if kind.name == "uuid" else kind
