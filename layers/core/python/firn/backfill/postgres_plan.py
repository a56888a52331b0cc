"""The plan of a backfill from PostgreSQL: which tables and columns, and the chunks that they are read in."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from firn.backfill import chunking
from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Cell, Chunk, Plan, PlannedTable
from firn.backfill.postgres_cells import cell_of, form_of, quoted
from firn.backfill.postgres_connection import Session, literal, row_of
from firn.backfill.postgres_selection import chosen_tables
from firn.backfill.postgres_tables import Published, Relation, Table, types_of
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import Type
from firn.errors import ConfigError
from firn.log.batches import FORMAT
from firn.sources.postgres.type_catalog import TypeCatalog

PLACES: Final = 140_000  # of server_version_num: ranges of ctid are read without reading the rest
_GENERATED: Final = 180_000  # from here on a publication may send generated columns
_BYTES_PER_PAGE: Final = 8192


@dataclass(frozen=True)
class Into:
    """Where a source table goes. `columns`: types of the table's columns, and of those that firn.yaml declares, by the
    source's names; `keyed`: whether somebody has said its key already."""

    columns: Mapping[str, Type]
    keyed: bool


Target = Callable[[str], Into | None]  # a source table -> where it goes; None: the stream takes no such table


def make_plan(session: Session, request: Request, settings: DecodeSettings, target: Target, now: str) -> Plan:
    """Looks at the tables and cuts them. `now`: RFC 3339.

    Raises ConfigError (a table that is not there, may not be read or that the stream does not take; none at all),
    TerminalError (a column that fits no table), TransientError.
    """
    if session.value("SELECT pg_is_in_recovery()"):
        raise ConfigError(
            "the source is a standby: what its snapshots show can't be placed in the log. Name the primary in --from"
        )
    version = int(session.value("SHOW server_version_num"))
    tables: list[PlannedTable] = []
    chunks: list[Chunk] = []
    goes = functools.cache(target)
    for table, sent in chosen_tables(session, request, goes):
        into = goes(table.source)
        if into is not None:
            chunks += _chunks(session, request, table, len(tables), version, sent.rows)
            tables.append(_planned(table, types_of(session, table.columns), settings, into, sent))
    if not tables:
        raise ConfigError(f"the source has no table that stream {request.stream} takes: see tables: in firn.yaml")
    return Plan(FORMAT, request.id, now, tables, chunks, server_of(session))


def server_of(session: Session) -> str:
    """Which server answers: its system identifier and timeline, which a replica that takes over has another of."""
    return str(
        session.value(
            "SELECT system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) "
            "FROM pg_control_system()"
        )
    )


def _planned(table: Table, types: TypeCatalog, settings: DecodeSettings, into: Into, sent: Published) -> PlannedTable:
    cells: list[Cell] = []
    fields = []
    for column in table.columns:
        if column.generated or (sent.columns is not None and column.name not in sent.columns):
            continue
        existing = into.columns.get(column.name)
        form = form_of(column.name, column.oid, column.modifier, types, settings, existing)
        cells.append(cell_of(column.name, form, column.oid, column.modifier))
        fields.append({**form.field, "field": column.name})
    row = {"type": "struct", "field": "after", "optional": True, "fields": fields}
    schema = {"type": "struct", "name": "firn.backfill.Envelope", "fields": [row]}
    key = [] if into.keyed else list(table.key)
    return PlannedTable(table.source, json.dumps(schema, ensure_ascii=False), cells, key, table.rows)


def _chunks(session: Session, request: Request, table: Table, place: int, version: int, rows: str) -> Iterator[Chunk]:
    """`rows`: a condition of the publication's."""
    asked = _and(f"({rows})" if rows else "", request.where)
    for relation in table.relations:
        toasted = relation.outside > 0 and table.identity != "f"
        places = relation.heap and version >= PLACES
        ways = chunking.Ways(key=bool(table.key), places=places, toasted=toasted)
        size = relation.pages * _BYTES_PER_PAGE + relation.outside
        count = chunking.chunk_count(relation.rows, size, request.chunk_rows, request.chunk_bytes)
        written = _written_from_now(session) if toasted and (count > 1 or request.pulled) else ""
        match chunking.way(request.by, ways):
            case "ctid":
                for first, end in chunking.page_ranges(relation.pages, count):
                    where = f"ctid >= '({first},0)'::tid" + (f" AND ctid < '({end},0)'::tid" if end is not None else "")
                    yield Chunk(place, relation.name, _and(where, asked), relation.file)
            case "key":
                for where in _key_ranges(session, relation, table, count):
                    yield Chunk(place, relation.name, _and(where, asked))
            case "whole":
                yield Chunk(place, relation.name, _and("", asked))
        if written:
            yield Chunk(place, relation.name, _and(written, asked), last=True)


