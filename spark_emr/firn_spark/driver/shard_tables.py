"""The tables of a sharded table: each as the newest snapshot of its rest names it, and as it is now."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import Column, promotable, storable
from firn.changes.merge.fold import Key, Row
from firn.changes.metadata_columns import POSITION
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.errors import TerminalError, TransientError
from firn.log import shard_maps
from firn.tables import map_in_log, ownership, shard_cut
from firn.tables.planning import ColumnPlan
from firn.tables.shard_cut import At
from firn.tables.table_state import EPOCH, HELD_IDS
from firn_spark.files import row_lookup
from firn_spark.files.retyped_files import finish_retype
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.key_lookup import Ground
from firn_spark.table_commit import TableCommit
from firn_spark.tables.evolve import Table

MOST_EMPTIED = 5_000_000
"""Rows of a table with shards that a truncate may meet: they are all looked at in this process."""


@dataclass
class ShardTable:
    """One table of shards. `table`: as it is now, None if it is not made; `at`: as the cut names it, None if it does
    not; `before`, `after`: the shard that lies there by the map of the cut, and by that of the range, None if none
    does; `made`: of one that lies where none lay, the epoch that the cut is at; `strayed`: whether it may differ from
    the cut by keys that this range does not name."""

    place: TableName
    table: Table | None
    at: At | None
    stream: str
    before: str | None
    after: str | None
    made: int | None = None
    strayed: bool = False

    @property
    def name(self) -> str:
        """By the newer map that has it."""
        return self.after or self.before or ""

    @property
    def progress(self) -> int:
        """The epoch that it is at now."""
        return self.table.state.progress(self.stream) if self.table else 0

    @property
    def since(self) -> int:
        """The epoch that it was at when the cut was made; 0 if that was of another stream."""
        if self.made is not None:
            return self.made
        return self.at.progress if self.at and self.at.stream == self.stream else 0

    @property
    def ahead(self) -> bool:
        """Whether a job has brought it further since, which then died."""
        if self.at and self.table and self.at.snapshot == self.table.state.snapshot_id:
            return False
        return self.progress > self.since or self.elsewhere

    @property
    def elsewhere(self) -> bool:
        """Whether that was a job of another stream, whose table it was before."""
        if self.table is None or self.made is not None:  # of one that is made all rows are replaced
            return False
        state = self.table.state
        if self.at is None:
            return not self.progress and any(name.startswith(EPOCH) for one in state.ancestry for name in one)
        return self.at.stream != self.stream and state.progress(self.at.stream) > self.at.progress

    @property
    def snapshot_at_cut(self) -> int | None:
        """The snapshot that has the rows of the cut; None: there are none."""
        if self.ahead:
            return self.at.snapshot if self.at else None
        return self.table.state.snapshot_id if self.table else None

    @property
    def now(self) -> At | None:
        """How a cut names it as it is now."""
        if self.table is None or self.table.state.snapshot_id is None:
            return None
        return At(self.table.state.snapshot_id, self.progress, self.stream)


@dataclass(frozen=True)
class Maps:
    """The map of the cut, and that of the range. `lost`: whether none of the rest's snapshots has that of the cut."""

    before: MapVersion
    after: MapVersion
    lost: bool = False


def sharding_of(one: TableCommit) -> Sharding:
    """That of its rule."""
    if one.target.rule.shard is None:
        raise TerminalError(f"{one.target.name} has no shards")
    return one.target.rule.shard


def maps_of(one: TableCommit) -> Maps:
    """The map that the newest snapshot of the rest is under, and that of all epochs of the range. Raises TerminalError,
    StorageUnavailable."""
    shards, context, name = sharding_of(one), one.context, str(one.target.name)
    ancestry = one.table.state.ancestry if one.table else ()
    try:
        before = map_in_log.map_by_rule(context.store, context.stream, ancestry, shards)
    except ValueError as why:
        raise TerminalError(f"{why}; roll {name} back to before it was written") from why
    named = {max(before.number, epoch.shards.get(name, 1)) for n, epoch in context.epochs.items() if n > one.above}
    if len(named) > 1:
        raise TerminalError(f"epochs of versions {sorted(named)} of the map of {name} are in one part of a range")
    number = max(named, default=before.number)
    if number == before.number:
        return Maps(before, before, map_in_log.is_lost(ancestry))
    after = shard_maps.read(context.store, context.stream, name, shards, number)
    return Maps(before, after, map_in_log.is_lost(ancestry))


