"""What becomes of the shards of a mirror: changes are folded once a key over all shards, and then placed. Pure.

The specification is `placed(map, fold(known, changes).rows)`. A job decides the same from what the shards hold at a
cut and from one memory of deletes (`decide_over`), and then brings each shard there by itself (`Decision.step`): by
what the shard holds now, whichever of the jobs that died left it so. For that it must hold

* that a shard differs from what it was at the cut by keys of this decision, and by what a map of this range brings to
  it or takes from it (`Decision.passage`). So a range takes all epochs after the cut, and is at least as long as any
  that a shard has already;
* that a shard which any such job could have written to is committed to, even if nothing changes in it (`reached`): then
  the fence of each commit keeps out who comes late.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from firn.changes.merge.decide import Before, Decided, Ground, Memory, decide, look
from firn.changes.merge.fold import OTHERS, Key, Row, RowChange
from firn.changes.placement.map_changes import Copy, copies, made, named_in
from firn.changes.placement.shard_map import ShardMap

Rows = Mapping[Key, Row]


class InTwoShards(ValueError):
    """A key has a row in two shards at one cut, which no commit of a job leaves."""


class Shard(Protocol):
    """The rows of a shard at the cut."""

    @property
    def holds(self) -> bool:
        """Whether they may hold values."""

    def rows(self, keys: Collection[Key] | None) -> Rows:
        """Those of these keys, whole; None: all."""


def placed(shards: ShardMap, rows: Rows) -> dict[str, dict[Key, Row]]:
    """Rows by shard; each of the map's has an entry."""
    found: dict[str, dict[Key, Row]] = {name: {} for name in shards.shards}
    for key, row in rows.items():
        found[shards.place(row.values)][key] = row
    return found


@dataclass
class ShardedGround:
    """All shards of a table and what it remembers, as the row engine looks things up. `names`: the columns of its key;
    `found`: in which shard a row is that was looked up."""

    shards: Mapping[str, Shard]
    memory: Memory
    map: ShardMap
    names: tuple[str, ...]
    found: dict[Key, str] = field(default_factory=dict)

    @property
    def newest_truncate(self) -> bytes:
        """As decide.Memory says; so do those below."""
        return self.memory.newest_truncate

    @property
    def creates(self) -> bool:
        """Whether creates with unavailable values are remembered."""
        return self.memory.creates

    @property
    def holds(self) -> bool:
        """Whether any of the rows may hold values."""
        return any(shard.holds for shard in self.shards.values())

    def rows(self, keys: Collection[Key] | None, columns: Collection[str] | None) -> Rows:  # noqa: ARG002
        """From all shards, or from those alone that the keys themselves name. Always whole: a shard that a job that
        died has left half-way may lack a row that stays as it is."""
        rows: dict[Key, Row] = {}
        for name, wanted in self._wanted(keys).items():
            for key, row in self.shards[name].rows(wanted).items():
                if self.found.setdefault(key, name) != name:
                    raise InTwoShards(f"the row {key!r:.100} is in {self.found[key]} and in {name} at one cut")
                rows[key] = row
        return rows

    def _wanted(self, keys: Collection[Key] | None) -> Mapping[str, Collection[Key] | None]:
        if keys is None or self.map.column not in self.names:
            return dict.fromkeys(sorted(self.shards), keys)
        found: dict[str, list[Key]] = {}
        for key in keys:
            found.setdefault(self.map.of_key(self.names, key) or self.map.rest, []).append(key)
        return found

    def facts(self, keys: Collection[Key], low: bytes) -> Sequence[RowChange]:
        """Deletes and creates."""
        return self.memory.facts(keys, low)

    def halves(self, positions: Collection[bytes]) -> Sequence[RowChange]:
        """What may be a half of a move."""
        return self.memory.halves(positions)

    def truncates(self) -> Sequence[RowChange]:
        """All of them."""
        return self.memory.truncates()

    def removed(self, keys: Collection[Key]) -> Iterable[tuple[Key, Row]]:
        """Rows that deletes took."""
        return self.memory.removed(keys)

    def log(self, keys: Collection[Key]) -> Sequence[RowChange]:
        """All changes of these keys."""
        return self.memory.log(keys)


@dataclass(frozen=True)
class Step:
    """What a shard gets in one commit: rows to write, and keys whose row goes, also where another is written."""

    writes: Rows
    removes: Collection[Key]


@dataclass(frozen=True)
class Passage:
    """What a shard gets and loses by another map, beside the keys that are decided: rows as the cut has them, that no
    change of the range names. It is in the same commit as those, so that a shard has all of it or nothing.

    sources  the shards of the map before in which the rows lie that come
    anew     these rows are all it has: what lies there goes
    loses    of what it has goes what the map places elsewhere
    """

    sources: frozenset[str] = frozenset()
    anew: bool = False
    loses: bool = False


