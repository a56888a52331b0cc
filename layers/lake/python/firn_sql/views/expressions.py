"""Expressions of a view's query: what they may hold, and what they are computed from."""

import copy
from collections.abc import Mapping
from typing import Final

from firn_sql import allowed
from firn_sql.parse_tree import Node, Text, all_nodes, below, first_place, written
from firn_sql.views import algebra, functions
from firn_sql.views.algebra import Expression

_CLASSES: Final = frozenset({"COMPARISON", "CONJUNCTION", "CASE", "BETWEEN", "CONSTANT", "CAST", "COLUMN_REF", "TYPE"})


def aggregates(node: Node) -> list[Node]:
    """The calls of aggregates, but those that are windows; not those within one."""
    found, pending = [], [node]
    while pending:
        one = pending.pop()
        if functions.is_aggregate(one):
            found.append(one)
        else:
            pending.extend(reversed(list(below(one))))
    return found


def no_rows(node: Node, where: str, text: Text) -> None:
    """Raises SqlRefused where a condition on single rows looks at several."""
    for one, _ in all_nodes(node):
        if one.get("class") in ("WINDOW", "SUBQUERY") or functions.is_aggregate(one):
            why = f"{where} holds a query or a function over rows"
            raise text.refuse(first_place(one, 0), why, "write HAVING, QUALIFY or a join")


def check(root: Node, text: Text, *, timed: bool = False) -> None:
    """Raises SqlRefused for a node of a resolved expression that views do not have. timed: it may ask for the time."""
    for node, _ in all_nodes(root):
        kind = node.get("class")
        if timed and algebra.is_now(node):
            continue
        if kind == "FUNCTION":
            name = node["function_name"]
            low = name if name in allowed.FUNCTIONS else name.lower()
            if low in allowed.AGGREGATES and not functions.is_aggregate(node):
                why = f"{low} is not one of the functions over rows that views have"
                raise text.refuse(first_place(node, 0), why, "write one of " + ", ".join(sorted(functions.PLAIN)))
            if low not in allowed.FUNCTIONS and not functions.is_aggregate(node):
                raise text.refuse(first_place(node, 0), *allowed.refusal_in_view(low))
            if low == "unnest":
                raise text.refuse(
                    first_place(node, 0), "UNNEST makes several rows of one", "write a pipeline that does it"
                )
            if not functions.is_aggregate(node) and (node.get("filter") or node.get("distinct")):
                raise text.refuse(first_place(node, 0), f"{low} looks at one row", "leave out DISTINCT and FILTER")
        elif kind == "OPERATOR":
            if node["type"] not in allowed.OPERATORS:
                why = f"{node['type']} is not for views"
                raise text.refuse(first_place(node, 0), why, "write one that docs/pipelines.md lists")
        elif kind == "SUBQUERY":
            raise text.refuse(
                first_place(node, 0), "a query stands within an expression", "join its result: JOIN (SELECT …) ON …"
            )
        elif kind is not None and kind not in _CLASSES and kind != "WINDOW":
            raise text.refuse(first_place(node, 0), f"{node.get('type')} is not for views", "leave it out")


def calls(node: Node, kind: str) -> list[Node]:
    """The nodes of a class (WINDOW), at any depth."""
    return [one for one, _ in all_nodes(node) if one.get("class") == kind]


def swapped(value: Expression, columns: Mapping[str, str]) -> Expression:
    """An expression in which columns stand for what they were computed from."""

    def by(node: Node) -> Node | None:
        name = columns.get(Expression(node).said)
        return None if name is None else algebra.column_node(name)

    return Expression(algebra.replaced(node=value.node, by=by))


def name_of(node: Node) -> str:
    """What DuckDB calls a column that has no AS."""
    if node.get("class") == "COLUMN_REF":
        return str(node["column_names"][-1])
    tree = copy.deepcopy(node)
    return written({**algebra.SELECT, "select_list": [tree]}).removeprefix("SELECT ")
