"""What the query of a view is made of: a tree of a few operators, each of which says how a change goes through it.

Every column of a plan has a name of its own ("c0", "c1", …), so an expression means the same wherever it stands. An
expression is a node of DuckDB's own parse tree that names these columns. Each operator has `columns`, those that the
one above it sees, and `ids`, those by which its rows are told apart: the keys of the sources, or a group.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from firn_sql.parse_tree import Node, all_nodes, written

GUESSED: Final = "firn_guessed"
"""What a node has that is a column of one of several tables whose columns are not known."""
NOW: Final = "now"
"""The function that the time of a refresh is in a plan, whatever the SQL calls it."""
_UNSAID: Final = ("query_location", "query_location_length", GUESSED)


@dataclass(frozen=True)
class Expression:
    """A node of DuckDB's tree whose columns are those of a plan. Two that say the same are equal."""

    node: Node = field(compare=False, repr=False)
    said: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "said", _said(self.node))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(one["column_names"][0] for one, _ in all_nodes(self.node) if one.get("class") == "COLUMN_REF")

    @property
    def column(self) -> str | None:
        """The column that it is, if it is one and nothing else."""
        names: Sequence[str] = self.node.get("column_names", ())
        return names[0] if self.node.get("class") == "COLUMN_REF" and len(names) == 1 else None

    @property
    def guessed(self) -> bool:
        """Whether it reads a column that is perhaps another one."""
        return any(one.get(GUESSED) for one, _ in all_nodes(self.node))

    @property
    def sql(self) -> str:
        """Its text, in DuckDB's own words."""
        return expression_text(self.said)

    def over(self, values: Mapping[str, "Expression"]) -> "Expression":
        """It with expressions in place of columns."""
        return Expression(replaced(self.node, lambda one: _value(one, values)))


@dataclass(frozen=True)
class Operator:
    """columns  what the operator above it sees
    ids      what tells its rows apart: no two have the same, nulls being equal
    """

    columns: tuple[str, ...]
    ids: tuple[str, ...]

    @property
    def every(self) -> tuple[str, ...]:
        """All that its rows have, each column once."""
        return tuple(dict.fromkeys((*self.columns, *self.ids)))

    def inputs(self) -> tuple["Operator", ...]:
        """The operators below it."""
        return ()


@dataclass(frozen=True)
class Scan(Operator):
    """Rows of a source table. names: of each of `every` what the table calls it."""

    source: str
    names: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class Filter(Operator):
    """The rows for which a condition is true."""

    input: Operator
    condition: Expression

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)


@dataclass(frozen=True)
class Project(Operator):
    """New columns out of each row. values: of each of `columns`; ids are the input's."""

    input: Operator
    values: tuple[Expression, ...]

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)


@dataclass(frozen=True)
class Join(Operator):
    """kind         INNER, LEFT, RIGHT, FULL, SEMI or ANTI
    left_keys    what must be equal, at least one: of each what the left side gives
    right_keys   … and the right side
    condition    what else must hold for two rows to match, or None
    flags        columns that say whether the left and the right side have a row, "" where one always has: among the
                 ids, so that no row is told from a group of nulls
    """

    left: Operator
    right: Operator
    kind: str
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    condition: Expression | None
    flags: tuple[str, str]

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.left, self.right)


def alone_in(kind: str, changed: Sequence[bool]) -> int | None:
    """The side of a join (0, 1) of which each row says by itself what it gives, with those of the other side that have
    its values: of its rows only the changed ones, and those with values of the other side's changed rows, are looked
    at. None: both are looked at by all touched values. `changed`: whether each side has changed rows."""
    if kind == "INNER":
        return 0 if changed[0] else 1
    return {"LEFT": 0, "SEMI": 0, "ANTI": 0, "RIGHT": 1}.get(kind)


@dataclass(frozen=True)
class Group(Operator):
    """A row for each group; without keys just one, of no rows too.

    keys        what a group has in common: of each of `ids`
    aggregates  of the columns after them
    """

    input: Operator
    keys: tuple[Expression, ...]
    aggregates: tuple[Expression, ...]

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)


@dataclass(frozen=True)
class Window(Operator):
    """More columns for each row, computed over the rows that have `partition` in common.

    partition  what all its functions have in common; () if nothing: then all rows are computed again
    functions  of each of the columns that it adds
    """

    input: Operator
    partition: tuple[Expression, ...]
    functions: tuple[Expression, ...]

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)


@dataclass(frozen=True)
class Length:
    """Of time: months alone, or microseconds alone, of which a day has as many as 24 hours have."""

    months: int
    micros: int

    def times(self, number: str | int) -> str:
        """So many times it, as SQL."""
        if self.months:
            return f"to_months(CAST({self.months} * {number} AS INTEGER))"
        return f"to_microseconds(CAST({self.micros} AS BIGINT) * {number})"


@dataclass(frozen=True)
class Hops(Operator):
    """Each row once for each window of time that it is in; rows without a time, or with an infinite one, are in none.

    The last two columns are when the window begins and ends; the first of them is among the ids.

    time    of a row
    hop     between the beginnings of two windows
    number  of windows that a row is in: a window is so many times as long as `hop`
    """

    input: Operator
    time: Expression
    hop: Length
    number: int

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)

    @property
    def newest(self) -> str:
        """When the last window begins that a row is in, as SQL over the input."""
        return f"time_bucket({self.hop.times(1)}, {moment(self.time)})"


