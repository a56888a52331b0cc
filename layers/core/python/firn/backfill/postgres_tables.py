"""What a PostgreSQL database says of the tables that are to be read: columns, keys, partitions, sizes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from firn.backfill.postgres_connection import Session
from firn.errors import ConfigError
from firn.sources.postgres.type_catalog import LOOK_UP, PgType, TypeCatalog


@dataclass(frozen=True)
class Column:
    """`generated`: whether the stream leaves it out, for it is computed from the others."""

    name: str
    oid: int
    modifier: int
    generated: bool = False


@dataclass(frozen=True)
class Relation:
    """What rows are stored in: a table, or one of the partitions of one.

    name     quoted, with its schema
    file     the number of its file: another one means that all rows are at other places
    pages    8 KB each; `rows`: by the server's estimate
    outside  bytes of values that are stored out of line (TOAST), which updates leave out of the stream
    heap     whether its rows have places that a range of can be read
    """

    name: str
    file: str
    pages: int
    rows: int
    outside: int = 0
    heap: bool = True


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


# Tables whose changes logical replication sends: logged ones that are no partition themselves and of no extension.
_TABLES: Final = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.relreplident::text,
       has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
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
       coalesce(m.amname = 'heap', true)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am m ON m.oid = c.relam
WHERE c.relkind = 'r' AND c.oid IN (
  SELECT CAST(:oid AS oid) UNION ALL SELECT relid::oid FROM pg_partition_tree(CAST(:oid AS regclass)) WHERE isleaf)
ORDER BY 1
"""
_PUBLISHED: Final = """
SELECT p.schemaname || '.' || p.tablename, to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter'
FROM pg_catalog.pg_publication_tables p WHERE p.pubname = :publication
"""
_ROWS_PER_PAGE: Final = 60  # of a table that was never analyzed


def find_tables(session: Session, wanted: Sequence[str]) -> list[Table]:
    """The tables of these names (`schema.table`), or all that can be read. Raises ConfigError for one that is not there
    or may not be read, TransientError."""
    found: list[Table] = []
    known = {f"{schema}.{name}": row for row in session.rows(_TABLES) for schema, name in [row[1:3]]}
    for source in wanted or known:
        if source not in known:
            near = ", ".join(list(known)[:10]) or "no tables"
            raise ConfigError(f"the source has no table {source} that could be read; it has {near}")
        oid, schema, name, _, identity, readable = known[source]
        if not readable:
            if wanted:
                raise ConfigError(f'the user may not read {source}: GRANT SELECT ON "{schema}"."{name}" TO the user')
            continue
        columns = tuple(Column(*row) for row in session.rows(_COLUMNS, oid=oid))
        key = tuple(row[0] for row in session.rows(_KEY, oid=oid))
        relations = tuple(_relation(row) for row in session.rows(_RELATIONS, oid=oid))
        found.append(Table(schema, name, columns, key, identity, relations))
    return found


@dataclass(frozen=True)
class Published:
    """What a publication has of a table. `columns`: None for all; `rows`: a condition, "" for all (PostgreSQL 15)."""

    columns: frozenset[str] | None
    rows: str


def published(session: Session, publication: str) -> dict[str, Published]:
    """The tables of a publication. Raises ConfigError if it has none."""
    found = {
        str(table): Published(frozenset(columns) if columns else None, rows or "")
        for table, columns, rows in session.rows(_PUBLISHED, publication=publication)
    }
    if not found:
        raise ConfigError(f"the publication {publication} of the source has no tables: see firn sources add")
    return found


def _relation(row: Sequence[Any]) -> Relation:
    name, file, pages, tuples, analyzed_pages, outside, heap = row
    # reltuples is of relpages pages (-1: nobody has counted), and the table may have grown since.
    per_page = tuples / analyzed_pages if analyzed_pages and tuples > 0 else _ROWS_PER_PAGE
    return Relation(name, str(file), int(pages), round(per_page * int(pages)), int(outside), bool(heap))


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
