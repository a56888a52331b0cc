"""JSON values that no encoder would write: members twice, NaN, 1e400. A tree is a JSON value as Python has it, with
`Verbatim` and `Twice` for what Python has no value for."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Tree = Any


class Verbatim(str):
    """JSON text as it is, whether it is JSON or not."""


class Twice(list[tuple[str, Tree]]):
    """An object as its members, any of them several times."""


def text_of(tree: Tree, *, ascii: bool = True) -> str:
    """The tree as JSON. `ascii`: with escapes; half a surrogate pair is always one."""
    if isinstance(tree, Verbatim):
        return str(tree)
    if isinstance(tree, Mapping | Twice):
        members = tree if isinstance(tree, Twice) else tree.items()
        return "{" + ",".join(f"{_string(name, ascii)}:{text_of(one, ascii=ascii)}" for name, one in members) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(text_of(one, ascii=ascii) for one in tree) + "]"
    return _string(tree, ascii) if isinstance(tree, str) else json.dumps(tree)


def _string(text: str, ascii: bool) -> str:
    halves = any("\ud800" <= sign <= "\udfff" for sign in text)
    return json.dumps(text, ensure_ascii=ascii or halves)


def places(tree: Tree, path: tuple[Any, ...] = ()) -> Sequence[tuple[Any, ...]]:
    """The paths to all members of objects and arrays, nested ones too."""
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if type(tree) is list else ()
    return [place for name, one in members for place in ((*path, name), *places(one, (*path, name)))]


def at(tree: Tree, path: Sequence[Any]) -> Tree:
    """What is at a path."""
    for step in path:
        tree = tree[step]
    return tree


def replaced(tree: Tree, path: Sequence[Any], by: Tree) -> Tree:
    """The tree with something else at a path."""
    if not path:
        return by
    at(tree, path[:-1])[path[-1]] = by
    return tree
