"""Sums of floating point that are the same whatever order their rows come in: where something above goes by them, a
refresh computes them for the cut before again, and has to find what the view was made of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from firn_sql.parse_tree import Node
from firn_sql.views.algebra import Expression, Filter, Group, Join, Operator, Project, Union, Window, reads_now

_SUMS: Final = frozenset({
    "sum", "avg", "mean", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop",
})  # fmt: skip
"""DuckDB leaves the order out where they are of whole numbers or decimals."""


def same_sums(root: Operator) -> Operator:
    """The same operators, of which those below others sum in the order of what is summed. The last groups or windows
    are only looked at."""
    if isinstance(root, Group | Window):
        return replace(root, input=_settled(root.input))
    if isinstance(root, Project) or (isinstance(root, Filter) and _is_of_groups(root) and not _is_timed(root)):
        return replace(root, input=same_sums(root.input))
    return _settled(root)


def _is_timed(node: Filter) -> bool:
    return reads_now(node.condition.node)  # groups come and go by the time, and are compared


def _is_of_groups(node: Operator) -> bool:
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Group)


def _settled(node: Operator) -> Operator:
    if isinstance(node, Join):
        return replace(node, left=_settled(node.left), right=_settled(node.right))
    if isinstance(node, Union):
        return replace(node, branches=tuple(map(_settled, node.branches)))
    if not (below := node.inputs()):
        return node
    node = replace(node, input=_settled(below[0]))  # type: ignore[call-arg]
    if isinstance(node, Group):
        return replace(node, aggregates=_in_order(node.aggregates))
    if isinstance(node, Window):
        return replace(node, functions=_in_order(node.functions))
    return node


def _in_order(calls: Sequence[Expression]) -> tuple[Expression, ...]:
    return tuple(Expression(_call(one.node)) for one in calls)


def _call(node: Node) -> Node:
    if str(node.get("function_name")).lower() not in _SUMS:
        return node
    value = node["arguments"][0]["expression"]
    orders = [{"type": "ASCENDING", "null_order": "NULLS LAST", "expression": value}]
    if node["class"] != "WINDOW":
        return node | {"order_bys": {"type": "ORDER_MODIFIER", "orders": orders}}
    return node if node["orders"] else node | {"arg_orders": orders}  # a sum that goes on with each row has an order
