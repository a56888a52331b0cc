"""A mirror table's commit out of many changes: Spark's tasks decode them, look up and write, a slice of the keys each.
What has to be decided one by one comes to the job, which decides it as the driver's own process does."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.decode.row_decoder import ChangeId
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key
from firn.changes.merge.ordering import plain as order_of
from firn.changes.positions import WIDTH
from firn.commit.staged_changes import Change, rejected
from firn.errors import TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.routing import Target
from firn_spark.arrow import kept
from firn_spark.driver import shard_parts
from firn_spark.driver.engine import (
    Letters,
    Ready,
    ignored,
    is_one_by_one,
    land,
    late,
    log_of,
    made_ready,
    memory_of,
    mirror_shards,
)
from firn_spark.driver.range import small
from firn_spark.driver.staged_log import StagedLog
from firn_spark.files import copy_on_write, row_lookup, values
from firn_spark.files.row_lineage import with_lineage
from firn_spark.files.write import data_files, layout_of, rows_of, write_rows
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge import mirror_commit as by_rows
from firn_spark.merge.column_decoder import MirrorColumns
from firn_spark.merge.decision import (
    Apart,
    Changes,
    DecidedRows,
    SliceRules,
    check_odd,
    decide_rows,
    decoded,
    keys_in,
    moves_of,
    way_of,
)
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.key_lookup import TableLookup
from firn_spark.merge.survey import Survey
from firn_spark.not_eligible import results_of
from firn_spark.slices import by_partition
from firn_spark.slices.appending import Read, append, read_of
from firn_spark.slices.decoding import Seen, Slicing, labels_of, plain_in, sampled, seen_in
from firn_spark.slices.key_ranges import bounds_of, ends_of
from firn_spark.slices.old_files import rewritten_in
from firn_spark.slices.shared_changes import SharedChanges
from firn_spark.slices.work import Done, Slice, Work, done_in
from firn_spark.staged.batch_facts import facts_without
from firn_spark.staged.frames import changes_in, schemas_in
from firn_spark.table_commit import TableCommit
from firn_spark.tables import deletes

EVENTS = 200_000  # of a slice, about: with 40 columns of 900 bytes in all a worker holds some 600 MB
_TIMES_LARGER = 10  # a change that is decided one by one than one by columns, about: all of some adopted tables
_BYTES = 128 * 1024 * 1024  # of a slice, about, decoded
_AT_ONCE = 4  # slices that are planned
_ONE_TASK = 20_000  # changes that one task decodes faster than several exchange them


class SliceEngine:
    """Commits tables out of the changes of a range (packed.PACKED)."""

    name = "slices"

    def __init__(self, raw: DataFrame, back: Callable[[Target], StagedLog], shared: SharedChanges) -> None:
        """`back`: as for DriverEngine; `shared`: those that several tables take."""
        self._raw = raw
        self._back = back
        self._shared = shared

    def commit(self, one: TableCommit) -> None:
        """As Engine says."""
        MODES[one.planned.mode.name](self, one)

    def append(self, one: TableCommit) -> None:
        """A row for each change."""
        append(one, one.read or self._appended(one), self._bury)

    def rejected(self, one: TableCommit) -> Letters:
        """As Engine says."""
        if one.planned.mode.keyed:
            one.read = read = _read(one, self._mine(one))
            return decoded_rows.why_of(read.changes.bad)
        one.read = rows = self._appended(one)
        return rows.bad

    def told(
        self, target: Target, above: int, without: frozenset[ChangeId], upto: int | None
    ) -> Mapping[str, TableFacts]:
        """As Engine says. A Spark job, or two."""
        mine = _of(self._raw, target, above, upto)
        schemas = schemas_in(self._raw, {*target.schemas(), *target.bad_schemas()})
        return facts_without(mine, without, schemas)

    def mirror(self, one: TableCommit) -> None:
        """Each key's row as its newest changes leave it."""
        if one.target.rule.shard is not None:
            self._mirror_shards(one)
            return
        mine, memory = self._mine(one), memory_of(one, bounded=False)
        decoding, outcome = one.decoding, one.outcome
        read: _Read = one.read or _read(one, mine)
        with one.held:
            parts, told, changes = read.parts, read.told, read.changes
            seen = by_rows.together(told.seen, changes.seen)
            moves, planned = moves_of(changes, memory), _planned(one, memory, told.seen, parts)
            outcome.ignored = ignored(one, seen)
            self._bury(one, changes.odd, decoded_rows.why_of(changes.bad))
            ready = made_ready(one, memory, seen, changes.truncates)
            if ready is None:
                return
            lookup = TableLookup(
                one.context.spark, ready.table, memory, one.plan.columns, one.sources, log_of(one, self._back),
                bounded=False,
            )  # fmt: skip
            emptied = lookup.emptied(decoding, changes.truncates)
            one.at("folding")
            with outcome.stage("merge"), one.context.progress.counting(str(one.target.name)):
                rules = SliceRules(
                    decoding, changes.source, memory.said.floor, changes.emptied(memory.said.truncated),
                    changes.truncates, is_one_by_one(one, memory, changes.truncates, seen.low),
                    Apart(keys_in(changes.good, emptied, decoding), moves),
                )  # fmt: skip
                work = _work(one, memory, ready, rules, planned, seen)
                done = done_in(parts.rows, work)
        rows = [*changes.good, *by_columns.rows_of(done.left, decoding, changes.source)]
        with outcome.stage("rows"):
            decided = decide_rows(rows, changes.truncates, decoding, memory.said.floor, lookup, emptied)
        by = way_of(columns=bool(told.seen.changes), rows=bool(rows))
        outcome.way |= {"lookup": "slices", "by": by, "slices": len(parts.by.labels)}
        self._bury_late(one, mine, decided.decided.too_old, memory.said.floor)
        outcome.decided(done.told + decided.decided.told)
        one.at("writing")
        with outcome.stage("write"):
            written = _written(one, ready, done, decided, emptied.places)
            if ready.newest:  # before the rows: a job that dies in between remembers too much, never too little
                more, creates = by_rows.facts(changes.good, decoding), seen.creates_unavailable
                told_of = (ready.snapshot, ready.placed, ready.newest, creates, one.context.last)
                memory.write_facts(one.plan, {}, more, *told_of, done.facts)
        with outcome.stage("commit"):
            land(one, ready, written)

    def _mirror_shards(self, one: TableCommit) -> None:
        """The same in several tables: tasks read and decode, and the job decides. Parts of ranges are as large as it
        may hold (range_parts.bounded), but for a single request, and for an epoch that was sealed before the stream had
        such a table. Raises TerminalError for one that has more changes of this table."""
        if not small(one.context.epochs, events=one.outcome.events):
            raise TerminalError(
                f"{one.target.name} is a table of several shards, whose changes one process decides, and these are "
                f"{one.outcome.events:,} changes at once: post them in smaller requests. They wait in the log"
            )
        mine = self._mine(one)
        read: _Read = one.read or _read(one, mine)
        with one.held:
            some = read.told
            changes = Changes(plain_in(read.parts.rows, some), some.odd.to_pylist(), one.decoding, one.target.fed[0])
        one.outcome.way["read"] = self.name
        mirror_shards(one, changes, self._back, self._bury, partial(self._bury_late, one, mine))

    def _mine(self, one: TableCommit) -> DataFrame:
        """The changes of the target's sources in the epochs that it lacks."""
        return _of(self._raw, one.target, one.above, one.context.upto)

    def _appended(self, one: TableCommit) -> Read:
        """The same, as an append table takes them."""
        mine, by = self._mine(one), one.appending.shared(one.decoding)
        if by is not None:
            mine = self._shared.of((one.target.sources, one.above), mine, by)
        return read_of(one, mine, EVENTS, _BYTES)

    def _bury_late(self, one: TableCommit, mine: DataFrame, keys: Collection[Key], floor: bytes) -> None:
        """Dead letters for changes of these keys that are older than what is remembered. Decoded again, with their
        batches: this is rare."""
        if keys:
            place = f.col("pos")
            found = changes_in(mine).where(place.isNull() | (place <= f.lit(floor[:WIDTH])))
            old = found.toArrow().to_pylist()
            good, _ = decoded(old, one.decoding, mirror=True)
            self._bury(one, old, late(good, keys, floor, one.decoding))

    def _bury(self, one: TableCommit, changes: Sequence[Change], why: Letters) -> None:
        ids = {change["schema_id"] for change in changes if (change["batch"], change["index"]) in why} - {None}
        schemas = schemas_in(self._raw, ids)
        one.bury(rejected(changes, why, schemas) if why else (), len(why))