@dataclass(frozen=True)
class Decision:
    """What a range of epochs makes of a sharded table.

    before    the map of the cut; map: that of the range
    rows      of each key that may change its row, None: it has none
    reached   the shards that are committed to
    seen      the changes and rows that it was decided from
    told, too_old  as Decided has them
    linked    as Before has them
    """

    before: ShardMap
    map: ShardMap
    rows: Mapping[Key, Row | None]
    reached: frozenset[str]
    seen: tuple[Sequence[RowChange], Sequence[Row]]
    told: int
    too_old: frozenset[Key]
    linked: frozenset[Key] = frozenset()

    def step(self, shard: str, present: Rows) -> Step:
        """What brings a shard there. `present`: what it holds now of the keys of `rows`."""
        mine = self._placed[shard]
        writes = {key: row for key, row in mine.items() if present.get(key) != row}
        strays = self.rows.keys() & present.keys()
        return Step(writes, [key for key in strays if key in writes or key not in mine])

    def passage(self, shard: str, *, ahead: bool, strayed: bool = False) -> Passage:
        """What else brings it there. `ahead`: a job has brought it further than the cut, under this map, and died;
        `strayed`: that one knew other changes than this range has."""
        was = named_in(self.before, self.map, shard)
        sources = frozenset(copy.source for copy in self._copies if copy.target == shard)
        if strayed or (was is None and not ahead):
            return Passage(sources | ({was} if was is not None else frozenset()), anew=True)
        if ahead:
            return Passage()  # its commit had it: what may differ since are keys that this range decides too
        return Passage(sources, loses=any(copy.source == was for copy in self._copies))

    def passes(self, shard: str, key: Key, row: Row) -> bool:
        """Whether a row of one of its sources comes, or stays."""
        return key not in self.rows and self.map.place(row.values) == shard

    @cached_property
    def made(self) -> frozenset[str]:
        """The shards that lie where none lay before."""
        return made(self.before, self.map)

    @cached_property
    def _copies(self) -> tuple[Copy, ...]:
        return copies(self.before, self.map)

    @cached_property
    def _placed(self) -> dict[str, dict[Key, Row]]:
        return placed(self.map, {key: row for key, row in self.rows.items() if row is not None})


def decide_over(
    ground: ShardedGround,
    shards: ShardMap,
    changes: Sequence[RowChange],
    truncates: Sequence[RowChange],
    sources: Iterable[str | None],
    floor: bytes = b"",
) -> Decision:
    """`ground`: as it is at the cut, under the map of then; `shards`: the map of all epochs of the range; the others as
    decide.look and decide.decide have them."""
    typed: Ground = ground
    before = look(typed, changes, truncates, sources)
    return gathered(ground, shards, before, decide(before, changes, floor), changes)


def gathered(
    ground: ShardedGround, shards: ShardMap, before: Before, decided: Decided, changes: Sequence[RowChange]
) -> Decision:
    """What was decided of these changes, from what `ground` was looked up for (`before`), as what becomes of shards."""
    keys = (*before.rows, *(change.key for change in changes), *before.linked)
    rows: dict[Key, Row | None] = {key: before.rows.get(key) for key in keys}
    rows |= dict.fromkeys(decided.removes)
    rows |= decided.writes
    looked = [*before.rows.values(), *(row for _, row in before.there)]
    seen: tuple[Sequence[RowChange], Sequence[Row]] = ([*changes, *before.late], looked)
    left = {ground.found[key] for key in rows if key in ground.found}
    reached = _places(shards, rows, *seen)
    for copy in copies(ground.map, shards):
        left.add(copy.source)
        reached.add(copy.target)
    reached |= {name for one in left if (name := named_in(shards, ground.map, one)) is not None}
    return Decision(
        ground.map, shards, rows, frozenset(reached), seen, decided.told, frozenset(decided.too_old),
        frozenset(before.linked),
    )  # fmt: skip


def _places(
    shards: ShardMap, rows: Mapping[Key, Row | None], changes: Iterable[RowChange], looked: Iterable[Row]
) -> set[str]:
    """Where the rows are, and where they may be once some of the changes are known and others are not."""
    column, found = shards.column, {shards.place(row.values) for row in rows.values() if row is not None}
    for change in changes:
        if column in change.stepped:
            return set(shards.shards)
        if change.values is not None:
            found.add(shards.place(change.values))  # the literal one too: a create's placeholder was really written
        if column in change.unavailable or (OTHERS in change.unavailable and column not in (change.values or {})):
            found.add(shards.rest)  # what it leaves out may not be known
    for row in looked:
        found.add(shards.place(row.values))
        if column in row.held or OTHERS in row.held:
            found.add(shards.rest)
    return found
