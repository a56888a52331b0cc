"""The plan of a backfill from MySQL or MariaDB: which tables and columns, and the ranges of keys to read."""

from collections.abc import Iterator, Sequence
from typing import Final

from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Cell, Chunk, Plan, PlannedTable
from firn.backfill.chunking import MOST_CHUNKS
from firn.backfill.mysql_cells import MysqlColumn, connect_schema, mysql_form, row_json
from firn.backfill.mysql_connection import Session, quoted
from firn.backfill.mysql_log import log_position, server_name
from firn.backfill.mysql_tables import MysqlTable, find_mysql_tables
from firn.backfill.postgres_plan import Target
from firn.changes.decode.source_encodings import DecodeSettings
from firn.errors import ConfigError
from firn.log.batches import FORMAT

_FEWEST_ROWS: Final = 100  # of a chunk, however large its rows are
# enum and set are not here: an index has them by their numbers, and with a number they compare so.
_TEXTUAL: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BINARY: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def make_mysql_plan(
    session: Session, database: str, request: Request, settings: DecodeSettings, target: Target, now: str
) -> Plan:
    """Looks at the tables and cuts them. `database`: the one of the address; `now`: RFC 3339.

    Raises ConfigError (a table that is not there, may not be read or that the stream does not take; none at all),
    TerminalError (a column that fits no table), TransientError.
    """
    if request.by == "ctid":
        raise ConfigError("--by ctid is PostgreSQL's: tables of MySQL and MariaDB are cut by their keys")
    position = log_position(session)
    tables: list[PlannedTable] = []
    chunks: list[Chunk] = []
    for table in find_mysql_tables(session, database, request.tables):
        into = target(table.source)
        if into is None:
            if request.tables:
                raise ConfigError(f"no rule of stream {request.stream} takes {table.source}: see tables: in firn.yaml")
            continue
        forms = {one.name: mysql_form(one, settings, into.columns.get(one.name)) for one in table.columns}
        cells = [Cell(name, form.sql.replace("{}", quoted(name)), convert=form.convert) for name, form in forms.items()]
        schema = connect_schema({name: form.field for name, form in forms.items()})
        chunks += _chunks(session, request, table, len(tables))
        tables.append(PlannedTable(table.source, schema, cells, [] if into.keyed else list(table.key), table.rows))
    if not tables:
        raise ConfigError(f"{database} has no table that stream {request.stream} takes: see tables: in firn.yaml")
    return Plan(FORMAT, request.id, now, tables, chunks, server_name(session), str(position))


def _chunks(session: Session, request: Request, table: MysqlTable, place: int) -> Iterator[Chunk]:
    relation = f"{quoted(table.database)}.{quoted(table.name)}"
    rows = max(_FEWEST_ROWS, min(request.chunk_rows, request.chunk_bytes // max(1, table.row_bytes)))
    asked = f"({request.where})" if request.where else ""
    low: tuple[str, ...] = ()
    for _ in range(MOST_CHUNKS):
        high = _after(session, relation, table, low, rows)
        bounds = [_at_or_above(table.key, low)] if low else []
        bounds += [_below(table.key, high)] if high else []
        yield Chunk(place, relation, " AND ".join([*bounds, *([asked] if asked else [])]))
        if not high:
            return
        low = high
    raise ConfigError(f"{table.source} makes more than {MOST_CHUNKS:,} chunks: give a larger --chunk-rows")


def _after(session: Session, relation: str, table: MysqlTable, low: Sequence[str], rows: int) -> tuple[str, ...]:
    """The key that so many rows lie below, from `low` on, as SQL literals; () if there are not so many."""
    if not table.key:
        return ()
    kinds = {column.name: column for column in table.columns}
    columns = ", ".join(quoted(name) for name in table.key)
    texts = ", ".join(_literal_of(kinds[name]) for name in table.key)
    where = f"WHERE {_at_or_above(table.key, low)} " if low else ""
    found = session.rows(
        f"SELECT {texts} FROM {relation} {where}ORDER BY {columns} LIMIT 1 OFFSET {rows}"  # noqa: S608 (quoted)
    )
    return tuple(str(text) for text in found[0]) if found else ()


def _literal_of(column: MysqlColumn) -> str:
    """The SQL that writes a column's value as a literal of SQL."""
    name, kind = quoted(column.name), column.kind.partition("(")[0].split()[0].lower()
    if kind in _TEXTUAL:
        return f"CONCAT('_utf8mb4 X''', HEX(CONVERT({name} USING utf8mb4)), '''')"
    if kind in _BINARY:
        return f"CONCAT('X''', HEX({name}), '''')"
    if kind == "bit":
        return f"CAST({name} + 0 AS CHAR)"
    if kind in ("float", "double", "real"):
        return f"CAST(CAST({name} AS DOUBLE) AS CHAR)"
    return f"CONCAT('''', {name}, '''')" if kind in _QUOTED else f"CAST({name} + 0 AS CHAR)"


_QUOTED: Final = ("date", "datetime", "timestamp", "time", "inet4", "inet6")


def _at_or_above(key: Sequence[str], low: Sequence[str]) -> str:
    """A condition that an index on the key answers: comparisons of whole rows do not use it."""
    first, value = quoted(key[0]), low[0]
    if len(key) == 1:
        return f"{first} >= {value}"
    return f"({first} > {value} OR ({first} = {value} AND {_at_or_above(key[1:], low[1:])}))"


def _below(key: Sequence[str], high: Sequence[str]) -> str:
    """What `_at_or_above` leaves out."""
    first, value = quoted(key[0]), high[0]
    if len(key) == 1:
        return f"{first} < {value}"
    return f"({first} < {value} OR ({first} = {value} AND {_below(key[1:], high[1:])}))"


def read_mysql_sql(table: PlannedTable, chunk: Chunk) -> str:
    """The query that gives the rows of a chunk as JSON in bytes; and their keys, where the plan has some."""
    cells = {cell.name: cell.sql for cell in table.cells}
    images = row_json(cells)
    if table.key:
        images += ", " + row_json({name: cells[name] for name in table.key})
    where = f" WHERE {chunk.where}" if chunk.where else ""
    return f"SELECT {images} FROM {chunk.relation}{where}"  # noqa: S608 (quoted in the plan)


def count_mysql_sql(table: PlannedTable, chunk: Chunk) -> str:
    """The query that gives how many rows the chunk has, and their checksum: the sum of 60 bits of each image's MD5."""
    image = row_json({cell.name: cell.sql for cell in table.cells})
    where = f" WHERE {chunk.where}" if chunk.where else ""
    digits = f"CAST(CONV(LEFT(MD5({image}), 15), 16, 10) AS UNSIGNED)"
    return f"SELECT COUNT(*), CAST(COALESCE(SUM({digits}), 0) AS CHAR) FROM {chunk.relation}{where}"  # noqa: S608
