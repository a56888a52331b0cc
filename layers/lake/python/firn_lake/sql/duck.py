"""One SELECT in DuckDB, over tables that are scanned as it asks.

The query runs in an in-memory DuckDB that holds nothing but views of the tables it names, with file and network access
switched off: it can't reach anything else, whatever it says.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from duckdb.sqltypes import DuckDBPyType
from sqlglot import exp

from firn.changes.metadata_columns import METADATA, STATE, is_own
from firn_lake.reading.progress_bar import switch_off
from firn_lake.sql.as_of import EXPLAIN
from firn_lake.sql.query_errors import (
    NotEncodable,
    QueryError,
    QueryTooLarge,
    explained,
    parameters_fault,
)
from firn_lake.sql.table_scan import TableScan

_SEALED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


_BATCH: Final = 10_000
# What DuckDB hands to Arrow as something else, without a word: -1, its own bytes, a time without its zone.
_NOT_ARROW: Final = frozenset({"uhugeint", "bit", "bignum", "time with time zone"})

SNAPSHOTS: Final = "firn.snapshots"
"""Metadata of a result's schema: JSON of each table that was read -> the snapshot that it was read at."""


NOTES: Final = "firn.notes"
"""The same: a JSON array of what is to be said of tables that were read, such as a view that is of another cut. Only
where there is something."""


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


NO_LIMITS: Final = Limits()

Parameters = Sequence[Any] | Mapping[str, Any] | None
"""Values for `?` (a sequence), or for `$name` (a mapping)."""


@dataclass(frozen=True)
class View:
    """A table as a query names it. `written`: lake, namespace and table, the first two "" where it leaves them out;
    `scans`: what the name means, by lake; more than one are put together, with the lake's name in `_lake`. `clause`:
    the moment that the query gives this table alone."""

    written: tuple[str, str, str]
    scans: Mapping[str, TableScan]
    together: bool = False
    clause: str = ""

    @property
    def read(self) -> dict[str, TableScan]:
        """What is read, by how a result names it."""
        return {
            _name(lake, scan) + (f" {self.clause}" if self.clause else ""): scan for lake, scan in self.scans.items()
        }


@dataclass(frozen=True)
class Result:
    """Rows as they come: `batches` can be read once, while the query is open. The schema's metadata has SNAPSHOTS.
    `tables`: the names of those that are read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    tables: tuple[str, ...] = ()


Views = Callable[[Sequence[tuple[str, ...]]], Sequence[View]]


def run(sql: str, parameters: Parameters, limits: Limits, views: Views, *, all_columns: bool = False) -> pa.Table:
    """The result of one SELECT, whole. As for `running`."""
    with running(sql, parameters, limits, views, all_columns=all_columns) as found:
        return pa.Table.from_batches(list(found.batches), found.schema)


@contextmanager
def running(
    sql: str, parameters: Parameters, limits: Limits, views: Views, *, all_columns: bool = False
) -> Iterator[Result]:
    """The result of one SELECT, or the plan that an EXPLAIN [ANALYZE] of one gives.

    views        gets the names of the tables in it, as they are written, part by part
    all_columns  `*` holds Firn's own `_firn_…` columns too; without, only those that the query names somewhere

    Raises QueryError, QueryTooLarge, NotEncodable, and what the scans and `views` raise; so does reading the rows.
    """
    with duckdb.connect(":memory:", config=_SEALED | _in_memory(limits.memory)) as connection:
        select = _without_explain(sql)
        _require_one_select(connection, select, parameters)
        shown = views(_named_tables(_parse(select)))
        hidden = _none if all_columns else _own_columns_left_out(select)
        for number, view in enumerate(shown):
            _register(connection, number, view, hidden)
        switch_off(connection)
        connection.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        stopped = threading.Event()
        try:
            with _stopped_after(connection, limits.seconds, stopped):
                result = connection.sql(sql, params=parameters)
                _require_arrow(result)
                reader = result.to_arrow_reader(_BATCH)
                read = {name: scan.snapshot for view in shown for name, scan in view.read.items()}
                notes = [scan.note for view in shown for scan in view.scans.values() if scan.note]
                said = {SNAPSHOTS: json.dumps(read), **({NOTES: json.dumps(notes)} if notes else {})}
                schema = reader.schema.with_metadata(said)
                names = tuple(scan.name for view in shown for scan in view.scans.values())
                yield Result(schema, _at_most(limits, reader, schema), tuple(dict.fromkeys(names)))
        except (duckdb.Error, pa.ArrowException, OSError, TypeError) as error:  # Arrow's IOError is OSError
            if stopped.is_set():
                raise QueryTooLarge(
                    f"the query took more than its {limits.seconds:g} seconds: have it read less"
                ) from error
            for scan in (scan for view in shown for scan in view.scans.values()):
                if scan.failed is not None:
                    raise scan.failed from error
            columns = {_name(lake, scan): scan.columns for view in shown for lake, scan in view.scans.items()}
            raise _as_query_error(error, limits, columns) from error


def _name(lake: str, scan: TableScan) -> str:
    return f"{lake}.{scan.name}" if lake else scan.name


def _as_query_error(error: Exception, limits: Limits, tables: Mapping[str, Sequence[str]]) -> QueryError:
    # Once rows are being read, what DuckDB raises comes as Arrow's error, with its text.
    if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory Error" in str(error):
        most = limits.memory or "what this machine has"
        return QueryTooLarge(f"the query needs more memory than {most}: have it keep fewer rows or columns")
    return QueryError(explained(error, tables))


def _in_memory(memory: str | None) -> dict[str, str | bool | int | float | list[str]]:
    if memory is None:
        return {}
    bytes_of(memory)
    # What does not fit is not written to a disk that others need, either.
    return {"memory_limit": memory, "temp_directory": ""}


def bytes_of(memory: str) -> float:
    """An amount of memory such as "500MB" or "2GB". Raises QueryError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT])(i?)B", memory, re.IGNORECASE)
    if found is None:
        raise QueryError(f"memory {memory!r} is not a size; write, for example, 500MB or 2GB")
    thousand = 1024 if found[3] else 1000
    return float(found[1]) * float(thousand ** (1 + "KMGT".index(found[2].upper())))


