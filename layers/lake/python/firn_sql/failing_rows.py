"""Which rows make SQL fail, asked of DuckDB itself in one run: for batches in which many do.

TRY gives null where an expression fails, and a list of the value tells that from a value that is null. One SELECT over
the source can be asked so; SQL of several, or with UNNEST within an expression, is left to halves (isolation.py).
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from firn.config.sql_text import SqlRefused
from firn_sql.parse_tree import Node, all_nodes, parse, written

WHICH: Final = "_firn_which"
"""The column of the answer: the number of the expression that fails for a row, -1 if none does."""
_PLACE: Final = "_firn_at_"


@dataclass(frozen=True)
class Question:
    """`sql` answers (row, WHICH); `names`: what the expressions of those numbers are called."""

    sql: str
    names: tuple[str, ...]


def question(tree: Node, row: str) -> Question | None:
    """The question for a tree whose hidden columns are in; None if it can't be asked.

    row  the column that numbers the rows
    """
    if tree["cte_map"]["map"] or tree["from_table"]["type"] != "BASE_TABLE":
        return None
    found = list(_expressions(tree["select_list"]))
    conditions = list(_conditions(tree["where_clause"])) if tree.get("where_clause") else []
    nodes = [*conditions, *(one for _, one in found)]
    # A filter leaves the rest of an OR when it knows enough, an expression does not: TRY would tell another thing.
    if any(_has(one, "unnest") for one in nodes) or any(_has(one, "") for one in conditions):
        return None
    first = len(conditions)
    tests = " ".join(f"WHEN TRY([{_PLACE}{first + n}]) IS NULL THEN {n + 1}" for n in range(len(found)))
    asked = f"CASE {tests} ELSE -1 END" if found else "-1"
    for n in reversed(range(first)):
        asked = f"CASE WHEN TRY([{_PLACE}{n}]) IS NULL THEN 0 WHEN TRY({_PLACE}{n}) THEN {asked} ELSE -1 END"
    try:
        template = parse(f"SELECT {row}, {asked} AS {WHICH} FROM x")  # noqa: S608 (names of our own)
    except SqlRefused:  # too deep
        return None
    wanted = {f"{_PLACE}{n}": node for n, node in enumerate(nodes)}
    for node, _ in list(all_nodes(template)):
        if node.get("class") == "COLUMN_REF" and (name := node["column_names"][0]) in wanted:
            node.clear()
            node.update(copy.deepcopy(wanted[name]), alias="")
    template["from_table"] = copy.deepcopy(tree["from_table"])
    return Question(written(template), ("WHERE", *(f"the column {name}" for name, _ in found)))


def _conditions(node: Node) -> Iterator[Node]:
    """The conditions that AND joins, in the order in which a filter asks them."""
    if node["type"] != "CONJUNCTION_AND":
        yield node
        return
    for child in node["children"]:
        yield from _conditions(child)


def _expressions(items: list[Node]) -> Iterator[tuple[str, Node]]:
    """What can fail, with its column: none that pass through; of what UNNEST takes apart, the list."""
    for item in items:
        if item["class"] == "STAR":
            yield from ((one["key"], one["value"]) for one in item["replace_list"])
        elif item["class"] == "FUNCTION" and item["function_name"].lower() == "unnest":
            yield item["alias"], item["arguments"][0]["expression"]
        elif item["class"] != "COLUMN_REF":
            yield item["alias"], item


def _has(node: Node, function: str) -> bool:
    """Whether it calls a function; "": whether it has an AND or OR."""
    every = (one for one, _ in all_nodes(node))
    if not function:
        return any(one.get("class") == "CONJUNCTION" for one in every)
    return any(one.get("function_name", "").lower() == function for one in every)
