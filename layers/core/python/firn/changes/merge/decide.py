"""The row engine: the same as `fold`, from what a table can remember. Small commits, fresh reads and the tests' model
decide by it; what Spark does with whole DataFrames follows it. Pure.

A table can't keep every change it has seen. It keeps:

* each row with the order of the change that made it, and for a column that this change left unavailable the order of
  the change that the column's value comes from (`held`);
* facts: every delete and truncate, and every create with unavailable values (it may be the second half of a move);
* of a row that a delete removed, the row itself: it may have been moved away.

With these, columns are merged one by one: of two values the one of the higher order stands, and none from before a
delete. What rows and facts can't tell is folded again from the staged log, key by key:

* the row that an old key had just before it was moved, once newer changes of that key are in;
* in a table that several source tables feed, whose row a late truncate met, or a truncate that a late change turns out
  to come before: the row that is there may have taken the place of another source table's.

Orders are those of changes (`_ord`), columns go by name.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from firn.changes.merge.fold import LOADED, OTHERS, UNKNOWN, Key, Row, RowChange
from firn.changes.merge.key_rows import Truncates, after, linked_keys, rank, refolded, since
from firn.changes.merge.ordering import plain


@dataclass(frozen=True)
class Before:
    """What is known before the changes.

    rows       those of all keys that may change
    facts      deletes and creates of the memory that matter
    truncates  those that matter, the new ones too
    linked     keys that are folded again, out of `there`: rows that are or were there, and `late`: what else is known,
               unless the rows have it in them
    """

    rows: Mapping[Key, Row] = field(default_factory=dict)
    facts: Sequence[RowChange] = ()
    truncates: Truncates = field(default_factory=Truncates)
    linked: Collection[Key] = ()
    there: Sequence[tuple[Key, Row]] = ()
    late: Sequence[RowChange] = ()


@dataclass
class Decided:
    """writes: rows to write; removes: keys whose row goes (also where another is written); told: how many keys a change
    decided; too_old: keys that would get a row at or below the floor."""

    writes: dict[Key, Row] = field(default_factory=dict)
    removes: list[Key] = field(default_factory=list)
    told: int = 0
    too_old: set[Key] = field(default_factory=set)


class Memory(Protocol):
    """What a table remembers beside its rows, and the staged log, as they are looked up."""

    @property
    def newest_truncate(self) -> bytes:
        """Order of the newest truncate that is remembered, b"" if there is none."""

    @property
    def creates(self) -> bool:
        """Whether creates with unavailable values are remembered."""

    def facts(self, keys: Collection[Key], low: bytes) -> Sequence[RowChange]:
        """The deletes and the creates with unavailable values of these keys, newer than `low`."""

    def halves(self, positions: Collection[bytes]) -> Sequence[RowChange]:
        """Of what is remembered the creates with unavailable values, and the deletes at their positions and at
        these."""

    def truncates(self) -> Sequence[RowChange]:
        """All truncates that are remembered."""

    def removed(self, keys: Collection[Key]) -> Iterable[tuple[Key, Row]]:
        """The rows of these keys that deletes removed."""

    def log(self, keys: Collection[Key]) -> Sequence[RowChange]:
        """All changes of these keys that the staged log holds, truncates left out."""


class Ground(Memory, Protocol):
    """A table and what it remembers, as they are looked up."""

    @property
    def holds(self) -> bool:
        """Whether rows may hold values."""

    def rows(self, keys: Collection[Key] | None, columns: Collection[str] | None) -> Mapping[Key, Row]:
        """The rows of these keys; None: all, or those that may need more than to go with the new truncates. `columns`:
        those whose values they have, None: all."""


def is_fact(change: RowChange) -> bool:
    """Whether the table remembers this change beside its rows. What has no position can't be late."""
    return change.position is not None and (change.op in "dt" or (change.op == "c" and bool(change.unavailable)))


def may_move(ground: Ground, changes: Iterable[RowChange]) -> bool:
    """Whether a key may get values of another key's row: a create with unavailable values is remembered or new."""
    return ground.creates or any(change.op == "c" and change.unavailable for change in changes)


def made_at(changes: Iterable[RowChange]) -> frozenset[bytes]:
    """The positions of the creates with unavailable values."""
    return frozenset(one.position for one in changes if one.position and one.op == "c" and one.unavailable)


