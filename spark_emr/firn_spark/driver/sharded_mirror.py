"""The commit of a mirror table of several shards, in the job's own process (docs/adr/0104-shards.md).

All changes are decided once, from the shards as the newest snapshot of the rest names them, and what else another map
moves is written to files (shard_passages). Then each shard that they may reach is brought there from what it is now,
behind its own fence; the rest comes last, and names the others. A job that dies in between leaves some ahead, which the
next one finds so.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow.compute as pc

from firn.changes.decode.row_decoder import OTHERS_LEFT_OUT
from firn.changes.merge import decoded_rows
from firn.changes.merge.decide import Before, Decided
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.metadata_columns import OTHERS_ID
from firn.changes.placement.shard_decision import InTwoShards, Passage, ShardedGround, decide_over
from firn.config.names import TableName
from firn.errors import TerminalError
from firn.log import shard_maps
from firn.tables import shard_cut
from firn.tables.outcome import Outcome
from firn.tables.shard_cut import At
from firn.tables.shard_names import SHARD_PASSED, SHARDS_AT
from firn.tables.table_state import EPOCH, HELD_IDS
from firn_spark.driver import shard_parts, shard_tenants
from firn_spark.driver.shard_passages import DecidedKeys, MovedRows, RowMover, ShardFiles, Source
from firn_spark.driver.shard_tables import (
    MOST_EMPTIED,
    ShardRows,
    ShardTable,
    load_shard,
    maps_of,
    plan_of,
    rows_of,
    shard_tables,
    sharding_of,
)
from firn_spark.driver.sharded_decision import (
    ShardedDecision,
    ShardsLookup,
    as_rows,
    decide_by_columns,
    places_in_columns,
)
from firn_spark.files import row_lookup
from firn_spark.files.retyped_files import retype_columns
from firn_spark.files.write import data_files, layout_of
from firn_spark.merge import mirror_commit as by_rows
from firn_spark.merge.decision import Changes, DecidedRows, check_odd
from firn_spark.merge.decision import Decision as Written
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.earlier import is_retyped
from firn_spark.merge.key_lookup import Found, Log
from firn_spark.merge.landing import replace_all
from firn_spark.merge.shape import Shape, shape_of
from firn_spark.merge.survey import Survey
from firn_spark.not_eligible import ForeignFiles
from firn_spark.table_commit import TableCommit
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace


class ShardedMirror:
    """One table of several shards, on its way to the end of a range."""

    def __init__(self, one: TableCommit, changes: Changes, memory: DeleteMemory, log: Log) -> None:
        """`log`: as for key_lookup.TableLookup. Raises as shard_tables."""
        self._one = one
        self._changes = changes
        self._memory = memory
        self._log = log
        self._maps = maps_of(one)
        self._key = [one.decoding.columns[i] for i in one.decoding.key]
        self._late: dict[bytes, int | None] = {}
        self._former: dict[TableName, ShardRows] = {}
        self._passed: Mapping[str, MovedRows] = {}
        self._rows = {shard.place: rows_of(one, shard, self._key, memory) for shard in self._shards()}
        self._ahead = [rows.shard for rows in self._rows.values() if rows.shard.ahead]

    def _shards(self) -> list[ShardTable]:
        """All of them, with the columns that they have in other types than the whole rewritten."""
        context, found = self._one.context, shard_tables(self._one, self._maps)
        for shard in found:
            if shard.table is not None:
                retyped = plan_of(self._one.plan, shard.table).retyped
                shard.table = retype_columns(context.spark, context.tables, shard.table, retyped)
        return found

    @property
    def rest(self) -> ShardRows:
        """The shard that leads."""
        return self._rows[self._one.target.name]

    def decide(self) -> ShardedDecision:
        """What becomes of all keys. Raises as the look-ups, TerminalError and InParts."""
        one = self._one
        if self._changes.truncates:
            self._check_truncate()
        names = tuple(column.name for column in self._key)
        at_the_cut = {one.shard.before: one for one in self._rows.values() if one.shard.before is not None}
        ground = ShardedGround(at_the_cut, _Memory(self), self._maps.before.map, names)
        try:
            return shard_parts.at_once(one, partial(self._decided, ground))
        except InTwoShards as why:
            raise TerminalError(
                f"{one.target.name}: {why}; take one of them away, it was not Firn that wrote both"
            ) from why

    def _decided(self, ground: ShardedGround, most: int) -> ShardedDecision:
        if self._are_plain():
            try:
                return self._by_columns(ground, most)
            except ForeignFiles:
                if not self._ahead:
                    raise
        # With those of a cut, too: what is past is not rewritten, but read by Spark.
        check_odd(self._changes.seen.changes, most)
        return self._by_rows(ground)

    def _are_plain(self) -> bool:
        """Whether columns can decide: the shards stay where they are, no truncate matters, what changes leave out they
        name, and keys are compared with what they were at the cut."""
        if self._maps.before.number != self._maps.after.number:
            return False  # rows move that no change names
        seen, spark = self._changes.seen, self._one.context.spark
        truncated = bool(self._changes.truncates) or self._memory.said.truncated > seen.low
        if truncated or OTHERS_LEFT_OUT in seen.unavailable or self._one.plan.unwritable:
            return False
        ahead = ((one.table, one.at) for one in self._ahead)
        return not any(table and at and is_retyped(spark, table, at.snapshot, self._key) for table, at in ahead)

    def _by_columns(self, ground: ShardedGround, most: int) -> ShardedDecision:
        changes, columns, shards = self._changes, self._one.decoding.columns, self._maps.after.map
        placed, gaps = (places_in_columns(part, shards, columns) for part in (changes.whole, changes.gaps))
        tables = {one.shard.name: one.shard.table for one in self._rows.values() if one.shard.table is not None}
        earlier = {one.name: one.at.snapshot if one.at else None for one in self._ahead}
        # One that is there already is committed no more, and of one that strayed nothing stays.
        brought = [one.name for one in self._ahead if one.progress < self._one.context.last and not one.strayed]
        spark, sources = self._one.context.spark, self._one.sources
        lookup = ShardsLookup(
            spark, tables, earlier, brought, self._memory, ground, sources, self._late,
            placed if shards.column in ground.names else None, self._one.context.config.lanes,
        )  # fmt: skip
        left = pc.unique(gaps).to_pylist()
        return decide_by_columns(changes, self._memory, lookup, shards, placed, left, earlier.keys(), most)

    def _by_rows(self, ground: ShardedGround) -> ShardedDecision:
        one, told, floor = self._one, as_rows(self._changes), self._memory.said.floor
        new = [decoded_rows.row_change(row, one.decoding) for row in told]
        decided = decide_over(ground, self._maps.after.map, new, self._changes.truncates, one.sources, floor)
        times = {row[decoded_rows.ORD]: row[decoded_rows.TS] for row in told}
        return ShardedDecision(decided, None, new, times)

    def _check_truncate(self) -> None:
        tables = (one.shard.table for one in self._rows.values())
        count = sum(table.state.records for table in tables if table is not None)
        if count > MOST_EMPTIED:
            raise TerminalError(
                f"{self._one.target.name} was truncated, and its shards have {count:,} rows: of more than "
                f"{MOST_EMPTIED:,} that is not there yet"
            )

    def told(self, at: Mapping[str, At]) -> dict[str, str]:
        """What the rest's snapshot says of the others, and of the map that they are under."""
        told = shard_cut.summary(at, self._maps.after, 0 if self._maps.lost else self._maps.before.number)
        return told | self._rows_passed(self.rest.shard.name)

    def _rows_passed(self, shard: str) -> dict[str, str]:
        rows = sum(one.rows for one in self._passed.get(shard, MovedRows()).files)
        return {SHARD_PASSED: str(rows)} if rows else {}

    def admit(self, decided: ShardedDecision) -> tuple[str, ...]:
        """As shard_tenants.admit: lists the tenants that this range leaves in the rest. -> their names."""
        column = sharding_of(self._one).column
        found = decided.values_in(self._maps.after.map.rest, column, self._one.decoding.columns)
        return shard_tenants.admit(self._one, self._maps.after, self.rest, self._key, found)

    def bring(self, decided: ShardedDecision, seen: Survey, whole: Table) -> dict[str, At]:
        """Commits all shards but the rest, so many at the same time as the stream has lanes: each is behind its own
        fence, and what any order of them leaves a next job finds as it finds a crash. `whole`: the rest's table, with
        all columns. -> all of them as they are now; tables of former shards stay as they are. Raises LostRace,
        CommitUnknown."""
        last, others = self._one.context.last, [one for one in self._rows.values() if one.shard.after is not None]
        others.remove(self.rest)
        reached = decided.reached | decided.rows.made | {one.shard.name for one in others if one.shard.ahead}
        mine = [rows for rows in others if rows.shard.name in reached and rows.shard.progress < last]
        found = {rows.shard.name: now for rows in others if (now := rows.shard.now) is not None}
        ready = self._pass(decided, make := partial(self._ready, seen=seen, whole=whole))
        with ThreadPoolExecutor(self._one.context.config.lanes) as lanes:
            begun = {rows.shard.name: lanes.submit(self._bring, rows, decided, make, ready) for rows in mine}
            try:
                found |= {name: one.result() for name, one in begun.items()}
            finally:
                for one in begun.values():
                    one.cancel()
        return found

    def _pass(self, by: ShardedDecision, make: Callable[[ShardRows], "_Ready"]) -> dict[str, "_Ready"]:
        """Writes what passes by another map. -> the shards that get or lose rows by it."""
        decided, others = by.rows, by.columns.changed if by.columns else None
        now = {rows.shard.name: rows for rows in self._rows.values() if rows.shard.after is not None}
        told = {
            name: passage
            for name, rows in now.items()
            if (passage := decided.passage(name, ahead=rows.shard.ahead, strayed=rows.shard.strayed)) != Passage()
        }
        ready = {name: make(now[name]) for name in told}
        sources = [
            Source(shard.before, shard.table, at, shard.after if told.get(shard.name, Passage()).loses else None)
            for shard in (rows.shard for rows in self._rows.values())
            if shard.before is not None and shard.table is not None and (at := shard.snapshot_at_cut) is not None
        ]
        into = {name: ShardFiles(layout_of(one.table)) for name, one in ready.items() if told[name].sources}
        keys = DecidedKeys(self._key, decided.rows.keys(), others)
        mover = RowMover(self._one.context.spark, decided.map, self._one.plan.columns, keys, into, told)
        self._passed = mover.read(sources)
        return ready

    def _ready(self, rows: ShardRows, seen: Survey, whole: Table) -> "_Ready":
        """A shard's table with all that rows need which may come. Raises LostRace."""
        one, shard = self._one, rows.shard
        if rows is self.rest:  # who commits it has it ready
            return _Ready(one, whole, Shape((), {}, ()))
        place = str(shard.place)
        fed = tuple(source for source in whole.state.sources if source is not None)
        target = replace(one.target, name=shard.place, sources=fed, names={})
        outcome = Outcome(place, fed, progress=shard.progress)
        planned = replace(one.planned, columns=plan_of(one.plan, shard.table))
        where = self._maps.after.map.homes[shard.name].warehouse if shard.after is not None else ""
        part = replace(one, target=target, table=shard.table, planned=planned, outcome=outcome, feeds=None, read=None,
                       warehouse=where)  # fmt: skip
        snapshot = shard.table.state.snapshot_id if shard.table else None
        table = part.ready(_nulls(one, whole, shard.table))
        table, shape = shape_of(one.context.tables, table, one.plan, one.decoding.key, _holding(one, whole, seen))
        if table.state.snapshot_id != snapshot:
            raise LostRace(f"{place} moved while its rows were looked up")
        return _Ready(part, table, shape)

    def _bring(
        self,
        rows: ShardRows,
        decided: ShardedDecision,
        make: Callable[[ShardRows], "_Ready"],
        known: Mapping[str, "_Ready"],
    ) -> At:
        one, shard = self._one, rows.shard
        ready = known.get(shard.name) or make(rows)
        table, part = ready.table, ready.part
        written = self.write(rows, decided, table, ready.shape)
        epochs = (n for n in one.context.epochs if n > one.above)
        settings = shard_cut.under(one.target.rule, one.context.config, self._maps.after.number)
        anew = self._passed[shard.name].anew if shard.name in self._passed else False
        told = part.summary() | shard_cut.taken(epochs, settings, whole=anew) | self._rows_passed(shard.name)
        spark, stream = one.context.spark, one.context.stream
        if anew:
            replace_all(spark, table, written.files, told, stream)
        else:
            by_rows.land(spark, table, written, table.state.snapshot_id, told, stream)
        return At(_landed(table, stream, one.context.last), one.context.last, stream)

    def write(self, rows: ShardRows, decided: ShardedDecision, table: Table, shape: Shape) -> by_rows.Written:
        """Writes what brings a shard there. `table`: with all columns that it needs."""
        name, by_key = rows.shard.name, decided.rows
        passed = self._passed.get(name, MovedRows())
        step = by_key.step(name, {} if passed.anew else rows.present(by_key.rows.keys()))
        known: dict[Key, Row] = {}
        times: dict[Key, int | None] = {}
        for each in self._rows.values():
            known |= each.found
            times |= each.times
        found = Found(Before(rows=known, linked=by_key.linked), rows.now.places, times, self._late, rows.now.spare)
        mine = DecidedRows(Decided(dict(step.writes), list(step.removes)), found, decided.times, decided.changes)
        columns, gone = (decided.columns.of(name), decided.columns.gone(name)) if decided.columns else (None, {})
        spark, gone = self._one.context.spark, deletes.together((passed.gone, gone))
        written = Written(self._changes.whole, columns, mine, gone).write(spark, table, shape, old=False)
        return replace(written, files=[*written.files, *data_files(spark, table, passed.files)])

    def removed(self, keys: Collection[Key]) -> Iterator[tuple[Key, Row]]:
        """The rows of these keys that deletes removed, in whichever shard they were."""
        columns, rest = self._one.plan.columns, self.rest
        _, looked = self._memory.deleted(columns, self._key, keys)
        for snapshot in sorted(looked):
            for rows, at in self._named(rest, snapshot):
                table = rows.shard.table
                if table is None or table.java.snapshot(at) is None:
                    continue
                gone = self._memory.at(table, at, columns, row_lookup.Wanted(self._key, keys, snapshot=at))
                yield from zip(gone.keys(self._key), rows.now.as_rows(gone, columns), strict=True)

    def _named(self, rest: ShardRows, snapshot: int) -> Iterator[tuple[ShardRows, int]]:
        """The shards as they were at a snapshot of the rest's."""
        table = rest.shard.table
        if table is None or table.java.snapshot(snapshot) is None:
            return
        yield rest, snapshot
        above, ancestry = snapshot, []
        while (found := table.java.snapshot(above)) is not None:
            ancestry.append(dict(found.summary()))
            if SHARDS_AT in ancestry[-1] or found.parentId() is None:
                break
            above = int(found.parentId())
        named = shard_cut.cut_in(ancestry, self._one.context.stream)
        places = self._places(shard_cut.version_in(ancestry)) if named else {}
        for name, at in named.items():
            if name in places:
                yield self._there(places[name]), at.snapshot

    def _places(self, number: int) -> Mapping[str, TableName]:
        """Where the shards lay under a version of the map."""
        known = next((one for one in (self._maps.before, self._maps.after) if one.number == number), None)
        one = self._one
        if known is None:
            known = shard_maps.read(
                one.context.store, one.context.stream, str(one.target.name), sharding_of(one), number
            )
        return known.tables

    def _there(self, place: TableName) -> ShardRows:
        """A table of a shard, of a former one too."""
        if place in self._rows:
            return self._rows[place]
        if place not in self._former:
            shard = ShardTable(place, load_shard(self._one, place, None), None, self._one.context.stream, None, None)
            self._former[place] = rows_of(self._one, shard, self._key, self._memory)
        return self._former[place]

    def log(self, keys: Collection[Key]) -> Sequence[RowChange]:
        """All changes of these keys that the log holds."""
        late, times = self._log(keys)
        self._late.update(times)
        return late


