"""What a PostgreSQL database says of the tables that are to be read: columns, keys, partitions, sizes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from firn.backfill.postgres_connection import Session
from firn.sources.postgres.type_catalog import LOOK_UP, PgType, TypeCatalog


@dataclass(frozen=True)
class Column:
    """`generated`: whether the stream leaves it out, for it is computed from the others."""

    name: str
    oid: int
    modifier: int
    generated: bool = False


@dataclass(frozen=True)
class Rights:
    """What the user may do with a relation, which is `schema`.`table`. `filtered`: whether row-level security may hide
    rows from it."""

    schema: str
    table: str
    usage: bool
    select: bool
    filtered: bool


@dataclass(frozen=True)
class Relation:
    """What rows are stored in: a table, or one of the partitions of one.

    name     quoted, with its schema
    file     the number of its file: another one means that all rows are at other places
    pages    8 KB each; `rows`: by the server's estimate
    outside  bytes of values that are stored out of line (TOAST), which updates leave out of the stream
    heap     whether its rows have places that a range of can be read
    rights   of the user who looked, None if nobody did
    """

    name: str
    file: str
    pages: int
    rows: int
    outside: int = 0
    heap: bool = True
    rights: Rights | None = None


@dataclass(frozen=True)
class Table:
    """`identity`: PostgreSQL's letter for the replica identity (f: updates tell everything); `key`: its primary key."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    identity: str
    relations: tuple[Relation, ...]

    @property
    def source(self) -> str:
        """The name that the stream knows it by."""
        return f"{self.schema}.{self.name}"

    @property
    def rows(self) -> int:
        """How many there are, by the server's estimate."""
        return sum(one.rows for one in self.relations)


# Tables whose changes logical replication sends: logged ones.
_TABLES: Final = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind = 'p', c.relreplident::text,
       (SELECT coalesce(array_agg(rn.nspname || '.' || r.relname), '{}')
        FROM pg_partition_ancestors(c.oid) a JOIN pg_catalog.pg_class r ON r.oid = a.relid
        JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace WHERE c.relispartition AND r.oid <> c.oid),
       EXISTS (SELECT FROM pg_catalog.pg_depend d
               WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY n.nspname, c.relname
"""
_COLUMNS: Final = """
SELECT a.attname::text, a.atttypid::bigint, a.atttypmod, a.attgenerated <> ''
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = CAST(:oid AS oid) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# Only the columns that make the key (indnkeyatts): an index may INCLUDE more.
_KEY: Final = """
SELECT a.attname::text
FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = CAST(:oid AS oid) AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place
"""
_RELATIONS: Final = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), pg_relation_filenode(c.oid)::text,
       (pg_relation_size(c.oid) + 8191) / 8192, c.reltuples::bigint, c.relpages,
       CASE WHEN c.reltoastrelid = 0 THEN 0 ELSE pg_relation_size(c.reltoastrelid) END,
       coalesce(m.amname = 'heap', true), n.nspname::text, c.relname::text, has_schema_privilege(n.oid, 'USAGE'),
       has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am m ON m.oid = c.relam
WHERE c.relkind = 'r' AND c.oid IN (
  SELECT CAST(:oid AS oid) UNION ALL SELECT relid::oid FROM pg_partition_tree(CAST(:oid AS regclass)) WHERE isleaf)
ORDER BY 1
"""
_PUBLISHED: Final = """
SELECT p.pubname::text, p.schemaname || '.' || p.tablename, to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter'
FROM pg_catalog.pg_publication_tables p ORDER BY p.pubname
"""
_ROWS_PER_PAGE: Final = 60  # of a table that was never analyzed


@dataclass(frozen=True)
class Entry:
    """A table in the database's catalog. `ancestors`: the partitioned tables that it is a partition of; `extension`:
    whether it is one's own; `twice`: whether another table has its name, as "a.b"."c" has that of "a"."b.c"."""

    oid: int
    schema: str
    name: str
    partitioned: bool
    identity: str
    ancestors: tuple[str, ...]
    extension: bool
    twice: bool = False


def entries(session: Session) -> dict[str, Entry]:
    """All tables that a stream could have, by its names for them (`schema.table`). Raises TransientError."""
    found: dict[str, Entry] = {}
    for row in session.rows(_TABLES):
        name = f"{row[1]}.{row[2]}"
        found[name] = Entry(row[0], row[1], row[2], row[3], row[4], tuple(row[5]), row[6], name in found)
    return found


def table_of(session: Session, entry: Entry) -> Table:
    """One of them, with what its rows are stored in. Raises TransientError."""
    columns = tuple(Column(*row) for row in session.rows(_COLUMNS, oid=entry.oid))
    key = tuple(row[0] for row in session.rows(_KEY, oid=entry.oid))
    relations = tuple(_relation(row) for row in session.rows(_RELATIONS, oid=entry.oid))
    return Table(entry.schema, entry.name, columns, key, entry.identity, relations)


@dataclass(frozen=True)
class Published:
    """What a publication has of a table. `columns`: None for all; `rows`: a condition, "" for all (PostgreSQL 15)."""

    columns: frozenset[str] | None
    rows: str


def publications(session: Session) -> dict[str, dict[str, Published]]:
    """The tables of each publication that has some, by the names that it sends them under. Raises TransientError."""
    found: dict[str, dict[str, Published]] = {}
    for name, table, columns, rows in session.rows(_PUBLISHED):
        found.setdefault(name, {})[str(table)] = Published(frozenset(columns) if columns else None, rows or "")
    return found


def _relation(row: Sequence[Any]) -> Relation:
    name, file, pages, tuples, analyzed_pages, outside, heap, *rights = row
    # reltuples is of relpages pages (-1: nobody has counted), and the table may have grown since.
    per_page = tuples / analyzed_pages if analyzed_pages and tuples > 0 else _ROWS_PER_PAGE
    return Relation(
        name, str(file), int(pages), round(per_page * int(pages)), int(outside), bool(heap), Rights(*rights)
    )


def types_of(session: Session, columns: Iterable[Column]) -> TypeCatalog:
    """The types of these columns, with what arrays and domains among them rest on."""
    catalog = TypeCatalog()
    oids = [column.oid for column in columns]
    while lacking := catalog.lacking(oids):
        rows = session.rows(LOOK_UP, oids=sorted(lacking))
        own = {row[0]: PgType(*row[1:]) for row in rows}
        if not own:
            break
        catalog = TypeCatalog({**catalog.own, **own})
    return catalog
