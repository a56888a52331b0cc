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
from tests.memory_table import MemoryShard, MemoryTable
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


def brought(branches: dict[str, dict[Key, Row]], decision: Decision) -> None:
    """Branches that hold the rows of a cut under another map, one range further."""
    for name, table in branches.items():
        step = decision.step(name, table)
        assert name in decision.reached or not (step.writes or step.removes), f"{name} is changed, and not reached"
        for key in step.removes:
            del table[key]
        table |= step.writes


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


def check_branches(seed: int, seen: Counter[str]) -> None:
    """The same of branches that are filled at a cut for a map that is still to come. Raises AssertionError."""
    dice, story = random.Random(f"branches {seed}"), shard_case(seed)
    tables = {story.map.homes[name]: rows for name, rows in placed(story.map, story.base).items()}
    table, come = Sharded(story.map, tables, sources=story.sources), list[RowChange]()
    begin = dice.randrange(len(story.batches))
    after, branches = story.map, dict[str, dict[Key, Row]]()
    for number, batch in enumerate(story.batches):
        if number == begin:
            rows = fold(story.base, come).rows
            after = next_map(dice, story.map, rows)
            branches = placed(after, rows)
        come += batch
        brought(branches, table.commit(story.map, batch).following(after))
        if branches:
            expected = placed(after, fold(story.base, come).rows)
            assert all(plain(branches[name]) == plain(rows) for name, rows in expected.items()), f"seed {seed}"
    seen["branches"] += after is not story.map


def test_branches_that_are_filled_at_a_cut_come_along_until_their_map_counts() -> None:
    seen = Counter[str]()
    for seed in range(CASES // 3):
        check_branches(seed, seen)
    assert seen["branches"] > CASES / 12, seen


def test_at_every_cut_each_shard_is_what_fold_places_there() -> None:
    seen = Counter[str]()
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG else 0
    for seed in range(first, first + CASES):
        check(seed, seen)
    assert min(seen.values()) > CASES / 20, seen
