"""What becomes of one key's row: which of two counts, what deletes and truncates leave of it, and which keys must be
folded again. The steps of `decide`. Pure."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from firn.changes.merge.fold import OTHERS, UNKNOWN, Key, Row, RowChange, fold, moves, names_of
from firn.changes.metadata_columns import PARTS


@dataclass(frozen=True)
class Truncates:
    """The truncates that are known when some changes of a table are new.

    earlier  those that are in the table already, as far as they are newer than the oldest of the new changes
    new      those among the new changes
    several  whether several source tables feed the table: then a truncate removes the rows of one of them
    """

    earlier: Collection[RowChange] = ()
    new: Collection[RowChange] = ()
    several: bool = False

    @cached_property
    def newest(self) -> bytes:
        """The order of the newest; b"" if there is none."""
        return max((one.order for one in (*self.earlier, *self.new)), default=b"")

    def gone(self, row: Row | None, changes: Collection[RowChange]) -> bytes:
        """The order up to which they remove what there is of a key: its row, and its new changes; b"" for nothing."""
        if not (self.several and self.newest):
            return self.newest
        last = _last(row, changes)
        if last is None:
            return b""
        emptied = self.newest
        if last.source is not None:
            emptied = max(self._newest.get(last.source, b""), self._newest.get(None, b""))
        return emptied if emptied > last.order else b""

    def meet(self, row: Row | None, changes: Collection[RowChange]) -> bool:
        """Whether a key with this row and these new changes must be folded again: whose row the truncates met, only
        the log can tell."""
        last = _last(row, changes)
        if not self.several or last is None:
            return False
        if row is None and last.source is not None:
            other = next((t.order for t in self._newest_earlier if t.source != last.source), b"")
            if other > last.order:
                return True  # a newer row of that source table may have been there, and gone with it
        if not last.held:
            return False
        first = min((change.order for change in changes), default=last.order)
        known = self._earlier_orders
        late = bisect_right(known, first) < bisect_left(known, last.order)
        return late or self._first_new < last.order

    @cached_property
    def _newest(self) -> Mapping[str | None, bytes]:
        """The order of the newest of each source table."""
        return {one.source: one.order for one in _newest_by_source((*self.earlier, *self.new))}

    @cached_property
    def _newest_earlier(self) -> Collection[RowChange]:
        """The two newest that are in the table, of two known source tables: one of them is another's."""
        known = (one for one in _newest_by_source(self.earlier) if one.source is not None)
        return sorted(known, key=lambda one: one.order, reverse=True)[:2]

    @cached_property
    def newest_new(self) -> Collection[RowChange]:
        """The newest of the new ones of each source table."""
        return _newest_by_source(self.new)

    @cached_property
    def _first_new(self) -> bytes:
        return min((one.order for one in self.new), default=b"\xff")

    @cached_property
    def _earlier_orders(self) -> list[bytes]:
        return sorted(one.order for one in self.earlier)


def _newest_by_source(truncates: Iterable[RowChange]) -> Collection[RowChange]:
    newest: dict[str | None, RowChange] = {}
    for one in sorted(truncates, key=lambda one: one.order):
        newest[one.source] = one
    return newest.values()


def _last(row: Row | None, changes: Iterable[RowChange]) -> Row | None:
    """The newest of a key's row and its new changes as a row; None if there is none, or it is a delete."""
    change = max(changes, key=rank, default=None)
    if change is None or (row is not None and rank(row) >= rank(change)):
        return row
    held = dict.fromkeys(change.unavailable, UNKNOWN) if change.op in "cu" else {}
    return None if change.op == "d" else Row(change.values or {}, change.order, held, change.source)


def rank(one: Row | RowChange) -> tuple[bytes, str]:
    """What decides between two rows of a key, or two changes."""
    return one.order, one.source or ""


