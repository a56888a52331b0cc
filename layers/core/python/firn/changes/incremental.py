"""The same as `fold`, from what a table can remember: its rows, and the facts beside it. Pure, and the model of the
commit engine: what Spark does with DataFrames is written here for one key at a time.

A table can't keep every change it has seen. It keeps:

* each row with the order of the change that made it, and for a column that this change left unavailable the order of
  the change that the column's value comes from (`held`);
* facts: every delete and truncate, and every create with unavailable values (it may be the second half of a move);
* of a row that a delete removed, the row itself: it may have been moved away.

With these, columns are merged one by one: of two values the one of the higher order stands, and none from before a
delete. What rows and facts can't tell is the row that an old key had just before it was moved, once newer changes of
that key are in: then the keys that the move connects are folded again from the staged log.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from firn.changes.fold import UNKNOWN, Key, Row, RowChange, fold, moves

Log = Callable[[Collection[Key]], Iterable[RowChange]]


@dataclass(frozen=True)
class Known:
    """What a table and its facts hold. `facts`: RowChanges of op d, t and c; `removed`: rows that a delete took."""

    rows: Mapping[Key, Row] = field(default_factory=dict)
    facts: tuple[RowChange, ...] = ()
    removed: tuple[tuple[Key, Row], ...] = ()


def is_fact(change: RowChange) -> bool:
    """Whether the table remembers this change beside its rows. What has no position can't be late."""
    return change.position is not None and (change.op in "dt" or (change.op == "c" and bool(change.unavailable)))


def apply(known: Known, changes: Iterable[RowChange], log: Log) -> Known:
    """What is known once `changes` are in too. `log(keys)`: all changes of these keys that the staged log holds, these
    ones included.
    """
    new = list({(c.order, c.op, c.key): c for c in changes}.values())
    facts = tuple({(c.order, c.op, c.key): c for c in (*known.facts, *filter(is_fact, new))}.values())
    truncated = max((c.order for c in (*facts, *new) if c.op == "t"), default=None)
    deletes: defaultdict[Key, list[bytes]] = defaultdict(list)
    for change in (*facts, *new):
        if change.op == "d":
            deletes[change.key].append(change.order)

    removed = list(known.removed)
    for key in {c.key for c in new if c.op == "d"}:
        row = known.rows.get(key)
        if row is not None and row.order < max(deletes[key]):
            removed.append((key, row))

    writes: defaultdict[Key, list[RowChange]] = defaultdict(list)
    for change in new:
        if change.op not in "dt":
            writes[change.key].append(change)
    touched = {c.key for c in new if c.op != "t"}
    if any(c.op == "t" for c in new):
        touched |= set(known.rows)
    rows = dict(known.rows)
    for key in touched:
        gone = max([*deletes[key], *([truncated] if truncated else [])], default=None)
        _put(rows, key, after(key, rows.get(key), writes[key], gone))

    linked = linked_keys(new, facts)
    if linked:
        there = [(key, row) for key in linked if (row := known.rows.get(key))]
        there += [(key, row) for key, row in removed if key in linked]
        # A remembered create may tell no values: then only the log has them.
        told = [c for c in (*facts, *new) if c.op == "t" or (c.key in linked and (c.op == "d" or c.values is not None))]
        again = refolded(there, [*log(linked), *told])
        for key in linked:
            _put(rows, key, again.get(key))
    return Known(rows, facts, tuple(removed))


def after(key: Key, row: Row | None, writes: Iterable[RowChange], gone: bytes | None) -> Row | None:
    """What becomes of one key's row. `writes`: its new changes of op c, u and r; `gone`: its newest known delete, or
    the newest truncate if that is newer; None if there is none."""
    told = fold({}, [write for write in writes if gone is None or write.order > gone]).rows.get(key)
    return join(told, since(row, gone))


def since(row: Row | None, gone: bytes | None) -> Row | None:
    """What is left of a row after a delete at `gone` (None: there was none): nothing if it is from before, and no held
    value from before."""
    if row is None or gone is None:
        return row
    if row.order <= gone:
        return None
    lost = {column for column, order in row.held.items() if order <= gone}
    values = {column: None if column in lost else value for column, value in row.values.items()}
    return Row(values, row.order, {c: UNKNOWN if c in lost else order for c, order in row.held.items()})


def join(told: Row | None, there: Row | None) -> Row | None:
    """One row out of two of one key: each column from the one whose change is the newer."""
    if told is None or there is None:
        return told or there
    newer, older = (told, there) if told.order > there.order else (there, told)
    values, held = dict(newer.values), dict(newer.held)
    for column, order in newer.held.items():
        if column in older.values and older.column_order(column) > order:
            values[column] = older.values[column]
            held[column] = older.column_order(column)
    return Row(values, newer.order, held)


def refolded(there: Iterable[tuple[Key, Row]], changes: Collection[RowChange]) -> Mapping[Key, Row]:
    """The rows of some keys, folded again from all changes of them that are still known.

    there  what the table holds or held of the keys; it tells only what is older than the log. What the log holds the
           log tells: a row may have taken from a move what a late change now makes wrong.
    """
    known = {(change.key, change.order) for change in changes}
    base = []
    for key, row in there:
        orders = {column: row.column_order(column) for column in row.values}
        older = {column: order for column, order in orders.items() if (key, order) not in known}
        if older:
            order = max(older.values())
            held = {column: older.get(column, UNKNOWN) for column in orders if older.get(column) != order}
            values = {column: value if column in older else None for column, value in row.values.items()}
            base.append((key, Row(values, order, held)))
    return fold(base, changes).rows


def linked_keys(new: Collection[RowChange], facts: Collection[RowChange]) -> set[Key]:
    """The keys to fold again: those of moves with unavailable values of which a half is new, or whose old key has a new
    change (or the table a new truncate) from before the move, and all that further moves connect with them."""
    pairs = [pair for pair in moves((*facts, *new)).values() if pair[1].unavailable]
    fresh = {(change.order, change.op, change.key) for change in new}
    linked: set[Key] = set()
    for delete, create in pairs:
        late = any(change.order < delete.order and (change.op == "t" or change.key == delete.key) for change in new)
        if late or any((half.order, half.op, half.key) in fresh for half in (delete, create)):
            linked |= {delete.key, create.key}
    grown = True
    while linked and grown:
        grown = False
        for delete, create in pairs:
            both = {delete.key, create.key}
            if both & linked and not both <= linked:
                linked |= both
                grown = True
    return linked


def _put(rows: dict[Key, Row], key: Key, row: Row | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row
