"""Who is still to be told of an alert, and telling them: each try claimed first, a bounded number of them.

A message may arrive twice, never quietly not at all: a try whose outcome is unknown is followed by another one of the
same id, until one is known to have arrived or all are used up, and then that is said.
"""

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from firn.alerts import sns_topic, webhook
from firn.alerts.alert_message import Message, message_of
from firn.auth.secrets import Secrets
from firn.config.alerts import Target, Webhook
from firn.errors import FirnError
from firn.log import alert_log
from firn.log.alert_log import Alert, Begun, Moment, Try, TryResult, is_past
from firn.log.store import Store

_log: Final = logging.getLogger(__name__)
PAUSES: Final = (timedelta(0), *(timedelta(minutes=n) for n in (1, 2, 5, 15, 60)))
"""How long after the try before each try is made: six tries, over an hour and a half."""
DIED: Final = "whoever sent it died before it was known: it may have arrived"
_AT_ONCE: Final = 8
_MOST: Final = 24  # messages a round: three times a try's seconds
Delivery = Literal["waits", "sent", "failed", "unknown"]


@dataclass(frozen=True)
class Sender:
    """How messages leave. `local`: Settings.alerts_local; `environment`: the deployment's name."""

    secrets: Secrets
    local: str
    environment: str

    def send(self, target: Target, message: Message) -> TryResult:
        """One try, whatever goes wrong."""
        now = datetime.now(UTC)
        if isinstance(target, Webhook):
            return webhook.send(target, message, self.secrets, now, local=bool(self.local))
        return sns_topic.publish(target, message, now, local=self.local)


@dataclass(frozen=True)
class _Due:
    alert: Alert
    begun: Begun
    moment: Moment
    target: Target
    k: int
    message: Message


def delivery(tries: Sequence[Try], now: datetime) -> Delivery:
    """What became of a message by all tries so far. Pure."""
    outcomes = [one.known(now) for one in tries]
    if "sent" in outcomes:
        return "sent"
    if len(tries) < len(PAUSES) or None in outcomes:
        return "waits"
    return "unknown" if "unknown" in outcomes else "failed"


def next_try(tries: Sequence[Try], now: datetime) -> int | None:
    """The number of the try that is to be made now; None if there is none, or not yet. Pure."""
    if delivery(tries, now) != "waits":
        return None
    k = 1 + max((one.k for one in tries), default=0)
    if k > len(PAUSES):
        return None
    last = tries[-1] if tries else None
    if last is not None and (last.known(now) is None or not is_past(last.at, PAUSES[k - 1], now)):
        return None
    return k


def make_tries(
    store: Store, alerts: Sequence[Alert], targets: Mapping[str, Target], sender: Sender, now: datetime
) -> list[tuple[str, str, TryResult]]:
    """Make the tries that are due -> (alert, target, what came of it) of each. A target that cannot be told keeps no
    other. Raises StorageUnavailable."""
    due = _by_turns(_due(store, alerts, targets, sender.environment, now))
    if len(due) > _MOST:
        _log.warning("%d messages are due, %d are sent now", len(due), _MOST)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        made = list(pool.map(lambda one: (one, _try(store, one, sender)), due[:_MOST]))
    return [(one.alert.rule, one.target.name, result) for one, result in made if result is not None]


def _by_turns(due: Iterable[_Due]) -> list[_Due]:
    """Each target's in turn, and of a target those first that were tried least: a round has time for so many."""
    places: Counter[str] = Counter()
    order = []
    for one in sorted(due, key=lambda one: one.k):
        order.append((places[one.target.name], one))
        places[one.target.name] += 1
    return [one for _, one in sorted(order, key=lambda placed: placed[0])]


def _due(
    store: Store, alerts: Sequence[Alert], targets: Mapping[str, Target], environment: str, now: datetime
) -> Iterator[_Due]:
    for alert in alerts:
        begun = alert_log.begun_of(store, alert)
        for name in begun.to if begun is not None else ():
            target = targets.get(name)  # one that firn.yaml no longer names is told nothing
            if begun is None or target is None:
                continue
            moment: Moment = "begun"
            if alert.ended_at is not None and delivery(alert.tries.get(("begun", name), ()), now) != "waits":
                moment = "ended"
            k = next_try(alert.tries.get((moment, name), ()), now)
            ended = alert_log.ended_of(store, alert) if k is not None and moment == "ended" else None
            if k is not None and (moment == "begun" or ended is not None):
                yield _Due(alert, begun, moment, target, k, message_of(begun, ended, moment, environment))


def note_deaths(store: Store, alerts: Sequence[Alert], now: datetime) -> int:
    """Write of each message whose last try's maker died that nobody knows what came of it -> how many were written.

    Those are given up by no round that makes a try. Whoever creates the object counts it.
    """
    count = 0
    for alert in alerts:
        for (moment, target), tries in alert.tries.items():
            last = tries[-1]
            if len(tries) < len(PAUSES) or last.outcome is not None or last.known(now) is None:
                continue
            result = alert_log.result_now("unknown", now, DIED)
            try:
                written = alert_log.write_result(store, alert, moment, target, last.k, result)
            except FirnError as error:
                _log.warning("that telling %s of %s ended is not written: %s", target, alert.rule, error)
                continue
            count += written and "sent" not in [one.outcome for one in tries]
    return count


def is_settled(alert: Alert, to: Sequence[str], now: datetime) -> bool:
    """Whether nobody is to be told of it any more. Pure."""
    moments: tuple[Moment, ...] = ("begun",) if alert.ended_at is None else ("begun", "ended")
    return all(delivery(alert.tries.get((moment, name), ()), now) != "waits" for moment in moments for name in to)


def _try(store: Store, due: _Due, sender: Sender) -> TryResult | None:
    """One try. None if it is somebody else's, or what was to be written of it could not be."""
    try:
        if not alert_log.claim(store, due.alert, due.moment, due.target.name, due.k, uuid.uuid4().hex):
            return None
    except FirnError as error:
        _log.warning("try %d to tell %s of %s is not made: %s", due.k, due.target.name, due.alert.rule, error)
        return None
    result = sender.send(due.target, due.message)
    try:
        alert_log.write_result(store, due.alert, due.moment, due.target.name, due.k, result)
    except FirnError as error:
        _log.warning("what came of telling %s of %s is not written: %s", due.target.name, due.alert.rule, error)
    return result
