"""How much of a stream waits for its commit, as `state/{stream}.json` says it, and the gate that ingest keeps by it.

Dispatch writes the object at its end, a commit job again if its cut may have opened a closed gate. It is advice, not
truth: nothing is counted by it, and a lost or late one costs nobody an event.

**A state that is older than STALE is not believed, and the gate is open.** Nobody knows the backlog then: jobs may have
committed all of it. A gate kept shut would stop a source for good because the scheduler stopped, and a source that has
to wait loses more than the log, which is object storage: Debezium gives up after its retries, a replication slot fills
the database's disk. What is taken is safe, and the age of the oldest change rings the bell (docs/operations.md).
"""

import logging
import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from firn.config.model import BacklogLimit
from firn.errors import RequestError, StorageUnavailable
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.byte_rate import ByteBucket
from firn.log.store import Store, get

if TYPE_CHECKING:
    from firn.config.writers import Writer

_log: Final = logging.getLogger(__name__)

CACHE_SECONDS: Final = 5.0
STALE: Final = timedelta(minutes=10)  # ten of dispatch's ticks
# Half of a tick: what dispatch or a job finds out is known to everybody soon after.
RETRY_SECONDS: Final = 30
STORAGE_RETRY_SECONDS: Final = 600  # tables are measured when they change, and shrink by somebody's doing


class WriterState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a writer of a stream: its bytes of JSON that wait, those above its rate (byte_rate.debt_after), and what its
    tables take, if that is more than its `storage`."""

    bytes: int = 0
    debt: float = 0.0
    stored: int = 0


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """What waits, sealed or not, quarantined epochs apart. `bytes` are staged ones; `oldest`: when the storage took the
    oldest batch with a change, None if no change waits. `limit` is the stream's at that time, `over` says whether it is
    passed."""

    format: int
    stream: str
    written_at: str  # RFC 3339, UTC, milliseconds, as `oldest`
    batches: int
    events: int
    bytes: int
    oldest: str | None
    limit: BacklogLimit
    over: bool
    retry_seconds: int = RETRY_SECONDS
    rate: int = 0  # the stream's, bytes a second; 0: it has none
    counted: int = 0  # the epoch up to which `debt` counts
    debt: float = 0.0  # bytes above the rate (byte_rate.debt_after)
    counting: bool = False  # whether `writers` counts up to `counted`
    writers: dict[str, WriterState] = {}  # those over `backlog` or `storage`, or that took of their `rate`

    def age(self, now: datetime) -> float:
        """Seconds that the oldest change has waited; 0 if none waits."""
        return max(0.0, (now - datetime.fromisoformat(self.oldest)).total_seconds()) if self.oldest else 0.0

    def wait(self, now: datetime) -> float:
        """Seconds until the stream is at its rate again; 0 if it is."""
        if not self.rate:
            return 0.0
        return max(0.0, self.debt / self.rate - (now - datetime.fromisoformat(self.written_at)).total_seconds())

    def fresh(self, now: datetime) -> bool:
        """Whether it is to be believed. One from the future is as wrong as an old one."""
        return abs(now - datetime.fromisoformat(self.written_at)) <= STALE


def judged(
    stream: str, batches: int, events: int, size: int, oldest: datetime | None, limit: BacklogLimit, now: datetime
) -> State:
    """The state of a backlog of `size` staged bytes, by its limit. Pure."""
    age = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
    over = (
        size > limit.bytes
        or (limit.events is not None and events > limit.events)
        or (limit.age_seconds is not None and age > limit.age_seconds)
    )
    since = layout.instant(oldest) if oldest else None
    return State(FORMAT, stream, layout.instant(now), batches, events, size, since, limit, over)


_decode: Final = msgspec.json.Decoder(State).decode
encode: Final = msgspec.json.encode


def read(store: Store, stream: str) -> State | None:
    """The state as it was written last; None if there is none that can be read. Raises StorageUnavailable."""
    data = get(store, layout.state_path(stream))
    try:
        found = None if data is None else _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        _log.warning("the state of %s can't be read: %s", stream, error)
        return None
    return found if found is not None and found.format <= FORMAT else None


class Gate:
    """The streams that take nothing for now. Each stream's state is looked at again after `seconds`: one small get.

    A stream's `rate` is kept twice: by a bucket in each process that takes requests, exactly and for itself alone; and
    by the state, for all of them together, a minute or two late.
    """

    def __init__(
        self, store: Store, seconds: float = CACHE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._seconds, self._clock = store, seconds, clock
        self._known: dict[str, tuple[float, State | None]] = {}
        self._buckets: dict[tuple[str, str], ByteBucket] = {}

    def shut(self, stream: str, now: datetime) -> State | None:
        """The state that shuts the stream, None if it is open. `now`: aware. Whatever can't be read is open."""
        state = self._state(stream)
        shut = state is not None and (state.over or state.wait(now) > 0) and state.fresh(now)
        return state if shut else None

    def shut_for(self, stream: str, writer: "Writer", now: datetime) -> "BacklogFull | RateExceeded | None":
        """The 429 of a writer of the stream that is over a quota of its own, None if it is not; by the same state."""
        state = self._state(stream) if writer.has_quotas else None
        told = state.writers.get(writer.name) if state is not None and state.fresh(now) else None
        if state is None or told is None:
            return None
        if writer.backlog is not None and told.bytes > writer.backlog:
            return _too_much(stream, writer, writer.backlog, told.bytes, state.retry_seconds)
        if writer.storage is not None and told.stored > writer.storage:
            return _too_large(stream, writer, writer.storage, told.stored)
        since = (now - datetime.fromisoformat(state.written_at)).total_seconds()
        wait = told.debt / writer.rate - since if writer.rate else 0.0
        return too_fast(stream, writer.rate or 0, wait, writer.name) if wait > 0 else None

    def _state(self, stream: str) -> State | None:
        tick = self._clock()
        looked, state = self._known.get(stream, (None, None))
        if looked is None or tick - looked >= self._seconds:
            try:
                state = read(self._store, stream)
            except StorageUnavailable as error:
                _log.warning("whether %s has a backlog is not known, it stays open: %s", stream, error)
                state = None
            self._known[stream] = (tick, state)
        return state

    def pace(self, stream: str, rate: int | None, size: int, writer: str = "") -> int:
        """Take `size` bytes of JSON for a stream, or a writer of it, with this rate: 0, or the seconds after which it
        is worth another try and nothing was taken."""
        if not rate:
            return 0
        bucket = self._buckets.get((stream, writer))
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[stream, writer] = ByteBucket(rate, self._clock, burst=1.0)
        return bucket.take(size)


