"""The shards of a table are, at every cut, `fold` over all changes, placed: for histories with every kind of change in
any order and split, maps of every kind, and maps that change between the ranges."""

import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from firn.changes.decode.types import LONG, STRING, TIMESTAMP, Type, decimal
from firn.changes.merge.decide import is_fact
from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.placement.map_changes import admit, merge, move, split, split_values, waiting
from firn.changes.placement.shard_decision import Decision, ShardedGround, decide_over, placed
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap, even
from firn.changes.placement.shard_values import bound_of
from tests import soak
from tests.memory_table import MemoryTable
from tests.property.random_histories import case

CASES = 200_000 if soak.LONG else soak.times(1_500, 1_500, 4_000)
ODD = (None, float("nan"), True, [1], "half a pair: \ud83d", Decimal("NaN"), b"\0", 2**63)
MOMENT = bound_of(TIMESTAMP, "2026-01-01")
VALUES: Mapping[Type, Sequence[Any]] = {
    STRING: ("acme", "b", "Ünter", "Acme", "eu", "us", "rest", "", "9", "10"),
    LONG: (-3, 9, 10, 11, 100, 2**40),
    TIMESTAMP: (MOMENT, MOMENT - 1, 0, -1),
    decimal(9, 2): (Decimal("9.00"), Decimal("10.50"), Decimal("-0.01"), Decimal("100.00")),
}  # fmt: skip


def home(name: str, number: int = 0) -> Home:
    return Home(f"{name}.orders{number or ''}")


def homes(*names: str) -> dict[str, Home]:
    return {name: home(name) for name in names}


def first_map(dice: random.Random, column: str) -> ShardMap:
    """A map of any kind."""
    by = dice.choice(("hash", "range", "tenant", "geographic"))
    names = [f"s{i}" for i in range(dice.randrange(1, 5))]
    if by == "hash":
        kind = dice.choice(list(VALUES))
        return ShardMap(1, "hash", column, kind, Bands(even(len(names)), tuple(names)), "rest", homes(*names, "rest"))
    if by == "range":
        kind = dice.choice(list(VALUES))
        bounds = sorted(dice.sample(VALUES[kind], min(len(names), len(VALUES[kind])) - 1))
        names = names[: len(bounds) + 1]
        return ShardMap(1, "range", column, kind, Bands(tuple(bounds), tuple(names)), "rest", homes(*names, "rest"))
    kind = dice.choice((STRING, LONG))
    listed = {str(one): dice.choice(names) for one in dice.sample(VALUES[kind], 3)} if by == "geographic" else {}
    named = homes(*listed.values(), "rest")
    return ShardMap(1, by, column, kind, Listed(listed), "rest", named, dice.randrange(4) if by == "tenant" else 0)


def next_map(dice: random.Random, now: ShardMap, rows: Mapping[Key, Row]) -> ShardMap:
    """One that is split, merged, moved, or takes tenants in; itself where that makes no sense."""
    new, shards = f"n{now.version}", sorted(now.shards)
    ways: list[Callable[[], ShardMap]] = [
        lambda: merge(now, dice.sample(shards, min(2, len(shards))), dice.choice(shards)),
        lambda: move(now, dice.choice(shards), home("moved", now.version)),
    ]
    if isinstance(now.spread, Bands):
        bound = None if now.by == "hash" else dice.choice(VALUES[now.kind])
        ways.append(lambda: split(now, dice.choice(shards), new, home(new), at=bound))
    else:
        some = [str(one) for one in dice.sample(VALUES[now.kind], 2)]
        ways.append(lambda: split_values(now, dice.choice(shards), new, home(new), some))
        found = waiting(now, [row.values.get(now.column) for row in rows.values()])
        ways.append(lambda: admit(now, homes(*found)))
    try:
        return dice.choice(ways)()
    except ValueError:
        return now


def told(dice: random.Random, one: RowChange, column: str, kind: Type) -> RowChange:
    """The change with a value of the column that shards may be told by; the same one for the same change."""
    if one.values is None or column in one.unavailable:
        return one
    return replace(one, values={**one.values, column: value_of(dice, repr(one.identity), kind)})


def value_of(dice: random.Random, seed: str, kind: Type) -> Any:
    own = random.Random(f"{dice.random()}{seed}")
    return own.choice(ODD) if own.random() < 0.2 else own.choice(VALUES[kind])


