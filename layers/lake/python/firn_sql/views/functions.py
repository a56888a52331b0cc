"""The functions that look at several rows, and how each is made to give the same for the same rows in any order."""

from collections.abc import Sequence
from typing import Final

from firn.config.sql_text import SqlRefused
from firn_sql.parse_tree import Node, Text, offset
from firn_sql.views.algebra import column_node

PLAIN: Final = frozenset({
    "count", "count_star", "sum", "avg", "mean", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor",
    "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "median",
})  # fmt: skip
ORDERED: Final = frozenset({"string_agg", "group_concat", "listagg", "list", "array_agg", "first", "last"})
BEST: Final = {"arg_min": "ASCENDING", "min_by": "ASCENDING", "arg_max": "DESCENDING", "max_by": "DESCENDING"}
ANY: Final = frozenset({"any_value", "arbitrary"})
AGGREGATES: Final = PLAIN | ORDERED | BEST.keys() | ANY
PEERS: Final = frozenset({"WINDOW_RANK", "WINDOW_RANK_DENSE", "WINDOW_PERCENT_RANK", "WINDOW_CUME_DIST"})
"""Windows that give rows of the same order the same."""
RANKS: Final = frozenset({
    "WINDOW_ROW_NUMBER", "WINDOW_NTILE", "WINDOW_LEAD", "WINDOW_LAG", "WINDOW_FIRST_VALUE", "WINDOW_LAST_VALUE",
    "WINDOW_NTH_VALUE",
})  # fmt: skip
_PEERS: Final = frozenset({"CURRENT_ROW_RANGE", "CURRENT_ROW_GROUPS"})  # ends of frames


def is_aggregate(node: Node) -> bool:
    """Whether it is a call of a function over a group."""
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in AGGREGATES


def settled(node: Node, ids: Sequence[str], text: Text) -> Node:
    """A call of an aggregate that gives the same whatever order its rows come in. ids: what tells them apart.

    any_value is the least; arg_max takes the greater of two that are as good; a list, a text and the first go by the
    order that is written and, where that leaves a choice, by `ids`. Raises SqlRefused.
    """
    name, arguments = node["function_name"].lower(), [one["expression"] for one in node["arguments"]]
    if name in ANY:
        return named(node, "min")
    if name in BEST:
        if len(arguments) != 2 or node["distinct"] or node["order_bys"]["orders"]:
            raise text.refuse(offset(node, 0), f"{name} takes what to give and what to compare", f"write {name}(a, b)")
        value, by = arguments
        kind = BEST[name]
        there = _both(_is_there(value), _is_there(by))
        where = there if node["filter"] is None else _both(there, node["filter"])
        orders = [_order(by, kind), _order(value, kind)]
        found = named(node, "first") | {"filter": where, "arguments": node["arguments"][:1]}
        return found | {"order_bys": {"type": "ORDER_MODIFIER", "orders": orders}}
    if name in ORDERED:
        own = [_order(arguments[0], "ASCENDING")] if node["distinct"] else [_order(column_node(one)) for one in ids]
        orders = [*node["order_bys"]["orders"], *own]
        return node | {"order_bys": {"type": "ORDER_MODIFIER", "orders": orders}}
    return node | {"order_bys": {"type": "ORDER_MODIFIER", "orders": []}}


def settled_window(node: Node, ids: Sequence[str], text: Text) -> Node:
    """A call of a window function that gives the same whatever order its rows come in. Raises SqlRefused."""
    kind = node["type"]
    if kind in PEERS:
        return node
    if kind == "WINDOW_AGGREGATE" and node["function_name"].lower() not in PLAIN:
        name = node["function_name"][:60]
        raise text.refuse(offset(node, 0), f"{name} is not one of the window functions of views", "write sum, count, …")
    if kind not in RANKS and kind != "WINDOW_AGGREGATE":
        raise text.refuse(offset(node, 0), f"{kind} is not one of the window functions of views", "write row_number()")
    by_rows = any(str(node[end]).endswith("_ROWS") for end in ("start", "end"))
    if kind not in RANKS and not by_rows:
        return node
    if not _stays(node, by_rows=by_rows):
        why = "its frame goes by rows of the same order, of which one is to be told from the other"
        raise text.refuse(offset(node, 0), why, "write ROWS BETWEEN … AND …, and no EXCLUDE TIES or GROUP")
    return node | {"orders": [*node["orders"], *(_order(column_node(one)) for one in ids)]}


def _stays(node: Node, *, by_rows: bool) -> bool:
    """Whether a window has the same frame where no two rows are of the same order any more."""
    kind, excluded = node["type"], node["exclude_clause"]
    if by_rows:
        return excluded in ("NO_OTHER", "CURRENT_ROW")
    if kind not in ("WINDOW_FIRST_VALUE", "WINDOW_LAST_VALUE", "WINDOW_NTH_VALUE"):
        return True  # they look at no frame
    whole = node["end"] == "UNBOUNDED_FOLLOWING" or (kind == "WINDOW_FIRST_VALUE" and node["end"] in _PEERS)
    return bool(node["start"] == "UNBOUNDED_PRECEDING" and whole and excluded == "NO_OTHER")


def named(node: Node, name: str) -> Node:
    """A call of a function as one of another."""
    return node | {"function_name": name, "qualified_name": {"path": [name]}}


def check_call(node: Node, text: Text) -> None:
    """Raises SqlRefused for what no aggregate may have."""
    if node.get("schema") or node.get("catalog"):
        refuse = f"{node['function_name'][:60]} is called with a dot before it"
        raise text.refuse(offset(node, 0), refuse, "write the function alone")


def refusal_within(text: Text, node: Node) -> SqlRefused:
    """The error for a function over rows within another one."""
    return text.refuse(
        offset(node, 0), "a function over rows stands within another one", "write FROM (SELECT …), and use its columns"
    )


def _order(node: Node, kind: str = "ASCENDING") -> Node:
    return {"type": kind, "null_order": "NULLS LAST", "expression": node}


def _is_there(node: Node) -> Node:
    return {"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", "alias": "", "children": [node]}


def _both(one: Node, other: Node) -> Node:
    return {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": [one, other]}
