"""Random histories of tables that one or several source tables feed, fast enough for a million of them: in any order,
split and repeated, on rows that were there before."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.changes.merge.fold import LOADED, Key, Row, RowChange

COLUMNS = ("v", "w")
_RANK = {"t": 0, "d": 1, "r": 2, "c": 3, "u": 4}


@dataclass(frozen=True)
class Case:
    """`base`: rows that were there before, without an order (`loaded`) or with one below the log's; `changes` in the
    source's order; `batches`: how they come."""

    seed: int
    base: Mapping[Key, Row]
    changes: Sequence[RowChange]
    batches: Sequence[Sequence[RowChange]]
    sources: frozenset[str | None]


def case(seed: int) -> Case:
    """The case of this seed."""
    dice = random.Random(seed)
    tables = "abc"[: dice.choice((1, 1, 2, 3))]
    keys = dice.choice((2, 3, 4))
    base: dict[Key, Row] = {}
    kind = dice.choice(("empty", "empty", "loaded", "older"))
    if kind != "empty":
        for key in range(keys):
            if dice.random() < 0.7:
                values = {"k": key, **{name: f"base{key}{name}" for name in COLUMNS}}
                at = LOADED if kind == "loaded" else order("c", 1 + key, b"base")
                base[key,] = Row(values, at, source=dice.choice(tables))
    told: list[RowChange] = []
    for place in range(dice.randrange(1, 9)):
        told += _statement(dice, 10 + place, keys, tables, base=kind != "empty")
    come = told + [dice.choice(told) for _ in range(dice.randrange(4)) if told]
    dice.shuffle(come)
    if dice.random() < 0.2:
        come.sort(key=lambda one: one.order)
    batches = []
    while come:
        count = dice.randrange(1, 5)
        batches.append(come[:count])
        come = come[count:]
    return Case(seed, base, told, batches, frozenset(row.source for row in base.values()))


def _statement(dice: random.Random, place: int, keys: int, tables: str, *, base: bool) -> list[RowChange]:
    key, table, chance = dice.randrange(keys), dice.choice(tables), dice.random()
    if chance < 0.1:
        return [change("t", None, place, one) for one in sorted({table, dice.choice(tables)})]
    if chance < 0.28:
        return [change("d", key, place, table)]
    if chance < 0.42:
        return [change(dice.choice("cr"), key, place, table)]
    # Values that are older than the log, and are left out, are not told apart any more (docs/guarantees.md): by source
    # table, or once a move that comes late would need them.
    gaps = frozenset(name for name in COLUMNS if dice.random() < 0.5 and not (base and len(tables) > 1))
    if chance < 0.8 or base:
        return [change("u", key, place, table, gaps)]
    if chance < 0.85:  # a COPY: several rows share a position
        return [change("c", one, place, table, gaps) for one in range(keys)]
    to = (key + 1 + dice.randrange(keys - 1)) % keys
    return [change("d", key, place, table), change("c", to, place, table, gaps)]


def order(op: str, place: int, content: bytes) -> bytes:
    """The order of a change at a place of the source's log."""
    return b"\1" + place.to_bytes(45, "big") + bytes([_RANK[op]]) + content.ljust(8, b"\0")[:8]


def change(op: str, key: int | None, place: int, table: str, gaps: frozenset[str] = frozenset()) -> RowChange:
    """A change of the row `key`, or a truncate; `gaps`: its unavailable columns."""
    at = order(op, place, b"" if op == "t" else f"{key}".encode())
    values = None
    if op not in "dt":
        literal = {name: "?" if name in gaps else f"{name}{place}" for name in COLUMNS}
        values = {"k": key, **literal}
    return RowChange(op, () if op == "t" else (key,), at[1:46], at, values, gaps, table)
