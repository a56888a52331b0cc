"""What the rules of `alerts:` watch, as it is now: read from the log, nothing from tables.

What can't be read is unseen: nothing begins and nothing ends by it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from firn.config.alerts import AlertRule
from firn.config.model import Config, StreamConfig
from firn.config.names import TableName
from firn.deployment.terminal import counted, size
from firn.errors import FirnError, TransientError
from firn.log import backlog, backlog_gate, cuts, holds
from firn.log.holds import Quarantine
from firn.log.store import Store
from firn.sources.poller import read_status
from firn.status import letter_counts, view_status
from firn.status.letter_counts import LetterCounts
from firn.status.source_status import UNSEEN
from firn.status.waiting import age, ages
from firn.views import view_state as views

_log: Final = logging.getLogger(__name__)
_LETTER_SECONDS: Final = 20.0  # a round, for counting letters; the next one goes on
_STREAMS_AT_ONCE: Final = 16  # of a thousand, each look asks the storage several times
_RELAX: Final = 0.8  # of a limit, below which an alert about a size or a time ends: it does not flicker at the limit
_MOST_HELD: Final = 50  # things that are held, of a stream, with an alert each; the rest have one together
_MOST_REASONS: Final = 5
T = TypeVar("T")


@dataclass(frozen=True)
class Signal:
    """How one subject of a rule is. `text`: what is wrong, if it is; `surely`: whatever the value says."""

    stream: str
    subject: str
    value: float
    limit: float
    unit: str
    text: str
    surely: bool = False

    def holds(self, *, lasting: bool) -> bool:
        """Whether it is wrong; `lasting`: an alert about it has begun before."""
        limit = self.limit * _RELAX if lasting and self.unit in ("seconds", "bytes") else self.limit
        return self.surely or self.value >= limit


@dataclass(frozen=True)
class Seen:
    """All subjects of a rule that could be looked at, and the streams and tables that could not."""

    signals: Sequence[Signal]
    unseen: frozenset[str] = frozenset()


@dataclass
class Observer:
    """Looks at each stream once, however many rules ask. `now`: aware."""

    store: Store
    config: Config
    now: datetime
    _ages: dict[str, dict[str, float]] = field(default_factory=dict)
    _letters: dict[str, LetterCounts] = field(default_factory=dict)
    _until: float | None = None  # letters are counted

    def see(self, rule: AlertRule) -> Seen:
        """What a rule watches."""
        names = [name for name in rule.streams or self.config.streams if name in self.config.streams]
        streams = [self.config.streams[name] for name in names]
        if rule.tables:
            return self._tables(rule, streams)
        look = {
            "freshness": self._freshness, "dead_letters": self._dead, "quarantine": self._held, "slot_lag": self._slots
        }[rule.on]  # fmt: skip
        found = _looked_at_all(rule, streams, lambda r, s: list(look(r, s)))
        signals = [signal for some in found.values() for signal in some or ()]
        return Seen(signals, frozenset(name for name, some in found.items() if some is None))

    def _freshness(self, rule: AlertRule, stream: StreamConfig) -> Iterator[Signal]:
        state = backlog_gate.read(self.store, stream.name)
        told = state.age(self.now) if state is not None and state.fresh(self.now) else None
        if told is not None and told < rule.over * _RELAX:
            yield _late(rule, stream.name, "", told)
            return
        # Nobody dispatches, or it fails: all the more is waiting. Or what it wrote a minute ago is committed by now.
        try:
            seconds = age(self.store, backlog.look(self.store, stream.name, self.now).first, self.now) or 0.0
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever an object of the log holds, dispatch fails on it as well)
            if told is None:
                yield _unreadable(rule, stream.name, error)
                return
            seconds = told
        yield _late(rule, stream.name, "", seconds)

    def _tables(self, rule: AlertRule, streams: Sequence[StreamConfig]) -> Seen:
        """The oldest change of each table, in whichever stream it waits."""
        waits = _looked_at_all(rule, streams, self._waits)
        signals, unseen = [], set()
        for table in rule.tables:
            feeding = [one.name for one in streams if any(r.feeds(TableName.parse(table)) for r in one.targets)]
            known = {name: found.get(table, 0.0) for name in feeding if (found := waits[name]) is not None}
            first = max(known, key=lambda name: known[name], default="")
            if known and (len(known) == len(feeding) or known[first] >= rule.over):
                signals.append(_late(rule, feeding[0], table, known[first]))
            elif feeding:
                unseen.add(table)
        return Seen(signals, frozenset(unseen))

    def _waits(self, _rule: AlertRule, stream: StreamConfig) -> dict[str, float]:
        if stream.name not in self._ages:
            found = backlog.look(self.store, stream.name, self.now, held=True)
            behind = view_status.view_statuses(self.store, self.config, stream.name, self.now)
            waiting = ages(self.store, stream, found, cuts.last(self.store, stream.name), self.now)
            self._ages[stream.name] = waiting | dict(view_status.ages(behind))
        return self._ages[stream.name]

    def _dead(self, rule: AlertRule, stream: StreamConfig) -> Iterator[Signal]:
        if stream.name not in self._letters:
            self._until = self._until or time.monotonic() + _LETTER_SECONDS
            left = max(0.0, self._until - time.monotonic())
            self._letters[stream.name] = letter_counts.count(self.store, stream.name, seconds=left)
        found = self._letters[stream.name]
        waiting = found.waiting.total()
        if found.counted < found.objects and waiting < rule.at_least:
            raise FirnError(f"{found.counted:,} of {found.objects:,} objects of letters are counted so far")
        reasons: dict[str, int] = {}
        for (_, reason), letters in found.waiting.items():
            reasons[reason] = reasons.get(reason, 0) + letters
        most = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))[:_MOST_REASONS]
        by = ", ".join(f"{reason} {letters:,}" for reason, letters in most)
        text = f"{counted(waiting, 'dead letter')} of {stream.name} to replay ({by}): firn dead list {stream.name}"
        yield Signal(stream.name, "", waiting, rule.at_least, "letters", text)

    def _held(self, _rule: AlertRule, stream: StreamConfig) -> Iterator[Signal]:
        held = holds.read_all(self.store, stream.name).all_held(stream.generation)
        oldest = sorted(held.items(), key=lambda one: (one[1].made_at, one[0]))
        for name, case in oldest[:_MOST_HELD]:
            yield _held(stream.name, name, case)
        if len(oldest) > _MOST_HELD:
            more = len(oldest) - _MOST_HELD
            text = f"{more:,} more of {stream.name} are quarantined: firn status"
            yield Signal(stream.name, "more", more, 1, "things", text)
        failing = views.failing(views.read(self.store, stream.name)) if stream.views else ()
        for name in failing[:_MOST_HELD]:
            text = f"{name} of {stream.name} can't be refreshed, and stays as it was: firn status says why"
            yield Signal(stream.name, name, 1, 1, "things", text)

    def _slots(self, rule: AlertRule, stream: StreamConfig) -> Iterator[Signal]:
        for source in self.config.sources.values():
            if source.stream != stream.name:
                continue
            status = read_status(self.store, source.stream, source.name)
            if status is None:
                raise FirnError(f"no pull has looked at {source.name} yet")
            quiet = (self.now - datetime.fromisoformat(status.at)).total_seconds()
            if status.stopped:
                text = f"{source.name} is not read on, and its database keeps all WAL: firn status says why"
            elif quiet > UNSEEN:
                text = f"no pull has looked at {source.name} for {span(quiet)}, and its database keeps all WAL"
            elif status.wal_status in ("unreserved", "lost"):
                text = f"the slot of {source.name} is {status.wal_status}: the database drops WAL that nobody has read"
            elif status.waits:
                raise FirnError(f"{source.name} waits")
            else:
                text = f"{source.name} is {size(status.lag)} of WAL behind its database (limit {size(rule.over)})"
                yield Signal(stream.name, source.name, status.lag, rule.over, "bytes", text)
                continue
            yield Signal(stream.name, source.name, status.lag, rule.over, "bytes", text, surely=True)


def _looked_at_all(
    rule: AlertRule, streams: Sequence[StreamConfig], look: Callable[[AlertRule, StreamConfig], T]
) -> dict[str, T | None]:
    with ThreadPoolExecutor(_STREAMS_AT_ONCE) as pool:
        found = list(pool.map(lambda stream: _looked(rule, stream, look), streams))
    return {stream.name: one for stream, one in zip(streams, found, strict=True)}


def _looked(rule: AlertRule, stream: StreamConfig, look: Callable[[AlertRule, StreamConfig], T]) -> T | None:
    """What `look` finds; None if it can't be had."""
    try:
        return look(rule, stream)
    except FirnError as error:
        _log.warning("%s of %s is not known: %s", rule.on, stream.name, error)
    except Exception as error:  # noqa: BLE001 (one stream whose objects can't be read keeps no other from being looked at)
        _log.warning("%s of %s is not known: %s", rule.on, stream.name, type(error).__name__)
    return None


def _late(rule: AlertRule, stream: str, subject: str, seconds: float) -> Signal:
    text = (
        f"{subject or stream} is late: its oldest change has waited {span(seconds)} for its commit (limit "
        f"{span(rule.over)}); firn status says what holds it"
    )
    return Signal(stream, subject, seconds, rule.over, "seconds", text)


def _unreadable(rule: AlertRule, stream: str, error: Exception) -> Signal:
    text = (
        f"{stream} may be late: nobody has dispatched it for 10 min or more, and its log can't be read "
        f"({type(error).__name__}); firn status says why"
    )
    return Signal(stream, "", 0, rule.over, "seconds", text, surely=True)


def _held(stream: str, name: str, case: Quarantine) -> Signal:
    # Not the message of the case: it may quote what a change held, and this leaves the house.
    what = f"the stream {stream}" if name == "stream" else f"{name} of {stream}"
    text = f"{what} is quarantined ({case.reason}): firn status says why, and what to do"
    return Signal(stream, name, 1, 1, "things", text)


def span(seconds: float) -> str:
    """A duration for people, two units at most."""
    whole = round(seconds)
    for length, unit, below, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= length:
            rest = whole % length // below
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
