"""What the job's process decides, most keys by columns and the others one by one, is what the row engine and the
specification say: rows, orders, held values and source tables after each range, how many keys were decided, and which
changes are too old. Without Spark, on a table in memory."""

import os
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from firn.changes.decode.codec import DecodeSettings
from firn.changes.decode.row_decoder import OTHERS_LEFT_OUT, Decoding
from firn.changes.decode.types import Column, parse
from firn.changes.merge import decide
from firn.changes.merge.decide import Decided, is_fact
from firn.changes.merge.fold import LOADED, OTHERS, Key, Row, RowChange, empties, fold
from firn.changes.merge.ordering import plain, stored_held
from firn_spark.merge import column_decoder
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge.columnar_merge import DecidedColumns
from firn_spark.merge.decision import (
    Apart,
    Changes,
    SliceRules,
    decide_keys,
    decide_rows,
    decide_slice,
    keys_in,
    moves_of,
)
from firn_spark.merge.facts_table import Remembered
from firn_spark.merge.key_lookup import HOLDS, PATH, PLACE, THERE, Emptied, Found
from tests.memory_table import MemoryTable
from tests.property.random_histories import COLUMNS, change, order
from tests.soak import LONG, times

CASES = times(160, 50_000, 2_500)
RARE = (1_001_679,)  # a key that only the log can tell is in a slice
TYPES = (Column("k", parse("long")), *(Column(name, parse("string")) for name in COLUMNS))
KINDS = ("truncate", "delete", "create", "gaps", "move", "copy", "alike", "update")
MIXES = (
    (0, 15, 5, 35, 20, 5, 4, 16),
    (3, 17, 15, 25, 10, 5, 4, 21),
    (2, 8, 10, 10, 40, 15, 4, 11),
    (0, 30, 20, 10, 5, 1, 4, 30),
    (6, 15, 5, 20, 10, 0, 4, 40),
    (15, 10, 5, 40, 5, 0, 0, 25),
)


@dataclass
class DriverTable(MemoryTable):
    """The same table, whose ranges the driver decides. `ways`: how, by Decision.way; `dice`: for what a look-up may
    leave out; `slices`: by slices, as Spark's tasks do."""

    dice: random.Random = field(default_factory=lambda: random.Random(0))
    ways: Counter[str] = field(default_factory=Counter)
    slices: bool = False

    def decided(self, batch: Sequence[RowChange]) -> Decided:
        self.sources |= {one.source for one in batch}
        several = len(self.sources - {None}) > 1
        decoding = Decoding(columns=TYPES, key=(0,), settings=DecodeSettings(), several=several)
        truncates = list({one.identity: one for one in batch if one.op == "t"}.values())
        mine = [one for one in batch if one.op != "t"]
        whole = [one for one in mine if is_plain(one)]
        apart = several and bool(truncates or self.newest_truncate > min((one.order for one in mine), default=b""))
        odd = [decoded(one) for one in mine if one not in whole]
        rows, memory = list(self.live.items()), Memory(self)
        lookup, found = Lookup(self, rows), Decided()
        if self.slices and whole:
            gone = self.in_slices(found, whole, odd, truncates, decoding, memory, lookup, apart)
        else:
            changes = changes_of(whole, odd, truncates, decoding, batch[0].source)
            made = decide_keys(changes, memory, lookup, one_by_one=apart)
            self.ways[made.way] += 1
            note_rows(found, made.rows.decided)
            note_columns(found, made.columns, whole, rows)
            gone = made.emptied
        emptied = (rows[number][0] for places in gone.values() for number in places.to_pylist())
        found.removes += [key for key in emptied if key not in found.removes]
        assert found.writes.keys() & self.live.keys() <= set(found.removes), "a key has two rows"
        return found

    def in_slices(
        self,
        found: Decided,
        plain: Sequence[RowChange],
        odd: Sequence[Any],
        truncates: Sequence[RowChange],
        decoding: Decoding,
        memory: "Memory",
        lookup: "Lookup",
        one_by_one: bool,
    ) -> Mapping[str, Any]:
        """As SliceEngine does: each slice by itself, and what is left by the job. -> the rows that truncates remove."""
        source = plain[0].source
        changes = changes_of((), odd, truncates, decoding, source)
        gone = lookup.emptied(decoding, truncates)
        apart = Apart(keys_in(changes.good, gone, decoding), moves_of(changes, memory))
        emptied = changes.emptied(memory.said.truncated)
        rules = SliceRules(decoding, source, memory.said.floor, emptied, truncates, one_by_one, apart)
        left, bound = list(odd), self.dice.randrange(6)
        for mine in ([one for one in plain if one.key[0] < bound], [one for one in plain if one.key[0] >= bound]):
            made = decide_slice(plain_of(mine, decoding), rules, SliceLookup(self, lookup.rows))
            note_rows(found, made.rows.decided)
            note_columns(found, made.columns, mine, lookup.rows)
            left += by_columns.rows_of(made.left, decoding, source)
            self.ways["in a slice, one by one"] += bool(made.rows.times)
        note_rows(found, decide_rows(left, truncates, decoding, memory.said.floor, lookup, gone).decided)
        return gone.places


