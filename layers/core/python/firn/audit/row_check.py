"""Whether a table holds what the log says, identity by identity, and with all values where somebody asks. Pure.

What should be there is not decided here: of a mirror table the specification says it (merge.key_rows.refolded), of an
append table each change is a row. This compares, a part of the keys or identities at a time, and never corrects.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.key_rows import refolded
from firn.changes.merge.ordering import plain, total
from firn.changes.positions import WIDTH

Verdict = Literal["found", "nothing", "missing", "surplus", "differs", "older", "adopted", "unordered", "refused"]
UNTOLD: Final[Mapping[str, str]] = {
    "older": "older than the log",
    "adopted": "not written by Firn",
    "unordered": "without a position",
    "refused": "of changes that today's columns refuse",
    "retyped": "values written before their column became text",
    "default": "values of columns that their changes may not name, whose default may have been another one",
    "moved": "values that came with a changed key",
}
"""Why a row, or a value of it, could not be told."""

NOTHING: Final[Mapping[str, Any]] = {"": None}
"""The values of rows and changes of which only the order is looked at."""

SAMPLES: Final = 20  # of one table and kind
_UNSURE: Final = frozenset(UNTOLD)
As = Callable[[str, Sequence[Any]], Sequence[Any]]
Facts = Callable[[Collection[Key]], Iterable[RowChange]]


class Logged(NamedTuple):  # which goes through files quicker than a dataclass
    """One change of the log. `name`: its key in a mirror table (() for a truncate), its identity in an append table.
    `place`: its index in the batch.

    needed  the table must have it in. Else it may, or may not: it is a dead letter, or of an epoch that was given up or
            left out
    change  of a mirror table, `values` of an append table: what its row must hold (None: nobody asks)
    other   an identity that an older Firn may have given it: not there by the one, it may be by the other
    """

    name: Any
    batch: str
    place: int
    needed: bool
    change: RowChange | None = None
    values: Mapping[str, Any] | None = None
    other: str | None = None


@dataclass(frozen=True)
class Sample:
    """A row that is wrong, and where the change that should have made it stands (None: no change of the log did).
    `row`: the key's values, or the identity; `columns`: those that differ."""

    what: str
    row: tuple[str, ...]
    batch: str | None = None
    index: int | None = None
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" by {self.batch}:{self.index}" if self.batch is not None else ""
        return ", ".join(self.row) + (f": {', '.join(self.columns)}" if self.columns else "") + by


