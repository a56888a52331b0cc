"""Random histories of tables that one or several source tables feed, fast enough for a million of them: in any order,
split and repeated, on rows that were there before; and the small way of a commit over a table in memory."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from firn.changes.merge.decide import decide, look
from firn.changes.merge.fold import LOADED, Key, Row, RowChange
from firn.changes.merge.incremental import is_fact

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
                order = LOADED if kind == "loaded" else _order("c", 1 + key, b"base")
                base[key,] = Row(values, order, source=dice.choice(tables))
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
        return [_change("t", None, place, one) for one in sorted({table, dice.choice(tables)})]
    if chance < 0.28:
        return [_change("d", key, place, table)]
    if chance < 0.42:
        return [_change(dice.choice("cr"), key, place, table)]
    # Values that are older than the log, and are left out, are not told apart any more (docs/guarantees.md): by source
    # table, or once a move that comes late would need them.
    gaps = frozenset(name for name in COLUMNS if dice.random() < 0.5 and not (base and len(tables) > 1))
    if chance < 0.8 or base:
        return [_change("u", key, place, table, gaps)]
    if chance < 0.85:  # a COPY: several rows share a position
        return [_change("c", one, place, table, gaps) for one in range(keys)]
    to = (key + 1 + dice.randrange(keys - 1)) % keys
    return [_change("d", key, place, table), _change("c", to, place, table, gaps)]


def _order(op: str, place: int, content: bytes) -> bytes:
    return b"\1" + place.to_bytes(45, "big") + bytes([_RANK[op]]) + content.ljust(8, b"\0")[:8]


def _change(op: str, key: int | None, place: int, table: str, gaps: frozenset[str] = frozenset()) -> RowChange:
    order = _order(op, place, b"" if key is None else b"%d" % key)
    values = None
    if op not in "dt":
        literal = {name: "?" if name in gaps else f"{name}{place}" for name in COLUMNS}
        values = {"k": key, **literal}
    return RowChange(op, () if key is None else (key,), order[1:46], order, values, gaps, table)


@dataclass
class Small:
    """A table in memory and what it remembers, brought forward by the small way of a commit (merge/decide.py)."""

    table: dict[Key, Row]
    sources: frozenset[str | None]
    remembered: list[RowChange] = field(default_factory=list)
    gone: list[tuple[Key, Row]] = field(default_factory=list)
    come: list[RowChange] = field(default_factory=list)

    def commit(self, batch: Sequence[RowChange]) -> None:
        """One range."""
        self.come += batch
        self.sources |= {change.source for change in batch}
        changes = [change for change in batch if change.op != "t"]
        truncates = list({change.identity: change for change in batch if change.op == "t"}.values())
        decided = decide(look(self, changes, truncates, self.sources), changes, b"")
        for change in changes:
            if change.op == "d" and change.key in self.table:
                self.gone.append((change.key, self.table[change.key]))
        self.remembered += [change for change in batch if is_fact(change)]
        for key in decided.removes:
            del self.table[key]
        self.table |= decided.writes

    # What a commit looks up: decide.Ground.

    @property
    def newest_truncate(self) -> bytes:
        return max((change.order for change in self.remembered if change.op == "t"), default=b"")

    @property
    def creates(self) -> bool:
        return any(change.op == "c" for change in self.remembered)

    @property
    def holds(self) -> bool:
        return any(row.held for row in self.table.values())

    def rows(self, keys: Collection[Key] | None, *, wide: bool) -> Mapping[Key, Row]:
        found = {key: row for key, row in self.table.items() if keys is None or key in keys}
        return found if wide else {key: Row({}, row.order, row.held, row.source) for key, row in found.items()}

    def facts(self, keys: Collection[Key] | None, low: bytes) -> Sequence[RowChange]:
        wanted = (one for one in self.remembered if one.op in "dc")
        found = [one for one in wanted if keys is None or (one.key in keys and one.order > low)]
        return [RowChange(o.op, o.key, o.position, o.order, None, o.unavailable, o.source) for o in found]

    def truncates(self) -> Sequence[RowChange]:
        return [one for one in self.remembered if one.op == "t"]

    def removed(self, keys: Collection[Key]) -> Iterable[tuple[Key, Row]]:
        return [(key, row) for key, row in self.gone if key in keys]

    def log(self, keys: Collection[Key]) -> Sequence[RowChange]:
        return [one for one in self.come if one.op != "t" and one.key in keys]
