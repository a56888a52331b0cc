"""A round of the alerts: what begins, what ends, who is told. The alerts function does one at each of its ticks.

Every step is created if absent: rounds may overlap, repeat or die anywhere, and each alert begins once and ends once.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from firn.alerts.alert_delivery import PAUSES, Sender, delivery, is_settled, make_tries, note_deaths
from firn.alerts.alert_message import message_of_test
from firn.alerts.alert_signals import Observer, Seen, Signal, span
from firn.config.alerts import AlertRule, Alerts
from firn.config.model import Config
from firn.errors import ConfigError, FirnError
from firn.log import alert_log, layout
from firn.log.alert_log import Alert, AlertLog, Begun, Ended, is_past, place_of
from firn.log.batches import FORMAT
from firn.log.store import Store

_log: Final = logging.getLogger(__name__)
QUIET: Final = timedelta(minutes=10)  # after an end, before the same can begin again: nobody is told each minute
NONCE_LENGTH: Final = 32
_LATE: Final = timedelta(days=1)  # after an end, nobody wants to hear of it
Log = logging.Logger | Any  # Powertools' logger, which is not a logging.Logger


@dataclass(frozen=True)
class RoundResult:
    """What a round did. `untold`: messages that were given up in it."""

    begun: int = 0
    ended: int = 0
    sent: int = 0
    failed: int = 0
    unknown: int = 0
    untold: int = 0


def run(store: Store, config: Config, sender: Sender, now: datetime, log: Log = _log) -> RoundResult:
    """One round. `now`: aware. What can't be read or written is left to the next one.

    Raises StorageUnavailable if nothing can be read at all.
    """
    alerts = config.alerts
    if alerts is None:
        return RoundResult()
    before = alert_log.read_all(store)
    observer = Observer(store, config, now)
    begun = ended = 0
    for rule in alerts.rules.values():
        seen = observer.see(rule)
        begun += sum(_begin(store, rule, signal, before, now) for signal in _to_begin(store, rule, seen, before, now))
        ended += sum(_end(store, alert, text, now) for alert, text in _to_end(store, rule, seen, before, now))
    after = alert_log.read_all(store) if begun or ended else before
    recent = [one for some in after.alerts.values() for one in some if not one.ended_at or now - one.ended_at < _LATE]
    waiting = [alert for alert in recent if not _is_done(store, alert, now)]
    tried = make_tries(store, waiting, alerts.targets, sender, now)
    for name, target, one in tried:
        (log.info if one.outcome == "sent" else log.warning)(
            "alert told", extra={"alert": name, "target": target, "outcome": one.outcome, "why": one.why}
        )
    untold = (_given_up(store, waiting, now) if tried else 0) + note_deaths(store, recent, now)
    counts = {outcome: sum(one.outcome == outcome for _, _, one in tried) for outcome in ("sent", "failed", "unknown")}
    return RoundResult(begun, ended, **counts, untold=untold)


def send_test(config: Config, sender: Sender, name: str, nonce: str) -> list[dict[str, Any]]:
    """Send a test to a target, to those of a rule, or, without a name, to all -> what came of each.

    nonce  letters and digits: the same at a repeat, so that a receiver knows it. Raises ConfigError: there is no such.
    """
    alerts = config.alerts or Alerts()
    if not alerts.targets:
        raise ConfigError("firn.yaml has no alerts.targets: docs/alerts.md says how to write them")
    if not nonce.isascii() or not nonce.isalnum() or len(nonce) > NONCE_LENGTH:
        raise ConfigError(f"nonce has letters and digits, {NONCE_LENGTH} at most")
    if not (to := alerts.named(name)):
        known = ", ".join((*alerts.targets, *alerts.rules))
        raise ConfigError(f"firn.yaml has no target and no alert of this name; there are {known}")
    found = []
    for target in to:
        result = sender.send(target, message_of_test(target.name, sender.environment, nonce))
        found.append(
            {"target": target.name, "outcome": result.outcome, "why": result.why, "status": result.status or None}
        )
    return found


def _to_begin(store: Store, rule: AlertRule, seen: Seen, known: AlertLog, now: datetime) -> Iterator[Signal]:
    """What begins. An alert that lasts, but of which nobody can read what it is, told nobody and begins again."""
    for signal in seen.signals:
        newest = known.newest(rule.name, place_of(rule.on, signal.stream, signal.subject))
        if newest is not None and newest.ended_at is None and alert_log.begun_of(store, newest) is not None:
            continue
        if newest is not None and newest.ended_at is not None and not is_past(newest.ended_at, QUIET, now):
            continue
        if signal.holds(lasting=False):
            yield signal


def _to_end(store: Store, rule: AlertRule, seen: Seen, known: AlertLog, now: datetime) -> Iterator[tuple[Alert, str]]:
    """The alerts of the rule that no signal holds any more. One that could not be looked at lasts."""
    held = {place_of(rule.on, one.stream, one.subject) for one in seen.signals if one.holds(lasting=True)}
    watched = {place_of(rule.on, one.stream, one.subject) for one in seen.signals}
    for (name, place), some in known.alerts.items():
        if name != rule.name or some[-1].ended_at is not None or place in held:
            continue
        begun = alert_log.begun_of(store, some[-1])
        if begun is None or begun.stream in seen.unseen or begun.subject in seen.unseen:
            continue
        lasted = span((now - datetime.fromisoformat(begun.at)).total_seconds())
        # Of what is held there is a signal only while it is.
        over = _OVER[begun.on] if place in watched or begun.on == rule.on == "quarantine" else "no longer watched,"
        yield some[-1], f"{_about(begun)}: {over} after {lasted} (alert {rule.name})"


_OVER: Final[Mapping[str, str]] = {
    "freshness": "fresh again", "dead_letters": "no more dead letters to replay than allowed",
    "quarantine": "no longer quarantined", "slot_lag": "read on, and within its limit again",
}  # fmt: skip


def _about(begun: Begun) -> str:
    if begun.on == "quarantine":
        return f"{begun.subject} of {begun.stream}"
    return begun.subject or begun.stream


def _begin(store: Store, rule: AlertRule, signal: Signal, known: AlertLog, now: datetime) -> bool:
    n = known.following(rule.name, place_of(rule.on, signal.stream, signal.subject))
    begun = Begun(
        FORMAT, rule.name, rule.on, signal.stream, signal.subject, n, layout.instant(now), round(signal.value, 3),
        signal.limit, signal.unit, f"{signal.text} (alert {rule.name})", rule.to,
    )  # fmt: skip
    return _written(f"the alert {rule.name} of {signal.stream}", lambda: alert_log.begin(store, begun))


def _end(store: Store, alert: Alert, text: str, now: datetime) -> bool:
    ended = Ended(FORMAT, layout.instant(now), text)
    return _written(f"the end of the alert {alert.rule}", lambda: alert_log.end(store, alert, ended))


def _written(what: str, write: Callable[[], bool]) -> bool:
    """Whether this round wrote it. An unclear answer is looked at by the next round."""
    try:
        return write()
    except FirnError as error:
        _log.warning("%s is not known to be written: %s", what, error)
        return False


def _is_done(store: Store, alert: Alert, now: datetime) -> bool:
    begun = alert_log.begun_of(store, alert)
    return begun is None or is_settled(alert, begun.to, now)


def _given_up(store: Store, waiting: Sequence[Alert], now: datetime) -> int:
    """How many messages of these alerts are out of tries now."""
    after = alert_log.read_all(store)
    count = 0
    for alert in waiting:
        newer = next((one for one in after.alerts.get((alert.rule, alert.place), ()) if one.n == alert.n), alert)
        for of, tries in newer.tries.items():
            was = delivery(alert.tries.get(of, ()), now)
            count += was == "waits" and len(tries) == len(PAUSES) and delivery(tries, now) in ("failed", "unknown")
    return count