@dataclass
class Held:
    """A shard at a cut. `asked`: of how many keys."""

    live: Mapping[Key, Row]
    asked: int = 0

    @property
    def holds(self) -> bool:
        return any(row.held for row in self.live.values())

    def rows(self, keys: Collection[Key] | None) -> Mapping[Key, Row]:
        self.asked += len(self.live) if keys is None else len(keys)
        return {key: row for key, row in self.live.items() if keys is None or key in keys}


@dataclass
class Sharded:
    """A table of shards, each by its home, and one memory; `come`: all changes so far."""

    map: ShardMap
    tables: dict[Home, dict[Key, Row]]
    names: tuple[str, ...] = ("k",)
    sources: frozenset[str | None] = frozenset()
    memory: MemoryTable = field(default_factory=MemoryTable)
    come: list[RowChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory.log = lambda keys: [one for one in self.come if one.op != "t" and one.key in keys]

    def decided(self, shards: ShardMap, batch: Sequence[RowChange]) -> Decision:
        self.come += batch
        self.sources |= {one.source for one in batch}
        held = {name: Held(self.tables.get(self.map.homes[name], {})) for name in self.map.shards}
        ground = ShardedGround(held, self.memory, self.map, self.names)
        truncates = list({one.identity: one for one in batch if one.op == "t"}.values())
        return decide_over(ground, shards, [one for one in batch if one.op != "t"], truncates, self.sources)

    def commit(self, shards: ShardMap, batch: Sequence[RowChange]) -> Decision:
        """One range, all of it under one map."""
        decision = self.decided(shards, batch)
        whole = {key: row for name in self.map.shards for key, row in self.rows(name).items()}
        deleted = {one.key for one in batch if one.op == "d"}
        self.memory.gone += [(key, row) for key, row in whole.items() if key in deleted]
        self.memory.remembered += filter(is_fact, batch)
        for name in shards.shards:
            table = self.tables.setdefault(shards.homes[name], {})
            step = decision.step(name, table)
            assert name in decision.reached or not (step.writes or step.removes), f"{name} is changed, and not reached"
            for key in step.removes:
                del table[key]
            assert not step.writes.keys() & table.keys(), "a key has two rows"
            table |= step.writes
            again = decision.step(name, table)
            assert not again.writes, "to bring a shard twice is to bring it once"
            assert not again.removes, "to bring a shard twice is to bring it once"
        self.map = shards
        return decision

    def rows(self, shard: str) -> Mapping[Key, Row]:
        return self.tables.get(self.map.homes[shard], {})


def plain(rows: Mapping[Key, Row]) -> str:
    """As text: NaN is not itself."""
    return repr(sorted((key, sorted(row.values.items()), row.order, row.held, row.source) for key, row in rows.items()))


def check(seed: int, seen: Counter[str]) -> None:
    """Raises AssertionError with the seed where shards and specification differ."""
    dice, story = random.Random(seed), case(seed)
    column = dice.choice(("v", "w", "w", "k"))
    now = first_map(dice, column)
    fixed = random.Random(seed)
    fixed_at = fixed.random()

    def own(one: RowChange) -> RowChange:
        return one if column == "k" else told(random.Random(fixed_at), one, column, now.kind)

    base = {
        key: row if column == "k" else replace(row, values={**row.values, column: value_of(fixed, str(key), now.kind)})
        for key, row in story.base.items()
    }
    tables = {now.homes[name]: rows for name, rows in placed(now, base).items()}
    table = Sharded(now, tables, sources=story.sources)
    come: list[RowChange] = []
    for batch in story.batches:
        batch = [own(one) for one in batch]
        come += batch
        new = next_map(dice, table.map, fold(base, come).rows) if dice.random() < 0.4 else table.map
        seen[f"{new.by}, {'as it was' if new is table.map else 'another map'}"] += 1
        table.commit(new, batch)
        expected = placed(table.map, fold(base, come).rows)
        for name in table.map.shards:
            assert plain(table.rows(name)) == plain(expected[name]), f"{name} differs from fold, seed {seed}"
        seen["shards with rows"] += sum(bool(rows) for rows in expected.values())


def test_at_every_cut_each_shard_is_what_fold_places_there() -> None:
    seen = Counter[str]()
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if soak.LONG else 0
    for seed in range(first, first + CASES):
        check(seed, seen)
    assert min(seen.values()) > CASES / 20, seen
