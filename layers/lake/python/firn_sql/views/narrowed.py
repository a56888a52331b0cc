"""A plan that reads fewer columns: what nothing above a table asks for, and what tells rows apart below groups, which
need none of it."""

from collections.abc import Set as AbstractSet
from dataclasses import replace

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
    Top,
    Union,
    Window,
)


def narrowed(root: Operator) -> Operator:
    """The same operators, with no more columns and ids than are asked for. Rows without ids are a bag, of which a
    change goes and comes as often as it does."""
    return _narrowed(root, frozenset(root.every))


def _narrowed(node: Operator, asked: AbstractSet[str]) -> Operator:
    if isinstance(node, Group):
        return replace(node, input=_narrowed(node.input, _columns_of(*node.keys, *node.aggregates)))
    if isinstance(node, Scan):
        columns, ids = _some(node, asked)
        kept = (*columns, *ids)
        return replace(node, columns=columns, ids=ids, names={one: node.names[one] for one in kept})
    if isinstance(node, Filter):
        below = _narrowed(node.input, asked | node.condition.columns)
        columns, ids = _some(node, frozenset(below.every))
        return replace(node, columns=columns, ids=ids, input=below)
    if isinstance(node, Project):
        ids = tuple(one for one in node.ids if one in asked)
        needs = _columns_of(*node.values) | (frozenset(ids) - frozenset(node.columns))
        return replace(node, ids=ids, input=_narrowed(node.input, needs))
    if isinstance(node, Join):
        columns, ids = _some(node, asked)
        condition = () if node.condition is None else (node.condition,)
        needs = frozenset((*columns, *ids)) | _columns_of(*node.left_keys, *node.right_keys, *condition)
        left, right = (_narrowed(one, needs) for one in (node.left, node.right))
        return replace(node, columns=columns, ids=ids, left=left, right=right)
    if isinstance(node, Window | Top | Hops | Sessions):
        return replace(node, input=narrowed(node.input))
    if isinstance(node, Union):
        return replace(node, branches=tuple(map(narrowed, node.branches)))
    raise AssertionError(type(node))


def _columns_of(*some: Expression) -> frozenset[str]:
    return frozenset[str]().union(*(one.columns for one in some))


def _some(node: Operator, asked: AbstractSet[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns and the ids that are asked for; rows without any column could not be counted."""
    columns, ids = (tuple(one for one in some if one in asked) for some in (node.columns, node.ids))
    return (columns, ids) if columns or ids else ((), node.ids[:1] or node.columns[:1])
