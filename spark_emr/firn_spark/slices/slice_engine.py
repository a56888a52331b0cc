"""A mirror table's commit out of many changes: Spark's tasks decode them, look up and write, a slice of the keys each.
What has to be decided one by one comes to the job, which decides it as the driver's own process does."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from firn.changes.merge.ordering import plain as order_of
from firn.changes.positions import WIDTH
from firn.commit.staged_changes import rejected
from firn.tables.routing import Target
from firn_spark.driver import columnar_merge as by_columns
from firn_spark.driver import mirror_commit as by_rows
from firn_spark.driver import row_lookup, values
from firn_spark.driver.decision import (
    Apart,
    Changes,
    DecidedRows,
    decide_rows,
    decoded,
    keys_in,
    moves_of,
    way_of,
)
from firn_spark.driver.delete_memory import DriverMemory
from firn_spark.driver.engine import Why, fits, late, log_of, memory_of, unmoved, why_of
from firn_spark.driver.key_lookup import TableLookup
from firn_spark.driver.staged_changes import Change, Staged
from firn_spark.driver.write import data_files, layout_of, write_cells
from firn_spark.merge import mirror
from firn_spark.merge.deciding import Shape
from firn_spark.merge.mirror import Survey
from firn_spark.not_eligible import Unfit
from firn_spark.slices.decoding import labels_of, sampled, seen_in, sliced
from firn_spark.slices.key_ranges import bounds_of, ends_of
from firn_spark.slices.work import Done, Slice, Work, done_in
from firn_spark.staged.frames import changes_in
from firn_spark.table_commit import TableCommit
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table

EVENTS = 200_000  # of a slice, about: with 40 columns of 900 bytes in all a worker holds some 600 MB
MOST_ROWS = 100_000  # changes of a table that are decided one by one
MOST_FILES = 4_000  # that a slice looks through
MOST_BYTES = 256 * 1024 * 1024  # of them that come to the job at once; Spark refuses more than 1 GB
_BYTES = 128 * 1024 * 1024  # of a slice, about, decoded
_MOST_BYTES_OF_ONE = 1024 * 1024 * 1024  # of a slice: all changes of a key are in one
_AT_ONCE = 4  # slices that are planned
_ONE_TASK = 20_000  # changes that one task decodes faster than several exchange them


class SliceEngine:
    """Commits mirror tables out of the changes of a range (packed.PACKED)."""

    name = "slices"

    def __init__(self, raw: DataFrame, back: Callable[[Target], Staged]) -> None:
        """`back`: as for DriverEngine."""
        self._raw = raw
        self._back = back

    def commit(self, one: TableCommit) -> None:
        """As Engine says."""
        fits(one)
        if one.planned.mode.name != "mirror":
            raise Unfit(f"mode {one.planned.mode.name}")
        if not by_columns.can_be_looked_up(one.decoding) or (one.table and one.decoding.no_key):
            raise Unfit("a key that has no ranges")
        if one.target.events(one.outcome.progress, "t"):
            raise Unfit("a truncate")
        self._mirror(one)

    def _mirror(self, one: TableCommit) -> None:
        context, target, plan, decoding, outcome = one.context, one.target, one.plan, one.decoding, one.outcome
        mine = self._raw.where(f.col("table").isin(*target.sources) & (f.col("epoch") > one.above))
        memory = memory_of(one)
        with _sliced(one, mine) as parts:
            with outcome.stage("read"):
                told = seen_in(parts.rows, decoding, MOST_ROWS, MOST_BYTES)
            if told.largest > _MOST_BYTES_OF_ONE:
                raise Unfit(f"more than {_MOST_BYTES_OF_ONE} bytes in a slice of the keys")
            changes = Changes(told.plain.schema.empty_table(), told.odd.to_pylist(), decoding, target.fed[0])
            seen = by_rows.together(told.seen, changes.seen)
            if told.seen.changes and memory.said.truncated > seen.low:
                raise Unfit("changes from before a truncate")
            moves, planned = moves_of(changes, memory), _planned(one, memory, told.seen, parts)
            outcome.ignored = 0 if decoding.snapshot_reads else target.events(outcome.progress, "r")
            self._bury(one, changes.odd, why_of(changes.bad))
            if one.is_empty(seen.changes - seen.rejected):
                return
            snapshot = one.table.state.snapshot_id if one.table else None
            table, shape = mirror.shape_of(context.tables, one.ready(seen.nulls), plan, decoding.key, seen)
            unmoved(one, table, snapshot)
            # Made before the rows are: facts that nobody needs do no harm.
            facts = memory.layout(plan) if seen.newest_fact else None
            apart = Apart(keys_in(changes.good, decoding), moves)
            with outcome.stage("merge"):
                work = Work(
                    decoding, plan.columns, table.state.sources, target.fed[0], memory.said.floor, apart,
                    row_lookup.ids_of(table), memory.ids, layout_of(table), facts, snapshot, planned,
                    MOST_BYTES // len(parts.labels),
                )  # fmt: skip
                done = done_in(parts.rows, work)
        rows = [*changes.good, *by_columns.rows_of(done.left, decoding, target.fed[0])]
        if len(rows) > MOST_ROWS:
            raise Unfit(f"more than {MOST_ROWS} changes that are not plain")
        lookup = TableLookup(context.spark, table, memory, plan.columns, one.sources, log_of(one, self._back))
        with outcome.stage("rows"):
            decided = decide_rows(rows, (), decoding, memory.said.floor, lookup)
        by = way_of(columns=bool(told.seen.changes), rows=bool(rows))
        outcome.way |= {"lookup": "slices", "by": by, "slices": len(parts.labels)}
        if decided.decided.too_old:
            self._bury_late(one, mine, decided, memory.said.floor)
        outcome.decided(done.told + decided.decided.told)
        with outcome.stage("write"):
            written = _written(one, table, shape, done, decided)
            if facts is not None:  # before the rows: a job that dies in between remembers too much, never too little
                more = by_rows.facts(changes.good, decoding)
                creates = seen.creates_unavailable
                memory.write_facts(plan, {}, more, snapshot, [], seen.newest_fact, creates, context.last, done.facts)
        with outcome.stage("commit"):
            by_rows.land(context.spark, table, written, snapshot, one.summary(), context.stream)
        outcome.snapshot_id = int(table.java.currentSnapshot().snapshotId())

    def _bury_late(self, one: TableCommit, mine: DataFrame, rows: DecidedRows, floor: bytes) -> None:
        """Dead letters for what is older than what is remembered. Decoded again, with their batches: this is rare."""
        place = f.col("pos")
        found = changes_in(mine).where(place.isNull() | (place <= f.lit(floor[:WIDTH])))
        if found.count() > MOST_ROWS:
            raise Unfit(f"more than {MOST_ROWS} changes from before what is remembered")
        old = found.toArrow().to_pylist()
        good, _ = decoded(old, one.decoding, mirror=True)
        self._bury(one, old, late(good, rows.decided.too_old, floor, one.decoding))

    def _bury(self, one: TableCommit, changes: Sequence[Change], why: Why) -> None:
        ids = {change["schema_id"] for change in changes if (change["batch"], change["index"]) in why} - {None}
        schemas = {}
        if ids:
            facts = self._raw.where((f.col("fact") == "schema") & f.col("schema_id").isin(*ids))
            schemas = dict(map(tuple, facts.select("schema_id", "value").distinct().collect()))
        one.bury(rejected(changes, why, schemas) if why else (), len(why))


@dataclass(frozen=True)
class _Parts:
    """The changes by slices (decoding.SLICED), and the slices: where each begins (key_ranges.bounds_of), and their
    labels."""

    rows: DataFrame
    bounds: pa.Table
    labels: Sequence[int]


@contextmanager
def _sliced(one: TableCommit, mine: DataFrame) -> Iterator[_Parts]:
    """The changes by slices, kept. Good inside the `with` only."""
    decoding, events = one.decoding, one.target.events(one.outcome.progress)
    bounds = by_columns.keys_of((), decoding)
    if events > min(EVENTS, _ONE_TASK):
        with one.outcome.stage("sample"):
            keys, size = sampled(mine, decoding, events)
            bounds = bounds_of(keys, ceil(max(events / EVENTS, events * size / _BYTES)))
    if len(bounds) and (one.target.rule.partition_by or (one.table and one.table.state.partitioned_by)):
        raise Unfit("partitioned: each slice would write a file for each partition")
    labels = labels_of(mine, len(bounds) + 1)
    # One partition needs no shuffle: most tables change little in one range.
    few = mine.coalesce(1) if events <= _ONE_TASK else mine
    rows = sliced(few, decoding, bounds, labels).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield _Parts(rows, bounds, labels)
    finally:
        rows.unpersist()


def _planned(one: TableCommit, memory: DriverMemory, seen: Survey, parts: _Parts) -> dict[int, Slice]:
    """The slices of plain changes by label. Raises Unfit, fence.LostRace."""
    if not seen.changes:
        return {}
    key = [one.decoding.columns[i] for i in one.decoding.key]
    ends = ends_of(values.decoded(parts.bounds.column(0), key[0].type))
    low = order_of(seen.low) or b""

    def planned(ends: tuple[Any, Any]) -> Slice:
        wanted = row_lookup.Wanted(key, between=ends)
        rows = (
            row_lookup.plan(one.context.spark, one.table, wanted, MOST_FILES) if one.table else row_lookup.Files(wanted)
        )
        return Slice(rows, memory.between(key, low, ends, MOST_FILES))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(parts.labels, pool.map(planned, ends), strict=True))


def _written(one: TableCommit, table: Table, shape: Shape, done: Done, rows: DecidedRows) -> by_rows.Written:
    """What was decided here is written, and joined with what the slices wrote."""
    spark = one.context.spark
    files = data_files(spark, table, done.files)
    files += write_cells(spark, table, [*shape.columns, *by_rows.METADATA], {}, rows.cells(table, shape))
    places = deletes.together((done.gone, rows.gone()))
    return by_rows.Written(files, deletes.write_from_driver(spark, table, places) if places else [], places)
