"""DuckDB's own parse tree of a SQL, as it writes it in JSON: what is checked is what runs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import duckdb

from firn.config.sql_text import SqlRefused

Node = dict[str, Any]
"""A node of the tree: an expression has "class", a query or what stands in FROM "type" alone."""

MAX_DEPTH: Final = 100  # of expressions within each other
_NOWHERE: Final = 2**63
_SETTINGS: Final[Mapping[str, str]] = {
    "threads": "1",
    "memory_limit": "256MB",
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "max_expression_depth": str(MAX_DEPTH),
}


@dataclass(frozen=True)
class Text:
    """A SQL as its nodes count in it: offsets are of its UTF-8 bytes."""

    utf8: bytes

    def refuse(self, offset: int, reason: str, instead: str) -> SqlRefused:
        """An error there."""
        before = self.utf8[: min(offset, len(self.utf8))].decode("utf-8", "replace")
        line = before.count("\n") + 1
        return SqlRefused(line, len(before) - (before.rfind("\n") + 1) + 1, reason, instead)


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
    connection.execute("SET lock_configuration = true")
    return connection


_CORRECT: Final = 'correct it there; a column that is called as a word of SQL is written "at"'


def parse(sql: str) -> Node:
    """The tree of the one query in `sql`. Raises SqlRefused where DuckDB can't read it."""
    text = Text(sql.encode())
    row = _parser().cursor().execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    told = json.loads(row[0] if row else "{}")
    if told.get("error"):
        reason = str(told.get("error_message", "")).partition("\n")[0][:300]
        if "expression depth" in reason or "not implemented" in str(told.get("error_type")):
            raise (
                too_deep(text, 0) if "depth" in reason else text.refuse(0, "this is no query", "write SELECT … FROM …")
            )
        position = str(told.get("position", "0"))
        raise text.refuse(int(position) if position.isdecimal() else 0, f"DuckDB can't read it: {reason}", _CORRECT)
    statements = told["statements"]
    if len(statements) != 1:
        raise text.refuse(0, "there are several statements", "write one of them")
    node: Node = statements[0]["node"]
    return node


def too_deep(text: Text, offset: int) -> SqlRefused:
    """The error for what is nested too deeply."""
    return text.refuse(
        offset,
        f"expressions are nested more than {MAX_DEPTH} deep here",
        "write fewer of them in each other, and x IN (…) for many ORs",
    )


def written(node: Node) -> str:
    """The SQL of a tree, in DuckDB's own words."""
    told = json.dumps({"error": False, "statements": [{"node": node, "named_param_map": []}]})
    row = _parser().cursor().execute("SELECT json_deserialize_sql(?)", [told]).fetchone()
    if row is None:
        raise AssertionError("DuckDB wrote nothing")
    return str(row[0])


def offset(node: Node, otherwise: int) -> int:
    """Where a node stands in the text; `otherwise` if it does not say."""
    place = node.get("query_location", _NOWHERE)
    return int(place) if place < _NOWHERE else otherwise


def below(node: Node) -> Iterator[Node]:
    """The nodes directly below one, in the order of the tree."""
    pending = list(reversed(list(node.values())))
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, dict):
            kind = value.get("type")
            if isinstance(kind, str) and ("class" in value or kind.isupper()):
                yield value
            else:
                pending.extend(reversed(list(value.values())))


def all_nodes(node: Node) -> Iterator[tuple[Node, int]]:
    """A node and all below it, each with its depth from 1."""
    pending = [(node, 1)]
    while pending:
        found, depth = pending.pop()
        yield found, depth
        pending.extend((one, depth + 1) for one in reversed(list(below(found))))


def first_place(node: Node, otherwise: int) -> int:
    """The first place that a node or one below it names."""
    places = [place for one, _ in all_nodes(node) if (place := offset(one, -1)) >= 0]
    return min(places, default=otherwise)