def _of(raw: DataFrame, target: Target, above: int, upto: int | None) -> DataFrame:
    epoch = f.col("epoch")
    found = raw.where(f.col("table").isin(*target.sources) & (epoch > above))
    return found if upto is None else found.where(epoch <= upto)


MODES = {"mirror": SliceEngine.mirror, "append": SliceEngine.append}


@dataclass(frozen=True)
class _Parts:
    """The changes by slices (decoding.SLICED), and how they were cut."""

    rows: DataFrame
    by: Slicing[Survey]


@dataclass(frozen=True)
class _Read:
    """The changes of a mirror table by slices, what was told of them, and those that are not plain. Good until the
    commit lets go of them."""

    parts: _Parts
    told: Seen[Survey]
    changes: Changes


def _read(one: TableCommit, mine: DataFrame) -> _Read:
    if one.target.rule.shard is not None:
        shard_parts.cut_where_known(one)
    parts = one.held.enter_context(_sliced(one, mine))
    with one.outcome.stage("read"), one.context.progress.counting(str(one.target.name)):
        told = seen_in(parts.rows, parts.by)
    if one.target.rule.shard is not None:
        shard_parts.at_once(one, partial(check_odd, len(told.odd)))
    changes = Changes(told.plain.schema.empty_table(), told.odd.to_pylist(), one.decoding, one.target.fed[0])
    return _Read(parts, told, changes)


