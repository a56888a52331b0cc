"""A table's commit in the job's own process, without a Spark job: its changes are in this process or its readers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from firn.changes.decode.row_decoder import ChangeId, Decoding, Why
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import plain
from firn.changes.positions import WIDTH
from firn.commit.staged_changes import Change, rejected
from firn.tables.batch_facts import TableFacts
from firn.tables.planning import ColumnPlan
from firn.tables.routing import Target, all_of
from firn.tables.table_plan import with_schemas
from firn.tables.table_state import are_several, by_number
from firn_spark.driver import shard_parts
from firn_spark.driver.sharded_mirror import ShardedMirror
from firn_spark.driver.staged_changes import Part, Split, Staged
from firn_spark.driver.staged_log import StagedLog
from firn_spark.merge import append_columns, append_commit, column_decoder
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge import mirror_commit as by_rows
from firn_spark.merge.decision import MOST_ODD, Changes, check_odd, decide_keys, decoded
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.facts_table import FactsTable, name_in, newest_of
from firn_spark.merge.key_lookup import Log, TableLookup
from firn_spark.merge.shape import Shape, shape_of
from firn_spark.merge.survey import Survey
from firn_spark.table_commit import TableCommit
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table
from firn_spark.tables.metadata_cache import KNOWN

Letters = Mapping[ChangeId, Why]
_TOO_OLD = (
    "the table does not have this key, and the memory of its deletes does not reach back to this change: it may "
    "have been deleted since; if it was not, take a new snapshot of the source under a new generation"
)


class DriverEngine:
    """Commits tables out of staged changes."""

    name = "driver"

    def __init__(self, staged: Staged, back: Callable[[Target], StagedLog]) -> None:
        """`back`: all changes for a target that the staged log still holds."""
        self._staged = staged
        self._back = back

    def commit(self, one: TableCommit) -> None:
        """As Engine says."""
        MODES[one.planned.mode.name](self, one)

    def rejected(self, one: TableCommit) -> Letters:
        """As Engine says."""
        if one.planned.mode.keyed:
            one.read = changes = _changes(one, self._mine(one))
            return decoded_rows.why_of(changes.bad)
        one.read = read = self._appended(one)
        return read.bad

    def told(
        self, target: Target, above: int, without: frozenset[ChangeId], upto: int | None
    ) -> Mapping[str, TableFacts]:
        """As Engine says."""
        return self._staged.told(target.sources, above, without, upto)

    def _mine(self, one: TableCommit) -> Part:
        return self._staged.of(one.target.sources, one.above, one.context.upto)

    def _appended(self, one: TableCommit) -> "_Appended":
        found = self._mine(one).split(one.appending, one.decoding, MOST_ODD)
        return _Appended(found.plain, found.odd.to_pylist(), one.appending.why(found.odd, one.decoding))

    def mirror(self, one: TableCommit) -> None:
        """Each key's row as its newest changes leave it."""
        if one.target.rule.shard is not None:
            self._mirror_shards(one)
            return
        context, target, plan, decoding, outcome = one.context, one.target, one.plan, one.decoding, one.outcome
        mine = self._mine(one)
        memory = memory_of(one, bounded=True)
        changes: Changes = one.read or _changes(one, mine)
        one.at("folding")
        seen = changes.seen
        lookup = TableLookup(
            context.spark, one.table, memory, plan.columns, one.sources, log_of(one, self._back), bounded=True
        )
        one_by_one = is_one_by_one(one, memory, changes.truncates, seen.low)
        decided = decide_keys(changes, memory, lookup, one_by_one=one_by_one)
        outcome.way |= {"lookup": "driver", "by": decided.way}
        outcome.ignored = ignored(one, seen)
        self._bury(one, changes.odd, decoded_rows.why_of(changes.bad))
        ready = made_ready(one, memory, seen, changes.truncates)
        if ready is None:
            return
        self._bury_late(one, mine, decided.rows.decided.too_old, memory.said.floor)
        outcome.decided(decided.told)
        one.at("writing")
        with ThreadPoolExecutor(1) as pool:
            facts = by_columns.facts(changes.whole, decoding, target.fed[0]), by_rows.facts(changes.good, decoding)
            told = (*facts, ready.snapshot, ready.placed, ready.newest, seen.creates_unavailable, context.last)
            remembered = pool.submit(memory.write_facts, plan, *told) if ready.newest else None
            old = target.rule.write == "copy-on-write"
            written = decided.write(context.spark, ready.table, ready.shape, old=old)
            if remembered is not None:
                remembered.result()  # before the rows: a job that dies in between remembers too much, never too little
        land(one, ready, written)

    def _mirror_shards(self, one: TableCommit) -> None:
        """The same in several tables."""
        mine = self._mine(one)
        changes: Changes = one.read or _changes(one, mine)
        mirror_shards(one, changes, self._back, self._bury, partial(self._bury_late, one, mine))

    def append(self, one: TableCommit) -> None:
        """A row for each change."""
        context, outcome = one.context, one.outcome
        read: _Appended = one.read or self._appended(one)
        one.at("folding")
        good = read.good
        new = append_commit.new_rows(context.spark, one.table, good)
        outcome.way["lookup"] = "driver"
        self._bury(one, read.odd, read.bad)
        if one.is_empty(len(good)):
            return
        snapshot = one.table.state.snapshot_id if one.table else None
        table = one.ready(append_columns.nulls(good, one.plan.columns))
        unmoved(one, table, snapshot)
        outcome.merged, told = (one.appending.changes_in(some) for some in (new, good))
        outcome.ignored = outcome.events - told - len(read.bad)
        outcome.superseded = told - outcome.merged
        one.at("writing")
        append_commit.apply(context.spark, table, new, one.plan.columns, one.summary(), one.appending.own)
        landed(one, table)

    def _bury_late(self, one: TableCommit, mine: Part, keys: Collection[Key], floor: bytes) -> None:
        """Changes of these keys, which the memory no longer reaches back to. Decoded again, with their batches: this is
        rare."""
        if keys:
            upto = mine.rows_upto(floor[:WIDTH])
            good, _ = decoded(upto, one.decoding, mirror=True)
            self._bury(one, upto, late(good, keys, floor, one.decoding))

    def _bury(self, one: TableCommit, changes: Sequence[Change], why: Letters) -> None:
        one.bury(rejected(changes, why, self._staged.schemas) if why else (), len(why))