def after(key: Key, row: Row | None, writes: Iterable[RowChange], gone: bytes) -> Row | None:
    """What becomes of one key's row. `writes`: its new changes of op c, u and r; `gone`: its newest known delete, or
    the newest truncate if that is newer; b"" if there is none."""
    new, there = [write for write in writes if write.order > gone], since(row, gone)
    if (there is not None and PARTS in there.held) or any(write.stepped for write in new):
        return fold([] if there is None else [(key, there)], new).rows.get(key)
    if (row is not None and row.held) or any(write.unavailable for write in new):
        return join(fold({}, new).rows.get(key), there)
    # Most keys: the newest counts, which `fold` takes ten times as long to find.
    newest = max(new, key=lambda one: (*rank(one), one.op), default=None)
    if newest is None or (there is not None and rank(there) >= rank(newest)):
        return there
    return Row(dict(newest.values or {}), newest.order, source=newest.source)


def since(row: Row | None, gone: bytes) -> Row | None:
    """What is left of a row after a delete at `gone` (b"": there was none): nothing if it is from before, and no held
    value from before."""
    if row is None or not gone:
        return row
    if row.order <= gone:
        return None
    if PARTS in row.held:
        return fold([((), row)], [RowChange("d", (), None, gone, None)]).rows.get(())
    orders = {column: row.column_order(column) for column in (names_of(row) if OTHERS in row.held else row.held)}
    lost = {column for column, order in orders.items() if order <= gone}
    values = {column: None if column in lost else value for column, value in row.values.items()}
    return Row(values, row.order, {c: UNKNOWN if c in lost else order for c, order in orders.items()}, row.source)


def join(told: Row | None, there: Row | None) -> Row | None:
    """One row out of two of one key: each column from the one whose change is the newer."""
    if told is None or there is None:
        return told or there
    newer, older = (told, there) if rank(told) > rank(there) else (there, told)
    values, held = dict(newer.values), dict(newer.held)
    for column in names_of(newer) | names_of(older) if OTHERS in newer.held else newer.held:
        mine, other = newer.column_order(column), older.column_order(column)
        held[column] = max(mine, other)
        if other > mine and column != OTHERS:
            values[column] = older.values.get(column)
    return Row(values, newer.order, held, newer.source)


def refolded(there: Iterable[tuple[Key, Row]], changes: Collection[RowChange]) -> Mapping[Key, Row]:
    """The rows of some keys, folded again from all changes of them that are still known.

    there  what the table holds or held of the keys; it tells only what is older than the log. What the log holds the
           log tells: a row may have taken from a move what a late change now makes wrong.
    """
    known = {(change.key, change.order) for change in changes}
    base = []
    for key, row in there:
        if PARTS in row.held:  # steps know their orders: what the log tells too counts once
            base.append((key, row))
            continue
        orders = {column: row.column_order(column) for column in names_of(row)}
        older = {column: order for column, order in orders.items() if order and (key, order) not in known}
        if older:
            order = max(older.values())
            all_named = OTHERS in orders
            held = {c: older.get(c, UNKNOWN) for c in orders if all_named or older.get(c) != order}
            values = {column: value if column in older else None for column, value in row.values.items()}
            base.append((key, Row(values, order, held, row.source)))
    return fold(base, changes).rows


def linked_keys(new: Collection[RowChange], facts: Collection[RowChange], mixed: Collection[Key] = ()) -> set[Key]:
    """The keys to fold again: those of moves with unavailable values of which a half is new, or whose old key has a new
    change (or the table a new truncate) from before the move, those in `mixed` (Truncates.meet), and all that further
    moves connect with them."""
    fresh = {change.identity for change in new}
    oldest: dict[Key, bytes] = {}  # the first new change of each key; of (), the first truncate, which reaches all
    for change in new:
        oldest[change.key] = min(change.order, oldest.get(change.key, change.order))
    beside: defaultdict[Key, list[Key]] = defaultdict(list)
    found = list(mixed)
    for delete, create in (pair for pair in moves((*facts, *new)) if pair[1].unavailable):
        beside[delete.key].append(create.key)
        beside[create.key].append(delete.key)
        late = any(oldest.get(key, delete.order) < delete.order for key in (delete.key, ()))
        if late or delete.identity in fresh or create.identity in fresh:
            found.append(delete.key)
    linked = set[Key]()
    while found:
        if (key := found.pop()) not in linked:
            linked.add(key)
            found += beside.get(key, ())
    return linked
