"""The executable specification: what a mirror table holds once a set of changes is known, in whatever order they came.

Pure, obvious and slow. Everything that is fast is tested against it. The definition is: lay all known changes of the
table side by side, drop repeats, sort them by order, and replay them one after the other. So the result depends on the
set of changes alone: repeats, arrival order and batching can't change it.

Rules of the replay (the source of each is in docs/architecture.md, "Order"):

* A create, update or read puts its row in place of the key's row: last write wins, by order.
* An update says nothing about its unavailable columns: they keep the value that the key's row has at that moment.
  A column that has never been seen is None. A create or read holds no unavailable values: what looks like the
  placeholder was really written.
* A patch is an update that leaves out all columns but those it names, the table's future ones too. Of some of those it
  may change parts: steps, which apply to the value that the key's row has at that moment (nested_updates.py).
* A delete removes the key's row. What was before is gone for good: an update that follows finds nothing to keep.
* Several source tables may feed one table (partitions, shards). A truncate empties its source table: it removes the
  rows whose newest change is of that source table, and no others. Where it is not known of which source table a row or
  a truncate is (tables written before that was noted), they meet.
* A changed primary key is one move: a delete of the old key and a create of the new one at one position. The new row
  takes its unavailable columns from the row that the delete removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from firn.changes.merge import nested_updates
from firn.changes.merge.nested_updates import Composed, Composing
from firn.changes.metadata_columns import HELD, PARTS

Key = tuple[Any, ...]
Parts = dict[str, Composing]
"""Of a row while it is replayed: the values that steps are applied to, by column."""


class _NaN(float):
    """The NaN of keys: one, wherever it comes from, pickled too. Any other differs from itself."""

    def __reduce__(self) -> str:
        return "NAN"


NAN: Final = _NaN("nan")

UNKNOWN: Final = b""  # below every order: of a column whose value no change has told yet
LOADED: Final = b"\0"  # below every change's order: of a row that another tool loaded, and of its values
OTHERS: Final = HELD  # among names of columns: all that are not named, future ones too. No source has one of that name


def key_of(values: Iterable[Any]) -> Key:
    """The values as a key, of which NaN is one as it is to Spark, and a list a tuple."""
    # NaN alone differs from itself.
    return tuple([(key_of(value) if value.__class__ is list else value) if value == value else NAN for value in values])


@dataclass(frozen=True)
class RowChange:
    """One change of one table, decoded.

    op           c create, u update, d delete, r snapshot read, t truncate (its key is ()).
    position     where the change stands in its source (changes.positions.position), None if the source has none.
    order        position, rank of the op and hash of the content (changes.positions.order_key): the total order. Two
                 changes of equal op, key and order are the same change.
    values       the row after the change, placeholders taken literally; None for a delete.
    unavailable  the columns that hold the placeholder; OTHERS in it: those that `values` does not name, too
    source       the source table that changed; None: not known. Changes of two source tables are two changes.
    stepped      the columns of an update whose value in `values` is steps
    """

    op: str
    key: Key
    position: bytes | None
    order: bytes
    values: Mapping[str, Any] | None
    unavailable: frozenset[str] = frozenset()
    source: str | None = None
    stepped: frozenset[str] = frozenset()

    @property
    def identity(self) -> tuple[bytes, str, Key, str]:
        """Two changes of equal identity are the same change."""
        return self.order, self.op, self.key, self.source or ""


@dataclass(frozen=True)
class Row:
    """A live row. `order` is that of the change that put it there (LOADED: none did), `source` its source table; `held`
    names the columns that this change left unavailable, each with the order of the change that its value comes from
    (UNKNOWN: no such change is known). OTHERS in it stands for all columns that it does not name; it then names those
    too that come from the row's own change.

    A row that a move brought holds nothing: it is, with all its columns, as the move left it. PARTS in it holds what
    values are made of that steps were applied to.
    """

    values: Mapping[str, Any]
    order: bytes
    held: Mapping[str, bytes] = field(default_factory=dict)
    source: str | None = None

    def __post_init__(self) -> None:
        if not self.order:  # a row is there, whoever put it there: unlike a value that nobody has told
            object.__setattr__(self, "order", LOADED)
        if (rest := self.held.get(OTHERS)) is not None:  # one way to say it: what goes without saying is not said
            told = {column: order for column, order in self.held.items() if order != rest}
            object.__setattr__(self, "held", told if rest == self.order else told | {OTHERS: rest})

    def column_order(self, column: str) -> bytes:
        """The order of the change that the column's value comes from."""
        return self.held.get(column, self.held.get(OTHERS, self.order))

    @property
    def composed(self) -> Mapping[str, Composed]:
        """The values that steps were applied to, by column."""
        return nested_updates.read(self.held[PARTS]) if PARTS in self.held else {}


