"""The epochs and the batches of a stream, page by page, newest first."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, Literal

import msgspec

from firn.log import attempts, cuts, epochs
from firn.log.epochs import Epoch, EpochBatch
from firn.log.store import Store
from firn_console.asked import Asked, cursor_of
from firn_console.contract.stream_pages import BatchPage, BatchRow, EpochPage, EpochRow, EpochState
from firn_console.holds import known_of
from firn_console.stream_look import instant_of, look
from firn_console.streams import cut_at

MOST: Final = 500  # of a page
_EPOCHS_AT_ONCE: Final = 20
_FAR_BACK: Final = 5_000  # epochs below the newest cut, for which cuts are still looked up
_WINDOW: Final = timedelta(hours=1)


class EpochCursor(msgspec.Struct, frozen=True, array_like=True):
    """The epoch that the page before ended with."""

    n: int


class BatchCursor(msgspec.Struct, frozen=True, array_like=True):
    """The batch that the page before ended with, and its epoch; 0: it was in none."""

    epoch: int
    batch: str


class _States:
    """The states of a stream's epochs."""

    def __init__(self, asked: Asked, stream: str) -> None:
        self.committed = cuts.newest(asked.store, stream)
        self._held = set(known_of(asked, stream).held_epochs())
        self._begun = attempts.at_work(asked.store, stream, self.committed)

    def of(self, n: int) -> EpochState:
        if n in self._held:
            return "held"
        return "committed" if n <= self.committed else "committing" if n <= self._begun else "sealed"


def epoch_page(asked: Asked, stream: str) -> EpochPage:
    """Raises RequestError 400, 404, StorageUnavailable, UnreadableBatch."""
    asked.stream(stream)
    limit, place = asked.number("limit", 1, MOST, 50), asked.cursor(EpochCursor)
    states = _States(asked, stream)
    found: list[Epoch] = []
    for epoch in _downwards(asked.store, stream, states.committed, place.n - 1 if place else None):
        found.append(epoch)
        if len(found) == limit:
            break
    covering = _covering(asked.store, stream, [one.n for one in found if states.of(one.n) == "committed"], states)
    made = {n: cut.made_at for n in set(covering.values()) if (cut := cut_at(asked.store, stream, n)) is not None}
    rows = tuple(
        EpochRow(
            n=one.n,
            state=states.of(one.n),
            sealed_at=one.sealed_at,
            committed_at=made.get(covering.get(one.n, 0)),
            cut=covering.get(one.n),
            batches=len(one.batches),
            events=one.events,
            bytes=sum(batch.bytes for batch in one.batches),
            tables={source: rows for source, rows in one.tables.items() if asked.sees_source(stream, source)},
        )
        for one in found
    )
    more = len(found) == limit and found[-1].n > 1
    return EpochPage(rows, cursor_of(EpochCursor(found[-1].n) if more else None))


def batch_page(asked: Asked, stream: str) -> BatchPage:
    """Raises RequestError 400, 404, StorageUnavailable, UnreadableBatch."""
    asked.stream(stream)
    limit, place = asked.number("limit", 1, MOST, 100), asked.cursor(BatchCursor)
    rows: list[BatchRow] = []
    for one in _batches(asked, stream, place):
        if len(rows) == limit:
            return BatchPage(tuple(rows), cursor_of(BatchCursor(rows[-1].epoch or 0, rows[-1].id)))
        rows.append(one)
    return BatchPage(tuple(rows), None)


def _batches(asked: Asked, stream: str, place: BatchCursor | None) -> Iterator[BatchRow]:
    """From behind `place` on."""
    states = _States(asked, stream)
    if place is None or place.epoch == 0:
        free = look(asked.store, asked.stream(stream), asked.config.sha, asked.now, _WINDOW).waiting.free
        yield from (_row(one, None, "staged") for one in _behind(free, place))
    for epoch in _downwards(asked.store, stream, states.committed, place.epoch if place and place.epoch else None):
        here = place if place is not None and place.epoch == epoch.n else None
        yield from (_row(one, epoch.n, states.of(epoch.n)) for one in _behind(epoch.batches, here))


def _behind(some: Sequence[EpochBatch], place: BatchCursor | None) -> list[EpochBatch]:
    newest_first = sorted(some, key=lambda one: one.id, reverse=True)
    return [one for one in newest_first if place is None or one.id < place.batch]


def _row(
    one: EpochBatch, epoch: int | None, state: Literal["staged", "sealed", "committing", "committed", "held"]
) -> BatchRow:
    return BatchRow(one.id, instant_of(one), one.events, one.bytes, epoch, state)


def _downwards(store: Store, stream: str, committed: int, top: int | None) -> Iterator[Epoch]:
    """The epochs from `top` (None: the newest) down. Numbers are dense but for a log that started over."""
    listed = epochs.numbers(store, stream, max(0, committed - 1))  # and forgets what another log had
    at = min(top, listed[-1]) if top is not None and listed else (listed[-1] if listed else 0)
    while at > 0:
        some = list(range(max(1, at - _EPOCHS_AT_ONCE + 1), at + 1))
        found = epochs.read_many(store, stream, some)
        yield from reversed(found)
        at = some[0] - 1
        if not found:  # a gap
            below = [n for n in epochs.numbers(store, stream) if n <= at]
            at = below[-1] if below else 0


def _covering(store: Store, stream: str, numbers: list[int], states: _States) -> Mapping[int, int]:
    """The first cut at or above each of these epochs, which are committed."""
    if not numbers or states.committed - min(numbers) > _FAR_BACK:
        return {}
    there = cuts.numbers(store, stream, min(numbers) - 1)
    found: dict[int, int] = {}
    for n in sorted(numbers):
        at = next((cut for cut in there if cut >= n), None)
        if at is not None:
            found[n] = at
    return found
