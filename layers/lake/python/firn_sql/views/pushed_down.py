"""What of a condition on an operator's rows goes down to the operators below, as Refresh has it. Pure."""

from collections.abc import Callable, Sequence

from firn_sql.parse_tree import parse
from firn_sql.views.algebra import (
    Expression,
    Filter,
    Group,
    Hops,
    Join,
    Operator,
    Project,
    Scan,
    Sessions,
    Union,
    Window,
    column,
    operators,
)

Values = Sequence[Expression]


def near_side(node: Join, values: Values, rows: Callable[[str], float]) -> tuple[int, Values] | None:
    """The side of a join (0: left) whose rows are chosen by these values, and those of them that choose: all, or the
    side's own; None if all of both are read. Where each side has some, it is the one of the larger table: so many
    values are a smaller share of its rows. rows: how many a table has."""
    found = []
    for side, kinds in ((0, ("INNER", "LEFT", "SEMI", "ANTI")), (1, ("INNER", "RIGHT"))):
        if node.kind not in kinds:
            continue
        below = node.inputs()[side]
        columns = frozenset(below.every)
        if all(one.columns <= columns for one in values):
            return side, values
        if own := [one for one in values if one.columns and one.columns <= columns]:
            found.append((_most_rows(below, own, rows), -side, own))
    if not found:
        return None
    _, side, own = max(found, key=lambda one: one[:2])
    return -side, own


def _most_rows(node: Operator, values: Values, rows: Callable[[str], float]) -> float:
    """How many rows the largest table below has that gives columns of these values, or of all where they are made
    of some."""
    columns = frozenset[str]().union(*(one.columns for one in values))
    scans = [one for one in operators(node) if isinstance(one, Scan)]
    return max(rows(one.source) for one in [one for one in scans if columns & frozenset(one.every)] or scans)


def looked_up_by(node: Scan, values: Values) -> Values:
    """Those that are columns of the table: files are left out by nothing else."""
    return [one for one in values if one.column in node.names]


def through(node: Operator, below: Operator, values: Values) -> Values:
    """The values as something of the operator below, which is no join's: those that go down. () if none do, and all of
    its rows are read."""
    if isinstance(node, Filter):
        return values
    if isinstance(node, Window | Sessions):
        by = node.partition if isinstance(node, Window) else node.keys
        return [one for one in values if one in by]
    if isinstance(node, Hops):  # of windows the rows that may be in them
        start, columns = node.columns[-2], frozenset(below.every)
        newest = Expression(parse(f"SELECT {node.newest}")["select_list"][0])
        kept = [one for one in values if one.column == start or one.columns <= columns]
        return [newest if one.column == start else one for one in kept]
    if isinstance(node, Project):
        known = dict(zip((*node.ids, *node.columns), (*map(column, node.ids), *node.values), strict=True))
    elif isinstance(node, Group):
        known = dict(zip(node.ids, node.keys, strict=True))
    elif isinstance(node, Union):
        known = dict(zip(node.columns, map(column, below.columns), strict=True))
    else:
        return ()
    return [one.over(known) for one in values] if all(one.columns <= known.keys() for one in values) else ()
