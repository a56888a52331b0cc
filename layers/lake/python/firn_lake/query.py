"""SQL over tables at any point in time: sqlglot finds the tables, PyIceberg reads them, DuckDB runs the query.

The query runs in an in-memory DuckDB that holds nothing but views of the tables it names, with file and network access
switched off: it can't reach anything else, whatever it says.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from firn.errors import TerminalError
from firn.staging.cuts import Cut
from firn_lake.moments import snapshot_at, snapshot_in
from firn_lake.recording import OnRead
from firn_lake.tables import identifier_text, match_identifier, table_identifiers

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

AsOf = str | int | datetime | None
_SEALED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
}


class QueryError(TerminalError):
    """The query can't be run; the text says where and what to write instead."""


def query(
    catalog: "Catalog", sql: str, as_of: AsOf = None, cut: Cut | None = None, on_read: OnRead | None = None
) -> pa.Table:
    """Run one SELECT (DuckDB's dialect) over the catalog's tables and return its result.

    Tables are named `namespace.table` (quote names with spaces, dots or capitals that matter: `shop."Mixed Case"`; a
    nested namespace is one quoted name: `"a.b".t`), or only `table` if one namespace has it. All tables are read
    `as_of` (see `firn_lake.moments.snapshot_at`), or all at `cut`, which is consistent across tables. Times are UTC.
    `on_read` hears of each table.

    Raises QueryError, TableNotFound, NoSuchMoment.
    """
    with duckdb.connect(":memory:", config=_SEALED) as connection:
        _require_one_select(connection, sql)
        tree = _parse(sql)
        identifiers = table_identifiers(catalog)
        resolved: dict[tuple[str, str], tuple[str, ...]] = {}
        for written in _named_tables(tree):
            resolved[written] = match_identifier(tuple(part for part in written if part), identifiers)
        resolved = _one_spelling_each(resolved)
        wanted = _identifiers_used(tree)
        tables: dict[tuple[str, ...], pa.Table] = {}
        for number, (written, identifier) in enumerate(resolved.items()):
            if identifier not in tables:
                table = catalog.load_table(identifier)
                snapshot = snapshot_at(table, as_of) if cut is None else snapshot_in(table, cut)
                tables[identifier] = _read(table, snapshot, wanted)
                if on_read is not None:
                    on_read(identifier)
            _register(connection, number, written, tables[identifier])
        connection.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        try:
            return connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(str(error)) from error


def _require_one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    if len(statements) != 1:
        raise QueryError(f"one statement, please: this text has {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError(
            f"firn query only reads: write SELECT … or WITH … SELECT, not {statements[0].type.name}. "
            "Tables change through their stream alone"
        )


def _parse(sql: str) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"can't find the tables of this query: {error}") from error
    return tree


def _named_tables(tree: exp.Expr) -> list[tuple[str, str]]:
    """(namespace or "", table) of each table the query names, without its CTEs; one spelling for each."""
    ctes = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    found: dict[tuple[str, str], None] = {}
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            continue  # a table function; those that read files are refused by DuckDB's settings
        parts = [part.name for part in node.parts]
        if len(parts) > 2:
            nested = ".".join(parts[:-1])
            raise QueryError(f'{".".join(parts)}: write a nested namespace as one quoted name, "{nested}".{parts[-1]}')
        if len(parts) == 1 and parts[0].casefold() in ctes:
            continue
        found[parts[0] if len(parts) == 2 else "", parts[-1]] = None
    return list(found)


def _one_spelling_each(
    resolved: Mapping[tuple[str, str], tuple[str, ...]],
) -> dict[tuple[str, str], tuple[str, ...]]:
    # DuckDB's names know no case: shop.orders and SHOP.Orders in one query are one view.
    kept: dict[tuple[str, str], tuple[tuple[str, str], tuple[str, ...]]] = {}
    for written, identifier in resolved.items():
        folded = (written[0].casefold(), written[1].casefold())
        if kept.setdefault(folded, (written, identifier))[1] != identifier:
            names = f"{identifier_text(kept[folded][1])} and {identifier_text(identifier)}"
            raise QueryError(f"{names} differ only in case, which DuckDB can't tell apart: query one at a time")
    return dict(kept.values())


def _identifiers_used(tree: exp.Expr) -> frozenset[str] | None:
    """Every name in the query, casefolded: a superset of the columns it uses. None: it may use them all."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return None
    if tree.find(exp.Columns, exp.Pivot, exp.Describe, exp.Summarize) or not tree.find(exp.Select):
        return None
    if any(join.args.get("method") for join in tree.find_all(exp.Join)):  # NATURAL, ASOF
        return None
    if any(not select.expressions for select in tree.find_all(exp.Select)):  # FROM t, without a SELECT
        return None
    row_names = {table.alias_or_name.casefold() for table in tree.find_all(exp.Table)}
    if any(not column.table and column.name.casefold() in row_names for column in tree.find_all(exp.Column)):
        return None  # SELECT o FROM orders o: the whole row as one struct
    return frozenset(name.name.casefold() for name in tree.find_all(exp.Identifier))


def _read(table: "Table", snapshot: int | None, wanted: frozenset[str] | None) -> pa.Table:
    scan = table.scan(snapshot_id=snapshot)
    if wanted is None:
        return scan.to_arrow()
    names = [field.name for field in scan.projection().fields]
    used = [name for name in names if name.casefold() in wanted] or names[:1]  # count(*) uses no column, but rows
    return scan.select(*used).to_arrow()


def _register(connection: duckdb.DuckDBPyConnection, number: int, written: tuple[str, str], data: pa.Table) -> None:
    source = f"firn_table_{number}"
    connection.register(source, data)
    schema = _quoted(written[0] or "main")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    connection.execute(f"CREATE VIEW {schema}.{_quoted(written[1])} AS FROM {source}")


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
