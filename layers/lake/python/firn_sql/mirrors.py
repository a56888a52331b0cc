"""What the SQL of a mirror must be beside what any SQL must: the key of its base passes through."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from firn_sql.check import Checked
from firn_sql.parse_tree import Node, first_place


def check_mirror(checked: Checked) -> None:
    """Raises SqlRefused if the SQL can't be that of a mirror, whatever its key is."""
    for one in (checked.now, checked.unnest):
        if one is not None:
            raise one


def key_columns(checked: Checked, key: Sequence[str]) -> dict[str, str]:
    """The key of a mirror's base, column by column -> what the target calls it.

    Raises SqlRefused for what a mirror can't have, and for a key column that does not pass through as it is, renamed at
    most. Columns are matched as DuckDB does, without regard to case.
    """
    check_mirror(checked)
    found: dict[str, str] = {}
    outputs = _passed(checked.tree, {})
    for column in key:
        names = [name for name, source in outputs.names if source.lower() == column.lower()]
        if not names and outputs.star and column.lower() not in outputs.excluded:
            names = [column]
        if not names:
            raise checked.text.refuse(
                first_place(checked.tree, 0),
                f"the key column {column} does not pass through unchanged, and without it nobody knows of which row of "
                "the base a row is",
                f"write {column}, or {column} AS another_name, in every SELECT",
            )
        found[column] = names[0]
    return found


@dataclass(frozen=True)
class _Passed:
    """What a SELECT hands on as it is: (its name, the source's name), and if `star` all others but `excluded`."""

    names: tuple[tuple[str, str], ...]
    star: bool
    excluded: frozenset[str]


_SOURCE: Final = _Passed((), True, frozenset())


def _passed(node: Node, outer: Mapping[str, _Passed]) -> _Passed:
    known = dict(outer)
    for one in node["cte_map"]["map"]:
        value = one["value"]
        known[one["key"].lower()] = _passed(value.get("query_node") or value["query"]["node"], known)
    table = node["from_table"]
    name = table.get("alias", "")
    if table["type"] == "SUBQUERY":
        query = table["subquery"]
        inner = _passed(query.get("node", query), known)
    else:
        path = table["qualified_name"]["path"]
        name = name or path[-1]
        inner = known.get(path[0].lower(), _SOURCE) if len(path) == 1 else _SOURCE
    names: list[tuple[str, str]] = []
    excluded = inner.excluded
    has_star = False
    for item in node["select_list"]:
        if item["class"] == "STAR":
            has_star = True
            changed = frozenset(_changed(item))
            excluded |= changed
            names += [(name, source) for name, source in inner.names if name.lower() not in changed]
            for old, new in _renamed(item):
                if (source := _origin({"column_names": [old]}, inner, name)) is not None:
                    names.append((new, source))
        elif item["class"] == "COLUMN_REF" and (source := _origin(item, inner, name)) is not None:
            names.append((item.get("alias") or item["column_names"][-1], source))
    return _Passed(tuple(names), has_star and inner.star, excluded)


def _changed(star: Node) -> Iterator[str]:
    """The columns that a * leaves out, replaces or renames, in lower case."""
    for one in star.get("exclude_list", ()):
        yield (one if isinstance(one, str) else one["column_names"][-1]).lower()
    for key in ("qualified_exclude_list", "replace_list", "rename_list"):
        for one in star.get(key, ()):
            name = one.get("key", one) if isinstance(one, dict) else one
            yield (name["column"] if isinstance(name, dict) and "column" in name else str(name)).lower()


def _renamed(star: Node) -> Iterator[tuple[str, str]]:
    """The columns that a * renames, old name and new."""
    for one in star.get("rename_list", ()):
        yield one["key"]["column"], one["value"]


def _origin(column: Node, inner: _Passed, table: str) -> str | None:
    """The source's name of a column that is handed on; None if it is none, or a field of one. `table`: FROM's."""
    parts = column["column_names"]
    if len(parts) > 2 or (len(parts) == 2 and parts[0].lower() != table.lower()):
        return None
    low = parts[-1].lower()
    for name, source in inner.names:
        if name.lower() == low:
            return source
    return parts[-1] if inner.star and low not in inner.excluded else None
