"""How fresh the tables are: from acceptance to commit, by one clock.

Both moments are told by the storage: a change is accepted when the storage took its staged batch (the 202 comes right
after), and committed when it took the first cut that covers the batch's epoch, which is when all tables of the stream
have it. No function's or job's clock is in the difference. S3 tells whole seconds, so that a lag there is right to a
second; files tell fractions.

Lags are weighted by events: p99 is the lag that 99 of 100 changes did not exceed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from firn.log import epochs, holds, layout
from firn.log.epochs import Epoch
from firn.log.store import Store, modified, objects

NEWEST: Final = 2_000  # cuts that are looked at: more than an hour of one every two seconds


@dataclass(frozen=True)
class Commit:
    """The epochs that became visible at one moment. `arrivals`: of each of their batches with a change, when it was
    accepted and how many changes it holds. `bytes`: staged, of all their batches."""

    n: int
    at: datetime
    arrivals: tuple[tuple[datetime, int], ...]
    bytes: int

    @property
    def events(self) -> int:
        """Changes in all batches."""
        return sum(events for _, events in self.arrivals)

    def lag(self, share: float) -> float | None:
        """The seconds from acceptance to commit that `share` of the changes did not exceed; None if there are none."""
        return percentile([(_seconds(self.at - accepted), events) for accepted, events in self.arrivals], share)


@dataclass(frozen=True)
class Freshness:
    """Of some commits: lags in seconds; rates from the first acceptance to the last commit. None: nothing was committed
    (or all in one moment, for the rates)."""

    commits: int
    events: int
    bytes: int
    p50: float | None
    p99: float | None
    events_per_second: float | None
    bytes_per_second: float | None


def percentile(values: Iterable[tuple[float, int]], share: float) -> float | None:
    """The least of the values, each (value, weight), that is not below `share` of the weight; None without weight."""
    ordered = sorted(one for one in values if one[1] > 0)
    left = share * sum(weight for _, weight in ordered)
    for value, weight in ordered:
        left -= weight
        if left <= 1e-9:
            return value
    return None


def measured(commits: Sequence[Commit]) -> Freshness:
    """The freshness of `commits`, together."""
    lags = [(_seconds(one.at - accepted), events) for one in commits for accepted, events in one.arrivals]
    events, size = sum(one.events for one in commits), sum(one.bytes for one in commits)
    accepted = [moment for one in commits for moment, _ in one.arrivals]
    span = _seconds(max(one.at for one in commits) - min(accepted)) if accepted else 0.0
    return Freshness(
        commits=len(commits),
        events=events,
        bytes=size,
        p50=percentile(lags, 0.5),
        p99=percentile(lags, 0.99),
        events_per_second=events / span if span else None,
        bytes_per_second=size / span if span else None,
    )


def read_commits(store: Store, stream: str, since: datetime, newest: int = NEWEST) -> list[Commit]:
    """What was committed at `since` (aware) or later, of the `newest` cuts, in the order of the epochs.

    Reads two listings (cuts; staged objects, from the oldest that is wanted on) and the epochs' lists; no row. Held
    epochs and batches whose objects have expired are left out. Raises StorageUnavailable, UnreadableBatch.
    """
    moments = [one for one in _moments(store, stream, newest) if one[2] >= since]
    if not moments:
        return []
    held = holds.read_epochs(store, stream)
    wanted = [n for n in epochs.numbers(store, stream, moments[0][1]) if n <= moments[-1][0] and n not in held]
    sealed = epochs.read_many(store, stream, wanted)
    taken = _taken(store, stream, sealed)
    return [_commit(n, at, [epoch for epoch in sealed if below < epoch.n <= n], taken) for n, below, at in moments]


def read_commit(store: Store, stream: str, n: int, sealed: Sequence[Epoch]) -> Commit | None:
    """The commit of the epochs `sealed` by the cut `n`; None if there is no such cut. Raises StorageUnavailable."""
    at = modified(store, layout.cut_path(stream, n))
    return None if at is None else _commit(n, at, sealed, _taken(store, stream, sealed))


def _moments(store: Store, stream: str, newest: int) -> list[tuple[int, int, datetime]]:
    """(n, the cut below, moment) of the newest cuts. A job that stood still may put its cut after its successor's: what
    that one covers was visible before."""
    there = objects(store, layout.cut_prefix(stream))
    numbered = [(n, one.modified) for one in there if (n := layout.number_of(one.path)) is not None]
    moments: list[tuple[int, int, datetime]] = []
    earliest: datetime | None = None
    for place in range(len(numbered) - 1, max(-1, len(numbered) - 1 - newest), -1):
        n, at = numbered[place]
        earliest = at if earliest is None else min(earliest, at)
        moments.append((n, numbered[place - 1][0] if place else 0, earliest))
    return moments[::-1]


def _taken(store: Store, stream: str, sealed: Sequence[Epoch]) -> dict[str, datetime]:
    """When the storage took each staged object, from the oldest batch of `sealed` on: paths sort by time."""
    paths = [batch.path for epoch in sealed for batch in epoch.batches]
    if not paths:
        return {}
    before_it = min(paths).removesuffix(".parquet")
    return {one.path: one.modified for one in objects(store, layout.staged_prefix(stream), before_it)}


def _commit(n: int, at: datetime, sealed: Sequence[Epoch], taken: Mapping[str, datetime]) -> Commit:
    batches = [batch for epoch in sealed for batch in epoch.batches]
    arrivals = tuple((taken[b.path], b.events) for b in batches if b.events and b.path in taken)
    return Commit(n, at, arrivals, sum(batch.bytes for batch in batches))


def _seconds(span: timedelta) -> float:
    return max(0.0, span.total_seconds())
