"""One look at a stream, by the log alone: what waits, what was committed lately, what is held, what failed."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from firn.auth.grants import Grant
from firn.config.model import StreamConfig
from firn.errors import FirnError, TransientError, UnknownOutcome
from firn.log import attempts, backlog, cuts, epochs, freshness, holds, layout
from firn.log.attempts import Failed
from firn.log.batches import UnreadableBatch
from firn.log.cuts import Cut
from firn.log.epochs import EpochBatch
from firn.log.freshness import Commit
from firn.log.holds import Quarantines
from firn.log.store import Store
from firn.status import letter_counts
from firn.status.letter_counts import LetterCounts
from firn.views import view_state
from firn.views.view_state import ViewStates
from firn_console.contract.stream_pages import Backlog, Series, StreamRow
from firn_console.recent import Recent

BEHIND: Final = timedelta(minutes=15)
"""What waits for longer is behind: the alarm's default too (template.yaml, FreshnessSeconds)."""

_POINTS: Final = 60
_LETTER_SECONDS: Final = 1.0  # for counting dead letters; the next look goes on
_STREAMS_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Look:
    """What was seen. `waiting`: quarantined epochs too; `newest`: the newest batch of all; `failure`: (first epoch,
    last, why) of the newest job, if it failed; `commits`: of the window that ends at `at`."""

    settings: StreamConfig
    at: datetime
    window: timedelta
    committed: int
    cut: Cut | None
    held: Quarantines
    waiting: backlog.Backlog
    newest: EpochBatch | None
    commits: tuple[Commit, ...]
    letters: LetterCounts
    failure: tuple[int, int, Failed] | None
    views: ViewStates

    @property
    def held_names(self) -> tuple[str, ...]:
        """`stream`, `epoch 7`, tables."""
        return self.held.names(self.settings.generation)


_looks: Final = Recent[tuple[str, str, int], Look]()


def look(store: Store, settings: StreamConfig, config: str, now: datetime, window: timedelta) -> Look:
    """The stream now, or a moment ago. `config`: the configuration's hash.

    Raises StorageUnavailable, UnreadableBatch."""
    key = (settings.name, config, int(window.total_seconds()))
    return _looks.get(store, key, lambda: _look(store, settings, now, window))


def look_at_all(
    store: Store, streams: Iterable[StreamConfig], config: str, now: datetime, window: timedelta
) -> tuple[list[Look], dict[str, str]]:
    """Looks at several streams, and why others could not be looked at, by name. Raises StorageUnavailable if all of
    them failed by that."""
    some = list(streams)

    def one(settings: StreamConfig) -> Look | FirnError:
        try:
            return look(store, settings, config, now, window)
        except (TransientError, UnknownOutcome, UnreadableBatch) as error:
            return error

    with ThreadPoolExecutor(_STREAMS_AT_ONCE) as pool:
        found = list(pool.map(one, some))
    looks = [it for it in found if isinstance(it, Look)]
    failed = {s.name: it for s, it in zip(some, found, strict=True) if isinstance(it, FirnError)}
    if failed and not looks:
        raise next(iter(failed.values()))
    return looks, {name: str(error) for name, error in failed.items()}


def _look(store: Store, settings: StreamConfig, now: datetime, window: timedelta) -> Look:
    stream = settings.name
    committed = cuts.newest(store, stream)
    found = backlog.look(store, stream, now, held=True)
    return Look(
        settings=settings,
        at=now,
        window=window,
        committed=committed,
        cut=cuts.read(store, stream, committed) if committed else None,
        held=holds.read_all(store, stream),
        waiting=found,
        newest=_newest(store, stream, found),
        commits=tuple(freshness.read_commits(store, stream, now - window)),
        letters=letter_counts.count(store, stream, seconds=_LETTER_SECONDS),
        failure=attempts.newest_failure(store, stream, committed),
        views=view_state.read(store, stream) if settings.views else ViewStates(),
    )


def _newest(store: Store, stream: str, found: backlog.Backlog) -> EpochBatch | None:
    numbers = epochs.numbers(store, stream)
    epoch = epochs.read(store, stream, numbers[-1]) if numbers else None
    some = [*found.batches, *(epoch.batches if epoch else ())]
    return max(some, key=lambda one: layout.accepted(one.id), default=None)


def row(seen: Look, grant: Grant) -> StreamRow:
    """The stream as the overview shows it: of what is held, only the tables that may be seen."""
    rates = freshness.measured(seen.commits)
    tables = seen.cut.known if seen.cut else frozenset()
    return StreamRow(
        stream=seen.settings.name,
        envelope=seen.settings.envelope,
        state=_state(seen),
        tables=len(tables),
        backlog=waiting(seen),
        accepted_at=None if seen.newest is None else instant_of(seen.newest),
        committed_at=seen.cut.made_at if seen.cut else None,
        committed_epoch=seen.committed,
        p50=rates.p50,
        p99=rates.p99,
        events_per_second=rates.events_per_second,
        dead_waiting=seen.letters.waiting.total(),
        held=tuple(one for one in seen.held_names if grant.tables is None or "." not in one or grant.sees(table=one)),
        series=series(seen),
    )


def waiting(seen: Look) -> Backlog:
    """What waits."""
    first = seen.waiting.first
    return Backlog(
        staged_batches=len(seen.waiting.free),
        staged_events=sum(one.events for one in seen.waiting.free),
        staged_bytes=sum(one.bytes for one in seen.waiting.free),
        sealed_batches=len(seen.waiting.sealed),
        sealed_events=sum(one.events for one in seen.waiting.sealed),
        sealed_bytes=sum(one.bytes for one in seen.waiting.sealed),
        sealed_epochs=seen.waiting.epochs,
        oldest_at=None if first is None else instant_of(first),
    )


def is_behind(seen: Look) -> bool:
    """Whether its oldest change has waited for too long."""
    first = seen.waiting.first
    return first is not None and layout.time_of(first.id) < seen.at - BEHIND


def instant_of(batch: EpochBatch) -> str:
    """When a batch was accepted."""
    return layout.instant(layout.time_of(batch.id))


def _state(seen: Look) -> Literal["held", "failing", "behind", "busy", "idle"]:
    if seen.held_names:
        return "held"
    if seen.failure is not None:
        return "failing"
    if is_behind(seen):
        return "behind"
    return "busy" if seen.waiting.batches else "idle"


def series(seen: Look) -> Series:
    """Events of the window by when they were accepted, and by when they were committed."""
    step = max(60, int(seen.window.total_seconds()) // _POINTS)
    end = (int(seen.at.timestamp()) // step + 1) * step
    count = -(-int(seen.window.total_seconds()) // step)
    start = end - count * step
    accepted, committed = [0] * count, [0] * count

    def add(to: list[int], moment: datetime, events: int) -> None:
        place = int(moment.timestamp() - start) // step
        if 0 <= place < count:
            to[place] += events

    for commit in seen.commits:
        add(committed, commit.at, commit.events)
        for moment, events in commit.arrivals:
            add(accepted, moment, events)
    for batch in seen.waiting.batches:
        add(accepted, layout.time_of(batch.id), batch.events)
    begin = layout.instant(datetime.fromtimestamp(start, UTC))
    return Series(begin, step, tuple(accepted), tuple(committed), len(seen.commits) < freshness.NEWEST)