@dataclass(frozen=True)
class Sessions(Operator):
    """Each row with the session that it is in: rows with the same keys, no two next to each other further apart than a
    gap. Rows without a time, or with an infinite one, are in none. The last two columns are the time of the session's
    first row, and `gap` after its last one."""

    input: Operator
    time: Expression
    gap: Length
    keys: tuple[Expression, ...]

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)


@dataclass(frozen=True)
class Top(Operator):
    """The first rows by an order that has no ties. orders: texts for ORDER BY."""

    input: Operator
    orders: tuple[str, ...]
    limit: int
    offset: int

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return (self.input,)


@dataclass(frozen=True)
class Union(Operator):
    """All rows of several. ids: the number of the branch, then the ids of each branch, null for rows of others."""

    branches: tuple[Operator, ...]

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return self.branches


@dataclass(frozen=True)
class Query(Operator):
    """What a SELECT gives that is run whole. ids: all columns, and a number among rows that are equal.

    tables    that it reads
    names     what `sql` calls them
    by_clock  whether it asks for the time
    """

    tables: tuple[Scan, ...]
    names: tuple[str, ...]
    sql: str
    by_clock: bool = False

    def inputs(self) -> tuple[Operator, ...]:  # noqa: D102
        return self.tables


@dataclass(frozen=True)
class Plan:
    """A view's query.

    names  of each of root.columns what the view calls it
    sums   whether its rows follow from what they were and from what changed, without a look at the tables
    """

    root: Operator
    names: tuple[str, ...]
    sums: bool = False

    @property
    def group(self) -> Group | None:
        """The operator whose groups the view's rows are: only projections and filters stand above it, none of which
        goes by the time."""
        one = self.root
        while isinstance(one, Project | Filter):
            if isinstance(one, Filter) and reads_now(one.condition.node):
                return None
            one = one.input
        return one if isinstance(one, Group) else None

    @property
    def holds(self) -> bool:
        """Whether the view itself says what its rows were: groups, or the first rows of an order."""
        return self.group is not None or isinstance(self.root, Top)

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns that the view's table has: what people see, then the hidden ones."""
        held = self.group.columns if self.sums and self.group else ()
        return tuple(dict.fromkeys((*self.root.every, *held)))

    @property
    def by_clock(self) -> bool:
        """Whether its rows are others as time passes."""
        return any(
            (isinstance(one, Filter) and reads_now(one.condition.node)) or (isinstance(one, Query) and one.by_clock)
            for one in operators(self.root)
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that it reads, each once."""
        return tuple(dict.fromkeys(one.source for one in operators(self.root) if isinstance(one, Scan)))


def is_now(node: Node) -> bool:
    """Whether a node of a plan is the time of the refresh."""
    return node.get("class") == "FUNCTION" and node["function_name"] == NOW


def reads_now(node: Node) -> bool:
    """Whether an expression asks for it."""
    return any(is_now(one) for one, _ in all_nodes(node))


def operators(root: Operator) -> Iterator[Operator]:
    """An operator and all below it."""
    yield root
    for one in root.inputs():
        yield from operators(one)


def moment(time: Expression) -> str:
    """A date or a time as a time, as SQL."""
    return f"({time.sql}) + INTERVAL '0 seconds'"


def column(name: str) -> Expression:
    """A column of a plan."""
    return Expression(column_node(name))


def column_node(name: str) -> Node:
    """A node of DuckDB's tree that is a column of a plan."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [name]}


def replaced(node: Any, by: Callable[[Node], Node | None]) -> Any:
    """A tree in which `by` has replaced nodes, the outermost first; what it gives is not looked into."""
    if isinstance(node, list):
        return [replaced(one, by) for one in node]
    if not isinstance(node, dict):
        return node
    found = by(node) if "class" in node else None
    if found is not None:
        return copy.deepcopy(found)
    return {key: replaced(value, by) for key, value in node.items()}


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def expression_text(said: str) -> str:
    """The SQL of an expression (Expression.said)."""
    found = _TEXTS.get(said)
    if found is None:
        tree = {**SELECT, "select_list": [json.loads(said)]}
        found = _TEXTS[said] = written(tree).removeprefix("SELECT ")
    return found


_TEXTS: dict[str, str] = {}
SELECT: Final[Node] = {
    "type": "SELECT_NODE", "modifiers": [], "cte_map": {"map": []}, "select_list": [],
    "from_table": {"type": "EMPTY", "alias": "", "sample": None}, "where_clause": None, "group_expressions": [],
    "group_sets": [], "aggregate_handling": "STANDARD_HANDLING", "having": None, "sample": None, "qualify": None,
}  # fmt: skip


def _said(node: Node) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {key: "" if key == "alias" else plain(one) for key, one in value.items() if key not in _UNSAID}
        return value

    return json.dumps(plain(node), sort_keys=True)


def _value(node: Node, values: Mapping[str, Expression]) -> Node | None:
    if node.get("class") != "COLUMN_REF":
        return None
    found = values.get(node["column_names"][0])
    return None if found is None else found.node
