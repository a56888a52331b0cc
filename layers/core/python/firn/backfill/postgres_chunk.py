"""One chunk of a table in PostgreSQL: read in a transaction of its own, at a position among those of the stream."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from firn.backfill.chunk_plan import Cell, Chunk, Plan, PlannedTable
from firn.backfill.postgres_connection import Session, literal
from firn.backfill.postgres_plan import read_sql, server_of
from firn.backfill.read_position import lsn_of, lsn_text, order_of_read
from firn.backfill.settling import Settled, settle
from firn.changes.decode.source_encodings import DecodeSettings
from firn.errors import TerminalError, TransientError
from firn.sources.postgres.column_forms import Write, column_form
from firn.sources.postgres.type_catalog import TypeCatalog

PATIENCE: Final = 600.0  # seconds for transactions to end, before the chunk is tried again later
LONG: Final = 10.0  # after which a chunk takes the position of an earlier one
_LOOK_EVERY: Final = 0.05
_BETWEEN: Final = "\x02"


class Moved(TerminalError):
    """The table was rewritten since the plan was made: its rows are at other places."""


class ForeignServer(TerminalError):
    """Another server answers than the one that the plan was made of."""


class Log:
    """A PostgreSQL session as settling.Server."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def log_end(self) -> int:
        """The end of the write-ahead log."""
        return lsn_of(self._session.value("SELECT pg_current_wal_insert_lsn()::text"))

    def next_number(self) -> int:
        """An xid of our own. Its transaction has ended when it is known, so that snapshots count those below it."""
        self._session.rows("BEGIN READ WRITE")
        mine = int(self._session.value("SELECT pg_current_xact_id()::text"))
        self._session.rows("ROLLBACK")
        return mine

    def oldest(self) -> int:
        """The xmin of a snapshot: of transactions that have written and have not ended, prepared ones too."""
        return int(self._session.value("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))


@dataclass(frozen=True)
class Opened:
    """A chunk whose snapshot is open. `order`: of its reads, by the place in the log that was `settled`; `at_ms`: when
    it was opened, by the server's clock; `waited`: seconds for transactions; `sql`: gives its rows."""

    order: str
    settled: Settled
    at_ms: int
    waited: float
    sql: str

    @property
    def position(self) -> str:
        """The place in the log, as PostgreSQL writes it."""
        return lsn_text(self.settled.position)


def open_chunk(
    session: Session, plan: Plan, chunk: Chunk, floor: int, before: Settled | None = None, *, pulled: bool = False
) -> Opened:
    """Begins the chunk's transaction, once what runs has ended. `floor`: read_position.floor_of, from before `before`:
    an earlier wait, which holds for this chunk too where a transaction stays open for long. `pulled`: as in
    read_position.order_of_read.

    Raises TransientError (transactions that don't end, a connection that does), Moved, ForeignServer, ForeignStream,
    ConfigError: the session is of no use then.
    """
    began = time.monotonic()
    settled = _settled(session, began, before)
    waited = time.monotonic() - began
    order = order_of_read(floor, settled.position, pulled=pulled)
    session.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # The lock before the snapshot: who rewrites the table (ALTER TABLE, VACUUM FULL) ends before it or begins after the
    # chunk. Rows that were rewritten after a snapshot was opened are in none of its places, or not to be seen by it.
    session.rows(f"LOCK TABLE ONLY {chunk.relation} IN ACCESS SHARE MODE")
    # The first query opens the snapshot, which all that follow see.
    at = clock_of(session)
    check(session, plan, chunk)
    return Opened(order, settled, at, waited, read_sql(plan.tables[chunk.table], chunk))


def clock_of(session: Session) -> int:
    """The server's clock, milliseconds since 1970."""
    return int(session.value("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))


def counted(session: Session, opened: Opened) -> tuple[int, str]:
    """How many rows the chunk has, and their checksum: the sum of 60 bits of each row image's MD5."""
    count, total = session.rows(
        "SELECT count(*), coalesce(sum(('x' || left(md5(line), 15))::bit(60)::bigint), 0)::text "  # noqa: S608
        f"FROM ({opened.sql}) AS texts(line)"
    )[0]
    return int(count), str(total)


class _Long(Exception):
    """A transaction stays open for long, and an earlier wait will do."""

    def __init__(self, before: Settled) -> None:
        super().__init__()
        self.before = before


def _settled(session: Session, began: float, before: Settled | None) -> Settled:
    def pause(looks: int, oldest: int) -> None:
        waited = time.monotonic() - began
        if before is not None and waited > LONG:
            raise _Long(before)
        if waited > PATIENCE:
            raise TransientError(
                f"a transaction that was open {PATIENCE:.0f} s ago has not ended, its xid is {oldest}: look for it in "
                "pg_stat_activity and pg_prepared_xacts, and end it or wait"
            )
        time.sleep(min(1.0, _LOOK_EVERY * looks))

    try:
        return settle(Log(session), pause)
    except _Long as why:
        return why.before


def check(session: Session, plan: Plan, chunk: Chunk) -> None:
    """Raises ForeignServer, and Moved if a chunk of places is no longer where the plan has it."""
    server = server_of(session)
    if server != plan.server:
        raise ForeignServer(
            f"system identifier and timeline are {server}, and {plan.server} in the plan: another server answers. "
            "Begin anew: firn backfill --cancel, then the same command again"
        )
    if not chunk.file:
        return
    file = session.value(f"SELECT pg_relation_filenode({literal(chunk.relation)}::regclass)::text")
    if str(file) != chunk.file:
        raise Moved(
            f"{chunk.relation} was rewritten since the plan was made (VACUUM FULL, CLUSTER, ALTER TABLE): its rows are "
            "at other places, and some would be read twice or never. firn backfill --cancel, then again with --by key"
        )


def checksum(texts: Sequence[str]) -> str:
    """`counted`'s of these row images."""
    digests = (hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for text in texts)
    return str(sum(int(digest[:15], 16) for digest in digests))


class OtherSettings(TerminalError):
    """firn.yaml says otherwise by now how values are written than when the plan was made."""


class RowWriter:
    """The rows of a table as COPY sends them -> (row image, key or None), as the stream has them."""

    def __init__(self, table: PlannedTable, types: TypeCatalog, settings: DecodeSettings) -> None:
        """Raises OtherSettings."""
        planned = _fields(table)
        for cell in table.cells:
            field = column_form(types, cell.oid, cell.modifier, settings).field if cell.convert else {}
            if cell.convert and {**field, "field": cell.name} != planned.get(cell.name):
                raise OtherSettings(
                    "`debezium:` of the stream was changed in firn.yaml since the plan was made, or the type of column "
                    f"{cell.name[:100]} of {table.name}: its values would not fit the rows that are staged. Take the "
                    "change back, or firn backfill --cancel, then the same command again"
                )
        self._keyed = bool(table.key)
        self._writes = {cell.name: _write(cell, types, settings) for cell in table.cells if cell.convert}
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    @property
    def is_plain(self) -> bool:
        """Whether a row image is what COPY sends."""
        return not self._keyed and not self._writes

    def image(self, line: bytes) -> tuple[bytes, bytes | None]:
        """Of one row without the line feed. ValueError if a value is no text of its type."""
        row, _, key = line.partition(_BETWEEN.encode()) if self._keyed else (line, b"", b"")
        if self._writes:
            cells = self._decode(row)
            for name, write in self._writes.items():
                raw = bytes(cells[name])
                if raw != b"null":
                    cells[name] = msgspec.Raw(write(msgspec.json.decode(raw, type=str).encode()))
            row = msgspec.json.encode(cells)
        return row, key if self._keyed else None


def _fields(table: PlannedTable) -> dict[str, Any]:
    """The Connect fields of the plan by the columns' names."""
    root = msgspec.json.decode(table.schema)
    return {field["field"]: field for field in root["fields"][0]["fields"]}


def _write(cell: Cell, types: TypeCatalog, settings: DecodeSettings) -> Write:
    return column_form(types, cell.oid, cell.modifier, settings).write
