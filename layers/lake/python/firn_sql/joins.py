"""The joins of a pipeline's SQL: tables that its rows are joined with as they are when the rows are committed.

Only what each row alone decides can stand here: inner and left joins by equal columns, with the stream on the left.
Every column is written with its table, so that a column which comes later to one of them changes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from firn_sql.parse_tree import Node, Text, all_nodes, first_place, offset

_WRITE: Final = "write JOIN namespace.table c ON k.column = c.column, or LEFT JOIN, with the stream on the left"
_VIEW: Final = "write a view (views:) for other joins"
_TYPES: Final[Mapping[str, str]] = {
    "RIGHT": "a RIGHT JOIN gives rows that no event made",
    "FULL": "a FULL JOIN gives rows that no event made",
    "SEMI": "a SEMI JOIN is not for pipelines",
    "ANTI": "an ANTI JOIN is not for pipelines",
}


@dataclass(frozen=True)
class Key:
    """`left`: a column of what stands to the left of a join; `column`: that of the table which equals it; `at`: where
    it is written."""

    left: Node
    column: str
    at: int


@dataclass(frozen=True)
class Join:
    """One table that rows are joined with.

    table    its Iceberg name, namespace.table
    alias    what the SQL calls it, in lower case
    keys     the columns that are equal
    columns  those that the SQL names, keys among them, each with where it is first
    """

    table: str
    alias: str
    keys: tuple[Key, ...]
    columns: tuple[tuple[str, int], ...] = ()


def joins_of(tables: Node, known: frozenset[str], text: Text, at: int) -> tuple[Node, tuple[Join, ...]]:
    """What stands leftmost in a FROM, and the joins with it, in their order. `known`: the WITH tables. Raises
    SqlRefused."""
    if tables["type"] != "JOIN":
        return tables, ()
    here = offset(tables, at)
    leaf, before = joins_of(tables["left"], known, text, here)
    right = tables["right"]
    if tables.get("using_columns"):
        raise text.refuse(here, "USING leaves open which table a column is of", _WRITE)
    if tables.get("ref_type") != "REGULAR":
        word = "CROSS" if tables.get("is_implicit") else str(tables.get("ref_type"))
        raise text.refuse(here, f"a {word} JOIN says no columns that are equal", f"{_WRITE}; {_VIEW}")
    if tables["join_type"] not in ("INNER", "LEFT"):
        why = _TYPES.get(tables["join_type"], f"{tables['join_type']} JOIN is not for pipelines")
        raise text.refuse(here, why, f"{_WRITE}; {_VIEW}")
    path: list[str] = right.get("qualified_name", {}).get("path") or []
    if right["type"] != "BASE_TABLE" or len(path) != 2:
        raise text.refuse(offset(right, here), "a pipeline joins tables of Firn alone", _WRITE)
    if right.get("sample") or right.get("at_clause") or right.get("column_name_alias"):
        raise text.refuse(offset(right, here), "a joined table stands alone, with a name for it at most", _WRITE)
    alias = (right.get("alias") or path[-1]).lower()
    left = {_name(leaf), *(one.alias for one in before)}
    if "" in left:
        raise text.refuse(offset(leaf, at), "the SELECT on the left has no name", "write FROM (SELECT …) k JOIN …")
    if alias in left:
        raise text.refuse(offset(right, here), f"two tables are called {alias[:60]!r}", "write another name behind one")
    keys = tuple(_key(one, alias, left, text, here) for one in conditions(tables["condition"]))
    return leaf, (*before, Join(".".join(path), alias, keys))


def _name(leaf: Node) -> str:
    path = leaf.get("qualified_name", {}).get("path") or [""]
    return str(leaf.get("alias") or path[-1]).lower()


def conditions(node: Node) -> Iterator[Node]:
    """What ON says, one by one."""
    if node.get("type") != "CONJUNCTION_AND":
        yield node
        return
    for one in node["children"]:
        yield from conditions(one)


def _key(node: Node, alias: str, left: set[str], text: Text, at: int) -> Key:
    here = first_place(node, at)
    instead = (
        f"write k.column = {alias[:60]}.column, with more of them behind AND; other conditions go into WHERE, "
        f"expressions into FROM (SELECT …) k; {_VIEW}"
    )
    sides = [node.get("left", {}), node.get("right", {})]
    if node.get("type") != "COMPARE_EQUAL" or any(len(one.get("column_names", ())) != 2 for one in sides):
        raise text.refuse(here, "ON takes columns that are equal", instead)
    first, second = (one["column_names"][0].lower() for one in sides)
    if first == alias and second in left:
        sides.reverse()
    elif not (second == alias and first in left):
        raise text.refuse(here, "ON takes a column of the joined table and one to the left of it", instead)
    return Key(sides[0], sides[1]["column_names"][1], offset(sides[1], here))


def with_columns(joins: tuple[Join, ...], leaf: Node, select: Node, text: Text, at: int) -> tuple[Join, ...]:
    """The joins of a SELECT with the columns that it names. Raises SqlRefused for one without its table: of which it is
    would depend on what columns the tables have."""
    found = {one.alias: {key.column.lower(): (key.column, key.at) for key in one.keys} for one in joins}
    source = _name(leaf)
    for one in joins:
        for key in one.keys:
            _note(key.left, found, key.at)
    for root in (*select["select_list"], *filter(None, [select.get("where_clause")])):
        own = {name.lower() for node, _ in all_nodes(root) for name in _of_lambda(node)}
        for node, _ in all_nodes(root):
            here = offset(node, at)
            if node.get("class") == "STAR":
                if node.get("relation_name", "").lower() != source:
                    why = "* beside a join would change with the columns of the joined table"
                    raise text.refuse(here, why, f"write {source}.*, and the columns of the others one by one")
            elif node.get("class") == "COLUMN_REF" and not node.get("firn_now"):
                parts = node["column_names"]
                name = parts[0].lower()
                if name in own:
                    continue
                if len(parts) < 2 or (name != source and name not in found):
                    why = f"{'.'.join(parts)[:60]!r} does not say which table it is of"
                    names = ", ".join(f"{each}.{parts[-1][:60]}" for each in (source, *found))
                    raise text.refuse(here, why, f"write one of {names[:300]}")
                _note(node, found, here)
    return tuple(replace(one, columns=tuple(found[one.alias].values())) for one in joins)


def _note(node: Node, found: Mapping[str, dict[str, tuple[str, int]]], at: int) -> None:
    table, column = node["column_names"][:2]
    if table.lower() in found:
        found[table.lower()].setdefault(column.lower(), (column, offset(node, at)))


def _of_lambda(node: Node) -> Iterator[str]:
    """The names that a lambda gives what it takes."""
    if node.get("class") == "LAMBDA" and node.get("syntax_type") != "SINGLE_ARROW":
        for one, _ in all_nodes(node["lhs"]):
            yield from one.get("column_names", ())[:1]
