"""Verdicts that need no fold: of keys whose row is the newest of their plain changes, or whose newest is a delete and
that have no row. Pure.

It finds only what is right. Whatever it does not settle, the full rule judges (row_check.MirrorRows, AppendRows): so it
can call nothing wrong, and what it calls right the specification calls right, since

* a whole change makes the row by itself, whatever came before it: the newest of a key is the row, if no truncate that
  the table must have in comes after it and empties its source table;
* of changes that the table must have in, and of them alone, nothing is in doubt;
* a row that is the newest change's tells nothing of its own, so that what the table held before does not matter.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from firn.audit.plain_changes import NAME, OPERATION, ORDER, SOURCE, VALUES, PlainChange, as_logged
from firn.audit.row_check import NOTHING, Logged, RowAccount, Values
from firn.changes.merge.fold import Key, Row
from firn.changes.positions import WIDTH, order_key

PlainRow = tuple[Any, bytes, str | None, tuple[Any, ...] | None]
"""A row of the table: key or identity, order (b"" in an append table), source table, and values as of PlainChange. Of a
mirror table a row with a whole order (`is_whole`) that holds no values of other changes."""

WHOLE: Final = len(order_key(bytes(WIDTH), "c", b""))
"""Bytes of a whole order as tables have it. Older tables have the position alone."""


def is_whole(order: bytes) -> bool:
    """Whether an order is that of a change with a position, and not the position alone."""
    return len(order) == 1 + WHOLE and order[:1] == b"\1"


class SureVerdicts:
    """Of one table, some of its names at a time. `names`: of the values of changes and rows; `values`: compares them,
    None: only which change made each row; `truncates`: all of the log."""

    def __init__(
        self,
        found: RowAccount,
        names: Sequence[str],
        *,
        mirror: bool,
        values: Values | None = None,
        truncates: Iterable[Logged] = (),
    ) -> None:
        self._found, self._names, self._mirror, self._values = found, names, mirror, values
        self._emptied: dict[str | None, bytes] = {}  # by source table the order of the newest truncate
        for one in truncates:
            if one.needed and one.change is not None:
                source = one.change.source
                self._emptied[source] = max(one.change.order, self._emptied.get(source, b""))

    def unsettled(
        self,
        changes: Sequence[PlainChange],
        rows: Sequence[PlainRow],
        apart: Collection[Any],
        logged: Sequence[Logged],
        others: Sequence[tuple[Any, Any]],
    ) -> tuple[list[Logged], list[tuple[Any, Any]]]:
        """Counts what is surely right of some names. -> All other changes and rows of them, as the full rule takes
        them. `logged`, `others`: those that are not plain; `apart`: names that are not to be settled."""
        left = self.settle(changes, rows, {*apart, *(one.name for one in logged), *(name for name, _ in others)})
        if not left:
            return [], []
        there = row_of if self._mirror else values_of
        return (
            [*logged, *(as_logged(one, self._names, mirror=self._mirror) for one in changes if one[NAME] in left)],
            [*others, *((row[0], there(row, self._names)) for row in rows if row[0] in left)],
        )

    def settle(self, changes: Sequence[PlainChange], rows: Sequence[PlainRow], apart: Collection[Any] = ()) -> set[Any]:
        """Counts the names that are surely right. -> The others, those of `apart` among them."""
        left = set(apart)
        newest = self._newest(changes, left)
        there: dict[Any, PlainRow] = {}
        right: list[tuple[PlainChange, PlainRow]] = []
        for row in rows:
            name = row[0]
            if name in there:
                left.add(name)
                continue
            there[name] = row
            change = newest.get(name)
            if change is None or (self._mirror and change[ORDER] != row[1]) or not self._stands(change):
                left.add(name)
            else:
                right.append((change, row))
        for name in newest.keys() - there.keys():
            if self._stands(newest[name]):
                left.add(name)
        right = [pair for pair in right if pair[0][NAME] not in left] if left else right
        if self._values is not None:
            wanted, held = [change[VALUES] or () for change, _ in right], [row[3] or () for _, row in right]
            differing = self._values.differing(self._names, wanted, held)
            left |= {right[i][0][NAME] for i in differing}
            self._found.count_found(len(right) - len(differing))
        else:
            self._found.count_found(len(right))
        return left

    def _newest(self, changes: Sequence[PlainChange], left: set[Any]) -> dict[Any, PlainChange]:
        """Of each name its newest change. Those of which two are equally new, and not the same, are added to `left`."""
        found: dict[Any, PlainChange] = {}
        for one in changes:
            known = found.setdefault(one[NAME], one)
            if known is one:
                continue
            if one[ORDER] > known[ORDER]:
                found[one[NAME]] = one
            elif one[ORDER] == known[ORDER] and (
                one[OPERATION] != known[OPERATION] or one[SOURCE] != known[SOURCE] or one[VALUES] != known[VALUES]
            ):
                left.add(one[NAME])
        return found

    def _stands(self, newest: PlainChange) -> bool:
        """Whether the newest change of a name leaves a row."""
        if newest[OPERATION] == "d" and self._mirror:
            return False
        if not self._emptied:
            return True
        source, place = newest[SOURCE], (newest[ORDER], newest[OPERATION])
        every = self._emptied.keys() if source is None else (source, None)
        return all((self._emptied.get(one, b""), "t") < place for one in every)


def linked(moving: Collection[bytes], logged: Iterable[Logged], plain: Iterable[PlainChange]) -> set[Key]:
    """The keys of changes at one position with a create that left values out (TableLog.moving): those come from the row
    of another key, so that these keys are folded together."""
    if not moving:
        return set()
    changes = [one.change for one in logged if one.change is not None]
    found = {one.key for one in changes if one.op in "cd" and one.position in moving}
    return found | {one[NAME] for one in plain if one[OPERATION] in "cd" and one[ORDER][1 : 1 + WIDTH] in moving}


def row_of(row: PlainRow, names: Sequence[str]) -> Row:
    """A plain row of a mirror table as the specification knows it."""
    return Row(values_of(row, names), row[1], source=row[2])


def values_of(row: PlainRow, names: Sequence[str]) -> Mapping[str, Any]:
    """The values of a plain row by name; NOTHING where nobody asked."""
    return NOTHING if row[3] is None else dict(zip(names, row[3], strict=True))