@dataclass(frozen=True)
class _Appended:
    """The changes for an append table: `good` by columns, `odd` the others as they were staged, `bad` of these."""

    good: pa.Table
    odd: Sequence[Change]
    bad: Letters


def mirror_shards(
    one: TableCommit,
    changes: Changes,
    back: Callable[[Target], StagedLog],
    bury: Callable[[TableCommit, Sequence[Change], Letters], None],
    bury_late: Callable[[Collection[Key], bytes], None],
) -> None:
    """Commits a mirror table of several shards: all its changes are decided in this process, whoever has read them.
    `bury`: writes dead letters; `bury_late`: those of the changes of some keys, up to a floor; `back`: as for
    DriverEngine."""
    context, outcome, memory = one.context, one.outcome, memory_of(one, bounded=False)
    one.at("folding")
    seen, work = changes.seen, ShardedMirror(one, changes, memory, log_of(one, back))
    decided = work.decide()
    outcome.way |= {"lookup": "driver", "by": decided.way, "shards": len(decided.reached)}
    outcome.ignored = ignored(one, seen)
    bury(one, changes.odd, decoded_rows.why_of(changes.bad))
    ready = made_ready(one, memory, seen, changes.truncates)
    if ready is None:
        return
    bury_late(decided.rows.too_old, memory.said.floor)
    outcome.decided(decided.told)
    one.at("writing")
    if ready.newest:  # before all rows, as of one table
        facts = by_columns.facts(changes.whole, one.decoding, changes.source), by_rows.facts(changes.good, one.decoding)
        told = (*facts, ready.snapshot, ready.placed, ready.newest, seen.creates_unavailable, context.last)
        memory.write_facts(one.plan, *told)
    if tenants := work.admit(decided):
        outcome.way["tenants"] = ", ".join(tenants)
    at = work.bring(decided, seen, ready.table)
    written = work.write(work.rest, decided, ready.table, ready.shape)
    land(one, ready, written, work.told(at))


MODES = {"mirror": DriverEngine.mirror, "append": DriverEngine.append}


def memory_of(one: TableCommit, *, bounded: bool) -> DeleteMemory:
    """What the table remembers, looked at. `bounded`: as for TableLookup. Raises as FactsTable.look and check."""
    context = one.context
    facts = FactsTable(
        context.spark, context.tables, one.target.name, context.stream, context.warehouse,
        name_in(one.table.state.properties) if one.table else None,
        numbers=by_number(context.config.order_by, one.plan.columns),
    )  # fmt: skip
    facts.look(one.planned.renames)
    facts.check([one.plan.columns[place].name for place in one.decoding.key])
    facts.fit(one.plan)
    return DeleteMemory(facts, bounded)


def log_of(one: TableCommit, back: Callable[[Target], StagedLog]) -> Log:
    """What the table alone can't tell any more. `back`: as for DriverEngine."""
    target = all_of(one.target, one.table.state if one.table else None, one.context.config)

    def log(keys: Collection[Key]) -> tuple[list[RowChange], Mapping[bytes, int | None]]:
        staged = back(target)
        every = with_schemas(one.decoding, target, staged.facts)
        mine = staged.rows(target.sources, every, keys)
        changes = [decoded_rows.row_change(row, every) for row in mine]
        return changes, {row[decoded_rows.ORD]: row[decoded_rows.TS] for row in mine}

    return log


