"""What reads the chunks of one kind of source, and what it reads."""

from dataclasses import dataclass
from typing import Protocol

from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Chunk, Plan
from firn.config.model import StreamConfig
from firn_spark.backfill.staged_file import StagedFile


@dataclass(frozen=True)
class Work:
    """What all chunks of a backfill have in common. `config`: the sha of `settings`; `floor`: the first part of their
    positions (firn.backfill.read_position)."""

    request: Request
    plan: Plan
    settings: StreamConfig
    config: str
    floor: int


@dataclass(frozen=True)
class ReadChunk:
    """A chunk's rows. `position`: of its reads, as the source writes it; `waited`: seconds for transactions to end.

    counted   how many rows the source says there are, and their checksum; None: it was not asked
    as_sent   whether row images are what the source sent, so that checksums compare
    """

    file: StagedFile
    position: str
    waited: float = 0.0
    counted: tuple[int, str] | None = None
    as_sent: bool = True


class ChunkReader(Protocol):
    """Reads chunks one after the other."""

    def read(self, chunk: Chunk) -> ReadChunk:
        """All rows of the chunk. Raises TransientError, TerminalError."""

    def close(self) -> None:
        """Lets go of what it has open; it may be asked again."""
