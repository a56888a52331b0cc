"""The executable specification: what a mirror table holds once a set of changes is known, in whatever order they came.

Pure, obvious and slow. Everything that is fast is tested against it. The definition is: lay all known changes of the
table side by side, drop repeats, sort them by order, and replay them one after the other. So the result depends on the
set of changes alone: repeats, arrival order and batching can't change it.

Rules of the replay (the source of each is in docs/architecture.md, "Order"):

* A create, update or read puts its row in place of the key's row: last write wins, by order.
* An update says nothing about its unavailable columns: they keep the value that the key's row has at that moment.
  A column that has never been seen is None. A create or read holds no unavailable values: what looks like the
  placeholder was really written.
* A delete removes the key's row, a truncate all rows. What was before is gone for good: an update that follows finds
  nothing to keep.
* A changed primary key is one move, whether it comes as one update (`old_key`) or as a delete and a create at one
  position: the old key's row goes, and the new row takes its unavailable columns from it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Key = tuple[Any, ...]

UNKNOWN: Final = b""  # below every position: of a column whose value no change has told yet, and of an adopted row


@dataclass(frozen=True)
class RowChange:
    """One change of one table, decoded.

    op           c create, u update, d delete, r snapshot read, t truncate (its key is ()).
    old_key      the key before an update that changed it, else None.
    position     where the change stands in its source (changes.positions.position), None if the source has none.
    order        position, rank of the op and hash of the content (changes.positions.order_key): the total order. Two
                 changes of equal op, key and order are the same change.
    values       the row after the change, placeholders taken literally; of a delete the row before it, or None.
    unavailable  the columns that hold the placeholder.
    """

    op: str
    key: Key
    old_key: Key | None
    position: bytes | None
    order: bytes
    values: Mapping[str, Any] | None
    unavailable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """A live row. `position` is that of the change that put it there; `held` names the columns that this change left
    unavailable, each with the position of the change that its value comes from (UNKNOWN: no such change is known)."""

    values: Mapping[str, Any]
    position: bytes
    held: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Tombstone:
    """The newest delete of a key: its position and order, and the row that it removed (None: there was none)."""

    position: bytes
    order: bytes
    row: Row | None


@dataclass(frozen=True)
class State:
    """What is known of a table: the rows, the newest delete of each key (live again or not), the order of the newest
    truncate, and what made them: the rows that were there before (`base`) and all changes since."""

    rows: Mapping[Key, Row]
    tombstones: Mapping[Key, Tombstone]
    truncated: bytes | None
    base: Mapping[Key, Row]
    changes: tuple[RowChange, ...]


def fold(known: State | Mapping[Key, Row], changes: Iterable[RowChange]) -> State:
    """The state of the table once `changes` are known too.

    known    the state so far; or only the rows of a table, of whose history nothing is known but what the rows carry
             (`position` and `held`). A change at or below the position of such a row is already in it, but may still
             fill its held columns.
    """
    state = known if isinstance(known, State) else State({}, {}, None, dict(known), ())
    distinct = {(c.order, c.op, c.key): c for c in (*state.changes, *changes)}
    return _replay(state.base, tuple(sorted(distinct.values(), key=_by_order)))


def _by_order(change: RowChange) -> tuple[bytes, str, str]:
    return change.order, change.op, repr(change.key)


def _replay(base: Mapping[Key, Row], changes: tuple[RowChange, ...]) -> State:
    rows: dict[Key, Row] = {}
    tombstones: dict[Key, Tombstone] = {}
    truncated: bytes | None = None
    moves = _moves(changes)
    remembered = [change for key, row in base.items() for change in _told_by(key, row)]
    for change in sorted((*remembered, *changes), key=_by_order):
        position = change.position or UNKNOWN
        if change.op == "t":
            truncated = change.order
            rows.clear()
        elif change.op == "d":
            tombstones[change.key] = Tombstone(position, change.order, rows.pop(change.key, None))
        elif change.old_key is not None and change.old_key != change.key:
            gone = Tombstone(position, change.order, rows.pop(change.old_key, None))
            tombstones[change.old_key] = gone
            rows[change.key] = _written(change, gone.row)
        elif (old_key := moves.get(change.order)) is not None:
            # Its delete has just been replayed: at one position the order puts a delete before a create.
            rows[change.key] = _written(change, tombstones[old_key].row)
        elif change.op == "u":
            rows[change.key] = _written(change, rows.get(change.key))
        else:
            rows[change.key] = Row(dict(change.values or {}), position)
    return State(rows, tombstones, truncated, base, changes)


def _written(change: RowChange, earlier: Row | None) -> Row:
    """The row that `change` leaves, where `earlier` is the row that its unavailable columns come from."""
    values = dict(change.values or {})
    held: dict[str, bytes] = {}
    for column in change.unavailable:
        values[column] = earlier.values.get(column) if earlier else None
        held[column] = earlier.held.get(column, earlier.position) if earlier else UNKNOWN
    return Row(values, change.position or UNKNOWN, held)


def _moves(changes: Iterable[RowChange]) -> dict[bytes, Key]:
    """Creates that are the second half of a changed key: order of the create -> key of the delete.

    Such a pair shares its position, which nothing else in the table does: a position with several deletes or creates
    (the rows of one COPY) is no pair.
    """
    at: defaultdict[bytes, list[RowChange]] = defaultdict(list)
    for change in changes:
        if change.position and change.op in "cd":
            at[change.position].append(change)
    pairs = [sorted(found, key=_by_order) for found in at.values() if sorted(c.op for c in found) == ["c", "d"]]
    return {create.order: delete.key for delete, create in pairs if delete.key != create.key}


def _told_by(key: Key, row: Row) -> list[RowChange]:
    """What a row of a table tells of its history: an update for each position that its columns come from."""
    told = []
    for position in {row.position, *row.held.values()}:
        unavailable = frozenset(c for c in row.values if row.held.get(c, row.position) != position)
        # After every change of that position, which is in the row already. A row without position is older than all.
        order = position + b"\xff" * 32 if position else UNKNOWN
        told.append(RowChange("u", key, None, position, order, row.values, unavailable))
    return told
