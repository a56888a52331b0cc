"""What is decided of a table of several shards, most keys by columns and the others one by one, is what `decide_over`
decides, shard by shard: rows, how many keys were decided, which changes are too old. Shards that a job which died has
left ahead of the cut come to the same. Without Spark, in memory."""

import os
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.codec import DecodeSettings
from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import LONG, STRING, Type, parse
from firn.changes.merge import decide
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.ordering import plain
from firn.changes.placement.shard_decision import Decision, ShardedGround, decide_over
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap, even
from firn_spark.driver.shard_places import places_of
from firn_spark.driver.sharded_decision import ShardedDecision, decide_by_columns, places_in_columns, with_lost
from firn_spark.merge.key_lookup import PATH, PLACE, Emptied, Found
from tests.memory_table import MemoryShard
from tests.property.random_histories import order
from tests.property.test_decision import (
    TYPES,
    DriverTable,
    Lookup,
    Memory,
    changes_of,
    decoded,
    delivered,
    is_plain,
    statements,
    stored,
)
from tests.soak import LONG as LONG_RUN
from tests.soak import times

CASES = times(120, 50_000, 2_500)
NAMES = ("s0", "s1", "s2")


def map_of(dice: random.Random, column: str) -> ShardMap:
    """A map of any kind over the values that histories have in the column."""
    kind, by = LONG if column == "k" else STRING, dice.choice(("hash", "range", "geographic"))
    homes = {name: Home(f"{name}.t") for name in (*NAMES, "rest")}
    if by == "hash":
        return ShardMap(1, "hash", column, kind, Bands(even(3), NAMES), "rest", homes)
    if by == "range":
        bounds: tuple[Any, ...] = (1, 3) if column == "k" else (f"{column}12", f"{column}17")
        return ShardMap(1, "range", column, kind, Bands(bounds, NAMES), "rest", homes)
    values = {f"{'' if column == 'k' else column}{n}": NAMES[n % 3] for n in range(25) if n % 4}
    return ShardMap(1, "geographic", column, kind, Listed(values), "rest", homes)


@dataclass(frozen=True)
class ShardsInMemory(Lookup):
    """sharded_decision.Shards. `ground`: of all shards; `rows`: of all of them, each at its number; `homes`: the shard
    of each; `brought`: what those hold now that a job has left ahead of it."""

    homes: Sequence[str]
    sources: Collection[str | None]
    brought: Mapping[str, Mapping[Key, Row]]
    ground: Any = None
    shard_of: dict[str, str] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    present: dict[str, pa.Table] = field(default_factory=dict)

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        found = super().places(newest, decoding)
        mine = [self.homes[number] for number in found[PLACE].to_pylist()]
        self.met.update(mine)
        found, parts = self.named(found, mine), []
        for name in sorted({*mine, *self.brought}):
            part = found.filter(pa.array([one == name for one in mine], pa.bool_()))
            if name in self.brought:
                there = Lookup(self.table, list(self.brought[name].items())).places(newest, decoding)
                self.present[name] = self.named(there, [name] * len(there))
                part = with_lost(part, self.present[name], ["c0"])
            parts.append(part)
        return pa.concat_tables([found.slice(0, 0), *parts]).unify_dictionaries().combine_chunks()

    def named(self, found: pa.Table, shards: Sequence[str]) -> pa.Table:
        self.shard_of.update({f"{name}/file": name for name in shards})
        paths = pa.array([f"{name}/file" for name in shards], pa.string()).dictionary_encode()
        return found.set_column(found.column_names.index(PATH), PATH, paths)

    def before(
        self, decoding: Decoding, changes: Sequence[RowChange], truncates: Sequence[RowChange], emptied: Emptied
    ) -> Found:
        return Found(decide.look(self.ground, changes, truncates, self.sources), {}, {}, {})


