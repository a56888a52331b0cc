"""How shards of a table would have about as much each: which are split, and which neighbours are merged. Pure.

A shard counts as many rows as it has, or as many as its part of what is written to all of them is of all rows, if that
is more: so one that is small and busy is split too. Each shard is split at most once; who wants more plans again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from firn.changes.placement import map_changes
from firn.changes.placement.shard_map import NAME, Bands, Home, Listed, ShardMap
from firn.changes.placement.shard_values import Comparable
from firn.config.sharding import MOST, Sharding
from firn.tables.shard_changes import home_of

MOST_AT_ONCE: Final = 10_000_000
"""Rows that one plan moves at most, about, but for a single step: the commit that moves them takes its time."""
_MOST_NAMES: Final = 1_000
_TWICE: Final = 2  # the mean: a shard that counts more is split
_FRACTION: Final = 2  # of that: neighbours that count less together are merged


@dataclass(frozen=True)
class Load:
    """What a shard has. `rate`: rows that were written to it a second, lately; None: nobody knows."""

    rows: int
    rate: float | None = None


class Looked(Protocol):
    """What only a look at the lake tells."""

    def is_free(self, home: Home) -> bool:
        """Whether no table lies there, and none of another rule may come to."""

    def middle(self, shard: str) -> Comparable | None:
        """The value from which on about half of the rows are; None if all have the same."""

    def values(self, shard: str) -> Mapping[str, int]:
        """How many rows have each value, by its text; of many those that most have."""


@dataclass(frozen=True)
class Plan:
    """`map`: as the steps leave it; `steps`: what is done, in words, and `moved`: about how many rows that moves;
    `left`: what is left as it is, and why; `most`: what a shard may count."""

    map: ShardMap
    steps: tuple[str, ...] = ()
    moved: int = 0
    left: tuple[str, ...] = ()
    most: int = 0


def weights(loads: Mapping[str, Load]) -> dict[str, int]:
    """What each shard counts, in rows."""
    rows, rates = sum(one.rows for one in loads.values()), sum(one.rate or 0.0 for one in loads.values())
    parts = {name: (one.rate or 0.0) / rates if rates else 0.0 for name, one in loads.items()}
    return {name: max(one.rows, int(parts[name] * rows)) for name, one in loads.items()}


def plan(
    now: ShardMap,
    of: Sharding,
    loads: Mapping[str, Load],
    look: Looked,
    most: int | None = None,
    at_once: int = MOST_AT_ONCE,
) -> Plan:
    """The steps. `loads`: of each shard of the map; `most`: what one may count, twice the mean if nothing is said;
    `at_once`: about how many rows may move. Raises ValueError for a `most` or an `at_once` that makes no sense."""
    if most is not None and most < 1:
        raise ValueError(f"--rows: a shard of {most:,} rows; write 1 or more")
    if at_once < 1:
        raise ValueError(f"--at-once: {at_once:,} rows would move; write 1 or more")
    work = _Work(now, of, loads, look, at_once)
    named = [name for name in now.shards if name != now.rest or work.weight[name]]
    mean = sum(work.weight[name] for name in named) // max(1, len(named))
    most = max(1, most if most is not None else _TWICE * mean)
    for name in sorted(named, key=lambda name: (-work.weight[name], name)):
        if work.weight[name] > most:
            work.split(name, most)
    work.merge(most // _FRACTION)
    made = replace(work.map, version=now.version + 1) if work.steps else now
    return Plan(made, tuple(work.steps), work.moved, tuple(work.left), most)


def _from(bound: Comparable | None) -> str:
    return "" if bound is None or isinstance(bound, bytes) else f" from {bound}"


@dataclass
class _Work:
    map: ShardMap
    of: Sharding
    loads: Mapping[str, Load]
    look: Looked
    at_once: int
    steps: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    moved: int = 0

    def __post_init__(self) -> None:
        self.weight = weights(self.loads)

    def split(self, shard: str, most: int) -> None:
        """One that counts too much, if it can be."""
        if isinstance(self.map.spread, Listed):
            self._split_values(shard, most)
            return
        if shard == self.map.rest:
            self.left.append(f"{shard} has what is null or odd, and can't be split")
            return
        new = self._free()
        at = None
        if self.map.by == "range" and (at := self.look.middle(shard)) is None:
            self.left.append(f"{shard}: all of its rows have the same {self.map.column}")
            return
        try:
            made = map_changes.split(self.map, shard, new, home_of(self.map, self.of, shard, new), at=at)
        except ValueError as why:  # a name that is too long, or a shard of one hash
            self.left.append(f"{shard}: {why}")
            return
        half = self.loads[shard].rows // 2
        self._take(made, f"split {shard}: {new}" + _from(at), half, shard, new)

    def _split_values(self, shard: str, most: int) -> None:
        """Of the rest each value that counts half as much by itself, of another half of its values."""
        spread, rest = self.map.spread, self.map.rest
        if not isinstance(spread, Listed):
            return
        rows = {text: n for text, n in self.look.values(shard).items() if spread.values.get(text, rest) == shard}
        ranked = sorted(rows, key=lambda text: (-rows[text], text))
        if shard == rest:
            groups = [[text] for text in ranked if rows[text] > most // 2]
        else:
            groups = [ranked[1::2]] if len(ranked) > 1 else []
        if not groups:
            self.left.append(f"{shard}: none of its values could be split off")
        for group in groups:
            new = group[0] if NAME.fullmatch(group[0]) and self._may_be(group[0]) else self._free()
            try:
                made = map_changes.split_values(self.map, shard, new, home_of(self.map, self.of, shard, new), group)
            except ValueError as why:
                self.left.append(f"{shard}: {why}")
                continue
            told = ", ".join(group[:3]) + (" …" if len(group) > 3 else "")
            self._take(made, f"split {shard}: {new} with {told}", sum(rows[one] for one in group), shard, new)

    def merge(self, few: int) -> None:
        """Neighbours that count less than `few` together, the least first; none that has just been split."""
        spread = self.map.spread
        while isinstance(spread, Bands):
            pairs = [
                (self.weight[one] + self.weight[other], one, other)
                for one, other in zip(spread.shards, spread.shards[1:], strict=False)
                if one != other and self.map.rest not in (one, other) and one in self.weight and other in self.weight
                and self.map.homes[one].warehouse == self.map.homes[other].warehouse
            ]  # fmt: skip
            found = min(pairs, default=None)
            if found is None or found[0] >= few:
                return
            _, one, other = found
            gone, into = sorted((one, other), key=lambda name: (self.loads[name].rows, name))
            made = map_changes.merge(self.map, [gone], into)
            if not self._take(made, f"merge {gone} into {into}", self.loads[gone].rows, gone):
                return
            rows = self.loads[gone].rows + self.loads[into].rows
            self.loads = {**self.loads, into: Load(rows)}
            self.weight[into] = found[0]
            spread = self.map.spread

    def _take(self, made: ShardMap, step: str, rows: int, *touched: str) -> bool:
        if len(made.shards) > MOST:
            self.left.append(f"{step}: a table has at most {MOST} shards")
            return False
        if self.steps and self.moved + rows > self.at_once:
            self.left.append(f"{step}: about {rows:,} rows more would move; plan again when these have")
            return False
        self.map, self.moved = made, self.moved + rows
        self.steps.append(step)
        for name in touched:
            self.weight.pop(name, None)
        return True

    def _free(self) -> str:
        """A name that no shard has and no table, be it of a shard that is none any more. Where others take all of
        them it is none of these: who makes the map says why."""
        first = len(self.map.shards) - 1
        names = [f"s{number}" for number in range(first, first + _MOST_NAMES)]
        return next((name for name in names if self._may_be(name)), names[-1])

    def _may_be(self, name: str) -> bool:
        try:
            return name not in self.map.shards and self.look.is_free(self.of.home(name))
        except ValueError:  # too long: who splits says so
            return True
