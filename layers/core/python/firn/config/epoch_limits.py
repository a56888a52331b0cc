"""How much goes into one epoch. Pure.

An epoch is the least that a job works on: a range that kills its jobs is narrowed to its first one, so its size bounds
what a job needs. A backlog is taken in larger epochs, up to GROWTH times the cap: the fixed costs are the same whatever
an epoch holds.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

GROWTH: Final = 8
EVENTS_PER_WRITER: Final = 50_000
"""Events of one writer in an epoch, while a job is up that takes the rest at once: as many as its process reads by
itself, in a second or two."""


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


def limit_per_writer(writers: Collection[str], linger_seconds: int) -> int | None:
    """How many events of each of a stream's writers an epoch holds, None for however many: where a job stays up for
    what is left, and there is somebody who would wait for another's."""
    return EVENTS_PER_WRITER if len(writers) > 1 and linger_seconds else None


def shared_out(batches: Sequence[tuple[Collection[str], int]], most: int) -> list[bool]:
    """Which of the batches, each (its writers, its events) and the oldest first, go into the next epoch, where each
    writer has `most` events in one: of each the oldest, and always one.

    A writer's batches stay in order: behind one that waits all of its writers' wait. Who sends without being a writer
    is one, all together. Batches without a change take no room: else the oldest change could wait for a heartbeat.
    """
    taken, waiting, chosen = Counter[str](), set[str](), []
    for writers, events in batches:
        mine = frozenset(writers or ("",))
        fits = waiting.isdisjoint(mine) and all(not taken[one] or taken[one] + events <= most for one in mine)
        if fits:
            taken.update(dict.fromkeys(mine, events))
        else:
            waiting |= mine
        chosen.append(fits)
    return chosen