def _written_from_now(session: Session) -> str:
    """A condition: rows whose version was written by a transaction that has not ended. A row that changes its key, or
    its place, while chunks are read may be in none of them, or in one that stands below its change, and the stream does
    not bring its values that are out of line and did not change. So what was written by transactions that are open now,
    or come later, is read again at the end, by one snapshot, above the changes of them that this shows (backfill_job).
    Those that are older have committed below the place of any chunk."""
    xid = session.value("SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text")
    return f"age(xmin) <= age('{xid}'::xid)"


def _and(range_: str, where: str) -> str:
    return " AND ".join([*([range_] if range_ else []), *([f"({where})"] if where else [])])


def _key_ranges(session: Session, relation: Relation, table: Table, count: int) -> Iterator[str]:
    """Conditions on the key that cut the relation into about `count` parts of one size, by a sample of its rows."""
    if count == 1:
        yield ""
        return
    columns = [quoted(name) for name in table.key]
    keys = [f"r.{column}" for column in columns]  # a plain name in ORDER BY would be the text of the output
    share = min(100.0, 100.0 * count * chunking.SAMPLES / max(1, relation.pages))
    taken = min(1.0, 2.0 * count * chunking.SAMPLES / max(1.0, relation.rows * share / 100))
    texts = ", ".join(f"{key}::text" for key in keys)
    sample = session.rows(
        f"SELECT {texts} FROM {relation.name} AS r TABLESAMPLE SYSTEM ({share:.6f}) "  # noqa: S608 (quoted by the server)
        f"WHERE random() < {taken:.9f} ORDER BY {', '.join(keys)}"
    )
    edges = chunking.edges_of([tuple(row) for row in sample], count)
    row = row_of(columns)
    types = _types_of_constants(session, relation, table.key)
    bounds = [row_of([literal(text) + kind for text, kind in zip(edge, types, strict=True)]) for edge in edges]
    lows = [None, *bounds]
    for low, high in zip(lows, [*bounds, None], strict=True):
        parts = [f"{row} >= {low}"] if low else []
        parts += [f"{row} < {high}"] if high else []
        yield " AND ".join(parts)


def _types_of_constants(session: Session, relation: Relation, names: Sequence[str]) -> list[str]:
    """What stands behind a constant that is compared with each column. Without it one of a composite type would be any
    record, and the name of a table a number. But texts are compared by their column's collation, which a type has too.
    """
    rows = session.rows(
        "SELECT a.attname::text, CASE WHEN t.typcollation = 0 THEN '::' || format_type(t.oid, -1) ELSE '' END "
        "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = CAST(:relation AS regclass) AND a.attname = ANY(CAST(:names AS text[]))",
        relation=relation.name, names=list(names),
    )  # fmt: skip
    found = {str(name): str(kind) for name, kind in rows}
    return [found[name] for name in names]


def read_sql(table: PlannedTable, chunk: Chunk) -> str:
    """The query that gives the rows of a chunk as JSON, one text a row; and their keys, where the plan has some."""
    cells = ", ".join(f"{cell.sql} AS {quoted(cell.name)}" for cell in table.cells)
    where = f" WHERE {chunk.where}" if chunk.where else ""
    rows = f"SELECT {cells} FROM ONLY {chunk.relation}{where}"  # noqa: S608 (quoted in the plan)
    if not table.key:
        return f"SELECT row_to_json(r)::text FROM ({rows}) r"  # noqa: S608
    keys = ", ".join(f"{literal(name)}, r.{quoted(name)}" for name in table.key)
    return f"SELECT row_to_json(r)::text, json_build_object({keys})::text FROM ({rows}) r"  # noqa: S608
