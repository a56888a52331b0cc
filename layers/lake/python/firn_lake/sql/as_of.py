"""`FOR TIMESTAMP AS OF` and `FOR VERSION AS OF` behind the name of a table, as Trino and Spark have them.

DuckDB's SQL has no such clause for tables of ours. It is taken out of the text, and the table named in its place by a
schema that stands for the moment: the rest of the query is left as it is written.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from firn_lake.sql.query_errors import QueryError

EXPLAIN: Final = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+)?", re.IGNORECASE)
"""What stands before the SELECT whose plan is asked for."""

_LOOKS_SO: Final = re.compile(r"\bAS\s+OF\b", re.IGNORECASE)
_BEFORE_A_TABLE: Final = frozenset({"FROM", "JOIN", ",", "("})
_KINDS: Final = frozenset({"VERSION", "TIMESTAMP"})
_WRITE: Final = "write FOR TIMESTAMP AS OF '2026-01-31 12:00', or FOR VERSION AS OF with a snapshot id or a 'tag'"


@dataclass(frozen=True)
class PinnedTable:
    """A table at a moment of its own. `parts`: its name; `moment`: a time, the id of a snapshot, or the name of a
    tag or branch; `clause`: as it was written."""

    parts: tuple[str, ...]
    moment: datetime | int | str
    clause: str


@dataclass(frozen=True)
class Pinned:
    """A query as DuckDB takes it, and the tables with a moment, by the schema that they are under in it."""

    sql: str
    tables: Mapping[str, PinnedTable] = field(default_factory=dict)


def pinned(sql: str) -> Pinned:
    """The query with its moments taken out. Raises QueryError for a clause that says none."""
    if _LOOKS_SO.search(sql) is None:
        return Pinned(sql)
    head = EXPLAIN.match(sql)
    if head is not None:  # to sqlglot all behind it is one token
        found = pinned(sql[head.end() :])
        return Pinned(head[0] + found.sql, found.tables)
    try:
        tokens = DuckDB().tokenize(sql)
    except SqlglotError as error:
        raise QueryError(f"the query can't be read: {error}") from error
    prefix = "firn at"
    while prefix in sql:
        prefix += "_"
    text, end = "", 0
    tables: dict[str, PinnedTable] = {}
    for place, token in enumerate(tokens):
        said = [one.text.upper() for one in tokens[place : place + 4]]
        if len(said) < 4 or said[0] != "FOR" or said[1] not in _KINDS or said[2:] != ["AS", "OF"]:
            continue
        first, parts = _name_before(tokens, place)
        moment, last = _moment(tokens, place + 4, said[1])
        schema = f"{prefix} {len(tables)}"
        tables[schema] = PinnedTable(parts, moment, " ".join(sql[token.start : last.end + 1].split()))
        name = parts[-1].replace('"', '""')
        text += f'{sql[end : first.start]}"{schema}"."{name}"'
        end = last.end + 1
    return Pinned(text + sql[end:], tables)


def _name_before(tokens: Sequence[Token], place: int) -> tuple[Token, tuple[str, ...]]:
    """The first token of the table's name that ends before `place`, and its parts."""
    at = place - 1
    parts: list[str] = []
    while at >= 0:
        parts.insert(0, tokens[at].text)
        if at < 2 or tokens[at - 1].token_type != TokenType.DOT:
            break
        at -= 2
    if at < 1 or tokens[at - 1].text.upper() not in _BEFORE_A_TABLE:
        raise QueryError("FOR … AS OF goes right behind the name of a table, before its alias: FROM t FOR … AS OF … a")
    return tokens[at], tuple(parts)


def _moment(tokens: Sequence[Token], place: int, kind: str) -> tuple[datetime | int | str, Token]:
    """The moment that is written from `place` on, and its last token."""
    typed = place < len(tokens) and tokens[place].text.upper() in ("TIMESTAMP", "TIMESTAMPTZ", "DATE")
    value = tokens[place + typed] if place + typed < len(tokens) else None
    if kind == "VERSION" and value is not None and not typed:
        if value.token_type == TokenType.NUMBER and value.text.isdecimal():
            return int(value.text), value
        if value.token_type == TokenType.STRING:
            return value.text, value
    if kind == "TIMESTAMP" and value is not None and value.token_type == TokenType.STRING:
        try:
            found = datetime.fromisoformat(value.text.strip())
        except ValueError:
            raise QueryError(f"FOR TIMESTAMP AS OF {value.text!r}: that is not a time; {_WRITE}") from None
        return found if found.tzinfo else found.replace(tzinfo=UTC), value
    raise QueryError(f"FOR {kind} AS OF {value.text if value is not None else ''}: {_WRITE}")
