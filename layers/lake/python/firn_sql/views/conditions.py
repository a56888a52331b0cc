"""Conditions of a view's query: taken apart, and put where their columns are."""

from collections.abc import Sequence

from firn_sql.parse_tree import Node
from firn_sql.views.algebra import Expression, Filter, Operator, reads_now


def conjuncts(node: Node | None) -> list[Node]:
    """What a condition says, part by part."""
    if node is None:
        return []
    if node.get("type") == "CONJUNCTION_AND":
        return [each for one in node["children"] for each in conjuncts(one)]
    if node.get("type") == "CONJUNCTION_OR":  # what each of its parts says holds anyhow
        arms = [conjuncts(one) for one in node["children"]]
        common = [one for one in arms[0] if all(any(same(one, each) for each in arm) for arm in arms[1:])]
        return [*(one for one in common if one.get("type") == "COMPARE_EQUAL"), node]
    return [node]


def same(one: Node, other: Node) -> bool:
    """Whether two nodes say the same."""
    return Expression(one).said == Expression(other).said


def subquery(node: Node) -> tuple[bool, Node] | None:
    """Whether a condition is a query or the opposite of one, and that query."""
    if node.get("type") == "OPERATOR_NOT":
        found = subquery(node["children"][0])
        return None if found is None else (not found[0], found[1])
    return (False, node) if node.get("class") == "SUBQUERY" else None


def equalities(
    conditions: Sequence[Expression], left: Operator, right: Operator
) -> list[tuple[Expression, Expression, Expression]]:
    """Of these conditions the ones that say that something of the left side equals something of the right."""
    found = []
    sides = frozenset(left.columns), frozenset(right.columns)
    for one in conditions:
        if one.node.get("type") != "COMPARE_EQUAL" or reads_now(one.node):
            continue
        a, b = Expression(one.node["left"]), Expression(one.node["right"])
        for first, second in ((a, b), (b, a)):
            if first.columns and second.columns and first.columns <= sides[0] and second.columns <= sides[1]:
                found.append((one, first, second))
                break
    return found


def filtered(root: Operator, conditions: Sequence[Expression]) -> Operator:
    """The rows for which all conditions hold."""
    condition = all_of(conditions)
    return root if condition is None else Filter(root.columns, root.ids, root, condition)


def all_of(conditions: Sequence[Expression]) -> Expression | None:
    """All conditions as one; None if there is none."""
    unique = list({one.said: one for one in conditions}.values())
    if not unique:
        return None
    if len(unique) == 1:
        return unique[0]
    children = [one.node for one in unique]
    return Expression({"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": children})


def comparison(left: Node, right: Node) -> Node:
    """That two values are equal."""
    return {"class": "COMPARISON", "type": "COMPARE_EQUAL", "alias": "", "left": left, "right": right}
