"""Groups whose rows follow from what they were and from what changed: counts, and sums of exact numbers.

Such a group is kept as sums alone: how many rows it has, and of each argument the sum and how many are there. What the
query asks for (`avg`, a sum that is null of no rows) is computed of these. Floating point is not among them: a sum
would depend on the order in which changes came.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import duckdb

from firn_sql.parse_tree import parse
from firn_sql.views.algebra import Expression, Filter, Operator, Plan, Project, column_node
from firn_sql.views.no_rows import NoRows
from firn_sql.views.planner import SourceTable
from firn_sql.views.refresh import Refresh

_EXACT: Final = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
)  # fmt: skip
_KEPT: Final = frozenset({"count_star", "count", "sum", "avg", "mean"})


def with_sums(plan: Plan, tables: Mapping[str, SourceTable], connection: duckdb.DuckDBPyConnection) -> tuple[Plan, str]:
    """The plan with its groups kept as sums, and ""; or the plan as it is, and why they can't be."""
    group = plan.group
    if group is None:
        return plan, "its rows are not groups, or some come and go by the time alone"
    above: list[Operator] = []
    one: Operator = plan.root
    while one is not group:
        above.append(one)
        one = one.inputs()[0]
    if any(isinstance(each, Filter) for each in above):
        return plan, "HAVING leaves groups out, of which nothing is kept then"
    sources = NoRows(connection, tables)
    rows = Refresh(connection, plan, sources).rows_of(group.input)
    parts: dict[str, Expression] = {}
    values: dict[str, Expression] = {}
    counted = _named(parts, _call("count(*)"))
    for name, call in zip(group.columns[len(group.ids) :], group.aggregates, strict=True):
        node = call.node
        function = node["function_name"].lower()
        if function not in _KEPT or node["distinct"]:
            return plan, f"{function}{' DISTINCT' if node['distinct'] else ''} needs the rows of a group"
        if function == "count_star" and not node["filter"]:
            values[name] = _expression(counted)
            continue
        there = f" FILTER ({Expression(node['filter']).sql})" if node["filter"] else ""
        if function == "count_star":
            values[name] = _expression(_named(parts, _call(f"count(*){there}")))
            continue
        argument = Expression(node["arguments"][0]["expression"])
        number = _named(parts, _call(f"count({argument.sql}){there}"))
        if function == "count":
            values[name] = _expression(number)
            continue
        kind = str(connection.sql(f"SELECT {argument.sql} AS x FROM ({rows})").types[0])
        if not kind.startswith(_EXACT):
            return plan, f"a {function} of {kind} depends on the order in which rows come"
        total = _named(parts, _call(f"coalesce(sum({argument.sql}){there}, 0)"))
        text = total if function == "sum" else f"CAST({total} AS DOUBLE) / {number}"
        values[name] = Expression(_call(f"CASE WHEN {number} > 0 THEN {text} END").node)
    columns = (*group.ids, *parts)
    kept = replace(group, columns=columns, aggregates=tuple(parts.values()))
    root: Operator = kept
    if not above:
        names = tuple(f"v{i}" for i in range(len(group.columns)))
        root = Project(names, group.ids, kept, tuple(values.get(one, _expression(one)) for one in group.columns))
    for each in reversed(above):
        if isinstance(each, Project):
            root = replace(each, input=root, values=tuple(value.over(values) for value in each.values))
    return replace(plan, root=root, sums=True), ""


def _call(sql: str) -> Expression:
    """An expression over columns of a plan, out of its text."""
    return Expression(parse(f"SELECT {sql}")["select_list"][0])


def _named(parts: dict[str, Expression], value: Expression) -> str:
    found = next((name for name, one in parts.items() if one == value), None)
    if found is None:
        found = f"s{len(parts)}"
        parts[found] = value
    return found


def _expression(name: str) -> Expression:
    return Expression(column_node(name))
