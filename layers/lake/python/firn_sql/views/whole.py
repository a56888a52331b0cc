"""A view that is made again each time (`refresh: full`): any one SELECT over tables, as DuckDB answers it."""

from collections.abc import Mapping, Sequence

import duckdb

from firn_sql.check import HIDDEN
from firn_sql.parse_tree import Node, Text, all_nodes, offset, written
from firn_sql.views.algebra import Plan, Query, Scan, quoted, reads_now
from firn_sql.views.no_rows import NoRows
from firn_sql.views.planner import SourceTable, parsed
from firn_sql.views.refresh_port import AFTER, listed
from firn_sql.views.view_check import check_full, check_values


def whole_plan(sql: str, tables: Mapping[str, SourceTable], connection: duckdb.DuckDBPyConnection) -> Plan:
    """The plan of such a view, whose rows are told apart by all that they hold and a number among equal ones.

    tables  by the names that SQL may say, in lower case; they need no key

    Raises SqlRefused, also where DuckDB can't bind it.
    """
    text = Text(sql.encode())
    tree = parsed(sql, text, tables)
    check_values(tree, text)
    check_full(tree, text)
    scans = {name: _scan(name, table, i) for i, (name, table) in enumerate(tables.items())}
    read: dict[str, Scan] = {}
    own = {one["key"].lower() for node, _ in all_nodes(tree) for one in node.get("cte_map", {}).get("map", ())}
    for node, _ in all_nodes(tree):
        if node.get("type") == "BASE_TABLE":
            _point(node, own, scans, read, text)
        elif node.get("class") == "COLUMN_REF" and ".".join(node["column_names"][:2]).lower() in tables:
            node["column_names"] = node["column_names"][1:]
    if not read:
        raise text.refuse(0, "it reads no table", "write SELECT … FROM namespace.table")
    inputs = tuple(read.values())
    query = written(tree)
    names = _bound(query, inputs, NoRows(connection, tables), connection, text)
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen or not name.strip() or name.lower().startswith(HIDDEN):
            raise text.refuse(0, f"it gives two columns {name[:60]!r}, or one of Firn's own", "write AS another name")
        seen.add(name.lower())
    columns = tuple(f"c{i}" for i in range(len(names)))
    made = Query(columns, (*columns, "n"), inputs, tuple(map(_name, inputs)), query, reads_now(tree))
    return Plan(made, tuple(names))


def _bound(
    sql: str, scans: Sequence[Scan], empty: NoRows, connection: duckdb.DuckDBPyConnection, text: Text
) -> Sequence[str]:
    """What a query calls its columns."""
    try:
        for one in scans:
            columns = listed([quoted(name) for name in one.names.values()])
            rows = f"SELECT {columns} FROM ({empty.rows(one.source, AFTER, [], None)})"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {_name(one)} AS {rows}")
        return connection.sql(sql).columns
    except duckdb.Error as error:
        why = str(error).partition("\n")[0][:300]
        raise text.refuse(0, f"DuckDB can't run it: {why}", "correct it there") from error


def _scan(name: str, table: SourceTable, number: int) -> Scan:
    columns = {f"t{number}_{i}": one for i, one in enumerate(table.seen)}
    return Scan(tuple(columns), (), name, columns)


def _name(scan: Scan) -> str:
    return f"_firn_source_{scan.source.encode().hex()}"


def _point(node: Node, own: set[str], scans: Mapping[str, Scan], read: dict[str, Scan], text: Text) -> None:
    """A table that the SQL names, as the one that Refresh gives its rows in."""
    path = node["qualified_name"]["path"]
    name = ".".join(path)
    if len(path) == 1 and path[0].lower() in own and path[0].isidentifier():  # no file is called so
        return
    found = scans.get(name.lower())
    if found is None:
        known = ", ".join(sorted(scans)[:5]) or "no table"
        raise text.refuse(offset(node, 0), f"there is no table {name[:100]!r}", f"write one of {known}")
    read[name.lower()] = found
    node["alias"] = node.get("alias") or path[-1]
    node["qualified_name"] = {"path": [_name(found)]}
