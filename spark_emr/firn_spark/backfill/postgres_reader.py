"""Chunks out of PostgreSQL, over one session that is opened when it is needed."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from firn.auth.secrets import Secrets
from firn.backfill import postgres_chunk
from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Chunk
from firn.backfill.exact_snapshot import exported, open_exactly
from firn.backfill.postgres_chunk import Opened, RowWriter, open_chunk
from firn.backfill.postgres_connection import Session, session
from firn.backfill.postgres_tables import Column, types_of
from firn.backfill.settling import Settled
from firn.backfill.source_address import read_address
from firn.config.pull_source import PostgresAddress
from firn.sources.postgres.connection import password_of
from firn_spark.backfill.chunk_reader import ReadChunk, Work
from firn_spark.backfill.staged_file import StagedFile

_PROGRAM: Final = "firn backfill"


@contextmanager
def opened(request: Request) -> Iterator[Session]:
    """A session with the source of a request. Raises ConfigError, TransientError."""
    with session(*login_of(request), _PROGRAM) as server:
        yield server


def login_of(request: Request) -> tuple[PostgresAddress, str | None]:
    """The source of a request, and the password for it. Raises ConfigError, TransientError."""
    given = read_address(request.source)
    password = password_of(given.address, request.password, iam=request.iam, secrets=Secrets()) or given.password
    return given.address, password


class PostgresReader:
    """As chunk_reader.ChunkReader."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._held = ExitStack()
        self._session: Session | None = None
        self._writers: dict[int, RowWriter] = {}
        self._settled: Settled | None = None

    def read(self, chunk: Chunk) -> ReadChunk:
        """In a transaction of its own."""
        work, server = self._work, self._open()
        table = work.plan.tables[chunk.table]
        writer = self._writer(chunk.table)
        opened = self._opened(server, chunk)
        keyed = bool(table.key)
        file = StagedFile(table.name, table.schema, "postgresql", opened.order, opened.at_ms, keyed=keyed)
        counted = postgres_chunk.counted(server, opened) if work.request.verify else None
        add, image = file.add, writer.image
        if writer.is_plain:
            server.copy(opened.sql, lambda line: add(line[:-1]))
        else:
            server.copy(opened.sql, lambda line: add(*image(line[:-1])))
        server.rows("COMMIT")
        file.flush()
        return ReadChunk(file, opened.position, opened.waited, counted, writer.is_plain)

    def _opened(self, server: Session, chunk: Chunk) -> Opened:
        work = self._work
        if chunk.last and work.request.pulled:
            began = time.monotonic()
            with exported(*login_of(work.request)) as snapshot:
                return open_exactly(server, work.plan, chunk, snapshot, time.monotonic() - began)
        opened = open_chunk(server, work.plan, chunk, work.floor, self._settled, pulled=work.request.pulled)
        self._settled = opened.settled
        return opened

    def close(self) -> None:
        """The session, in whatever state it is."""
        self._held.close()
        self._session = self._settled = None

    def _open(self) -> Session:
        if self._session is None:
            self._session = self._held.enter_context(opened(self._work.request))
        return self._session

    def _writer(self, place: int) -> RowWriter:
        if place not in self._writers:
            table = self._work.plan.tables[place]
            columns = [Column(cell.name, cell.oid, cell.modifier) for cell in table.cells if cell.convert]
            types = types_of(self._open(), columns)
            self._writers[place] = RowWriter(table, types, self._work.settings.settings)
        return self._writers[place]
