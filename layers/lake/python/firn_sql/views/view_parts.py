"""Whether the query of a view may be run in parts, each over some rows of its tables, such that all parts together give
what it gives over all rows; and which rows go into one part.

Each operator says what its rows have to have in common to be computed together: a group its key, a join what it makes
equal, a window its partition. That is followed down to the tables. Pure, but that DuckDB is asked for types.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import duckdb

from firn_sql.parse_tree import parse
from firn_sql.views import rendered
from firn_sql.views.algebra import (
    Expression,
    Filter,
    Group,
    Hops,
    Join,
    Operator,
    Plan,
    Project,
    Query,
    Scan,
    Sessions,
    Top,
    Union,
    Window,
    column,
    operators,
    reads_now,
)
from firn_sql.views.no_rows import NoRows
from firn_sql.views.planner import SourceTable
from firn_sql.views.refresh import Refresh
from firn_sql.views.refresh_cost import words

_WHOLE_NUMBERS: Final = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
})  # fmt: skip
_ALIKE: Final = "HUGEINT"  # what whole numbers of several types are compared in
_MOVED: Final = (_WHOLE_NUMBERS - {"HUGEINT", "UHUGEINT"}) | {
    "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DECIMAL", "FLOAT", "DOUBLE", "BLOB",
}  # fmt: skip
"""Types that Arrow has as DuckDB has them."""
_UNKNOWN: Final = frozenset({'"NULL"', "NULL"})
_ROUNDED: Final = ("FLOAT", "DOUBLE", "INTERVAL")  # of which equal values are not the same: there are two zeros


class NotInParts(Exception):
    """Why a query is only run over all rows."""


@dataclass(frozen=True)
class Input:
    """A table as one Scan of a plan reads it.

    source  the table
    scan    the Scan, whose `source` is a name of this input alone
    by      rows that are equal in these go into one part (SQL over the scan's columns); (): any part takes any row
    whole   whether each part has all of its rows
    """

    source: str
    scan: Scan
    by: tuple[str, ...] = ()
    whole: bool = False

    @property
    def number(self) -> str:
        """SQL of a number for a row: parts go by it. A value that fails is none here: the query may leave it out."""
        return f"hash({', '.join(f'TRY({one})' for one in self.by)})"


@dataclass(frozen=True)
class Parts:
    """A plan that is run in parts. It reads its inputs by their own names.

    sums  None: each part gives rows of the view. Else it gives sums of groups (Plan.group) of which others have some
          too, and these types of their columns are added up, in parts by the groups' `ids`
    """

    plan: Plan
    inputs: tuple[Input, ...]
    sums: Mapping[str, str] | None = None

    def added_up(self, rows: str) -> str:
        """A SELECT of Plan.stored out of one of the sums of all parts."""
        group, kinds = self.plan.group, self.sums
        if group is None or kinds is None:
            raise AssertionError("nothing is added up")
        keys = [f"CAST({one} AS {kinds[one]}) AS {one}" for one in group.ids]
        sums = [f"CAST(sum({one}) AS {kinds[one]}) AS {one}" for one in group.columns[len(group.ids) :]]
        by = f" GROUP BY {', '.join(group.ids)}" if group.ids else ""
        return rendered.above_groups(self.plan, group, f"SELECT {', '.join([*keys, *sums])} FROM ({rows}){by}")


def parts_of(
    plan: Plan,
    tables: Mapping[str, SourceTable],
    connection: duckdb.DuckDBPyConnection,
    is_small: Callable[[str], bool] = lambda _: False,
) -> Parts:
    """How a plan is run in parts. Raises NotInParts.

    tables    that it reads, by their names in lower case
    is_small  whether each part may read all of a table
    """
    numbers = count()
    sources: dict[str, str] = {}

    def own(node: Operator) -> Operator:
        if isinstance(node, Scan):
            name = f"firn_input_{next(numbers)}"
            sources[name] = node.source
            return replace(node, source=name)
        return _over(node, [own(one) for one in node.inputs()])

    root = own(plan.root)
    asked = NoRows(connection, {name: tables[source] for name, source in sources.items()})
    parting = _Parting(replace(plan, root=root), asked, connection, lambda name: is_small(sources[name]))
    sums = None
    try:
        if plan.sums:
            found, sums = parting.sums()
        else:
            found = parting.parts(root)
    except NotInParts as why:
        text = str(why)
        for name, source in sources.items():
            text = text.replace(f"{name}.", f"{source.rpartition('.')[2]}.")
        raise NotInParts(text) from None
    inputs = (one for one in operators(root) if isinstance(one, Scan))
    each = tuple(replace(found[one.source], source=sources[one.source]) for one in inputs)
    for one in each:
        if one.by and not parting.is_numbered(one):
            raise NotInParts(f"DuckDB has no hash of something that rows of {one.source} are told apart by")
    return Parts(replace(plan, root=root), each, sums)


def _over(node: Operator, below: Sequence[Operator]) -> Operator:
    """An operator over others."""
    if isinstance(node, Join):
        return replace(node, left=below[0], right=below[1])
    if isinstance(node, Union):
        return replace(node, branches=tuple(below))
    if isinstance(node, Query):
        raise NotInParts("refresh: full runs the SQL as it is written")
    return replace(node, input=below[0])  # type: ignore[call-arg]


_Found = dict[str, Input]


class _Parting:
    """One plan, whose scans have names of their own."""

    def __init__(
        self, plan: Plan, asked: NoRows, connection: duckdb.DuckDBPyConnection, is_small: Callable[[str], bool]
    ) -> None:
        self._plan = plan
        self._run = Refresh(connection, plan, asked)
        self._connection = connection
        self._is_small = is_small
        self._kinds: dict[tuple[int, str], str] = {}

    def is_numbered(self, one: Input) -> bool:
        """Whether DuckDB gives its rows numbers."""
        try:
            self._connection.sql(f"SELECT {one.number} FROM ({self._run.rows_of(one.scan)})")
        except duckdb.Error:
            return False
        return True

    def sums(self) -> tuple[_Found, Mapping[str, str] | None]:
        """Inputs of a plan that is kept as sums, and Parts.sums. A join may already bring groups together, and then
        nothing is to be added up; rows of one table are not brought together for it: what groups are few would be in
        few parts."""
        group = self._plan.group
        if group is None:
            raise AssertionError("sums of no groups")
        below = self.parts(group.input)
        if any(one.by for one in below.values()):
            try:
                return self.parts(group), None
            except NotInParts:
                pass
        rows = self._connection.sql(self._run.rows_of(group))
        kinds = dict(zip(rows.columns, map(str, rows.types), strict=True))
        for one in group.ids:
            if kinds[one].partition("(")[0] not in _MOVED:
                raise NotInParts(f"groups of {kinds[one]} are not added up")
        return below, kinds

    def parts(self, node: Operator) -> _Found:
        """Inputs with which parts of an operator are all of it together, wherever each of its rows is."""
        if isinstance(node, Scan):
            return {node.source: Input("", node)}
        if isinstance(node, Group):
            return self._together(node.input, node.keys, "one group has all rows")
        if isinstance(node, Window):
            return self._together(node.input, node.partition, "a window without PARTITION BY goes over all rows")
        if isinstance(node, Sessions):
            return self._together(node.input, node.keys, "one session may have all rows")
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, Top):
            raise NotInParts("LIMIT goes by all rows")
        found: _Found = {}
        for one in node.inputs():
            found |= self.parts(one)
        return found

    def _together(self, node: Operator, values: Sequence[Expression], otherwise: str) -> _Found:
        """Inputs with which rows of an operator that have these values in common are in one part: as far as they can be
        followed down to the tables. One of them is enough."""
        if not values:
            raise NotInParts(otherwise)
        found: list[_Found] = []
        reasons: list[str] = []
        for one in values:
            try:
                found.append(self._down(node, one, _alike(self._kind(node, one))))
            except NotInParts as why:
                reasons.append(str(why))
        if not found:
            raise NotInParts(reasons[0])
        return _both(found)

    def _join(self, node: Join) -> _Found:
        for kept, other, kinds in _SIDES:
            if node.kind in kinds and self._few(node.inputs()[other]):
                try:
                    return self.parts(node.inputs()[kept]) | _all_of(node.inputs()[other])
                except NotInParts:
                    continue
        found: list[_Found] = []
        reasons: list[str] = []
        for pair in zip(node.left_keys, node.right_keys, strict=True):
            try:
                found.append(self._pair(node, *pair, _alike(self._kind(node.left, pair[0]))))
            except NotInParts as why:
                reasons.append(str(why))
        if not found:
            raise NotInParts(reasons[0])
        return _both(found)

    def _few(self, node: Operator) -> bool:
        """Whether each part may compute all of an operator."""
        return all(self._is_small(one.source) for one in operators(node) if isinstance(one, Scan))

    def _pair(self, node: Join, left: Expression, right: Expression, kind: str) -> _Found:
        """Both sides of a join by values that it makes equal. Numbers and texts are not looked for as each other:
        equal ones are written in several ways."""
        own, other = self._kind(node.left, left), self._kind(node.right, right)
        if _alike(own) != _alike(other):
            raise NotInParts(f"a join compares {own} with {other}")
        return self._down(node.left, left, kind) | self._down(node.right, right, kind)

    def _down(self, node: Operator, value: Expression, kind: str) -> _Found:
        """Inputs with which each row of an operator is in the part of its value, of this type."""
        if not value.columns or reads_now(value.node) or kind in _UNKNOWN:
            raise NotInParts(f"{words(node, [value])} tells no rows apart")
        if isinstance(node, Scan):
            return {node.source: Input("", node, (f"CAST({value.sql} AS {kind})",))}
        if isinstance(node, Filter):
            return self._down(node.input, value, kind)
        if isinstance(node, Project):
            values = dict(zip(node.columns, node.values, strict=True))
            return self._down(node.input, value.over(values), kind)
        if isinstance(node, Hops):
            return self._of_hops(node, value, kind)
        if isinstance(node, Window | Sessions):
            if value not in (node.partition if isinstance(node, Window) else node.keys):
                raise NotInParts("a window lies below, and goes by something else")
            return self._down(node.input, value, kind)
        if isinstance(node, Group):
            if not value.columns <= frozenset(node.ids):
                raise NotInParts(f"{words(node, [value])} is computed of all rows of a group")
            if value.column is None and any(self._is_rounded(node, one) for one in value.columns):
                raise NotInParts("something is computed of groups by floating point")
            return self._down(node.input, value.over(dict(zip(node.ids, node.keys, strict=True))), kind)
        if isinstance(node, Union):
            if value.column not in node.columns:
                raise NotInParts("something is computed of the rows of a UNION")
            place = node.columns.index(value.column)
            found: _Found = {}
            for one in node.branches:
                found |= self._down(one, column(one.columns[place]), kind)
            return found
        if isinstance(node, Join):
            return self._through(node, value, kind)
        raise NotInParts("LIMIT goes by all rows")

    def _of_hops(self, node: Hops, value: Expression, kind: str) -> _Found:
        start, end = node.columns[-2:]
        if not value.columns & {start, end}:
            return self._down(node.input, value, kind)
        if node.number > 1 or value.column != start:
            raise NotInParts("a row is in several windows of time")
        newest = Expression(parse(f"SELECT {node.newest}")["select_list"][0])
        return self._down(node.input, newest, kind)

    def _through(self, node: Join, value: Expression, kind: str) -> _Found:
        """The same of a join: by what it makes equal, or by its one side where the other is small."""
        for kept, other, kinds in _SIDES:
            below = node.inputs()[kept]
            if node.kind in kinds and value.columns <= frozenset(below.every) and self._few(node.inputs()[other]):
                try:
                    return self._down(below, value, kind) | _all_of(node.inputs()[other])
                except NotInParts:
                    break
        for left, right in zip(node.left_keys, node.right_keys, strict=True):
            if value in _equal(node.kind, left, right):
                return self._pair(node, left, right, kind)
        raise NotInParts(f"{words(node, [value])} is not what its tables are joined by")

    def _is_rounded(self, node: Operator, name: str) -> bool:
        kind = self._kind(node, column(name))
        return any(word in kind.upper() for word in _ROUNDED)

    def _kind(self, node: Operator, value: Expression) -> str:
        """The type of something of an operator's rows, in DuckDB's words."""
        key = (id(node), value.said)
        if key not in self._kinds:
            rows = f"SELECT {value.sql} AS firn_value FROM ({self._run.rows_of(node)})"
            self._kinds[key] = str(self._connection.sql(rows).types[0])
        return self._kinds[key]


_SIDES: Final = ((0, 1, ("INNER", "LEFT", "SEMI", "ANTI")), (1, 0, ("INNER", "RIGHT")))
"""Of a join a side whose rows each say what they give, and the other one, of which all rows are needed for that."""


def _equal(kind: str, left: Expression, right: Expression) -> Iterator[Expression]:
    """What of a row of a join is the value that it was joined by, whichever sides it has."""
    if kind != "RIGHT" and kind != "FULL":
        yield left
    if kind in ("INNER", "RIGHT"):
        yield right
    if kind == "FULL":
        yield Expression({
            "class": "OPERATOR", "type": "OPERATOR_COALESCE", "alias": "", "children": [left.node, right.node],
        })  # fmt: skip


def _both(some: Sequence[_Found]) -> _Found:
    """Inputs by several values at once: rows are spread more evenly by all. Those of which each part has all are to be
    the same ones."""
    found = dict(some[0])
    for more in some[1:]:
        if all(one.whole == found[name].whole for name, one in more.items()):
            found = {name: replace(one, by=(*one.by, *more[name].by)) for name, one in found.items()}
    return found


def _all_of(node: Operator) -> _Found:
    return {one.source: Input("", one, whole=True) for one in operators(node) if isinstance(one, Scan)}


def _alike(kind: str) -> str:
    """The type in which equal values are compared."""
    return _ALIKE if kind in _WHOLE_NUMBERS else kind