@contextmanager
def _stopped_after(
    connection: duckdb.DuckDBPyConnection, seconds: float | None, stopped: threading.Event
) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def stop() -> None:
        stopped.set()
        connection.interrupt()

    clock = threading.Timer(seconds, stop)
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()  # else it might meet a connection that is closed already


def _require_arrow(result: duckdb.DuckDBPyRelation) -> None:
    for name, kind in zip(result.columns, result.types, strict=True):
        if not _NOT_ARROW.isdisjoint(_kinds_in(kind)):
            raise NotEncodable(
                f"the column {name!r} is a {kind}, whose values Arrow has no type for: have it as text, with ::VARCHAR"
            )


def _kinds_in(kind: DuckDBPyType) -> Iterator[str]:
    if kind.id in ("list", "array", "struct", "map", "union"):
        for _, child in kind.children:
            if isinstance(child, DuckDBPyType):  # and not an array's size
                yield from _kinds_in(child)
    else:
        yield kind.id


def _at_most(limits: Limits, reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    count = size = 0
    most = None if limits.memory is None else bytes_of(limits.memory)
    for batch in reader:
        count, size = count + batch.num_rows, size + batch.nbytes
        if limits.rows is not None and count > limits.rows:
            raise QueryTooLarge(
                f"the result has more than {limits.rows:,} rows: write a LIMIT, or count and sum in the query"
            )
        if most is not None and size > most:
            raise QueryTooLarge(f"the result is larger than {limits.memory}: choose fewer rows or columns")
        yield batch.replace_schema_metadata(schema.metadata)


def _require_one_select(connection: duckdb.DuckDBPyConnection, sql: str, parameters: object) -> None:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(explained(error, {})) from error
    if len(statements) != 1:
        raise QueryError(f"one statement, please: this text has {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError(
            f"a query only reads: write SELECT …, WITH … SELECT or EXPLAIN SELECT …, not {statements[0].type.name}. "
            "Tables change through their stream alone"
        )
    if (fault := parameters_fault(statements[0].named_parameters, parameters)) is not None:
        raise QueryError(fault)


def _without_explain(sql: str) -> str:
    """The SELECT of an EXPLAIN [ANALYZE]; any other text as it is."""
    found = EXPLAIN.match(sql)
    return sql if found is None else sql[found.end() :]


def _own_columns_left_out(sql: str) -> Callable[[str], bool]:
    """Firn's own columns that the query does not name, so that its `*` leaves them out. None of them where it asks for
    them by a pattern: COLUMNS('_firn_.*')."""
    said = sql.casefold()
    if "_firn_" not in said:
        return is_own
    if not any(name in said for name in METADATA) and re.search(rf"{STATE}[0-9]", said) is None:
        return _none
    return lambda name: is_own(name) and name not in said


def _none(_: str) -> bool:
    return False


def _parse(sql: str) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"can't find the tables of this query: {error}") from error
    except RecursionError as error:
        raise QueryError("the query is too deeply nested: write it flatter, with WITH or with lists") from error
    return tree


def _named_tables(tree: exp.Expr) -> list[tuple[str, ...]]:
    """The parts of the name of each table in the query, without its CTEs; one spelling for each."""
    ctes = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    found: dict[tuple[str, ...], None] = {}
    for node in tree.find_all(exp.Table):
        if not all(isinstance(part, exp.Identifier) for part in node.parts):
            continue  # a table function; those that read files are refused by DuckDB's settings
        parts = tuple(part.name for part in node.parts)
        if len(parts) > 1 or parts[0].casefold() not in ctes:
            found[parts] = None
    return list(found)


def _register(connection: duckdb.DuckDBPyConnection, number: int, view: View, hidden: Callable[[str], bool]) -> None:
    lake, namespace, table = view.written
    if lake:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {_quoted(lake)}")
    schema = f"{_quoted(lake)}." if lake else ""
    schema += _quoted(namespace or "main")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    parts = []
    for place, (name, scan) in enumerate(view.scans.items()):
        source = f"firn_table_{number}_{place}"
        connection.register(source, scan)
        text = name.replace("'", "''")
        lake_of = f"'{text}' AS _lake, " if view.together else ""
        left_out = [column for column in scan.columns if hidden(column)]
        if len(left_out) == len(scan.columns):
            left_out = []
        but = f" EXCLUDE ({', '.join(map(_quoted, left_out))})" if left_out else ""
        parts.append(f"SELECT {lake_of}*{but} FROM {source}")  # noqa: S608
    connection.execute(f"CREATE VIEW {schema}.{_quoted(table)} AS {' UNION ALL BY NAME '.join(parts)}")


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
