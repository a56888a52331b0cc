"""What DuckDB says of a view's SQL where the types of its columns are known: an argument of a wrong type, a cast that
always fails. It is said of the SQL as written, with the place in it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import duckdb

from firn.config.sql_text import SqlRefused
from firn.errors import TerminalError
from firn_sql.parse_tree import Text, all_nodes
from firn_sql.views.algebra import Plan, Scan, operators, quoted
from firn_sql.views.planner import SourceTable, parsed
from firn_sql.views.stored import stored

_CONFIG: Final[dict[str, Any]] = {
    "threads": "1",
    "enable_external_access": "false",
    "python_enable_replacements": "false",
}
_EXPLAIN: Final = "EXPLAIN "
_INSTEAD: Final = "correct it there: a cast, or another column"


def check_binding(owner: str, sql: str, plan: Plan, tables: Mapping[str, SourceTable]) -> None:
    """Raises SqlRefused for a query of the view `owner` that no job could run. Nothing is said of one that reads
    columns whose types are not known yet. `tables`: by their names in lower case."""
    for one in operators(plan.root):
        if isinstance(one, Scan):
            columns = tables[one.source.lower()].columns
            if not all(columns.get(one.names[name]) for name in one.every):
                return
    known = {
        name: SourceTable({one: kind for one, kind in table.columns.items() if kind}, table.key)
        for name, table in tables.items()
    }
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        try:
            stored(owner, plan, known, connection)
        except TerminalError as error:
            why = str(error).removeprefix(f"view {owner}: ")[:300]
            raise placed(sql, known) or SqlRefused(1, 1, why, _INSTEAD) from error


def placed(sql: str, tables: Mapping[str, SourceTable]) -> SqlRefused | None:
    """What DuckDB says of the SQL as written, and where; None if it says nothing, or nothing of this SQL alone."""
    text = Text(sql.encode())
    if any(node.get("type") == "TABLE_FUNCTION" for node, _ in all_nodes(parsed(sql, text, tables))):
        return None  # windows of time, which DuckDB does not know
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        for name, table in tables.items():
            namespace, _, own = name.rpartition(".")
            columns = ", ".join(f"{quoted(one)} {kind}" for one, kind in table.columns.items())
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(namespace)}")
            connection.execute(f"CREATE TABLE {quoted(namespace)}.{quoted(own)} ({columns})")
        connection.execute("SET errors_as_json = true")
        try:
            connection.execute(_EXPLAIN + sql)
        except duckdb.Error as error:
            return _refusal(str(error), text)
    return None


def _refusal(said: str, text: Text) -> SqlRefused:
    """`said`: DuckDB's error, as JSON where it has more to say than a text."""
    told, at = said, 0
    if "{" in said:
        try:
            found = json.loads(said[said.index("{") :])
            told = f"{found['exception_type']} Error: {found['exception_message']}"
            place = str(found.get("location") or found.get("position") or "").strip("[").partition(",")[0]
            at = int(place) - len(_EXPLAIN) if place.isdecimal() else 0
        except (ValueError, KeyError, TypeError):
            pass
    return text.refuse(max(0, at), f"DuckDB says: {told.partition(chr(10))[0][:300]}", _INSTEAD)
