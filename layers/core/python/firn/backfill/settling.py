"""The wait before a chunk's snapshot, so that the snapshot shows all that was committed below its position.

A transaction writes its commit into the log first, and becomes visible to others a moment later; with a synchronous
standby that does not answer, hours later. A snapshot opened in between lacks rows that the log, and so the stream, has
below that place. So: ask for the end of the log, then take a number as a writing transaction does, and wait until all
transactions with lower numbers have ended. What a snapshot that is opened after that does not show has a higher number:
all that it wrote is in the log above that place.

The list in pg_current_snapshot() alone is not enough. It leaves out the transactions that run with a number above all
that have ended, such as the only one that runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Server(Protocol):
    """A database server that is asked, each time anew."""

    def log_end(self) -> int:
        """Where its log ends: in PostgreSQL pg_current_wal_insert_lsn()."""

    def next_number(self) -> int:
        """A number above those of all transactions that have written until now, and of none that goes on."""

    def oldest(self) -> int:
        """The lowest number of a transaction that a snapshot opened now would not show, or one above all that it
        would."""


@dataclass(frozen=True)
class Settled:
    """`position`: every snapshot opened from now on shows all that was committed in the log below it."""

    position: int
    waited: int = 0  # looks


def settle(server: Server, pause: Callable[[int, int], None]) -> Settled:
    """Waits until the transactions of now have ended. `pause` is called between two looks with how many there were and
    with the oldest transaction; it may raise to give up."""
    position = server.log_end()
    barrier = server.next_number()
    looks = 0
    while (oldest := server.oldest()) < barrier:
        looks += 1
        pause(looks, oldest)
    return Settled(position, looks)