@dataclass(frozen=True)
class Tombstone:
    """The newest delete of a key: its order, and the row that it removed (None: there was none)."""

    order: bytes
    row: Row | None


@dataclass(frozen=True)
class State:
    """What is known of a table: the rows, the newest delete of each key (live again or not), and what made them: the
    rows that were there before (`base`) and all changes since."""

    rows: Mapping[Key, Row]
    tombstones: Mapping[Key, Tombstone]
    base: tuple[tuple[Key, Row], ...]
    changes: tuple[RowChange, ...]


def fold(known: State | Mapping[Key, Row] | Iterable[tuple[Key, Row]], changes: Iterable[RowChange]) -> State:
    """The state of the table once `changes` are known too.

    known    the state so far; or only rows of a table, of whose history nothing is known but what the rows carry
             (`order` and `held`). A change at or below the order of such a row is already in it, but may still fill its
             held columns. Several rows of one key are what the table held at several times.
    """
    if not isinstance(known, State):
        known = State({}, {}, tuple(known.items() if isinstance(known, Mapping) else known), ())
    distinct = {change.identity: change for change in (*known.changes, *changes)}
    return _replay(known.base, tuple(sorted(distinct.values(), key=_by_order)))


def empties(truncate: RowChange, row: Row) -> bool:
    """Whether a truncate that comes after the row removes it."""
    return truncate.source is None or row.source is None or truncate.source == row.source


def moves(changes: Iterable[RowChange]) -> list[tuple[RowChange, RowChange]]:
    """The changed keys among `changes`: (delete, create).

    Such a pair shares its position, which nothing else in its source table does: a position with several deletes or
    creates (the rows of one COPY) is not a pair.
    """
    at: defaultdict[bytes, dict[tuple[bytes, str, Key, str], RowChange]] = defaultdict(dict)
    for change in changes:
        if change.position and change.op in "cd":
            at[change.position][change.identity] = change
    pairs = []
    for found in at.values():
        if len(found) == 1:
            continue
        # What older versions remembered without its source table may be the other half of any.
        for source in {change.source for change in found.values()} - {None} or {None}:
            mine = {one.identity[:3]: one for one in found.values() if one.source in (source, None)}.values()
            if sorted(change.op for change in mine) == ["c", "d"]:
                delete, create = sorted(mine, key=lambda change: change.op, reverse=True)
                if delete.key != create.key:
                    pairs.append((delete, create))
    return pairs


def _by_order(change: RowChange) -> tuple[bytes, str, str, str]:
    return change.order, change.op, repr(change.key), change.source or ""