@dataclass
class Shards:
    """A table of several shards and one memory. `ways`: how its ranges were decided; `dying`: how many of them a job
    had begun."""

    map: ShardMap
    tables: dict[str, dict[Key, Row]]
    memory: DriverTable
    dying: float = 0.0
    sources: frozenset[str | None] = frozenset()
    ways: Counter[str] = field(default_factory=Counter)
    come: list[RowChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory.log = lambda keys: [one for one in self.come if one.op != "t" and one.key in keys]

    def commit(self, batch: Sequence[RowChange]) -> None:
        """One range, by `decide_over`; what columns say must be the same."""
        ahead = self.left_ahead(batch) if self.memory.dice.random() < self.dying else {}
        self.come += batch
        expected, mine, matters = self.decided(batch)
        after = {name: applied(ahead.get(name, rows), expected, name) for name, rows in self.tables.items()}
        if not matters:
            self.compare(self.by_columns(mine, ahead), expected, ahead, after)
        whole = {key: row for rows in self.tables.values() for key, row in rows.items()}
        self.memory.gone += [(one.key, whole[one.key]) for one in batch if one.op == "d" and one.key in whole]
        self.memory.remembered += filter(decide.is_fact, batch)
        self.tables = after

    def left_ahead(self, batch: Sequence[RowChange]) -> dict[str, dict[Key, Row]]:
        """What a job that had other changes of the range's keys, or less of them, has left in some shards when it
        died."""
        dice, keys = self.memory.dice, {one.key for one in batch}
        begun = dice.sample(batch, dice.randrange(len(batch) + 1))
        begun += [one for one in statements(dice) if one.key in keys and dice.random() < 0.5]
        if not begun:
            return {}
        decided, _, _ = self.decided(begun)
        found = {}
        for name in dice.sample(sorted(self.tables), dice.randrange(1, len(self.tables) + 1)):
            before, after = self.tables[name], applied(self.tables[name], decided, name)
            found[name] = {key: row for key, row in before.items() if key not in keys}
            found[name] |= {key: row for key, row in after.items() if key in keys and dice.random() < 0.9}
        return found

    def decided(self, batch: Sequence[RowChange]) -> tuple[Decision, Sequence[RowChange], bool]:
        """By `decide_over`, of which changes, and whether truncates matter."""
        self.sources |= {one.source for one in batch}
        self.memory.sources = self.sources
        truncates = list({one.identity: one for one in batch if one.op == "t"}.values())
        mine = [one for one in batch if one.op != "t"]
        matter = bool(truncates) or self.memory.newest_truncate > min((one.order for one in mine), default=b"")
        return decide_over(self.ground(), self.map, mine, truncates, self.sources, self.memory.floor), mine, matter

    def ground(self) -> ShardedGround:
        held = {name: MemoryShard(rows) for name, rows in self.tables.items()}
        return ShardedGround(held, self.memory, self.map, ("k",))

    def by_columns(self, mine: Sequence[RowChange], ahead: Mapping[str, Mapping[Key, Row]]) -> ShardedDecision:
        several = len(self.sources - {None}) > 1
        decoding = Decoding(columns=TYPES, key=(0,), settings=DecodeSettings(), several=several)
        whole = [one for one in mine if is_plain(one)]
        odd = [decoded(one) for one in mine if not is_plain(one)]
        changes = changes_of(whole, odd, (), decoding, mine[0].source)
        rows = [(name, item) for name, table in self.tables.items() for item in table.items()]
        homes = [name for name, _ in rows]
        lookup = ShardsInMemory(self.memory, [item for _, item in rows], homes, self.sources, ahead, self.ground())
        placed, gaps = (places_in_columns(part, self.map, TYPES) for part in (changes.whole, changes.gaps))
        memory: Any = Memory(self.memory)
        return decide_by_columns(changes, memory, lookup, self.map, placed, gaps.unique().to_pylist(), ahead)

    def compare(
        self,
        made: ShardedDecision,
        expected: Decision,
        ahead: Mapping[str, Mapping[Key, Row]],
        after: Mapping[str, Mapping[Key, Row]],
    ) -> None:
        self.ways[f"{made.way}, ahead" if ahead else made.way] += 1
        numbered = [item for table in self.tables.values() for item in table.items()]
        for name, at_the_cut in self.tables.items():
            before = ahead.get(name, at_the_cut)
            found = applied(before, made.rows, name)
            if made.columns is not None:
                part, there = made.columns.of(name), list(before)
                for number in made.columns.gone(name).get(f"{name}/file", pa.array([], pa.int64())).to_pylist():
                    del found[there[number]]
                plain_ones = made.columns.whole.to_pylist()
                for row, writes, removes in zip(part.rows.to_pylist(), part.write, part.remove, strict=True):
                    if removes.as_py():
                        del found[numbered[row[PLACE]][0]]
                    if writes.as_py():
                        one = plain_ones[row["_number"]]
                        values = {"k": one["c0"], "v": one["c1"], "w": one["c2"]}
                        source = one["_table"] if "_table" in one else self.come[-1].source
                        assert (one["c0"],) not in found, "a key has two rows"
                        found[one["c0"],] = Row(values, one["_ord"], source=source)
            assert stored(found) == stored(after[name]), name
            assert name in made.reached or name in ahead or found == before, f"{name} is changed, and not reached"
        assert expected.reached - {"rest"} <= made.reached, "a split of the range could have touched it"
        assert (made.told, made.rows.too_old) == (expected.told, expected.too_old)
        rest, column = self.map.rest, self.map.column
        came = {row.values.get(column) for key, row in after[rest].items() if self.tables[rest].get(key) != row}
        theirs = (row.values for row in expected.rows.values() if row is not None)
        there = {values.get(column) for values in theirs if self.map.place(values) == rest}
        assert came <= made.values_in(rest, column, TYPES) <= there, "who comes into the rest may become a shard"


def applied(before: Mapping[Key, Row], decided: Decision, name: str) -> dict[Key, Row]:
    """A shard's rows after its step."""
    step = decided.step(name, before)
    return {key: row for key, row in before.items() if key not in set(step.removes)} | dict(step.writes)


def check(seed: int) -> Counter[str]:
    """Raises AssertionError where the ways differ."""
    dice = random.Random(seed)
    arrived, floor = dice.random() < 0.15, dice.random() < 0.2
    batches = delivered(dice, statements(dice), arrived=arrived)
    shards = map_of(dice, dice.choice(("k", "v", "w")))
    table = Shards(shards, {name: {} for name in shards.shards}, DriverTable(dice=dice), dice.choice((0.2, 1.0)))
    for number, batch in enumerate(batches):
        if floor and number == 1:
            table.memory.floor = plain(order("d", dice.randrange(10, 20), b"")) or b""
        again = [one for one in table.come if one.op != "t" and one.position is not None]
        table.commit([*batch, *dice.choices(again, k=2)] if again and dice.random() < 0.5 else batch)
    return table.ways


def test_shards_that_are_decided_by_columns_are_what_the_row_engine_decides() -> None:
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG_RUN else 0
    ways = Counter[str]()
    for seed in range(first, first + CASES):
        try:
            ways += check(seed)
        except AssertionError as why:
            raise AssertionError(f"seed {seed}") from why
    assert min(ways[way] for way in ("columns", "both", "columns, ahead", "both, ahead")) > CASES / 20, ways


VALUES: Mapping[Type, Sequence[Any]] = {
    LONG: (None, 0, -1, 2**63 - 1, -(2**63), *range(300)),
    parse("int"): (None, 0, -(2**31), 34),
    parse("date"): (None, 0, -1, 20_000),
    parse("timestamptz"): (None, 0, -1, 1_800_000_000_000_000),
    parse("timestamp_ns"): (None, 0, -1, 1_800_000_000_000_000_001),
    STRING: (
        None, "", "a", "ab", "abc", "Ünter", "日本", "a" * 256, "b" * 257, "c" * 5_000,
        *(f"user-{n}" * (n % 3) for n in range(300)),
    ),
    parse("binary"): (None, b"", b"\0", b"\0\1\2\3\4"),
    parse("uuid"): (None, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_many_values_have_the_shards_that_each_of_them_has(kind: Type) -> None:
    from firn_spark.files.values import typed

    homes = {name: Home(f"{name}.t") for name in (*NAMES, "rest")}
    shards = ShardMap(1, "hash", "c", kind, Bands(even(3), NAMES), "rest", homes)
    some = VALUES[kind]
    column = pa.chunked_array([typed(some, kind), typed(some[:2], kind)])
    assert places_of(shards, column, kind).to_pylist() == [shards.of(value) for value in (*some, *some[:2])]
    assert not places_of(shards, column.slice(0, 0), kind).to_pylist()