def look(
    ground: Ground, changes: Sequence[RowChange], truncates: Sequence[RowChange], sources: Iterable[str | None]
) -> Before:
    """What must be known to decide on `changes` (truncates left out) and `truncates`, with as few look-ups as may be.
    `sources`: the source tables that feed the table, theirs included."""
    touched = {change.key for change in changes}
    low = min((change.order for change in changes), default=b"")
    creates = may_move(ground, changes)
    halves = ground.halves(made_at(changes)) if creates else ()
    placed = [change for change in (*changes, *truncates) if plain(change.order)]
    earlier: Sequence[RowChange] = ()
    # What has no position is older than any of them.
    if ground.newest_truncate > min((change.order for change in (*changes, *truncates)), default=b""):
        earlier = ground.truncates()
    known = Truncates(earlier, truncates, len({*sources, *(t.source for t in (*earlier, *truncates))} - {None}) > 1)
    linked = linked_keys(placed, halves) if creates else set[Key]()
    # A row that holds nothing stays as it is, or gives a newer one what that left out.
    left_out = {name for change in changes for name in change.unavailable}
    columns: Collection[str] | None = left_out
    if OTHERS in left_out or ground.holds or linked or (known.several and known.newest):
        columns = None
    rows = dict(ground.rows(None if truncates else touched | linked, columns))
    seen = touched | (rows.keys() if truncates else linked)
    if known.several and known.newest:
        mine: defaultdict[Key, list[RowChange]] = defaultdict(list)
        for change in changes:
            mine[change.key].append(change)
        mixed = {key for key in {*mine, *rows} if known.meet(rows.get(key), mine.get(key, ()))}
        linked = linked_keys(placed, halves, linked | mixed)
    if linked - seen:
        rows |= ground.rows(linked - seen, None)
    # A row that another tool loaded is older than all, and may have come after a delete from before what is new.
    loaded = {one.key for one in changes if one.unavailable and (row := rows.get(one.key)) and row.order == LOADED}
    if (linked or loaded) and not earlier and ground.newest_truncate:
        known = Truncates(ground.truncates(), truncates, known.several)

    facts = ground.facts(touched - linked - loaded, low)
    if linked or loaded:
        facts = [*facts, *ground.facts(linked | loaded, b"")]
    there = [(key, rows[key]) for key in linked if key in rows]
    late: Sequence[RowChange] = ()
    new = [*(change for change in changes if change.key in linked), *truncates]
    deletes = [change for change in facts if change.op == "d" and change.key in linked]
    if linked and not in_order(new, [row for _, row in there], [*deletes, *known.earlier]):
        late = [*ground.log(linked), *known.earlier]
        there += ground.removed(linked)
    return Before(rows, facts, known, linked, there, late)


def in_order(new: Sequence[RowChange], live: Sequence[Row], facts: Sequence[RowChange]) -> bool:
    """Whether all that the table knows of the keys is older than what is new, and no half of a move came before.
    `facts`: the deletes of the keys, and the truncates."""
    first = min((change.order for change in new), default=UNKNOWN)
    creates = {change.position for change in new if change.op == "c"}
    before = [*(row.order for row in live), *(change.order for change in facts)]
    return all(order < first for order in before) and not any(one.position in creates for one in facts)


def decide(before: Before, changes: Sequence[RowChange], floor: bytes) -> Decided:
    """`changes`: the range's good ones, truncates left out; `floor`: the order up to which facts were
    forgotten, b"" for none."""
    result = Decided()
    deletes: defaultdict[Key, set[bytes]] = defaultdict(set)
    mine: defaultdict[Key, list[RowChange]] = defaultdict(list)
    truncates = before.truncates
    touched = dict.fromkeys(change.key for change in changes if change.key not in before.linked)
    for change in before.facts:
        if change.key in touched and change.op == "d":
            deletes[change.key].add(change.order)
    for change in changes:
        if change.key in touched:
            mine[change.key].append(change)
            if change.op == "d":
                deletes[change.key].add(change.order)
    for key in touched:
        row, emptied = before.rows.get(key), truncates.gone(before.rows.get(key), mine[key])
        told = any(change.order > emptied for change in mine[key])
        gone = max([*deletes[key], emptied])
        writes = [change for change in mine[key] if change.values is not None and change.order > emptied]
        new = after(key, row, writes, gone) if told or emptied else row
        order = None if new is None else plain(new.order)
        if row is None and order is not None and floor and order <= floor:
            result.too_old.add(key)
            continue
        _note(result, key, row, new, told=told)
    if truncates.new:
        for key, row in before.rows.items():
            if key not in touched and key not in before.linked:
                _note(result, key, row, since(row, truncates.gone(row, ())), told=False)
    if before.linked:
        _refold(result, before, changes)
    return result


def _refold(result: Decided, before: Before, changes: Sequence[RowChange]) -> None:
    said = [change for change in changes if change.key in before.linked]
    touched = {change.key for change in said}
    said += [change for change in before.facts if change.op == "d" and change.key in before.linked]
    rows = refolded(before.there, [*said, *before.late, *before.truncates.new])
    for key in before.linked:
        row, new = before.rows.get(key), rows.get(key)
        if new is not None:
            result.writes[key] = new
        if row is not None:
            result.removes.append(key)
        result.told += key in touched and (row is not None or new is not None)


def _note(result: Decided, key: Key, row: Row | None, new: Row | None, *, told: bool) -> None:
    write = new is not None and (row is None or (rank(new), new.held) != (rank(row), row.held))
    remove = row is not None and (write or new is None)
    if write and new is not None:
        result.writes[key] = new
    if remove:
        result.removes.append(key)
    result.told += told and (write or remove)
