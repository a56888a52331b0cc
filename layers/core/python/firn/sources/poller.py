"""A reader of one source that stays while there is something to read: round after round, under the source's lease.

It waits at least twice as long as the database took to decode, so that a long transaction, under which each round
decodes the same again, costs the database a third of a core at most. It goes once nothing came for `linger`; the next
schedule starts another one.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from firn.config.model import Config
from firn.errors import FirnError, TerminalError
from firn.log import layout, pulls
from firn.log.backlog_gate import Gate
from firn.log.store import Store
from firn.sources.database_port import OpenTransaction, SlotState, SourceBusy, SourceDatabase
from firn.sources.pull import IDLE_SECONDS, PullTask, Round, pull

_log: Final = logging.getLogger(__name__)

SHORTEST_WAIT: Final = 1.0  # seconds between two rounds, each of which is three objects put
DECODING_SHARE: Final = 2.0  # seconds of waiting for each second of decoding
STATE_SECONDS: Final = 15.0
GATE_SECONDS: Final = 5.0
AWAKE_SECONDS: Final = 60.0  # of silence, after which the session says something, or the database ends it
FORGET_EVERY: Final = 5_000  # plans


class SourceStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a source is, as the pull saw it last. Times: RFC 3339, UTC, milliseconds.

    read_all   when everything that the database had was read; "" if that never was
    lag        bytes of WAL between the slot and its end; kept: bytes that the database keeps for the slot
    safe       bytes that may still be written until the slot is lost; None: no limit is set
    oldest     the oldest transaction that writes, and since when, seconds
    stopped    why it is not read on, with what to do; "" if it is
    """

    at: str
    read_all: str = ""
    plan: int = 0
    lag: int = 0
    kept: int = 0
    wal_status: str = ""
    safe: int | None = None
    decoding: float = 0.0
    oldest: str = ""
    oldest_seconds: float = 0.0
    stopped: str = ""
    waits: str = ""


@dataclass
class Polled:
    """What a reader did until it went."""

    source: str
    plans: int = 0
    changes: int = 0
    batches: int = 0
    ended: str = ""  # why it went, if not because nothing came
    status: SourceStatus | None = field(default=None, repr=False)

    def line(self) -> dict[str, Any]:
        """As a log line or an answer has it."""
        return {"source": self.source, "plans": self.plans, "changes": self.changes, "batches": self.batches} | (
            {"ended": self.ended} if self.ended else {}
        )


@dataclass(frozen=True)
class Poller:
    """What a reader needs. `seconds_left`: until it must have gone; `sleep` waits so many seconds."""

    task: PullTask
    config: Callable[[], Config]
    gate: Gate
    sleep: Callable[[float], None]
    seconds_left: Callable[[], float]

    def run(self, connect: Callable[[], SourceDatabase]) -> Polled:
        """Read until nothing comes, or time is up, or the source stops. Raises what is worth another try."""
        done = Polled(self.task.source.name)
        before = pulls.read_state(self.task.store, self.task.source.stream, self.task.source.name, SourceStatus)
        read_all = before.read_all if before else ""
        try:
            database = connect()
            self._rounds(database, done, read_all, before.plan if before else 0)
        except SourceBusy as busy:
            done.ended = str(busy)
        except TerminalError as stopped:  # SourceStopped, a login that is refused, a message that nobody can read
            done.ended = str(stopped)
            _log.error("source %s stopped: %s", self.task.source.name, stopped)
            self._tell(done, SourceStatus(self._now(), read_all, stopped=str(stopped)))
        except FirnError as error:
            self._tell(done, SourceStatus(self._now(), read_all, waits=str(error)))
            raise
        return done

    def _rounds(self, database: SourceDatabase, done: Polled, read_all: str, known: int) -> None:
        clock = self.task.clock
        last_change = let_go = clock()
        told = -STATE_SECONDS
        while True:
            begun, config = clock(), self.config()
            if config.sources.get(self.task.source.name) != self.task.source:
                done.ended = "firn.yaml says something else of it: the next reader goes by that"
                return
            if self.gate.shut(self.task.source.stream, self.task.now()) is not None:
                why = "the stream's backlog is full: it goes on by itself once jobs have committed some of it"
                self._tell(done, SourceStatus(self._now(), read_all, known, waits=why))
                wait = GATE_SECONDS
            else:
                now = self._now()
                round_ = pull(self.task, config, database, known, idle=begun - let_go >= IDLE_SECONDS)
                read_all = read_all if round_.behind else now
                if round_.plan:
                    known, let_go = round_.plan, begun
                    if known % FORGET_EVERY == 0:
                        self._forget()
                    done.plans, done.batches = done.plans + 1, done.batches + round_.batches
                    done.changes += round_.changes
                if round_.changes or round_.behind:
                    last_change = clock()
                if clock() - told >= STATE_SECONDS:
                    told = clock()
                    self._tell(done, _status(self._now(), read_all, round_, known, database.oldest_transaction()))
                wait = max(SHORTEST_WAIT, DECODING_SHARE * round_.decoding)
            if self.seconds_left() <= wait or clock() - last_change >= self.task.source.linger_seconds:
                return
            self._wait(database, wait)

    def _forget(self) -> None:
        store, stream = self.task.store, self.task.source.stream
        for name in pulls.sources(store, stream):  # also what it was called before
            pulls.forget(store, stream, name, self.task.now())

    def _wait(self, database: SourceDatabase, seconds: float) -> None:
        while seconds > AWAKE_SECONDS:
            self.sleep(AWAKE_SECONDS)
            database.look()
            seconds -= AWAKE_SECONDS
        self.sleep(seconds)

    def _now(self) -> str:
        return layout.instant(self.task.now())

    def _tell(self, done: Polled, status: SourceStatus) -> None:
        done.status = status
        source = self.task.source
        try:
            pulls.write_state(self.task.store, source.stream, source.name, status)
        except FirnError as error:
            _log.warning("how source %s is could not be written: %s", source.name, error)


def _status(now: str, read_all: str, round_: Round, known: int, oldest: OpenTransaction | None) -> SourceStatus:
    state: SlotState = round_.state
    return SourceStatus(
        now, read_all, known,
        lag=max(0, state.flushed - state.confirmed),
        kept=max(0, state.flushed - state.restart),
        wal_status=state.wal_status,
        safe=state.safe_bytes,
        decoding=round(round_.decoding, 3),
        oldest=oldest.who if oldest else "",
        oldest_seconds=round(oldest.seconds, 1) if oldest else 0.0,
    )  # fmt: skip


def read_status(store: Store, stream: str, source: str) -> SourceStatus | None:
    """How a source is; None if no pull has looked yet. Raises StorageUnavailable."""
    return pulls.read_state(store, stream, source, SourceStatus)