def shard_tables(one: TableCommit, maps: Maps) -> list[ShardTable]:
    """The tables of all shards, the rest last. Raises TerminalError, TransientError for what no job can begin with."""
    context, rest, found = one.context, one.target.name, []
    cut = shard_cut.cut_in(one.table.state.ancestry if one.table else (), context.stream)
    before = {place: name for name, place in maps.before.tables.items()}
    after = {place: name for name, place in maps.after.tables.items()}
    for place in sorted({*before, *after} - {rest}):
        was = before.get(place)
        home = maps.after.map.homes[after[place]] if place in after else maps.before.map.homes[before[place]]
        table = load_shard(one, place, home.warehouse)
        made = one.outcome.progress if was is None else None
        at = cut.get(was) if was is not None else None
        found.append(ShardTable(place, table, at, context.stream, was, after.get(place), made))
        _check(one, found[-1], str(place), maps.after.number)
    found.append(ShardTable(rest, one.table, None, context.stream, before[rest], after[rest]))
    found[-1].at = found[-1].now  # it is what the cut is told by
    return found


def load_shard(one: TableCommit, place: TableName, warehouse: str | None) -> Table | None:
    """A table of a shard that is no rest. `warehouse`: which it lies in, by its name; None: one of another map,
    wherever it lies. Raises TerminalError for one that is none of this rule's, lies elsewhere, or would lie in a
    warehouse that the deployment does not know."""
    context = one.context
    table = context.tables.load(place)
    state = table.state if table else None
    shard_cut.check(place, one.target.rule, state)
    address = context.address(warehouse or "")
    why = ownership.refusal(context.store, (context.stream,), place, state, address)
    if why is None and warehouse is not None:
        why = shard_cut.in_another_warehouse(place, state, warehouse, address)
    if why is not None:
        raise TerminalError(why)
    return table if table is None else finish_retype(context.spark, context.tables, table)


def _check(one: TableCommit, shard: ShardTable, place: str, version: int) -> None:
    whole, context, at = one.target.name, one.context, shard.at
    if shard.made is None and shard.progress < shard.since:
        raise TerminalError(
            f"{place} is at epoch {shard.progress}, and {whole}, whose shard it is, has it at {shard.since}: it was "
            "set back, dropped or made again. Bring back what it was; the changes wait in the log"
        )
    if shard.progress > context.last:
        raise TransientError(
            f"{place} is at epoch {shard.progress} already, and this job ends at {context.last}: the rest of what a "
            f"longer one began is left to the next one that goes so far"
        )
    if not shard.ahead or shard.table is None:
        return
    if at is not None and shard.table.java.snapshot(at.snapshot) is None:
        raise TerminalError(
            f"{place} has no snapshot {at.snapshot} any more, from which the changes of {whole} after epoch "
            f"{one.outcome.progress} have to be decided; they wait in the log"
        )
    shard.strayed = shard.after is not None and _strayed(one, shard, shard.table, version)
    if not shard.strayed:
        return
    if shard.progress == context.last:  # no fence would tell this commit from its twin's
        raise TerminalError(
            f"{place} has changes of epochs that are left out by now, which a job that died left there: they are taken "
            f"back once newer epochs have come; have {whole} resumed then (docs/quarantine.md)"
        )


