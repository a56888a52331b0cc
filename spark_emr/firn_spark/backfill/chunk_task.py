"""What an executor does: chunk after chunk, each read by itself, and staged once whatever happens."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from firn.backfill import backfill_request as requests
from firn.backfill import chunk_claims, pace, postgres_chunk
from firn.backfill.chunk_claims import Claim
from firn.errors import TerminalError, TransientError, UnknownOutcome
from firn.log import backlog
from firn.log.batches import FORMAT, BatchMeta
from firn.log.store import Store
from firn_spark.backfill.chunk_reader import ChunkReader, ReadChunk, Work
from firn_spark.backfill.file_reader import FileReader
from firn_spark.backfill.mysql_reader import MysqlReader
from firn_spark.backfill.postgres_reader import PostgresReader
from firn_spark.backfill.staged_file import StagedFile, images_of

_log: Final = logging.getLogger(__name__)

_TRIES: Final = 5
_PAUSE: Final = 2.0  # seconds after a failure, doubled each time
_LOOK_EVERY: Final = 5.0  # seconds between two looks at what waits for its commit


class Cancelled(Exception):
    """Somebody has ended the backfill."""


class NotEqual(TerminalError):
    """What was read of a chunk is not what the source says."""


class ChunkTask:
    """Reads and stages chunks, one after the other."""

    def __init__(self, store: Store, work: Work, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._store, self._work, self._sleep = store, work, sleep
        self._reader: ChunkReader = _reader_of(work)
        self._looked = float("-inf")

    def run(self, chunks: Sequence[int]) -> int:
        """Stages these chunks of the plan, those that are not yet. -> how many it was that did it.

        Raises Cancelled, TerminalError (what no second try helps), TransientError or UnknownOutcome after several.
        """
        try:
            return sum(self._staged(n) for n in chunks)
        finally:
            self._reader.close()

    def _staged(self, n: int) -> bool:
        request, failures = self._work.request, 0
        while True:
            try:
                if chunk_claims.find(self._store, request.stream, request.id, n, self._work.config).staged is not None:
                    return False
                self._wait_for_room()
                self._stage(n)
                return True
            except (TransientError, UnknownOutcome) as error:
                failures += 1
                self._reader.close()
                if failures >= _TRIES:
                    raise
                _log.warning("chunk %d, try %d: %s", n, failures, error)
                self._sleep(_PAUSE * 2**failures)

    def _wait_for_room(self) -> None:
        """Until the commits have caught up, so that the stream's own changes don't wait behind all of the table."""
        request = self._work.request
        while True:
            if requests.ended(self._store, request.stream, request.id) is not None:
                raise Cancelled
            if time.monotonic() < self._looked + _LOOK_EVERY:
                return
            found = backlog.look(self._store, request.stream, datetime.now(UTC))
            if pace.has_room(self._work.settings, found.bytes, found.events):
                self._looked = time.monotonic()
                return
            self._sleep(_LOOK_EVERY)

    def _stage(self, n: int) -> None:
        work, request = self._work, self._work.request
        chunk = work.plan.chunks[n]
        table = work.plan.tables[chunk.table].name
        read = self._reader.read(chunk)
        file = read.file
        checksum = ""
        if request.verify:
            data = file.finished(self._meta(file, table, "", "")) if file.rows else b""
            checksum = _compared(n, table, read, data)

        def body(batch: str, received: str) -> bytes:
            return file.finished(self._meta(file, table, batch, received))

        mine = Claim(FORMAT, "", file.rows, file.raw, read.position, round(read.waited, 3), checksum)
        chunk_claims.stage(
            self._store, request.stream, request.id, n, work.config, lambda: datetime.now(UTC), body, mine
        )

    def _meta(self, file: StagedFile, table: str, batch: str, received: str) -> BatchMeta:
        stream = self._work.request.stream
        raw = file.raw if self._work.settings.rate else 0
        return BatchMeta(
            FORMAT, stream, batch, received, self._work.config, file.rows, 0, {}, {table: file.rows}, json=raw
        )


def _reader_of(work: Work) -> ChunkReader:
    if work.request.is_mysql:
        return MysqlReader(work)
    return PostgresReader(work) if work.request.is_database else FileReader(work)


def _compared(n: int, table: str, read: ReadChunk, data: bytes) -> str:
    """The checksum of the chunk, which what the source said and what is to be staged have in common. Where values are
    written here and not by the source, only the rows are counted. Raises NotEqual."""
    told = read.counted or (read.file.rows, "")
    texts = images_of(data) if data and read.as_sent else []
    found = read.file.rows, postgres_chunk.checksum(texts) if read.as_sent else told[1]
    if found != told:
        raise NotEqual(
            f"chunk {n} of {table}: the source counts {told[0]:,} rows with the checksum {told[1]}, and {found[0]:,} "
            f"with {found[1]} were read: nothing of it is staged. Is something between Firn and the source?"
        )
    return found[1] or "rows"
