"""A mirror table's commit out of many changes: Spark's tasks decode them, look up and write, a slice of the keys each.
What has to be decided one by one comes to the job, which decides it as the driver's own process does."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.merge.ordering import plain as order_of
from firn.changes.positions import WIDTH
from firn.commit.staged_changes import rejected
from firn.tables.routing import Target
from firn_spark.arrow import kept
from firn_spark.driver import columnar_merge as by_columns
from firn_spark.driver import copy_on_write, row_lookup, values
from firn_spark.driver import mirror_commit as by_rows
from firn_spark.driver.column_decoder import MirrorColumns
from firn_spark.driver.decision import (
    Apart,
    Changes,
    DecidedRows,
    SliceRules,
    decide_rows,
    decoded,
    keys_in,
    moves_of,
    way_of,
)
from firn_spark.driver.delete_memory import DriverMemory
from firn_spark.driver.engine import (
    Why,
    fits,
    ignored,
    late,
    log_of,
    memory_of,
    remember_truncates,
    truncated_apart,
    unmoved,
    why_of,
)
from firn_spark.driver.key_lookup import TableLookup
from firn_spark.driver.staged_changes import Change, Staged
from firn_spark.driver.write import data_files, layout_of, rows_of, write_rows
from firn_spark.merge import mirror
from firn_spark.merge.deciding import Shape
from firn_spark.merge.memory import newest_of
from firn_spark.merge.mirror import Survey
from firn_spark.not_eligible import Unfit
from firn_spark.slices import by_partition
from firn_spark.slices.appending import append
from firn_spark.slices.decoding import Slicing, labels_of, sampled, seen_in
from firn_spark.slices.key_ranges import bounds_of, ends_of
from firn_spark.slices.old_files import rewritten_in
from firn_spark.slices.work import Done, Slice, Work, done_in
from firn_spark.staged.frames import changes_in
from firn_spark.table_commit import TableCommit
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table

EVENTS = 200_000  # of a slice, about: with 40 columns of 900 bytes in all a worker holds some 600 MB
_BYTES = 128 * 1024 * 1024  # of a slice, about, decoded
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
        mine = self._raw.where(f.col("table").isin(*one.target.sources) & (f.col("epoch") > one.above))
        if one.planned.mode.name == "append":
            append(one, mine, self._bury, EVENTS, _BYTES)
            return
        if not by_columns.can_be_looked_up(one.decoding) or (one.table and one.decoding.no_key):
            raise Unfit("a key that has no ranges")
        self._mirror(one, mine)

    def _mirror(self, one: TableCommit, mine: DataFrame) -> None:
        context, target, plan, decoding, outcome = one.context, one.target, one.plan, one.decoding, one.outcome
        memory = memory_of(one, bounded=False)
        with _sliced(one, mine) as parts:
            with outcome.stage("read"):
                told = seen_in(parts.rows, parts.by)
            changes = Changes(told.plain.schema.empty_table(), told.odd.to_pylist(), decoding, target.fed[0])
            seen = by_rows.together(told.seen, changes.seen)
            moves, planned = moves_of(changes, memory), _planned(one, memory, told.seen, parts)
            outcome.ignored = ignored(one, seen)
            self._bury(one, changes.odd, why_of(changes.bad))
            placed = [each for each in changes.truncates if order_of(each.order)]
            if one.is_empty(seen.changes - seen.rejected):
                remember_truncates(memory, placed, context.last)
                return
            snapshot = one.table.state.snapshot_id if one.table else None
            table, shape = mirror.shape_of(context.tables, one.ready(seen.nulls), plan, decoding.key, seen)
            unmoved(one, table, snapshot)
            # Made before the rows are: facts that nobody needs do no harm.
            newest = max(seen.newest_fact, newest_of(placed))
            facts = memory.layout(plan) if newest else None
            lookup = TableLookup(
                context.spark, table, memory, plan.columns, one.sources, log_of(one, self._back), bounded=False
            )
            emptied = lookup.emptied(decoding, changes.truncates)
            apart = Apart(keys_in(changes.good, emptied, decoding), moves)
            layout = layout_of(table)
            worth = by_partition.WORTH if layout.partition and len(planned) > 1 else 0
            with outcome.stage("merge"):
                rules = SliceRules(
                    decoding, target.fed[0], memory.said.floor, changes.emptied(memory.said.truncated),
                    changes.truncates, truncated_apart(one, memory, changes.truncates, seen.low), apart,
                )  # fmt: skip
                work = Work(
                    rules, shape, table.state.sources, memory.said.truncated,
                    memory.truncates() if memory.said.truncated > seen.low else (), row_lookup.ids_of(table),
                    memory.ids, layout, facts, snapshot, planned, worth,
                )  # fmt: skip
                done = done_in(parts.rows, work)
        rows = [*changes.good, *by_columns.rows_of(done.left, decoding, target.fed[0])]
        with outcome.stage("rows"):
            decided = decide_rows(rows, changes.truncates, decoding, memory.said.floor, lookup, emptied)
        by = way_of(columns=bool(told.seen.changes), rows=bool(rows))
        outcome.way |= {"lookup": "slices", "by": by, "slices": len(parts.by.labels)}
        if decided.decided.too_old:
            self._bury_late(one, mine, decided, memory.said.floor)
        outcome.decided(done.told + decided.decided.told)
        with outcome.stage("write"):
            written = _written(one, table, shape, done, decided, emptied.places)
            outcome.way |= written.way
            if facts is not None:  # before the rows: a job that dies in between remembers too much, never too little
                more = by_rows.facts(changes.good, decoding)
                creates = seen.creates_unavailable
                memory.write_facts(plan, {}, more, snapshot, placed, newest, creates, context.last, done.facts)
        with outcome.stage("commit"):
            by_rows.land(context.spark, table, written, snapshot, one.summary(), context.stream)
        outcome.snapshot_id = int(table.head().snapshotId())

    def _bury_late(self, one: TableCommit, mine: DataFrame, rows: DecidedRows, floor: bytes) -> None:
        """Dead letters for what is older than what is remembered. Decoded again, with their batches: this is rare."""
        place = f.col("pos")
        found = changes_in(mine).where(place.isNull() | (place <= f.lit(floor[:WIDTH])))
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
    """The changes by slices (decoding.SLICED), and how they were cut."""

    rows: DataFrame
    by: Slicing[Survey]


@contextmanager
def _sliced(one: TableCommit, mine: DataFrame) -> Iterator[_Parts]:
    """The changes by slices, kept. Good inside the `with` only."""
    decoding, events = one.decoding, one.target.events(one.outcome.progress)
    bounds = by_columns.keys_of((), decoding)
    if events > min(EVENTS, _ONE_TASK):
        with one.outcome.stage("sample"):
            keys, size = sampled(mine, MirrorColumns(), decoding, by_columns.key_names(decoding), events)
            bounds = bounds_of(keys, ceil(max(events / EVENTS, events * size / _BYTES)))
    labels = labels_of(mine, len(bounds) + 1)
    by = Slicing(MirrorColumns(), decoding, by_columns.survey, by_rows.together, bounds, labels)
    # One partition needs no shuffle: most tables change little in one range.
    few = mine.coalesce(1) if events <= _ONE_TASK else mine
    with kept(by.sliced(few)) as rows:
        yield _Parts(rows, by)


def _planned(one: TableCommit, memory: DriverMemory, seen: Survey, parts: _Parts) -> dict[int, Slice]:
    """The slices of plain changes by label. Raises Unfit, fence.LostRace."""
    if not seen.changes:
        return {}
    key = [one.decoding.columns[i] for i in one.decoding.key]
    ends = ends_of(values.decoded(parts.by.bounds.column(0), key[0].type))
    low = order_of(seen.low) or b""

    def planned(number: int, ends: tuple[Any, Any]) -> Slice:
        wanted = row_lookup.Wanted(key, between=ends)
        rows = row_lookup.plan(one.context.spark, one.table, wanted, None) if one.table else row_lookup.Files(wanted)
        return Slice(number, rows, memory.between(key, low, ends))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(parts.by.labels, pool.map(planned, range(len(ends)), ends), strict=True))


def _written(
    one: TableCommit, table: Table, shape: Shape, done: Done, rows: DecidedRows, emptied: deletes.Places
) -> by_rows.Written:
    """What was decided here is written, and joined with what the slices wrote."""
    spark, layout = one.context.spark, layout_of(table)
    here = rows_of(layout, [*shape.columns, *by_rows.METADATA], {}, rows.cells(table.state.sources, shape))
    places = deletes.together((done.gone, rows.gone(), emptied))
    if one.target.rule.write == "copy-on-write" and places:
        old = copy_on_write.old_files(table, places)
        files = [*done.files, *write_rows(layout, here), *rewritten_in(spark, layout, old.files)]
        return by_rows.Written(data_files(spark, table, files), [], places, old.java)
    return by_rows.joined(spark, table, lambda: [*done.files, *write_rows(layout, here)], places)