def _changes(one: TableCommit, mine: Part) -> Changes:
    """The changes decoded: the plain ones by columns and the others by rows, or all by rows. Raises Unfit, InParts."""
    source, decoding = one.target.fed[0], one.decoding
    if one.target.rule.shard is None:
        split = mine.split(column_decoder.MirrorColumns(), decoding, MOST_ODD)
    else:  # no slices would take what this process does not
        shard_parts.cut_where_known(one)
        split = shard_parts.at_once(one, partial(_split_up_to, mine, decoding))
    return Changes(split.plain, split.odd.to_pylist(), decoding, source)


@dataclass(frozen=True)
class Ready:
    """A mirror table that its changes can be written to.

    table     with all columns that they need; `shape`: of its rows
    snapshot  the one that was looked at, None for no table
    placed    the new truncates with a position; `newest`: the order of the newest new fact, b"" if there is none
    """

    table: Table
    shape: Shape
    snapshot: int | None
    placed: Sequence[RowChange]
    newest: bytes


def made_ready(one: TableCommit, memory: DeleteMemory, seen: Survey, truncates: Sequence[RowChange]) -> Ready | None:
    """The table, made if there is none; None if nothing is told that one could be made from: its truncates are
    remembered then. Raises fence.LostRace if it is not what was looked at."""
    context = one.context
    placed = [each for each in truncates if plain(each.order)]
    if one.is_empty(seen.changes - seen.rejected):
        if placed:
            memory.write_facts(ColumnPlan(()), {}, [], None, placed, newest_of(placed), False, context.last)
        return None
    snapshot = one.table.state.snapshot_id if one.table else None
    table, shape = shape_of(context.tables, one.ready(seen.nulls), one.plan, one.decoding.key, seen)
    unmoved(one, table, snapshot)
    return Ready(table, shape, snapshot, placed, max(seen.newest_fact, newest_of(placed)))


def land(
    one: TableCommit, ready: Ready, written: by_rows.Written, told: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Commits what was written. `told`: by its snapshot, too. Raises fence.LostRace, fence.CommitUnknown."""
    context, outcome = one.context, one.outcome
    one.at("committing")
    outcome.way |= written.way
    by_rows.land(context.spark, ready.table, written, ready.snapshot, {**one.summary(), **told}, context.stream)
    landed(one, ready.table)


def landed(one: TableCommit, table: Table) -> None:
    """Tells the outcome how the table is after its commit: Iceberg ends each by a look at it."""
    state = KNOWN.state_of(one.context.spark, table.java, table.branch)
    one.outcome.snapshot_id = state.snapshot_id
    one.outcome.state = state if table.branch is None else None


def ignored(one: TableCommit, seen: Survey) -> int:
    """How many changes of a mirror table are no change of a row: truncates, and reads that it leaves out."""
    reads = 0 if one.decoding.snapshot_reads else one.target.events(one.outcome.progress, "r")
    return one.target.events(one.outcome.progress, "t") - seen.truncates + reads


def _split_up_to(mine: Part, decoding: Decoding, most: int) -> Split:
    split = mine.split(column_decoder.MirrorColumns(), decoding, most)
    check_odd(len(split.odd), most)  # each of the readers looked at its own
    return split


def is_one_by_one(one: TableCommit, memory: DeleteMemory, new: Sequence[RowChange], low: bytes) -> bool:
    """Whether all keys have to be decided one by one: where truncates that matter empty one of several source tables,
    what goes with them only each row can tell; and columns without a type go with their rows (adopted_columns). `new`:
    truncates; `low`: the order of the oldest change."""
    matter = bool(new) or memory.said.truncated > low
    return bool(one.plan.unwritable) or (matter and are_several((*one.sources, *(each.source for each in new))))


def unmoved(one: TableCommit, table: Table, snapshot: int | None) -> None:
    """What was looked up must be what the table still is: else another committer's rows would be doubled."""
    if table.state.snapshot_id != snapshot or table.state.progress(one.context.stream) != one.outcome.progress:
        raise fence.LostRace(f"{table.name} moved while its rows were looked up")


def late(good: Sequence[Sequence[Any]], keys: Collection[Key], floor: bytes, decoding: Decoding) -> Letters:
    """The changes at or below the floor of keys that the table does not have."""
    late = (
        row for row in good if decoded_rows.key_of(row, decoding) in keys and row[decoded_rows.ORD] <= b"\1" + floor
    )
    return {(row[decoded_rows.BATCH], row[decoded_rows.INDEX]): ("too_old", _TOO_OLD) for row in late}
