"""A logical slot read by plain SQL: no replication connection, no process that has to stay up.

`pg_logical_slot_peek_binary_changes` decodes from the slot's restart_lsn at each call, and gives whole transactions
that were committed in the slot's range; the slot moves by `pg_replication_slot_advance` alone.
https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-REPLICATION
"""

import logging
from collections.abc import Generator
from typing import Any, Final

from firn.config.pull_source import PullSource
from firn.log.pulls import Database
from firn.sources.column_watch import NumberedColumn
from firn.sources.database_port import OpenTransaction, SlotState, SourceBusy, SourceStopped
from firn.sources.postgres.connection import Connection, PostgresBusy, PostgresRefused
from firn.sources.postgres.pgoutput import Relation
from firn.sources.postgres.table_catalog import table_of, without_identity
from firn.sources.postgres.type_catalog import BUILT_IN, LOOK_UP, PgType, TypeCatalog
from firn.sources.postgres.wal2json_lines import EXACT_NUMBERS, OPTIONS, CatalogTable

_log: Final = logging.getLogger(__name__)

FETCH_ROWS: Final = 500
FETCH_BYTES: Final = 8 << 20  # of rows that come together, about
LARGE: Final = 64 << 10  # bytes of a message that comes alone
_LEASE: Final = 0x6669726E  # `firn`: the first half of the advisory lock, the second is the slot's
_ACTIVE: Final = "55006"  # object_in_use

