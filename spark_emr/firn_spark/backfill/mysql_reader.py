"""Chunks out of MySQL or MariaDB, over one session that is opened when it is needed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from firn.auth.secrets import Secrets
from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Chunk
from firn.backfill.mysql_chunk import counted_in_mysql, open_mysql_chunk, read_mysql_rows
from firn.backfill.mysql_connection import Session, session
from firn.backfill.mysql_log import LogPlace
from firn.backfill.source_address import read_address
from firn.sources.postgres.connection import password_of
from firn_spark.backfill.chunk_reader import ReadChunk, Work
from firn_spark.backfill.staged_file import StagedFile

_PROGRAM: Final = "firn backfill"
CONNECTOR: Final = "mysql"  # MariaDB's positions are read alike


@contextmanager
def opened_mysql(request: Request) -> Iterator[tuple[Session, str]]:
    """A session with the source of a request, and its database. Raises ConfigError, TransientError."""
    given = read_address(request.source)
    password = password_of(given.address, request.password, iam=False, secrets=Secrets()) or given.password
    with session(given.address, password, _PROGRAM) as server:
        yield server, given.address.database


class MysqlReader:
    """As chunk_reader.ChunkReader."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._held = ExitStack()
        self._session: Session | None = None
        self._place: LogPlace | None = None

    def read(self, chunk: Chunk) -> ReadChunk:
        """In a transaction of its own."""
        work = self._work
        if self._session is None:
            self._session, _ = self._held.enter_context(opened_mysql(work.request))
        server, table = self._session, work.plan.tables[chunk.table]
        begun = open_mysql_chunk(server, work.plan, work.floor, self._place)
        self._place = begun.place
        file = StagedFile(table.name, table.schema, CONNECTOR, begun.place.order(), begun.at_ms, keyed=bool(table.key))
        counted = counted_in_mysql(server, table, chunk) if work.request.verify else None
        read_mysql_rows(server, table, chunk, file.add)
        server.rows("COMMIT")
        file.flush()
        as_sent = not any(cell.convert for cell in table.cells)
        return ReadChunk(file, str(begun.place), begun.waited, counted, as_sent)

    def close(self) -> None:
        """The session, in whatever state it is."""
        self._held.close()
        self._session = self._place = None
