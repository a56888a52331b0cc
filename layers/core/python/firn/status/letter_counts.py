"""How many dead letters a stream has, by source table and reason, and how many of them wait for a replay.

Letters and replays never change once they are written: a process that asks again looks only at what is new. What it
keeps of an object is a number of 8 bytes, and sums: 50,000 objects are 5 MB. When objects expire it starts over.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeVar

from firn.ingest.replay import acknowledged
from firn.log import layout
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import Counts, count_dead, counted, read_dead
from firn.log.store import Store, listing, paths
from firn.log.store_cache import Remembered

_READS_AT_ONCE: Final = 16
_AT_A_TIME: Final = 256  # objects between two looks at the clock
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class LetterCounts:
    """Of the `counted` objects that were looked at, of the `objects` that there are: `letters` by (source table,
    reason), and how many of them no replay has taken."""

    objects: int
    counted: int
    letters: Counts
    waiting: Counts


@dataclass
class _Known:
    """What a process has summed up of a stream."""

    objects: set[int] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    letters: Counts = field(default_factory=Counter)
    replayed: Counts = field(default_factory=Counter)


_known: Final = Remembered[str, _Known]()


def count(store: Store, stream: str, *, seconds: float | None = None) -> LetterCounts:
    """The letters of a stream. `seconds`: after which it returns with what it has; the next call goes on.

    Raises StorageUnavailable, UnreadableBatch.
    """
    there = [one for one in listing(store, layout.dead_prefix(stream)) if one[0].endswith(".parquet")]
    seen = _known.of(store)
    known = seen.setdefault(stream, _Known())
    present = {_number(path) for path, _ in there}
    if not known.objects <= present:
        known = seen[stream] = _Known()
    until = None if seconds is None else time.monotonic() + seconds
    new = [one for one in reversed(there) if _number(one[0]) not in known.objects]

    def look(one: tuple[str, int]) -> tuple[str, Counts | None]:
        return one[0], _of_object(store, *one)

    for path, letters in _until(until, new, look):
        if letters is not None:
            known.objects.add(_number(path))
            known.letters += letters
    if there:
        _count_replays(store, stream, known, until)
    return LetterCounts(len(there), len(known.objects), Counter(known.letters), known.letters - known.replayed)


def _count_replays(store: Store, stream: str, known: _Known, until: float | None) -> None:
    """Those of the objects that are counted."""
    new: dict[str, list[str]] = {}
    for path in paths(store, layout.replays_prefix(stream)):
        found = layout.replay_of(path)
        if found is not None and _number(path) not in known.marks and _number(found[0]) in known.objects:
            new.setdefault(found[0], []).append(path)

    def look(dead: str) -> tuple[str, Counts]:
        rows = read_dead(store, dead)
        mine = [claim for claim in replay_marks.of_object(store, dead)[0] if _path(claim) in new[dead]]
        return dead, counted(rows[row] for claim in mine for row in claim.letters() if row < len(rows))

    for dead, letters in _until(until, list(new), look):
        known.marks.update(map(_number, new[dead]))
        known.replayed += letters


def _path(claim: replay_marks.Replay) -> str:
    return layout.replay_path(claim.dead, claim.n)


def _of_object(store: Store, path: str, size: int) -> Counts | None:
    """Its letters; None while nobody was told 202 for them (ingest/replay.py): they do not count yet."""
    letters, by = count_dead(store, path, size)
    if not acknowledged(store, path) and not replay_marks.of_object(store, path)[0]:
        return None
    return by if letters == by.total() else counted(read_dead(store, path))  # format 1 does not say which


def _until(until: float | None, some: Sequence[T], look: Callable[[T], R]) -> Iterator[R]:
    """What `look` gives for each, in parallel, until the time is over."""
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        for start in range(0, len(some), _AT_A_TIME):
            if until is not None and time.monotonic() >= until:
                return
            yield from pool.map(look, some[start : start + _AT_A_TIME])


def _number(path: str) -> int:
    """A path as a number of 64 bits: of a billion paths two have the same one with a chance of 3 in 100."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest())