def _strayed(one: TableCommit, shard: ShardTable, table: Table, version: int) -> bool:
    """Whether who left it ahead had epochs that this range has not, or read them by other settings. `version`: of the
    map of the range."""
    context, ancestry = one.context, table.state.ancestry
    if shard.elsewhere:
        return True
    epochs = (n for n in context.epochs if n > one.above)
    settings = shard_cut.under(one.target.rule, context.config, version)
    return bool(
        shard_cut.left_out(context.stream, ancestry, shard.since, epochs)
        or shard_cut.under_others(context.stream, ancestry, shard.since, settings)
    )


@dataclass
class ShardRows:
    """The rows of a shard at the cut (placement.shard_decision.Shard). `now`: how rows are looked up as they are now,
    `plan` the files for it; `found`: those that were found at the cut, `times`: of their changes (microseconds)."""

    shard: ShardTable
    now: Ground
    plan: Callable[[row_lookup.Wanted], row_lookup.Files]
    memory: DeleteMemory
    found: dict[Key, Row] = field(default_factory=dict)
    times: dict[Key, int | None] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """As Shard says."""
        return self.now.holds

    def rows(self, keys: Collection[Key] | None) -> Mapping[Key, Row]:
        """As Shard says."""
        return self._looked(row_lookup.Wanted(self.now.key, keys))

    def _looked(self, wanted: row_lookup.Wanted) -> dict[Key, Row]:
        if self.shard.table is None or (wanted.keys is not None and not wanted.keys):
            return {}
        if self.shard.ahead:
            ground = replace(self.now, times={}, places={}, spare=[])
            found = self._earlier(self.shard.table, ground, wanted)
        else:
            ground = replace(self.now, files=lambda _: self.plan(wanted))
            found = dict(ground.rows(wanted.keys, None))
        self.found |= found
        self.times |= ground.times
        return found

    def _earlier(self, table: Table, ground: Ground, wanted: row_lookup.Wanted) -> dict[Key, Row]:
        at = self.shard.at
        if at is None:
            return {}
        rows = self.memory.at(table, at.snapshot, ground.columns, replace(wanted, snapshot=at.snapshot))
        nowhere = row_lookup.Rows(rows.columns, [""] * len(rows.columns[POSITION]), [0] * len(rows.columns[POSITION]))
        return ground.chosen(nowhere, ground.columns)

    def present(self, keys: Collection[Key]) -> Mapping[Key, Row]:
        """The rows of these keys as they are now, after `rows` of them; where they are, `now` tells then."""
        if self.shard.table is None or not keys:
            return {}
        if self.shard.ahead:
            return self.now.rows(keys, None)
        return {key: self.found[key] for key in keys if key in self.found}


def rows_of(one: TableCommit, shard: ShardTable, key: Sequence[Column], memory: DeleteMemory) -> ShardRows:
    """Its rows under the columns of the whole."""
    table, columns = shard.table, one.plan.columns

    def plan(wanted: row_lookup.Wanted) -> row_lookup.Files:
        return row_lookup.Files(wanted) if table is None else row_lookup.plan(one.context.spark, table, wanted, None)

    ids = row_lookup.ids_of(table) if table is not None else {}
    holds = table is not None and bool(table.state.properties.get(HELD_IDS))
    # What it remembers is asked of the memory of the whole.
    nothing = (lambda *_: (),) * 5
    now = Ground(
        key, columns, one.sources, ids, holds, False, b"", lambda keys: plan(row_lookup.Wanted(key, keys)), *nothing
    )
    return ShardRows(shard, now, plan, memory)


def plan_of(plan: ColumnPlan, table: Table | None) -> ColumnPlan:
    """What a shard's table lacks of the columns of the whole."""
    if table is None:
        return plan
    own = {column.name: storable(column.type) for column in table.columns()[0]}
    missing = tuple(column for column in plan.columns if column.name not in own)
    late = [one for one in plan.columns if one.name in own and own[one.name] != storable(one.type)]
    wider = [c for c in late if promotable(own[c.name], storable(c.type)) and not changes_form(own[c.name], c.type)]
    others = tuple(column for column in late if column not in wider)
    return ColumnPlan(plan.columns, missing, tuple(wider), others, inferred=plan.inferred, unnamed=plan.unnamed)
