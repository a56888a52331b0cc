"""SQL over tables at any point in time: sqlglot finds the tables, PyIceberg reads them, DuckDB runs the query.

The query runs in an in-memory DuckDB that holds nothing but views of the tables it names, with file and network access
switched off: it can't reach anything else, whatever it says.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from firn.errors import TerminalError
from firn.staging.cuts import Cut
from firn_lake.moments import AsOf
from firn_lake.recording import OnRead
from firn_lake.rows import Rows
from firn_lake.tables import identifier_text, match_identifier, table_identifiers
from firn_lake.versions import Version, version_at

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_SEALED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
}


_BATCH: Final = 10_000


class QueryError(TerminalError):
    """The query can't be run; the text says where and what to write instead."""


class QueryTooLarge(QueryError):
    """The query takes more time, memory or rows than its limits allow."""


@dataclass(frozen=True)
class Limits:
    """What one query may take; None: as much as there is.

    seconds  of running, reading the tables included
    rows     of the result; one more is an error, not a shorter answer
    memory   of DuckDB, such as "500MB" or "2GB"
    """

    seconds: float | None = None
    rows: int | None = None
    memory: str | None = None


Parameters = Sequence[Any] | Mapping[str, Any] | None
"""Values for `?` (a sequence), or for `$name` (a mapping)."""


def query(
    catalog: "Catalog",
    sql: str,
    as_of: AsOf = None,
    cut: Cut | None = None,
    parameters: Parameters = None,
    limits: Limits = Limits(),
    on_read: OnRead | None = None,
) -> pa.Table:
    """Run one SELECT (DuckDB's dialect) over the catalog's tables and return its result.

    Tables are named `namespace.table` (quote names with spaces, dots or capitals that matter: `shop."Mixed Case"`; a
    nested namespace is one quoted name: `"a.b".t`), or only `table` if one namespace has it. All tables are read
    `as_of` (see `firn_lake.moments.snapshot_at`), or all at `cut`, which is consistent across tables. Times are UTC.
    The tables are streamed through the query: only what it keeps is in memory. `on_read` hears of each table.

    Raises QueryError, QueryTooLarge, TableNotFound, NoSuchMoment, UnreadableFile, StorageUnavailable.
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
        tables: dict[tuple[str, ...], Rows] = {}
        for number, (written, identifier) in enumerate(resolved.items()):
            if identifier not in tables:
                tables[identifier] = _read(version_at(catalog.load_table(identifier), as_of, cut), wanted)
                if on_read is not None:
                    on_read(identifier)
            _register(connection, number, written, tables[identifier])
        _set_memory(connection, limits.memory)
        # Its bar would come out among the rows: it writes to standard output.
        connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false; SET lock_configuration = true")
        try:
            with _stopped_after(connection, limits.seconds):
                reader = connection.sql(sql, params=parameters).to_arrow_reader(_BATCH)
                return _at_most(limits.rows, reader)
        except duckdb.InterruptException as error:
            raise QueryTooLarge(
                f"the query took more than its {limits.seconds:g} seconds: have it read less"
            ) from error
        except (duckdb.Error, pa.ArrowException, TypeError) as error:
            for rows in tables.values():
                if rows.failed is not None:
                    raise rows.failed from error
            raise _as_query_error(error, limits) from error


def _as_query_error(error: Exception, limits: Limits) -> QueryError:
    if isinstance(error, duckdb.OutOfMemoryException):
        most = limits.memory or "what this machine has"
        return QueryTooLarge(f"the query needs more memory than {most}: have it keep fewer rows or columns")
    if isinstance(error, TypeError):
        return QueryError(f"the parameters do not fit: {error}; give a list for ?, or a dict for $name")
    return QueryError(str(error))


def _set_memory(connection: duckdb.DuckDBPyConnection, memory: str | None) -> None:
    if memory is None:
        return
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B", memory, re.IGNORECASE):
        raise QueryError(f"memory {memory!r} is no amount: write such as 500MB or 2GB")
    connection.execute(f"SET memory_limit = '{memory}'")


@contextmanager
def _stopped_after(connection: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    clock = threading.Timer(seconds, connection.interrupt)
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()  # else it might meet a connection that is closed already


def _at_most(rows: int | None, reader: pa.RecordBatchReader) -> pa.Table:
    found: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        count += batch.num_rows
        if rows is not None and count > rows:
            raise QueryTooLarge(f"the result has more than {rows:,} rows: write a LIMIT, or count and sum in the query")
        found.append(batch)
    return pa.Table.from_batches(found, reader.schema)


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


def _read(version: Version, wanted: frozenset[str] | None) -> Rows:
    if wanted is None:
        return Rows(version, version.select(None, metadata=True))
    # count(*) uses no column, but rows.
    used = [name for name in version.columns if name.casefold() in wanted]
    return Rows(version, version.select(used or version.columns[:1], metadata=True))


def _register(connection: duckdb.DuckDBPyConnection, number: int, written: tuple[str, str], data: Rows) -> None:
    source = f"firn_table_{number}"
    connection.register(source, data)
    schema = _quoted(written[0] or "main")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    connection.execute(f"CREATE VIEW {schema}.{_quoted(written[1])} AS FROM {source}")


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
