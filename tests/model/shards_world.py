"""A sharded table, its log and its cuts in memory, and the jobs that commit it: in lanes, several at once, each of
which may stand still, die, or lose an answer at any call. A job is a generator: it gives the call that it is about to
make, and gets what came of it."""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firn.changes.merge.decide import is_fact
from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.placement.shard_decision import Decision, ShardedGround, decide_over, placed
from firn.changes.placement.shard_map import Home, ShardMap
from tests.memory_table import MemoryShard, MemoryTable, brought
from tests.model.shard_lanes import Mark, lanes, spans, standing, whole
from tests.property.random_shards import next_map, shard_case

_TRIES = 4


class Lost(Exception):
    """No answer, or another one was quicker."""


@dataclass(frozen=True)
class Snapshot:
    """`id` is its place among all of the world's."""

    id: int
    progress: int
    rows: Mapping[Key, Row]


@dataclass(frozen=True)
class Cut:
    """All epochs up to `n`, placed by the map of `version`."""

    n: int
    version: int
    tables: Mapping[str, int]


@dataclass
class Table:
    """`kept`: its snapshots that are not expired, by id."""

    current: Snapshot
    kept: dict[int, Snapshot] = field(default_factory=dict)


Call = Callable[[], Any]
Job = Generator[Call, Any, None]


@dataclass
class World:
    """`epochs`: (changes, the version that it names), from 1; `facts`, `gone`: what is remembered, each with the epoch
    up to which it was known; `living`: jobs with the snapshots that they hold."""

    seed: int
    base: Mapping[Key, Row]
    maps: dict[int, ShardMap]
    sources: frozenset[str | None]
    epochs: list[tuple[Sequence[RowChange], int]] = field(default_factory=list)
    tables: dict[Home, Table] = field(default_factory=dict)
    facts: list[tuple[int, RowChange]] = field(default_factory=list)
    gone: list[tuple[int, tuple[Key, Row]]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)
    last_id: int = 0

    @classmethod
    def of(cls, seed: int) -> tuple["World", list[Sequence[RowChange]]]:
        """A world whose table holds the rows that were there before, and the batches that come."""
        story = shard_case(seed)
        world = cls(seed, story.base, {1: story.map}, story.sources)
        for name, rows in placed(story.map, story.base).items():
            if rows:
                world.commit(story.map.homes[name], 0, 0, rows, ())
        found = {home.table: table.current.id for home, table in world.tables.items()}
        world.cuts[0] = Cut(0, 1, found)
        return world, list(story.batches)

    # The calls.

    def newest(self) -> Cut:
        return self.cuts[max(self.cuts)]

    def load(self, home: Home, snapshot: int | None = None) -> Snapshot | None:
        """The table as it is, or at a snapshot. Raises KeyError for one that is expired."""
        table = self.tables.get(home)
        return None if table is None else table.current if snapshot is None else table.kept[snapshot]

    def commit(
        self, home: Home, expected: int, progress: int, writes: Mapping[Key, Row], removes: Sequence[Key]
    ) -> None:
        """Behind the fence: the table's progress is still `expected`. Raises Lost."""
        table = self.tables.get(home)
        if (table.current.progress if table else 0) != expected:
            raise Lost(home)
        rows = {key: row for key, row in table.current.rows.items() if key not in removes} if table else {}
        assert not rows.keys() & writes.keys(), "a key has two rows"
        self.put(home, progress, rows | dict(writes))

    def put(self, home: Home, progress: int, rows: Mapping[Key, Row]) -> None:
        self.last_id += 1
        snapshot = Snapshot(self.last_id, progress, rows)
        table = self.tables.setdefault(home, Table(snapshot))
        table.current = table.kept[snapshot.id] = snapshot

    def put_cut(self, cut: Cut) -> None:
        """If absent. Each that is there is right: that is what all is about."""
        if self.cuts.setdefault(cut.n, cut) is cut:
            self.check(cut)

    # What must hold.

    def known(self, n: int) -> list[RowChange]:
        return [one for changes, _ in self.epochs[:n] for one in changes]

    def check(self, cut: Cut) -> None:
        """Each shard holds what `fold` places there, and no row is in two."""
        shards = self.maps[cut.version]
        expected = placed(shards, fold(self.base, self.known(cut.n)).rows)
        for name, home in shards.homes.items():
            there = self.load(home, cut.tables[home.table]) if home.table in cut.tables else None
            self.same(there, expected[name], f"{name} at the cut {cut.n}")

    def check_current(self) -> None:
        """The same of the tables as they are, once nobody is at work."""
        cut = self.newest()
        shards = self.maps[cut.version]
        for name, rows in placed(shards, fold(self.base, self.known(cut.n)).rows).items():
            self.same(self.load(shards.homes[name]), rows, f"{name} at rest")

    def same(self, there: Snapshot | None, expected: Mapping[Key, Row], what: str) -> None:
        found, wanted = (sorted(map(repr, rows.items())) for rows in (there.rows if there else {}, expected))
        assert found == wanted, f"{what}, seed {self.seed}"

    # What others do.

    def seal(self, batch: Sequence[RowChange], dice: random.Random) -> None:
        """An epoch; whoever seals it may not have heard of the newest map."""
        self.epochs.append((batch, dice.choice([max(self.maps), max(self.maps), dice.choice(list(self.maps))])))

    def plan(self, dice: random.Random) -> None:
        """The next map, of what is known so far."""
        now = self.maps[max(self.maps)]
        new = next_map(dice, now, fold(self.base, self.known(len(self.epochs))).rows)
        self.maps[new.version] = new

    def compact(self, dice: random.Random) -> None:
        """The same rows in another snapshot."""
        home = dice.choice(list(self.tables)) if self.tables else None
        if home is not None:
            self.put(home, self.tables[home].current.progress, self.tables[home].current.rows)

    def expire(self, held: set[int]) -> None:
        """Snapshots go but for those that the newest cut and the marks after it name, and the young ones: `held` by
        jobs."""
        cut = self.newest()
        keep = held | {*cut.tables.values()}
        keep |= {one for mark in self.marks if mark.n > cut.n for one in mark.snapshots.values() if one is not None}
        for table in self.tables.values():
            keep_here = {table.current.id} | keep
            table.kept = {i: one for i, one in table.kept.items() if i in keep_here}