@dataclass(frozen=True)
class Memory:
    """What of delete_memory.DeleteMemory is asked."""

    table: MemoryTable

    @property
    def said(self) -> Remembered:
        newest = max((fact.order for fact in self.table.remembered), default=b"")
        return Remembered(newest, self.table.newest_truncate, self.table.creates, self.table.floor)

    def halves(self, key: Sequence[Column], positions: Collection[bytes]) -> Sequence[RowChange]:
        return self.table.halves(positions)


@dataclass(frozen=True)
class Lookup:
    """A key_lookup.Lookup. `rows`: the table's, each at its number."""

    table: DriverTable
    rows: Sequence[tuple[Key, Row]]

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        wanted, low = set(newest["c0"].to_pylist()), min(newest["_order"].to_pylist(), default=b"")
        found = [(number, key[0], row) for number, (key, row) in enumerate(self.rows) if key[0] in wanted]
        orders = [plain(row.order) for _, _, row in found]
        there = [None if one is not None and one < low and self.table.dice.random() < 0.5 else one for one in orders]
        ids = {name: number for number, name in enumerate(COLUMNS)}
        holds = [stored_held(plain(row.order) or b"", row.held, ids) for _, _, row in found]
        columns = {
            "c0": pa.array([key for _, key, _ in found], pa.int64()),
            THERE: pa.array(there, pa.binary()),
            PATH: pa.array(["file"] * len(found), pa.string()),
            PLACE: pa.array([number for number, _, _ in found], pa.int64()),
            HOLDS: pa.array([one is not None for one in holds], pa.bool_()),
        }
        return pa.table(columns)

    def newer(self, orders: pa.Table, decoding: Decoding) -> pa.Table:
        known = [(fact.key[0], plain(fact.order)) for fact in self.table.remembered if fact.op in "dc"]
        late = [any(one == row["c0"] and at > row["_order"] for one, at in known) for row in orders.to_pylist()]
        return orders.select(["c0"]).filter(pa.array(late, pa.bool_()))

    def emptied(self, decoding: Decoding, truncates: Sequence[RowChange]) -> Emptied:
        gone = [
            any(one.order >= row.order and (not decoding.several or empties(one, row)) for one in truncates)
            for _, row in self.rows
        ]
        numbers = [number for number, goes in enumerate(gone) if goes]
        others = {key for (key, row), goes in zip(self.rows, gone, strict=True) if row.held and not goes}
        return Emptied({"file": pa.array(numbers, pa.int64())} if truncates else {}, others if truncates else ())

    def before(
        self, decoding: Decoding, changes: Sequence[RowChange], truncates: Sequence[RowChange], emptied: Emptied
    ) -> Found:
        some = {*emptied.others, *(change.key for change in changes)}
        return Found(decide.look(self.ground(some), changes, truncates, self.table.sources), {}, {}, {})

    def ground(self, some: Collection[Key]) -> "Some":
        return Some(self.table, some)


class SliceLookup(Lookup):
    """What a slice looks up: all but the log."""

    def ground(self, some: Collection[Key]) -> "Some":
        return WithoutLog(self.table, some)


def changes_of(
    plain: Sequence[RowChange], odd: Sequence[Any], truncates: Sequence[RowChange], decoding: Decoding, source: str
) -> Changes:
    changes = Changes(plain_of(plain, decoding), [], decoding, source)
    changes.good, changes.truncates = list(odd), list(truncates)
    return changes


