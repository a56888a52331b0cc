"""How much goes into one epoch. Pure.

An epoch is the least that a job works on: a range that kills its jobs is narrowed to its first one, so its size bounds
what a job needs. A backlog is taken in larger epochs, up to GROWTH times the cap: the fixed costs are the same whatever
an epoch holds.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
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


TABLES_APART: Final = 32
"""Tables that an epoch has at least, where it leaves out what goes to others: a round for fewer would be mostly what
any round costs."""
_IN_BOTH: Final = 4  # of so many tables of the part that has fewer, one may be in both parts: it is committed twice


@dataclass(frozen=True)
class Shares:
    """How little an epoch holds, where a job is up that takes the rest at once: `per_writer` events of each of the
    stream's writers, None for however many, and what goes to the tables of the oldest changes."""

    per_writer: int | None = None

    def chosen(self, batches: Sequence[tuple[Collection[str], int, Collection[str]]]) -> list[bool]:
        """Which of the batches, each (its writers, its events, its tables) and the oldest first, go into the next
        epoch: always one."""
        mine = [True] * len(batches)
        if self.per_writer is not None:
            mine = shared_out([(writers, events) for writers, events, _ in batches], self.per_writer)
        places = [place for place, one in enumerate(mine) if one]
        goes = set(places[: apart([batches[place][2] for place in places])])
        return [place in goes for place in range(len(batches))]


def shares_of(writers: Collection[str], linger_seconds: int) -> Shares | None:
    """Those of a stream with these writers; None where no job stays up for what is left. A writer's share counts where
    there is somebody who would wait for another's."""
    return Shares(EVENTS_PER_WRITER if len(writers) > 1 else None) if linger_seconds else None


def apart(batches: Sequence[Collection[str]]) -> int:
    """How many of the batches, each its tables and the oldest first, are one round's: up to where hardly any table has
    changes on both sides, or all.

    A commit costs by the table. So it is the same work in two rounds, and nothing in the first waits for the second;
    nor do the changes that come meanwhile, for most of their tables are those of the second.
    """
    first, last = dict[str, int](), dict[str, int]()
    for place, tables in enumerate(batches):
        for table in tables:
            first.setdefault(table, place)
            last[table] = place
    begin, end = Counter(first.values()), Counter(last.values())
    begun = accumulate(begin[place] for place in range(len(batches)))
    ended = accumulate(end[place] for place in range(len(batches)))
    for count, (before, over) in enumerate(zip(begun, ended, strict=True), start=1):
        both, after = before - over, len(first) - over
        if before >= TABLES_APART and both * _IN_BOTH <= min(before, after) and after:
            return count
    return len(batches)


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