_LOOK: Final = """
SELECT s.plugin, s.slot_type, s.database = current_database(), s.active, s.wal_status, s.safe_wal_size,
       (s.confirmed_flush_lsn - '0/0'::pg_lsn)::bigint, (s.restart_lsn - '0/0'::pg_lsn)::bigint
FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = :slot
"""
_WHO: Final = """
SELECT (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
       ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int,
       (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint
"""
_OLDEST: Final = """
SELECT extract(epoch FROM clock_timestamp() - since)::float8, who FROM (
  SELECT xact_start AS since,
         format('process %s of %s (%s), %s', pid, usename, coalesce(nullif(application_name, ''), 'no name'), state)
         AS who
  FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
  UNION ALL
  SELECT prepared, format('prepared transaction %L of %s', gid, owner) FROM pg_catalog.pg_prepared_xacts
) found WHERE since IS NOT NULL ORDER BY since LIMIT 1
"""
_DECLARE: Final = """
DECLARE firn_changes SCROLL CURSOR FOR
SELECT (lsn - '0/0'::pg_lsn)::bigint, octet_length(data),
       CASE WHEN octet_length(data) <= current_setting('firn.largest')::int THEN data END
FROM """
_COLUMNS: Final = """
SELECT attnum::int, attname::text, atthasmissing FROM pg_catalog.pg_attribute
WHERE attrelid = CAST(:relation AS oid) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_PRIMARY_KEY: Final = """
SELECT a.attname::text FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = CAST(:relation AS oid) AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place
"""


_NAMESAKES: Final = """
SELECT schemaname::text, tablename::text FROM pg_catalog.pg_publication_tables
WHERE pubname = :publication AND schemaname || '.' || tablename = :name
UNION
SELECT n.nspname::text, c.relname::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE :publication = '' AND c.relkind IN ('r', 'p') AND n.nspname || '.' || c.relname = :name ORDER BY 1
"""


class PostgresSlot:
    """The slot of a source, as firn.sources.database_port.SourceDatabase wants it. Holds the lease while it is open."""

    def __init__(self, connection: Connection, source: PullSource) -> None:
        """Raises SourceBusy if another reader has the lease."""
        self._connection, self._source = connection, source
        self._types: dict[int, PgType] = {}
        self._options: dict[str, str] = {}  # of wal2json
        taken = connection.run("SELECT pg_try_advisory_lock(:first, hashtext(:slot))", first=_LEASE, slot=source.slot)
        if not taken[0][0]:
            raise SourceBusy(f"another reader has the lease of slot {source.slot} at {connection.address}")

    def look(self) -> SlotState:
        """As the port says."""
        source, where = self._source, self._connection.address
        if self._connection.run("SELECT pg_is_in_recovery()")[0][0]:
            raise SourceStopped(f"{where} is a replica: write the address of the primary into firn.yaml")
        found = self._connection.run(_LOOK, slot=source.slot)
        if not found:
            raise SourceStopped(
                f"there is no slot {source.slot} at {where}: `firn sources add` creates it. If there was one (a "
                "replica has none of its primary's), changes are lost: see docs/sources/postgres.md, Failover"
            )
        plugin, kind, here, _, wal_status, safe, confirmed, restart = found[0]
        if kind != "logical" or plugin != source.plugin or not here:
            raise SourceStopped(
                f"the slot {source.slot} at {where} is not a logical one of {source.plugin} in this database ({kind}, "
                f"{plugin}): write another name as slot of sources.{source.name} in firn.yaml, or drop it"
            )
        system, timeline, flushed = self._connection.run(_WHO)[0]
        status = wal_status or "reserved"
        if restart is None or confirmed is None:  # invalidated, or not ready yet
            status, restart, confirmed = "lost", 0, 0
        database = Database(str(system), int(timeline), source.slot)
        return SlotState(database, confirmed, restart, flushed, status, None if safe is None else int(safe))

    def peek(self, upto: int, publication: str) -> Generator[tuple[int, bytes], None, None]:
        """As the port says: by a cursor, so many rows at once as fit into FETCH_BYTES; what is larger than LARGE comes
        alone."""
        run = self._connection.run
        if self._source.plugin == "wal2json":
            self._look_at_wal2json()
        run("BEGIN")
        try:
            run(f"SET LOCAL firn.largest = '{LARGE}'")
            # Looked at when a row is fetched: a large message comes when it is fetched again with another limit.
            self._declare(upto, publication)
            count, passed = FETCH_ROWS, 0
            while rows := run(f"FETCH {count} FROM firn_changes"):
                yield from self._whole(rows, passed)
                passed += len(rows)
                most = max(size for _, size, _ in rows)
                count = max(16, min(FETCH_ROWS, FETCH_BYTES // max(1, min(most, LARGE))))
        finally:
            self._end()

    def _look_at_wal2json(self) -> None:
        """What it needs that pgoutput does not. Raises SourceStopped."""
        if not self._options:
            encoding = str(self._connection.run("SHOW server_encoding")[0][0])
            if encoding not in ("UTF8", "SQL_ASCII"):
                raise SourceStopped(
                    f"the database's encoding is {encoding}, and wal2json writes by it: use plugin: pgoutput, "
                    "which sends UTF-8"
                )
            self._options = OPTIONS | ({EXACT_NUMBERS: "true"} if self._has_exact_numbers() else {})

    def _has_exact_numbers(self) -> bool:
        options = f"'format-version', '2', '{EXACT_NUMBERS}', 'true'"
        try:  # nothing is decoded: the options are looked at first
            self._connection.run(
                f"SELECT FROM pg_logical_slot_peek_binary_changes('{self._source.slot}', '0/1', NULL, {options})"
            )
        except PostgresRefused:
            _log.warning("this wal2json is older than 2.6: NaN and Infinity of %s come as null", self._source.name)
            return False
        return True

    def _declare(self, upto: int, publication: str) -> None:
        source = self._source
        # A literal, for DECLARE takes no parameters of its own: the names were checked when firn.yaml was read.
        slot = f"'{source.slot}', '{upto >> 32:X}/{upto & 0xFFFFFFFF:X}', NULL"
        if source.plugin == "wal2json":
            options = ", ".join(f"'{name}', '{value}'" for name, value in self._options.items())
        else:
            publication = publication.replace('"', '""').replace("'", "''")
            options = f"'proto_version', '1', 'publication_names', '\"{publication}\"'"
        sql = _DECLARE + f"pg_logical_slot_peek_binary_changes({slot}, {options})"
        try:
            self._connection.run(sql)
        except PostgresBusy as error:
            if error.sqlstate == _ACTIVE:
                raise SourceBusy(f"the slot {source.slot} is being read by somebody else: {error}") from None
            raise

    def _whole(self, rows: list[list[Any]], passed: int) -> Generator[tuple[int, bytes], None, None]:
        """The rows, with what is large. `passed`: how many came before these."""
        run = self._connection.run
        alone = False
        for place, (lsn, _, data) in enumerate(rows, start=passed + 1):
            if data is not None:
                yield lsn, data
                continue
            run(f"SET LOCAL firn.largest = '{2**31 - 1}'")
            [[_, _, large]] = run(f"FETCH ABSOLUTE {place} FROM firn_changes")
            run(f"SET LOCAL firn.largest = '{LARGE}'")
            alone = True
            yield lsn, large
        if alone:
            run(f"MOVE ABSOLUTE {passed + len(rows)} FROM firn_changes")

    def _end(self) -> None:
        try:
            self._connection.run("ROLLBACK")
        except (PostgresBusy, PostgresRefused):
            self._connection.close()  # the next statement says that it is broken

    def advance(self, upto: int) -> None:
        """As the port says."""
        lsn = f"{upto >> 32:X}/{upto & 0xFFFFFFFF:X}"
        try:
            self._connection.run(
                "SELECT pg_replication_slot_advance(slot_name, CAST(:lsn AS pg_lsn)) FROM pg_replication_slots "
                "WHERE slot_name = :slot AND confirmed_flush_lsn < CAST(:lsn AS pg_lsn)",
                lsn=lsn, slot=self._source.slot,
            )  # fmt: skip
        except PostgresBusy as error:
            if error.sqlstate == _ACTIVE:
                raise SourceBusy(f"the slot {self._source.slot} is being read by somebody else: {error}") from None
            raise

    def types(self, relation: Relation) -> TypeCatalog:
        """As the port says. What was looked up is kept: a type that changed since has another OID."""
        catalog = TypeCatalog(self._types)
        asked: set[int] = set()
        while lacking := catalog.lacking(column.oid for column in relation.columns) - asked:
            asked |= lacking
            for oid, *told in self._connection.run(LOOK_UP, oids=sorted(lacking)):
                if oid not in BUILT_IN:
                    self._types[oid] = PgType(*told)
        return TypeCatalog(dict(self._types))

    def primary_key(self, relation: Relation) -> tuple[str, ...] | None:
        """As the port says."""
        return tuple(name for (name,) in self._connection.run(_PRIMARY_KEY, relation=relation.oid)) or None

    def namesakes(self, relation: Relation, publication: str) -> list[tuple[str, str]]:
        """As the port says."""
        name = f"{relation.schema}.{relation.table}"
        found = self._connection.run(_NAMESAKES, publication=publication, name=name)
        return [(schema, table) for schema, table in found]

    def columns(self, relation: Relation) -> list[NumberedColumn]:
        """As the port says."""
        if self._connection.version < 11:  # a default rewrote the table before, and no change told of it either
            return []
        return [NumberedColumn(*one) for one in self._connection.run(_COLUMNS, relation=relation.oid)]

    def table(self, schema: str, name: str) -> CatalogTable | None:
        """As the port says."""
        return table_of(self._connection, schema, name)

    def without_identity(self) -> list[str]:
        """As the port says."""
        return without_identity(self._connection)

    def oldest_transaction(self) -> OpenTransaction | None:
        """As the port says."""
        for seconds, who in self._connection.run(_OLDEST):
            return OpenTransaction(float(seconds), who)
        return None