def note_rows(found: Decided, made: Decided) -> None:
    assert not {*found.writes, *found.removes} & {*made.writes, *made.removes}, "decided twice"
    found.writes |= made.writes
    found.removes += made.removes
    found.told += made.told
    found.too_old |= made.too_old


def note_columns(
    found: Decided,
    made: DecidedColumns | None,
    plain: Sequence[RowChange],
    rows: Sequence[tuple[Key, Row]],
) -> None:
    if made is None:
        return
    whole = [one for one in plain if not one.unavailable]
    found.told += made.told
    for row, writes, removes in zip(made.rows.to_pylist(), made.write, made.remove, strict=True):
        one = whole[row["_number"]]
        assert one.key not in {*found.writes, *found.removes}, "decided twice"
        if writes.as_py():
            found.writes[one.key] = Row(dict(one.values or {}), one.order, source=one.source)
        if removes.as_py():
            assert rows[row[PLACE]][0] == one.key, "another key's row goes"
            found.removes.append(one.key)


class Some:
    """The table as decide.Ground, of which no more than `some` rows are looked at for a truncate."""

    def __init__(self, table: DriverTable, some: Collection[Key]) -> None:
        self._table = table
        self._some = some

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def rows(self, keys: Collection[Key] | None, columns: Collection[str] | None) -> Mapping[Key, Row]:
        return self._table.rows(self._some if keys is None else keys, columns)


class WithoutLog(Some):
    """The same of a slice, which has no keys that a move connects with others."""

    creates = False

    def log(self, _keys: Collection[Key]) -> Sequence[RowChange]:
        return ()

    def removed(self, _keys: Collection[Key]) -> Sequence[tuple[Key, Row]]:
        return ()


def is_plain(one: RowChange) -> bool:
    """As column_decoder.split says."""
    return one.key[0] is not None and (one.op == "u" or not one.unavailable)


def plain_of(changes: Sequence[RowChange], decoding: Decoding) -> pa.Table:
    """Plain changes as the readers give them."""
    names = ("_op", "_ts", "_ord", "_unavail", *(("_table",) if decoding.several else ()), "c0", "c1", "c2")
    rows = []
    for one in changes:
        values = [(one.values or {}).get(name) for name in COLUMNS]
        gaps = gaps_of(one)
        rows.append((one.op, 5, one.order, gaps, *((one.source,) if decoding.several else ()), *one.key, *values))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], column_decoder.schema(decoding))


def decoded(one: RowChange) -> list[object]:
    """Another change as decoded_rows has it."""
    gaps = gaps_of(one)
    meta = [1, "batch", 0, one.op, 5, one.position, one.order, gaps, *[None] * 4, 0, None, one.source]
    return [*meta, None, one.key[0], *((one.values or {}).get(name) for name in COLUMNS)]


def gaps_of(one: RowChange) -> list[int] | None:
    """The ordinals of what a change leaves out."""
    named = {*one.unavailable, *(COLUMNS if OTHERS in one.unavailable else ())} - (one.values or {}).keys()
    left_out = named if OTHERS in named else one.unavailable
    return [OTHERS_LEFT_OUT if name == OTHERS else 1 + COLUMNS.index(name) for name in sorted(left_out)] or None


def as_patches(told: Sequence[RowChange]) -> list[RowChange]:
    """The same, of which each update that leaves something out says what it names alone."""
    found = []
    for one in told:
        if one.op == "u" and one.unavailable and one.values is not None:
            values = {name: value for name, value in one.values.items() if name not in one.unavailable}
            one = replace(one, values=values, unavailable=frozenset({OTHERS}))
        found.append(one)
    return found


def statements(dice: random.Random) -> list[RowChange]:
    """Changes in the source's order."""
    tables, keys, mix = dice.choice(("a", "a", "ab", "abc")), dice.choice((2, 3, 4, 6)), dice.choice(MIXES)
    nulls = 0.15 if dice.random() < 0.1 else 0.0

    def any_key() -> int | None:
        return None if dice.random() < nulls else dice.randrange(keys)

    def gaps(often: float = 1) -> frozenset[str]:
        return frozenset(name for name in COLUMNS if dice.random() < 0.5) if dice.random() < often else frozenset()

    told: list[RowChange] = []
    for place in range(10, 10 + dice.randrange(2, 16)):
        key, table = any_key(), dice.choice(tables)
        match dice.choices(KINDS, mix)[0]:
            case "truncate":
                told += [change("t", None, place, one) for one in sorted({table, dice.choice(tables)})]
            case "delete":
                told.append(change("d", key, place, table))
            case "create":
                told.append(dice.choice((change("c", key, place, table, gaps(0.2)), change("r", key, place, table))))
            case "gaps":
                told.append(change("u", key, place, table, gaps()))
            case "move":
                if (to := any_key()) != key:
                    told += [change("d", key, place, table), change("c", to, place, table, gaps())]
            case "copy":
                told += [change("c", one, place, table, gaps()) for one in range(keys)]
            case "alike":  # at one position
                told += [change("u", key, place, one, gaps(0.3)) for one in tables]
            case _:
                told.append(change("u", key, place, table))
    return told


