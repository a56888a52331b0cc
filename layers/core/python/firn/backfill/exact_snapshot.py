"""A snapshot of PostgreSQL that shows what was committed below one place in its log, and nothing else.

`CREATE_REPLICATION_SLOT … EXPORT_SNAPSHOT` gives both together: the slot would bring the commits from its
`consistent_point` on, and the snapshot shows all others (PostgreSQL's documentation: Streaming Replication Protocol;
Logical Decoding Concepts, Exported Snapshots). The slot is a temporary one: it goes with its connection, unread.

What a chunk that is read last needs it for is in docs/adr/0066-moved-rows.md.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from firn.backfill.chunk_plan import Chunk, Plan
from firn.backfill.postgres_chunk import PATIENCE, Opened, check, clock_of
from firn.backfill.postgres_connection import Session, literal
from firn.backfill.postgres_plan import read_sql
from firn.backfill.read_position import lsn_of, order_of_read
from firn.backfill.settling import Settled
from firn.config.pull_source import PostgresAddress
from firn.errors import ConfigError, TransientError
from firn.sources.postgres.connection import Connection, PostgresBusy, PostgresRefused

_PROGRAM: Final = "firn backfill, snapshot"
_NEEDS: Final = (
    "The last rows of a table with large values are read by a snapshot that a temporary replication slot gives: it "
    "takes a user with REPLICATION (Amazon RDS: rds_replication), one of max_wal_senders and one of "
    "max_replication_slots that is free, and the server itself instead of a pooler"
)
_SLOTS: Final = "SELECT count(*)::int, current_setting('max_replication_slots')::int FROM pg_replication_slots"
_LOCKED: Final = "55P03"  # SQLSTATE lock_not_available
_FULL: Final = ("53", "08")  # no sender or slot is free; a pooler that refuses the protocol


@dataclass(frozen=True)
class Exported:
    """`name`: of the snapshot, for SET TRANSACTION SNAPSHOT; `place`: every commit that begins below it in the log is
    shown, and none from there on."""

    name: str
    place: int


def can_export(address: PostgresAddress, password: str | None) -> None:
    """Raises ConfigError or TransientError, with what to do, where this user can't have such a snapshot now."""
    with _with_advice():
        connection = Connection(address, password, _PROGRAM, replication=True)
        try:
            [[taken, most]] = connection.run(_SLOTS)
        finally:
            connection.close()
    if taken >= most:
        raise TransientError(f"PostgreSQL at {address} has no replication slot free, {most} are taken. {_NEEDS}")


@contextmanager
def exported(address: PostgresAddress, password: str | None) -> Iterator[Exported]:
    """A snapshot that can be taken within. Waits for the transactions that have written by now, 600 s for each at most.

    Raises ConfigError, TransientError.
    """
    with _with_advice():
        connection = Connection(address, password, _PROGRAM, replication=True)
    try:
        with _with_advice():
            connection.run(f"SET lock_timeout = {int(PATIENCE * 1000)}")
            slot = f"firn_backfill_{secrets.token_hex(8)}"
            found = connection.run(f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")[0]
        yield Exported(str(found[2]), lsn_of(str(found[1])))
    finally:
        connection.close()


@contextmanager
def _with_advice() -> Iterator[None]:
    """PostgreSQL's errors within, with what to do."""
    try:
        yield
    except PostgresRefused as error:
        raise ConfigError(f"{error}. {_NEEDS}") from error
    except PostgresBusy as error:
        if error.sqlstate == _LOCKED:
            raise TransientError(
                f"a transaction that was open {PATIENCE:.0f} s ago has not ended: look for the oldest in "
                "pg_stat_activity and pg_prepared_xacts, and end it or wait"
            ) from None
        if error.sqlstate.startswith(_FULL):
            raise TransientError(f"{error}. {_NEEDS}") from error
        raise


def open_exactly(session: Session, plan: Plan, chunk: Chunk, snapshot: Exported, waited: float) -> Opened:
    """Begins the chunk's transaction by that snapshot, which may go afterwards. `waited`: seconds for it.

    Raises as postgres_chunk.open_chunk.
    """
    session.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        session.rows(f"SET TRANSACTION SNAPSHOT {literal(snapshot.name)}")
    except PostgresRefused as error:
        raise TransientError("the snapshot went before it was taken: the connection that made it broke") from error
    session.rows(f"LOCK TABLE ONLY {chunk.relation} IN ACCESS SHARE MODE")
    at = clock_of(session)
    check(session, plan, chunk)
    # The lock comes after the snapshot here, as making one waits for who may wait for the lock. So somebody may have
    # rewritten or emptied the table in between, or given its name to another one: the row of pg_class is the
    # snapshot's, the function's answer today's.
    relation = literal(chunk.relation)
    files = session.rows(
        f"SELECT c.relfilenode::text, pg_relation_filenode({relation}::regclass)::text "  # noqa: S608
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE ARRAY[n.nspname::text, c.relname::text] = parse_ident({relation})"
    )
    if not files or files[0][0] != files[0][1]:
        raise TransientError(
            f"{chunk.relation} was rewritten, emptied or replaced while its snapshot was made: read it again"
        )
    # A commit that begins right at the place is not shown, and beats a read with the same first part.
    order = order_of_read(0, snapshot.place, pulled=True)
    return Opened(order, Settled(snapshot.place), at, waited, read_sql(plan.tables[chunk.table], chunk))
