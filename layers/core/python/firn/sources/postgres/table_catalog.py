"""What wal2json's lines leave out of a table, from PostgreSQL's catalog."""

from typing import Final

from firn.sources.postgres.connection import Connection
from firn.sources.postgres.wal2json_lines import CatalogColumn, CatalogTable

_TABLE: Final = """
WITH RECURSIVE up(oid, parent) AS (
  SELECT c.oid, i.inhparent FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
  WHERE n.nspname = :schema AND c.relname = :name AND c.relkind IN ('r', 'p')
  UNION ALL
  SELECT i.oid, i.parent FROM up
  JOIN LATERAL (SELECT c.oid, h.inhparent AS parent FROM pg_catalog.pg_class c
                LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid AND c.relispartition
                WHERE c.oid = up.parent) i ON true)
SELECT own.oid::bigint, n.nspname::text, root.relname::text, own.relispartition, own.relreplident::text
FROM (SELECT oid FROM up WHERE parent IS NULL) top
JOIN pg_catalog.pg_class root ON root.oid = top.oid
JOIN pg_catalog.pg_namespace n ON n.oid = root.relnamespace
JOIN pg_catalog.pg_class own ON own.oid = (
  SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace m ON m.oid = c.relnamespace
  WHERE m.nspname = :schema AND c.relname = :name)
"""
_COLUMNS: Final = """
SELECT a.attname::text, a.atttypid::bigint, a.atttypmod,
       coalesce(to_jsonb(a) ->> 'attgenerated', '') = '', a.attlen = -1 AND a.attstorage <> 'p',
       coalesce(a.attnum = ANY (i.indkey::int2[]), false)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_catalog.pg_index i ON i.indrelid = a.attrelid
  AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END
WHERE a.attrelid = CAST(:oid AS oid) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# Tables whose updates and deletes wal2json leaves out with a warning in the server's log.
_NO_IDENTITY: Final = """
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND c.relreplident <> 'f' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid
    AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END)
ORDER BY 1
"""


def table_of(connection: Connection, schema: str, name: str) -> CatalogTable | None:
    """The table as it is now; None if it is gone. Raises TransientError, PostgresRefused."""
    found = connection.run(_TABLE, schema=schema, name=name)
    if not found:
        return None
    oid, root_schema, root, partition, identity = found[0]
    columns = tuple(CatalogColumn(*one) for one in connection.run(_COLUMNS, oid=oid))
    return CatalogTable(oid, root_schema, root, partition, identity, columns)


def without_identity(connection: Connection) -> list[str]:
    """`schema.table` of those of which updates and deletes can't be told. Raises TransientError, PostgresRefused."""
    return [name for (name,) in connection.run(_NO_IDENTITY)]