def delivered(dice: random.Random, told: Sequence[RowChange], *, arrived: bool) -> list[list[RowChange]]:
    """The changes, some of them twice, in any order, nearly in theirs or in theirs, as ranges. `arrived`: some without
    a position."""
    come = [*told, *dice.choices(told, k=dice.randrange(4))] if told else []
    late = dice.choice((0, 0, 2, 5, 99, 99))
    come.sort(key=lambda one: (int.from_bytes(one.position) + dice.randrange(late + 1), one.order))
    if arrived:
        often = Counter(one.position for one in come)
        for number, one in enumerate(come):
            if one.op != "t" and not one.unavailable and often[one.position] == 1 and dice.random() < 0.3:
                come[number] = replace(one, position=None, order=b"\0" + number.to_bytes(12, "big") + b"\1")
    batches = []
    while come:
        size = dice.randrange(1, 9)
        batches.append(come[:size])
        come = come[size:]
    return batches


def stored(rows: Mapping[Key, Row]) -> dict[Key, Row]:
    """Rows as a table can hold them: each with all columns, and a value of the row's own order is not said to be of an
    earlier one."""
    found = {}
    for key, row in rows.items():
        held = {name: at for name, at in row.held.items() if at < row.order or OTHERS in row.held}
        found[key] = replace(row, values=dict.fromkeys(("k", *COLUMNS)) | dict(row.values), held=held)
    return found


def check(seed: int, *, patches: bool = False) -> Counter[str]:
    """-> how the ranges were decided. Raises AssertionError with the seed where the ways differ."""
    dice = random.Random(seed)
    arrived, floor, crash, based = (dice.random() < chance for chance in (0.15, 0.2, 0.2, 0.2))
    told = statements(dice)
    batches = delivered(dice, as_patches(told) if patches else told, arrived=arrived)
    base = {}
    for key in range(6) if based else ():
        at = dice.choice((LOADED, order("c", 1 + key, b"base")))
        base[key,] = Row({"k": key, **dict.fromkeys(COLUMNS, "base")}, at, source="a")
    sources = frozenset({"a"} if based else ())
    table = DriverTable(dict(base), sources, dice=dice, slices=dice.random() < 0.5)
    engine = MemoryTable(dict(base), sources)
    come: list[RowChange] = []
    for number, batch in enumerate(batches):
        come += batch
        if floor and number == 1:
            table.floor = engine.floor = plain(order("d", dice.randrange(10, 20), b"")) or b""
        if crash and dice.random() < 0.3:  # a job that died between the facts and the rows
            table.remembered += filter(is_fact, batch)
            engine.remembered += filter(is_fact, batch)
        found, expected = table.commit(batch), engine.commit(batch)
        assert stored(table.live) == stored(engine.live), f"other rows than the row engine's, seed {seed}"
        assert (found.told, found.too_old) == (expected.told, expected.too_old), f"other counts, seed {seed}"
        # What has no position, is older than the log or at most the floor is not told apart by the specification.
        if not (arrived or floor or based):
            specified = fold({}, come).rows
            assert stored(table.live) == stored(specified), f"other rows than the specification's, seed {seed}"
    return table.ways


def test_what_is_decided_by_columns_and_one_by_one_is_what_the_row_engine_decides() -> None:
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG else 0
    print(f"seeds {first} to {first + CASES}")
    ways = sum(map(check, (*RARE, *range(first, first + CASES))), Counter[str]())
    for seed in range(first, first + CASES // 10):
        check(seed, patches=True)
    assert min(ways[way] for way in ("columns", "rows", "both", "in a slice, one by one")) > CASES / 10, ways
