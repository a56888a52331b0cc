"""The whole check of a view's SQL where people write it: before there is a table whose columns could be asked for."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from firn.changes.metadata_columns import IDENTITY
from firn.config.names import TableName
from firn.config.sql_clock import reads_clock
from firn.config.sql_text import SqlRefused
from firn_sql import allowed
from firn_sql.check import HIDDEN
from firn_sql.parse_tree import Node, Text, all_nodes, first_place, offset
from firn_sql.views import functions
from firn_sql.views.algebra import is_now, reads_now
from firn_sql.views.binding import check_binding
from firn_sql.views.planner import SourceTable, Undecided, parsed, plan
from firn_sql.views.scope import Perhaps
from firn_sql.views.time_windows import NAMES, table_of

UNKNOWN: Final = SourceTable({}, (IDENTITY,), open=True)
"""A table of which nothing is known."""
_EITHER_WAY: Final = ("there is no ", "it gives two columns", "a column is neither ", "names that begin with ")
"""What is no better where all of a view is made again."""
_FULL: Final = allowed.FUNCTIONS | allowed.AGGREGATES | functions.AGGREGATES


def check_view(
    name: str, sql: str, sources: Collection[TableName], tables: Mapping[str, SourceTable], *, full: bool
) -> SourceTable:
    """What other views may know of one that has this SQL. Raises SqlRefused.

    sources  the tables that firn.config.sql_text.tables_in found in it
    tables   what is known of them, by their names in lower case
    full     whether all of it is made again each time
    """
    text = Text(sql.encode())
    tree = parsed(sql, text, {})
    if reads_now(tree) and not reads_clock(sql):
        raise text.refuse(0, "it asks for the time in a way that dispatch does not see", "write now()")
    _check_tables(tree, sources, text)
    check_values(tree, text)
    if full:
        check_full(tree, text)
        return UNKNOWN
    known = {str(one).lower(): tables.get(str(one).lower(), UNKNOWN) for one in sources}
    try:
        found = plan(sql, known)
    except Undecided:
        return UNKNOWN
    except SqlRefused as refused:
        if refused.reason.startswith(_EITHER_WAY) or not _may_be_full(tree, text):
            raise
        instead = f"{refused.instead}, or refresh: full beside the SQL"
        raise SqlRefused(refused.line, refused.column, refused.reason, instead) from None
    check_binding(name, sql, found, known)
    sure = {one: "" for one in found.names if not isinstance(one, Perhaps)}
    return SourceTable(sure, (IDENTITY,), open=len(sure) < len(found.names))


def check_full(tree: Node, text: Text) -> None:
    """Raises SqlRefused for what no view may have, though all of it is made again each time."""
    for node, _ in all_nodes(tree):
        here = first_place(node, 0)
        name = str(node.get("function_name") or "")
        low = name if name in _FULL else name.lower()
        if "RECURSIVE" in str(node.get("type")):
            raise text.refuse(here, "a recursive WITH may never end", "write WITH without RECURSIVE")
        if node.get("sample") or node.get("at_clause"):
            raise text.refuse(here, "a part or an earlier state of a table is not kept", "write the table alone")
        if node.get("type") == "SHOW_REF":
            raise text.refuse(here, "this tells of tables, not of rows", "write SELECT … FROM and a table")
        if node.get("type") == "TABLE_FUNCTION" and node["function"]["function_name"].lower() in NAMES:
            raise text.refuse(here, "windows of time are kept by what changed alone", "leave out refresh: full")
        if node.get("class") in ("FUNCTION", "WINDOW") and low and low not in _FULL and not is_now(node):
            raise text.refuse(here, *allowed.refusal_in_view(low))
        for one in (*node.get("column_names", ()), node.get("alias") or ""):
            if one.lower().startswith(HIDDEN):
                raise text.refuse(here, f"names that begin with {HIDDEN} are Firn's own", "write another name")


def _may_be_full(tree: Node, text: Text) -> bool:
    try:
        check_full(tree, text)
    except SqlRefused:
        return False
    return True


def _check_tables(tree: Node, sources: Collection[TableName], text: Text) -> None:
    """Ingest and dispatch go by the names that the text shows: they must be those that are read."""
    unseen = dict.fromkeys(one.identifier for one in sources)
    known = {one.identifier for one in sources}
    for node, path in _tables(tree):
        if path not in known:
            why = f"it reads {'.'.join(path)[:100]!r}, which does not stand right after FROM, JOIN or a comma there"
            instead = "write SELECT … FROM namespace.table, without brackets around tables"
            raise text.refuse(offset(node, 0), why, instead)
        unseen.pop(path, None)
    for one in unseen:
        why = f"{'.'.join(one)[:100]!r} stands where a table's name could, and is none"
        raise text.refuse(0, why, "write it in brackets or quotes, or write the query in another way")


def _tables(tree: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """The tables that DuckDB reads."""
    own = {one["key"].lower() for node, _ in all_nodes(tree) for one in node.get("cte_map", {}).get("map", ())}
    for node, _ in all_nodes(tree):
        if node.get("type") == "BASE_TABLE":
            path = tuple(node["qualified_name"]["path"])
        elif not (path := table_of(node)):
            continue
        if len(path) != 1 or path[0].lower() not in own:
            yield node, path


def check_values(tree: Node, text: Text) -> None:
    """Raises SqlRefused for `current_date` and its like: columns to the tree, and values to whoever wrote them."""
    for node, _ in all_nodes(tree):
        path = node.get("column_names", ())
        at = offset(node, 0)
        is_value = len(path) == 1 and path[0].lower() in (allowed.VALUES | allowed.NOW)
        if is_value and node.get("class") == "COLUMN_REF" and text.utf8[at : at + 1] != b'"':
            raise text.refuse(at, *allowed.refusal_in_view(path[0].lower()))
