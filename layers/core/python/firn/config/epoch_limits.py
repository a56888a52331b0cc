"""How much goes into one epoch. Pure.

An epoch is the least that a job works on: a range that kills its jobs is narrowed to its first one, so its size bounds
what a job needs. A backlog is taken in larger epochs, up to GROWTH times the cap: the fixed costs are the same whatever
an epoch holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

GROWTH: Final = 8


@dataclass(frozen=True)
class Caps:
    """`bytes` (staged) and `events` that an epoch holds at most; a batch that is larger by itself goes alone."""

    bytes: int = 256_000_000
    events: int = 5_000_000

    def grown(self, waiting_bytes: int, waiting_events: int) -> "Caps":
        """The caps while so much waits: doubled as long as an epoch of twice the size would still be full."""
        factor = 1
        while factor < GROWTH and (
            2 * factor * self.bytes <= waiting_bytes or 2 * factor * self.events <= waiting_events
        ):
            factor *= 2
        return Caps(self.bytes * factor, self.events * factor)

    def fitting(self, batches: Iterable[tuple[int, int]]) -> int:
        """How many of the batches, each (bytes, events), go into one epoch: from the first on, and always the first."""
        count = size = events = 0
        for more, rows in batches:
            size, events = size + more, events + rows
            if count and (size > self.bytes or events > self.events):
                break
            count += 1
        return count