class RateExceeded(RequestError):
    """The stream takes nothing for a moment."""


def too_fast(stream: str, rate: int, wait: float, writer: str = "") -> RateExceeded:
    """The 429 of a stream that is above its rate, or of a writer of it that is above its own."""
    seconds = max(1, math.ceil(wait))
    whose = f"the stream {stream} takes" + (f" of the writer {writer}" if writer else "")
    setting = f"streams.{stream}." + (f"writers.{writer}." if writer else "")
    return RateExceeded(
        429,
        "rate_exceeded",
        f"nothing was taken: {whose} {rate / 1e6:,.3f} MB of JSON a second ({setting}rate in firn.yaml); send the same "
        f"again after {seconds} s",
        seconds,
    )


class BacklogFull(RequestError):
    """The stream takes nothing for now, or nothing of a writer: too much waits, or is stored."""


def _too_much(stream: str, writer: "Writer", limit: int, waiting: int, seconds: int) -> BacklogFull:
    return BacklogFull(
        429,
        "backlog_full",
        f"nothing was taken: {waiting / 1e6:,.1f} MB of JSON of the writer {writer.name} wait for their commit, and "
        f"the limit is {limit / 1e6:,.1f} MB (streams.{stream}.writers.{writer.name}.backlog in firn.yaml); send the "
        f"same again after {seconds} s",
        seconds,
    )


def _too_large(stream: str, writer: "Writer", limit: int, stored: int) -> BacklogFull:
    return BacklogFull(
        429,
        "storage_full",
        f"nothing was taken: the tables of the writer {writer.name} take {stored / 1e6:,.3f} MB, and the limit is "
        f"{limit / 1e6:,.3f} MB (streams.{stream}.writers.{writer.name}.storage in firn.yaml); what was accepted is "
        "kept. Raise it, or delete rows otherwise and `firn compact` the tables; send the same again then",
        STORAGE_RETRY_SECONDS,
    )


def refusal(state: State, now: datetime) -> BacklogFull | RateExceeded:
    """The 429 of a shut stream: what waits, what the limit is, what to do."""
    if not state.over:
        return too_fast(state.stream, state.rate, state.wait(now))
    limit = state.limit
    reasons = [f"{state.bytes / 1e6:,.1f} MB staged (limit {limit.bytes / 1e6:,.1f} MB)"]
    reasons += [f"{state.events:,} events (limit {limit.events:,})"] if limit.events is not None else []
    age = f"the oldest for {state.age(now):,.0f} s"
    age += f" (limit {limit.age_seconds:,} s)" if limit.age_seconds is not None else ""
    return BacklogFull(
        429,
        "backlog_full",
        f"nothing was taken: {', '.join(reasons)} of stream {state.stream} wait for their commit, {age}; send the "
        f"same again after {state.retry_seconds} s. If it lasts, the commit jobs are behind: `firn status` and their "
        f"logs say why, streams.{state.stream}.backlog in firn.yaml is the limit",
        state.retry_seconds,
    )