@contextmanager
def _sliced(one: TableCommit, mine: DataFrame) -> Iterator[_Parts]:
    """The changes by slices, kept. Good inside the `with` only."""
    decoding, events = one.decoding, one.target.events(one.outcome.progress)
    bounds = by_columns.keys_of((), decoding)
    one_slice = decoding.no_key or one.target.rule.shard is not None  # without a key every change is a dead letter
    if events > min(EVENTS, _ONE_TASK) and not one_slice:
        with one.outcome.stage("sample"):
            keys, size = sampled(mine, MirrorColumns(), decoding, by_columns.key_names(decoding), events)
            most = EVENTS // _TIMES_LARGER if one.plan.unwritable else EVENTS
            bounds = bounds_of(keys, ceil(max(events / most, events * size / _BYTES)))
    labels = labels_of(mine, len(bounds) + 1)
    by = Slicing(MirrorColumns(), decoding, by_columns.survey, by_rows.together, bounds, labels)
    # One partition needs no shuffle: most tables change little in one range.
    few = mine.coalesce(1) if events <= _ONE_TASK else mine
    with kept(by.sliced(few)) as rows:
        yield _Parts(rows, by)


def _planned(one: TableCommit, memory: DeleteMemory, seen: Survey, parts: _Parts) -> dict[int, Slice]:
    """The slices of plain changes by label. Raises Unfit, fence.LostRace."""
    if not seen.changes:
        return {}
    key = [one.decoding.columns[i] for i in one.decoding.key]
    bounds = values.sought(parts.by.bounds.column(0), key[0].type).to_pylist()
    ends = ends_of(bounds, seen.least, seen.greatest)
    low = order_of(seen.low) or b""

    def planned(number: int, ends: tuple[Any, Any]) -> Slice:
        wanted = row_lookup.Wanted(key, between=ends)
        rows = row_lookup.plan(one.context.spark, one.table, wanted, None) if one.table else row_lookup.Files(wanted)
        older = memory.between(key, b"", ends) if seen.unavailable else None
        return Slice(number, rows, memory.between(key, low, ends), older)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        each = [pool.submit(planned, number, one) for number, one in enumerate(ends)]
    return dict(zip(parts.by.labels, results_of(each), strict=True))


def _work(
    one: TableCommit,
    memory: DeleteMemory,
    ready: Ready,
    rules: SliceRules,
    planned: Mapping[int, Slice],
    seen: Survey,
) -> Work:
    """What the slices have in common. The memory is made before the rows are: facts that nobody needs do no harm."""
    table, layout = ready.table, layout_of(ready.table)
    asked = memory.said.truncated > seen.low or seen.unavailable  # as Slice.older
    return Work(
        rules, ready.shape, table.state.sources, memory.said.truncated,
        memory.truncates() if asked else (), row_lookup.ids_of(table), memory.ids,
        layout, memory.layout(one.plan) if ready.newest else None, ready.snapshot, planned,
        by_partition.WORTH if layout.partition and len(planned) > 1 else 0,
    )  # fmt: skip


def _written(one: TableCommit, ready: Ready, done: Done, rows: DecidedRows, emptied: deletes.Places) -> by_rows.Written:
    """What was decided here is written, and joined with what the slices wrote."""
    spark, table, layout = one.context.spark, ready.table, layout_of(ready.table)
    cells = rows.cells(table.state.sources, ready.shape, layout)
    here = rows_of(layout, [*ready.shape.columns, *by_rows.METADATA], {}, cells)
    places = deletes.together((done.gone, rows.gone(), emptied))
    if one.target.rule.write == "copy-on-write" and places:
        old = copy_on_write.old_files(spark, table, places)
        files = [*done.files, *write_rows(layout, here), *rewritten_in(spark, with_lineage(layout, table), old.files)]
        return by_rows.Written(data_files(spark, table, files), old.removed, places, old.java)
    return by_rows.joined(spark, table, lambda: [*done.files, *write_rows(layout, here)], places)
