"""SQL over tables at any point in time: sqlglot finds the tables, PyIceberg reads them, DuckDB runs the query.

The query runs in an in-memory DuckDB that holds nothing but views of the tables it names, with file and network access
switched off: it can't reach anything else, whatever it says.
"""

import json
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
from firn_lake.explaining import explained, parameters_fault
from firn_lake.fresh import Fresh
from firn_lake.moments import AsOf
from firn_lake.recording import OnRead
from firn_lake.scanning import TableScan
from firn_lake.tables import identifier_text, match_identifier, table_identifiers
from firn_lake.versions import version_at

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_SEALED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


_BATCH: Final = 10_000

SNAPSHOTS: Final = "firn.snapshots"
"""Metadata of a result's schema: JSON of each table that was read -> the snapshot that it was read at."""


class QueryError(TerminalError):
    """The query can't be run; the text says where and what to write instead."""


class QueryTooLarge(QueryError):
    """The query takes more time, memory or rows than its limits allow."""


@dataclass(frozen=True)
class Limits:
    """What one query may take; None: as much as there is.

    seconds  of running, reading the tables included
    rows     of the result; one more is an error, not a shorter answer
    memory   of DuckDB, and of the result: each so much, such as "500MB" or "2GB"
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
    fresh: Fresh | None = None,
) -> pa.Table:
    """Run one SELECT (DuckDB's dialect) over the catalog's tables and return its result.

    Tables are named `namespace.table` (quote names with spaces, dots or capitals that matter: `shop."Mixed Case"`; a
    nested namespace is one quoted name: `"a.b".t`), or only `table` if one namespace has it. All tables are read
    `as_of` (see `firn_lake.moments.snapshot_at`), or all at `cut`, which is consistent across tables. Times are UTC.
    Of each table the files, columns and rows are read that DuckDB asks for (`firn_lake.scanning`), and streamed through
    the query: only what it keeps is in memory. `on_read` hears of each table. `fresh`: with what waits for the tables,
    instead of `as_of` and `cut`.

    Raises QueryError, QueryTooLarge, TableNotFound, NoSuchMoment, NotFresh, UnreadableFile, StorageUnavailable.
    """
    with duckdb.connect(":memory:", config=_SEALED) as connection:
        _require_one_select(connection, sql, parameters)
        tree = _parse(sql)
        identifiers = table_identifiers(catalog)
        if fresh is not None:
            identifiers = sorted({*identifiers, *fresh.tables()})
        resolved: dict[tuple[str, str], tuple[str, ...]] = {}
        for written in _named_tables(tree):
            resolved[written] = match_identifier(tuple(part for part in written if part), identifiers)
        resolved = _one_spelling_each(resolved)
        tables: dict[tuple[str, ...], TableScan] = {}
        # All are loaded before the first is read: what waits is then as of one moment.
        now = {identifier: fresh.table(identifier) for identifier in resolved.values()} if fresh else {}
        for number, (written, identifier) in enumerate(resolved.items()):
            if identifier in now and identifier not in tables:
                tables[identifier] = TableScan(now[identifier].version, now[identifier].read)
            elif identifier not in tables:
                tables[identifier] = TableScan(version_at(catalog.load_table(identifier), as_of, cut))
                if on_read is not None:
                    on_read(identifier)
            _register(connection, number, written, tables[identifier])
        _set_memory(connection, limits.memory)
        connection.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        try:
            with _stopped_after(connection, limits.seconds):
                reader = connection.sql(sql, params=parameters).to_arrow_reader(_BATCH)
                read = {identifier_text(name): table.snapshot for name, table in tables.items()}
                return _at_most(limits, reader).replace_schema_metadata({SNAPSHOTS: json.dumps(read)})
        except duckdb.InterruptException as error:
            raise QueryTooLarge(
                f"the query took more than its {limits.seconds:g} seconds: have it read less"
            ) from error
        except (duckdb.Error, pa.ArrowException, TypeError) as error:
            for table in tables.values():
                if table.failed is not None:
                    raise table.failed from error
            columns = {identifier_text(name): table.columns for name, table in tables.items()}
            raise _as_query_error(error, limits, columns) from error


def _as_query_error(error: Exception, limits: Limits, tables: Mapping[str, Sequence[str]]) -> QueryError:
    if isinstance(error, duckdb.OutOfMemoryException):
        most = limits.memory or "what this machine has"
        return QueryTooLarge(f"the query needs more memory than {most}: have it keep fewer rows or columns")
    return QueryError(explained(error, tables))


def _set_memory(connection: duckdb.DuckDBPyConnection, memory: str | None) -> None:
    if memory is not None:
        _bytes(memory)
        connection.execute(f"SET memory_limit = '{memory}'")


def _bytes(memory: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT])(i?)B", memory, re.IGNORECASE)
    if found is None:
        raise QueryError(f"memory {memory!r} is no amount: write such as 500MB or 2GB")
    thousand = 1024 if found[3] else 1000
    return float(found[1]) * float(thousand ** (1 + "KMGT".index(found[2].upper())))


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


def _at_most(limits: Limits, reader: pa.RecordBatchReader) -> pa.Table:
    found: list[pa.RecordBatch] = []
    count = size = 0
    most = None if limits.memory is None else _bytes(limits.memory)
    for batch in reader:
        count, size = count + batch.num_rows, size + batch.nbytes
        if limits.rows is not None and count > limits.rows:
            raise QueryTooLarge(
                f"the result has more than {limits.rows:,} rows: write a LIMIT, or count and sum in the query"
            )
        if most is not None and size > most:
            raise QueryTooLarge(f"the result is larger than {limits.memory}: choose fewer rows or columns")
        found.append(batch)
    return pa.Table.from_batches(found, reader.schema)


def _require_one_select(connection: duckdb.DuckDBPyConnection, sql: str, parameters: object) -> None:
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
    if (fault := parameters_fault(statements[0].named_parameters, parameters)) is not None:
        raise QueryError(fault)


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


def _register(connection: duckdb.DuckDBPyConnection, number: int, written: tuple[str, str], data: TableScan) -> None:
    source = f"firn_table_{number}"
    connection.register(source, data)
    schema = _quoted(written[0] or "main")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    connection.execute(f"CREATE VIEW {schema}.{_quoted(written[1])} AS FROM {source}")


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