def _replay(base: tuple[tuple[Key, Row], ...], changes: tuple[RowChange, ...]) -> State:
    rows: dict[Key, Row] = {}
    parts: defaultdict[Key, Parts] = defaultdict(dict)
    tombstones: dict[Key, Tombstone] = {}
    old_keys = {create.identity: delete.key for delete, create in moves(changes)}
    # What a row of the base tells stands after the change of the same order, which is in that row already.
    remembered = [(told.order, 1, told) for key, row in base for told in _told_by(key, row)]
    in_order = sorted([*remembered, *((c.order, 0, c) for c in changes)], key=lambda x: (*x[:2], *_by_order(x[2])[1:]))
    for _, _, change in in_order:
        if change.op == "t":
            rows = {key: row for key, row in rows.items() if not empties(change, row)}
            for key in parts.keys() - rows.keys():
                del parts[key]
        elif change.op == "d":
            removed = rows.pop(change.key, None)
            tombstones[change.key] = Tombstone(change.order, removed and _whole(removed, parts.pop(change.key, {})))
        elif change.op == "c" and (old_key := old_keys.get(change.identity)) is not None:
            # Its delete has just been replayed: at one position the order puts a delete before a create.
            moved = tombstones[old_key].row
            mine = {column: Composing.of(one) for column, one in moved.composed.items()} if moved else {}
            kept = _whole(_written(change, moved, mine), mine)
            rows[change.key] = Row(kept.values, kept.order, source=kept.source)
            parts.pop(change.key, None)
        elif change.op == "u":
            rows[change.key] = _written(change, rows.get(change.key), parts[change.key])
        else:
            rows[change.key] = Row(dict(change.values or {}), change.order, source=change.source)
            parts.pop(change.key, None)
    return State({key: _whole(row, parts.get(key, {})) for key, row in rows.items()}, tombstones, base, changes)


def _written(change: RowChange, earlier: Row | None, parts: Parts) -> Row:
    """The row that `change` leaves, where `earlier` is the row that its unavailable columns come from, and `parts` what
    values of that are made of: then of those of the new one, as it is told by them (_whole)."""
    values = dict(change.values or {})
    held: dict[str, bytes] = {}
    left_out = set(change.unavailable)
    if OTHERS in left_out:
        held = dict.fromkeys(values.keys() - left_out, change.order)
        left_out |= names_of(earlier) - held.keys()
    for column in left_out:
        held[column] = earlier.column_order(column) if earlier else UNKNOWN
        if column != OTHERS:
            values[column] = earlier.values.get(column) if earlier else None
    for column in parts.keys() - left_out - change.stepped:
        del parts[column]
    for column in change.stepped:
        if column not in parts:
            base = earlier.values.get(column) if earlier else None
            base = base if base is None or isinstance(base, str) else str(base)
            parts[column] = Composing(earlier.column_order(column) if earlier else UNKNOWN, base)
        parts[column].then(change.order, values[column])
    return Row(values, change.order, held, change.source)


def _whole(row: Row, parts: Parts) -> Row:
    """The row with the values that steps were applied to, and what these are made of."""
    if not parts:
        return row
    composed = {column: one.composed() for column, one in parts.items()}
    values = {**row.values, **{column: one.value for column, one in parts.items()}}
    return Row(values, row.order, {**row.held, PARTS: nested_updates.written(composed)}, row.source)


def names_of(row: Row | None) -> set[str]:
    """The columns that a row tells of."""
    return {*row.values, *row.held} - {PARTS} if row else set()


def _told_by(key: Key, row: Row) -> list[RowChange]:
    """What a row of a table tells of its history: an update for each order that its columns come from."""
    told = []
    composed = row.composed
    orders = {row.order, *(order for column, order in row.held.items() if column != PARTS)}
    orders |= {order for one in composed.values() for order in (one.base_order, *(at for at, _ in one.steps))}
    for order in orders - {UNKNOWN}:
        unavailable = frozenset(c for c in names_of(row) if row.column_order(c) != order)
        values: Mapping[str, Any] = row.values
        if row.column_order(OTHERS) != order:
            # Of columns that nobody has seen yet it says nothing.
            values = {c: row.values.get(c) for c in (row.held if OTHERS in row.held else row.values)}
            values = {c: value for c, value in values.items() if c not in unavailable and c != PARTS}
            unavailable = frozenset((OTHERS,))
        if composed:
            steps = {c: text for c, one in composed.items() for at, text in one.steps if at == order}
            whole = {c: one.base for c, one in composed.items() if one.base_order == order}
            values = {c: one for c, one in values.items() if c not in composed} | whole | steps
            unavailable = (unavailable | composed.keys()) - whole.keys() - steps.keys()
            told.append(RowChange("u", key, None, order, values, unavailable, row.source, frozenset(steps)))
            continue
        told.append(RowChange("u", key, None, order, values, unavailable, row.source))
    return told
