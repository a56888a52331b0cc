"""What `firn sources add` asks a PostgreSQL: through the catalogs alone, nothing of the rows is read."""

from typing import Final

from firn.sources.postgres.connection import Connection
from firn_cli.source_checks import Publication, PublishedTable, Slot, Survey

_SERVER: Final = """
SELECT current_setting('wal_level'), pg_is_in_recovery(), current_user::text,
       (SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
         OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = 'rds_replication'
                    AND pg_has_role(current_user, r.oid, 'MEMBER')),
       current_setting('max_replication_slots')::int - (SELECT count(*)::int FROM pg_catalog.pg_replication_slots),
       (SELECT CASE WHEN setting::bigint < 0 THEN -1 ELSE setting::bigint * 1048576 END
        FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size')
"""
_PUBLICATION: Final = """
SELECT concat(CASE WHEN pubinsert THEN 'i' END, CASE WHEN pubupdate THEN 'u' END, CASE WHEN pubdelete THEN 'd' END,
              CASE WHEN (to_jsonb(p) ->> 'pubtruncate')::bool THEN 't' END),
       coalesce((to_jsonb(p) ->> 'pubviaroot')::bool, false)
FROM pg_catalog.pg_publication p WHERE pubname = :name
"""
_SLOT: Final = """
SELECT plugin::text, database = current_database(), coalesce(to_jsonb(s) ->> 'wal_status', 'reserved')
FROM pg_catalog.pg_replication_slots s WHERE slot_name = :name
"""
# Ordinary and partitioned tables that are logged and are no partition themselves, of nobody's extension.
_TABLES: Final = """
SELECT n.nspname::text, c.relname::text, c.relreplident::text, c.relkind = 'p',
       coalesce((SELECT array_agg(a.attname::text ORDER BY k.place)
                 FROM pg_catalog.pg_index i
                 CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                 WHERE i.indrelid = c.oid AND k.place <= i.indnkeyatts
                   AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END), '{}'),
       coalesce((SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                   AND coalesce(to_jsonb(a) ->> 'attgenerated', '') <> ''), '{}'),
       EXISTS (SELECT FROM pg_catalog.pg_publication_tables t
               LEFT JOIN pg_catalog.pg_inherits h ON h.inhparent = c.oid
               LEFT JOIN pg_catalog.pg_class child ON child.oid = h.inhrelid
               WHERE t.pubname = :publication AND t.schemaname = n.nspname
                 AND t.tablename IN (c.relname, child.relname))
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1, 2
"""


def survey(connection: Connection, slot: str, publication: str, wanted: frozenset[str] = frozenset()) -> Survey:
    """What the database says. `wanted`: the tables (`schema.table`) to look at; none: all of them, or those of the
    publication where it is there. Raises PostgresRefused, PostgresBusy."""
    level, replica, user, may, free, keep = connection.run(_SERVER)[0]
    told = connection.run(_PUBLICATION, name=publication)
    there = connection.run(_SLOT, name=slot)
    tables = tuple(
        PublishedTable(schema, name, identity, tuple(key), tuple(generated), partitioned, published)
        for schema, name, identity, partitioned, key, generated, published in connection.run(
            _TABLES, publication=publication
        )
        if (f"{schema}.{name}" in wanted if wanted else published or not told)
    )
    return Survey(
        version=connection.version,
        wal_level=level,
        replica=replica,
        may_replicate=bool(may),
        user=user,
        slots_free=free,
        keep_bytes=-1 if keep is None else keep,
        publication=Publication(told[0][1], told[0][0]) if told else None,
        slot=Slot(there[0][0] or "no plugin", bool(there[0][1]), there[0][2]) if there else None,
        tables=tables,
    )
