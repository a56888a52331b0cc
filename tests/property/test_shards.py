"""The shards of a table are, at every cut, `fold` over all changes, placed: for histories with every kind of change in
any order and split, maps of every kind, and maps that change between the ranges."""

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firn.changes.merge.decide import is_fact
from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.placement.shard_decision import Decision, ShardedGround, decide_over, placed
from firn.changes.placement.shard_map import Home, ShardMap
from tests.memory_table import MemoryShard, MemoryTable, brought
from tests.property.random_shards import next_map, shard_case
from tests.soak import LONG, times

CASES = 200_000 if LONG else times(400, 1_500, 4_000)


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
        held = {name: MemoryShard(self.tables.get(self.map.homes[name], {})) for name in self.map.shards}
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
        before = {name: dict(self.rows(name)) for name in self.map.shards}
        for name in shards.shards:
            table = self.tables.setdefault(shards.homes[name], {})
            writes, removes = brought(decision, name, table, before, ahead=False)
            assert name in decision.reached | decision.made or not (writes or removes), f"{name} is not reached"
            for key in removes:
                del table[key]
            assert not writes.keys() & table.keys(), "a key has two rows"
            table |= writes
            again = brought(decision, name, table, before, ahead=True)
            assert again == ({}, []), "to bring a shard twice is to bring it once"
        self.map = shards
        return decision

    def rows(self, shard: str) -> Mapping[Key, Row]:
        return self.tables.get(self.map.homes[shard], {})


def plain(rows: Mapping[Key, Row]) -> str:
    """As text: NaN is not itself."""
    return repr(sorted((key, sorted(row.values.items()), row.order, row.held, row.source) for key, row in rows.items()))


def check(seed: int, seen: Counter[str]) -> None:
    """Raises AssertionError with the seed where shards and specification differ."""
    dice, story = random.Random(f"maps {seed}"), shard_case(seed)
    tables = {story.map.homes[name]: rows for name, rows in placed(story.map, story.base).items()}
    table = Sharded(story.map, tables, sources=story.sources)
    come: list[RowChange] = []
    for batch in story.batches:
        come += batch
        new = next_map(dice, table.map, fold(story.base, come).rows) if dice.random() < 0.4 else table.map
        seen[f"{new.by}, {'as it was' if new is table.map else 'another map'}"] += 1
        table.commit(new, batch)
        expected = placed(table.map, fold(story.base, come).rows)
        for name in table.map.shards:
            assert plain(table.rows(name)) == plain(expected[name]), f"{name} differs from fold, seed {seed}"
        seen["shards with rows"] += sum(bool(rows) for rows in expected.values())


def test_at_every_cut_each_shard_is_what_fold_places_there() -> None:
    seen = Counter[str]()
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG else 0
    for seed in range(first, first + CASES):
        check(seed, seen)
    assert min(seen.values()) > CASES / 20, seen