@dataclass(frozen=True)
class _Ready:
    """A shard's table that may be written."""

    part: TableCommit
    table: Table
    shape: Shape


class _Memory:
    """What the whole remembers (decide.Memory)."""

    def __init__(self, of: ShardedMirror) -> None:
        self._memory, self._key = of._memory, of._key
        self.removed: Callable[[Collection[Key]], Iterator[tuple[Key, Row]]] = of.removed
        self.log: Callable[[Collection[Key]], Sequence[RowChange]] = of.log

    @property
    def newest_truncate(self) -> bytes:
        return self._memory.said.truncated

    @property
    def creates(self) -> bool:
        return self._memory.said.creates

    def facts(self, keys: Collection[Key], low: bytes) -> Sequence[RowChange]:
        return self._memory.changes(self._key, keys, low)

    def halves(self, positions: Collection[bytes]) -> Sequence[RowChange]:
        return self._memory.halves(self._key, positions)

    def truncates(self) -> Sequence[RowChange]:
        return self._memory.truncates()


def _landed(table: Table, stream: str, last: int) -> int:
    """The snapshot that brought a table to the epoch `last`, a moment ago: a longer job's may have come since. Raises
    LostRace."""
    found = table.head()
    while found is not None:
        if str(found.summary().get(f"{EPOCH}{stream}")) == str(last):
            return int(found.snapshotId())
        above = found.parentId()
        found = None if above is None else table.java.snapshot(above)
    raise LostRace(f"{table.name} was set back right after its commit")


def _nulls(one: TableCommit, whole: Table, table: Table | None) -> list[int]:
    """The columns that the whole has optional, and a shard's table not."""
    relaxed = {field["name"] for field in whole.state.fields if not field["required"]}
    strict = {field["name"] for field in table.state.fields if field["required"]} if table else relaxed
    return [i for i, column in enumerate(one.plan.columns) if column.name in relaxed & strict]


def _holding(one: TableCommit, whole: Table, seen: Survey) -> Survey:
    """What changes leave unavailable, and what any row of the whole may hold: a row may come from another shard."""
    held = {int(text) for text in whole.state.properties.get(HELD_IDS, "").split(",") if text}
    names = {str(field["name"]) for field in whole.state.fields if int(field["id"]) in held}
    mine = {i for i, column in enumerate(one.plan.columns) if column.name in names}
    others = {OTHERS_LEFT_OUT} if OTHERS_ID in held else set[int]()
    return replace(seen, unavailable=tuple(sorted({*seen.unavailable, *mine, *others})))