@dataclass
class RowAccount:
    """One table, row by row. All numbers are rows, by key or identity.

    expected  that the log says must be there: `found` + `missing` + `differs`
    missing   not there, or an older change's row in its place
    surplus   there, and the log says that they must not be: deleted, doubled, or made by no change
    differs   there, with another value in one of the columns (`columns`: in how many rows each differs)
    untold    rows, or values, that could not be judged, by reason (UNTOLD)
    """

    table: str
    mode: str = ""
    snapshot: int | None = None
    whole: bool = True
    deep: bool = False
    share: float = 1.0
    expected: int = 0
    found: int = 0
    missing: int = 0
    surplus: int = 0
    differs: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    untold: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with what could be judged."""
        return not (self.missing or self.surplus or self.differs)

    def count(self, what: Verdict, row: Collection[Any], by: Logged | None, columns: Collection[str] = ()) -> None:
        """Takes one row in. `by`: the change that should have made it."""
        if what in _UNSURE:
            self.not_told(what)
            return
        if what == "nothing":
            return
        setattr(self, what, getattr(self, what) + 1)
        if what != "surplus":
            self.expected += 1
        if what != "found" and sum(one.what == what for one in self.samples) < SAMPLES:
            batch, index = (by.batch, by.place) if by else (None, None)
            self.samples.append(Sample(what, tuple(map(str, row)), batch, index, tuple(sorted(columns))))
        for column in columns:
            self.columns[column] = self.columns.get(column, 0) + 1

    def count_found(self, rows: int) -> None:
        """Takes in so many rows that are right."""
        self.expected += rows
        self.found += rows

    def not_told(self, why: str) -> None:
        """A row, or a value of one, that could not be judged (UNTOLD)."""
        self.untold[why] = self.untold.get(why, 0) + 1


class Values:
    """Compares the values of rows. `columns`: those of the table; `retyped`: those of them that were rewritten for
    another type, whose text may be another one; `stored(column, values)`: values as the table would hold them;
    `defaults`: by column what a change that does not name it leaves as of today."""

    def __init__(
        self,
        columns: Collection[str],
        retyped: Collection[str] = (),
        stored: As = lambda _, values: values,
        defaults: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._columns, self._retyped, self._stored = columns, retyped, stored
        self._usual = {column: stored(column, [value])[0] for column, value in defaults.items()}

    def compare(self, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[tuple[list[str], str]]:
        """Of each (wanted, there): the columns that differ, and why one could not be told (UNTOLD), "" if all were."""
        found: list[tuple[list[str], str]] = [([], "") for _ in pairs]
        unsure: dict[int, str] = {}
        for column in self._columns:
            wanted = self._stored(column, [want.get(column) for want, _ in pairs])
            for place, (want, (_, there)) in enumerate(zip(wanted, pairs, strict=True)):
                value = there.get(column)
                if same(want, value):
                    continue
                if column in self._retyped and want is not None and value is not None:
                    unsure[place] = "retyped"
                elif column in self._usual and same(want, self._usual[column]):
                    unsure[place] = "default"
                else:
                    found[place][0].append(column)
        return [(columns, unsure.get(place, "")) for place, (columns, _) in enumerate(found)]

    def differing(
        self, names: Sequence[str], wanted: Sequence[Sequence[Any]], there: Sequence[Sequence[Any]]
    ) -> set[int]:
        """The numbers of the rows of which a value may differ: `compare` tells whether it does. `names`: of the values
        of each row."""
        found: set[int] = set()
        if not wanted:
            return found
        for column, want, have in zip(names, zip(*wanted, strict=True), zip(*there, strict=True), strict=True):
            if column in self._columns:
                pairs = zip(self._stored(column, want), have, strict=True)
                found.update(number for number, (one, other) in enumerate(pairs) if one != other)
        return found


class MirrorRows:
    """Judges a mirror table, some of its keys at a time.

    whole      the log reaches back to the table's beginning, and no other stream feeds it
    truncates  all of the log
    refused    orders of changes that can't be decoded any more
    facts      what the table remembers of deletes older than the log
    values     compares values; None: only which change made each row
    moved      keys whose values come from others that are not all at hand
    """

    def __init__(
        self,
        found: RowAccount,
        *,
        whole: bool = True,
        truncates: Sequence[Logged] = (),
        refused: Collection[bytes] = (),
        facts: Facts = lambda _: (),
        values: Values | None = None,
        moved: Collection[Key] = (),
    ) -> None:
        self._found, self._whole, self._truncates, self._refused = found, whole, truncates, refused
        self._facts, self._values, self._moved = facts, values, moved
        self._unsure_truncates = any(not one.needed for one in truncates)

    def judge(self, logged: Iterable[Logged], rows: Iterable[tuple[Key, Row]]) -> None:
        """All changes and all rows of some keys."""
        changes: defaultdict[Key, list[Logged]] = defaultdict(list)
        for one in logged:
            changes[one.name].append(one)
        there: dict[Key, Row] = {}
        for key, row in rows:
            placed = _placed(row, changes.get(key, ()))
            if key not in there:
                there[key] = placed
            elif plain(placed.order) is None and key not in changes:
                self._found.count("adopted", key, None)
            else:
                self._found.count("surplus", key, None)
                there[key] = max(there[key], placed, key=lambda one: one.order)
        should = self._should(there, changes, needed=True)
        keys = changes.keys() | there.keys()
        verdicts = {key: self._verdict(changes.get(key, ()), there.get(key), should.get(key)) for key in keys}
        doubted = {key for key, what in verdicts.items() if what in ("missing", "surplus") and self._may(changes, key)}
        if doubted:
            some = {key: changes[key] for key in doubted if key in changes}
            again = self._should({key: there[key] for key in doubted & there.keys()}, some, needed=False)
            for key in doubted:
                what = self._verdict(changes.get(key, ()), there.get(key), again.get(key))
                if what not in ("missing", "surplus"):
                    verdicts[key] = what
                    should = {**should, key: again[key]} if key in again else should
        self._compared(verdicts, changes, there, should)

    def _may(self, changes: Mapping[Key, Sequence[Logged]], key: Key) -> bool:
        """Whether something that the table need not have in, or that is older than the log, may explain a row."""
        return not self._whole or self._unsure_truncates or any(not one.needed for one in changes.get(key, ()))

    def _should(
        self, there: Mapping[Key, Row], changes: Mapping[Key, Sequence[Logged]], *, needed: bool
    ) -> dict[Key, Row]:
        """The rows that the changes make; of what is older than the log, the rows that are there tell."""
        every = [*self._truncates, *(one for some in changes.values() for one in some)]
        known = [one.change for one in every if one.change is not None and (one.needed or not needed)]
        if not needed and not self._whole:
            known += self._facts({*changes, *there})
        return dict(refolded(there.items(), known))

    def _verdict(self, changes: Sequence[Logged], row: Row | None, should: Row | None) -> Verdict:
        if row is None:
            return "nothing" if should is None else "missing"
        if should is None:
            return "surplus"
        if should.order != row.order:
            return "unordered" if plain(should.order) is None and plain(row.order) is None else "missing"
        if any(one.change is not None and one.change.order == row.order for one in changes):
            return "found"
        if row.order in self._refused:
            return "refused"
        if plain(row.order) is None:
            return "adopted"
        return "surplus" if self._whole else "older"

    def _compared(
        self,
        verdicts: Mapping[Key, Verdict],
        changes: Mapping[Key, Sequence[Logged]],
        there: Mapping[Key, Row],
        should: Mapping[Key, Row],
    ) -> None:
        compared: list[Key] = []
        for key, what in verdicts.items():
            if self._values is not None and what in ("found", "unordered"):
                compared.append(key)
            else:
                self._found.count(what, key, _maker(changes.get(key, ()), should.get(key)))
        if self._values is None:
            return
        differing = self._values.compare([(should[key].values, there[key].values) for key in compared])
        for key, (columns, unsure) in zip(compared, differing, strict=True):
            if columns and key in self._moved:
                columns, unsure = [], "moved"
            if unsure:
                self._found.not_told(unsure)
            by = _maker(changes.get(key, ()), should.get(key))
            self._found.count("differs" if columns else "found", key, by, columns)


Unknown = list[tuple[str | None, Mapping[str, Any]]]


class AppendRows:
    """Judges an append table, some of its identities at a time. Arguments as of MirrorRows; a row without an identity
    was not written by Firn."""

    def __init__(self, found: RowAccount, *, whole: bool = True, values: Values | None = None) -> None:
        self._found, self._whole, self._values = found, whole, values

    def judge(
        self, logged: Iterable[Logged], rows: Iterable[tuple[str | None, Mapping[str, Any]]], *, others: bool = False
    ) -> tuple[list[Logged], Unknown]:
        """All changes and all rows (identity, values) of some identities.

        others  some changes have two names. -> those that are not there by the first, under the second, and the rows
                that no change is known for: to be judged together
        """
        changes: dict[str, Logged] = {}
        for one in logged:
            known = changes.get(one.name)
            if known is None or (one.needed and not known.needed):
                changes[one.name] = one
        seen: set[str] = set()
        unknown: Unknown = []
        pairs: list[tuple[Logged, Mapping[str, Any]]] = []
        for identity, values in rows:
            if identity is None:
                self._found.count("adopted", (), None)
                continue
            if identity not in changes and others:
                unknown.append((identity, values))
            elif identity in seen:
                self._found.count("surplus", (identity,), changes.get(identity))
            elif identity not in changes:
                self._found.count("surplus" if self._whole else "older", (identity,), None)
            elif changes[identity].needed:
                pairs.append((changes[identity], values))
            seen.add(identity)
        absent = [one for one in changes.values() if one.name not in seen]
        for one in absent:
            if one.needed and one.other is None:
                self._found.count("missing", (one.name,), one)
        self._compared(pairs)
        return [one._replace(name=one.other, other=None) for one in absent if one.other is not None], unknown

    def _compared(self, pairs: Sequence[tuple[Logged, Mapping[str, Any]]]) -> None:
        if self._values is None:
            for one, _ in pairs:
                self._found.count("found", (one.name,), one)
            return
        told = self._values.compare([(one.values or {}, values) for one, values in pairs])
        for (one, _), (columns, unsure) in zip(pairs, told, strict=True):
            if unsure:
                self._found.not_told(unsure)
            self._found.count("differs" if columns else "found", (one.name,), one, columns)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same in a table: a NaN is one NaN."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):  # of a map: its entries
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _placed(row: Row, changes: Sequence[Logged]) -> Row:
    """The row with the whole orders of the changes that made it: older tables hold positions alone."""
    orders = {row.order, *row.held.values()}
    if all(len(order) != len(total(bytes(WIDTH))) for order in orders):
        return row
    known = sorted(one.change.order for one in changes if one.change is not None)
    full = {order: next((one for one in reversed(known) if one.startswith(order)), order) for order in orders if order}
    held = {column: full.get(order, order) for column, order in row.held.items()}
    return replace(row, order=full.get(row.order, row.order), held=held)


def _maker(changes: Sequence[Logged], row: Row | None) -> Logged | None:
    """The change that makes the row; without one, the newest of the key (it may be its delete)."""
    known = [one for one in changes if one.change is not None]
    mine = [one for one in known if row is not None and one.change is not None and one.change.order == row.order]
    return next(iter(mine), None) or max(known, key=lambda one: one.change.order if one.change else b"", default=None)