@dataclass
class Worker:
    """One job of a lane. `held`: the snapshots that it knows of; `progress`: of those that cuts name, by table;
    `dice`: in which parts it commits."""

    world: World
    lane: int
    count: int
    upto: int
    dice: random.Random
    held: set[int] = field(default_factory=set)
    progress: dict[tuple[str, int], int] = field(default_factory=dict)

    def run(self) -> Job:
        """As far as epoch `upto`, a span at a time."""
        world = self.world
        while True:
            cut: Cut = yield world.newest
            named = {n: world.epochs[n - 1][1] for n in range(cut.n + 1, self.upto + 1)}
            if not named:
                return
            span = spans(cut.version, named)[0]
            shards, last = world.maps[span.version], span.epochs[-1]
            if self.count == 1:  # as many epochs of it at once as it likes, but no fewer than a shard has already
                ahead = yield lambda: max((one.current.progress for one in world.tables.values()), default=0)
                last = max(self.dice.choice(span.epochs), min(ahead, last))
            found = yield from self._ground(cut, world.maps[cut.version], last)
            if found is None:
                return
            decision = self._decided(found, shards, cut.n, last)
            deleted = {one.key for one in world.known(last)[len(world.known(cut.n)) :] if one.op == "d"}
            facts = [(n, one) for n in span.epochs if n <= last for one in world.epochs[n - 1][0] if is_fact(one)]
            yield lambda facts=facts: world.facts.extend(facts)  # type: ignore[misc]
            taken = [(last, (key, row)) for held in found.shards.values() for key, row in held.rows(deleted).items()]
            yield lambda taken=taken: world.gone.extend(taken)  # type: ignore[misc]
            mark = yield from self._lane(decision, last, cut, found)
            if mark is None:
                return
            yield lambda mark=mark: world.marks.append(mark)  # type: ignore[misc]
            marks: list[Mark] = yield lambda: list(world.marks)
            tables = whole(shards, last, marks)
            if tables is None:
                return  # other lanes are not there yet: the next span begins at the cut
            made = Cut(last, shards.version, tables)
            yield lambda made=made: world.put_cut(made)  # type: ignore[misc]

    def _ground(self, cut: Cut, shards: ShardMap, last: int) -> Generator[Call, Any, ShardedGround | None]:
        """What the table was at the cut; None if that is no longer there."""
        world, held = self.world, {}
        for name, home in sorted(shards.homes.items()):
            at = cut.tables.get(home.table)
            try:
                found = yield lambda home=home, at=at: None if at is None else world.load(home, at)  # type: ignore[misc]
            except KeyError:
                return None
            held[name] = MemoryShard(found.rows if found else {})
            if found is not None:
                self.progress[home.table, found.id] = found.progress
        facts = yield lambda: [one for n, one in world.facts if n <= cut.n]
        gone = yield lambda: [one for n, one in world.gone if n <= cut.n]
        log = world.known(last)
        memory = MemoryTable(
            {}, frozenset(), facts, gone, lambda keys: [one for one in log if one.op != "t" and one.key in keys]
        )
        return ShardedGround(held, memory, shards, ("k",))

    def _decided(self, ground: ShardedGround, shards: ShardMap, above: int, last: int) -> Decision:
        new = self.world.known(last)[len(self.world.known(above)) :]
        sources = self.world.sources | {one.source for one in self.world.known(last)}
        truncates = list({one.identity: one for one in new if one.op == "t"}.values())
        return decide_over(ground, shards, [one for one in new if one.op != "t"], truncates, sources)

    def _lane(
        self, decision: Decision, last: int, cut: Cut, ground: ShardedGround
    ) -> Generator[Call, Any, Mark | None]:
        """The lane's shards, one after the other; None if one of them could not be brought there."""
        snapshots: dict[str, int | None] = {}
        for name in sorted(lanes(decision.map, self.count)[self.lane % len(lanes(decision.map, self.count))]):
            for _ in range(_TRIES):
                try:
                    there = yield from self._once(decision, name, last, cut, ground)
                except Lost:
                    continue
                break
            else:
                return None
            if there is not None and standing(there.progress, last) == "ahead":
                return None
            snapshots[name] = None if there is None else there.id
            self.held |= {there.id} if there else set()
        return Mark(last, decision.map.version, snapshots)

    def _once(
        self, decision: Decision, name: str, last: int, cut: Cut, ground: ShardedGround
    ) -> Generator[Call, Any, Snapshot | None]:
        """-> the shard's snapshot once it needs no more, be it that of a later range."""
        world, home = self.world, decision.map.homes[name]
        there: Snapshot | None = yield lambda: world.load(home)
        progress = there.progress if there else 0
        if name not in decision.reached or standing(progress, last) != "behind":
            return there
        at = {one: shard.rows(None) for one, shard in ground.shards.items()}
        ahead = progress > self._since(decision, name, cut)
        writes, removes = brought(decision, name, there.rows if there else {}, at, ahead=ahead)
        yield lambda: world.commit(home, progress, last, writes, removes)
        raise Lost(name)  # look again: what it is now

    def _since(self, decision: Decision, name: str, cut: Cut) -> int:
        """The epoch that a shard was at when the cut was made; of one that lies where none lay, that of the cut."""
        home = decision.map.homes[name]
        if name in decision.made:
            return cut.n
        return self.progress[home.table, cut.tables[home.table]] if home.table in cut.tables else 0
