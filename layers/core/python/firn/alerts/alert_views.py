"""The alerts as people look at them: which last, which ended lately, and whether anybody was told."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from firn.alerts.alert_delivery import DIED, PAUSES, Delivery, delivery
from firn.alerts.alert_signals import span
from firn.config.alerts import AlertRule, Alerts, Target, Webhook
from firn.config.model import Config
from firn.deployment.terminal import counted, size
from firn.log import alert_log
from firn.log.alert_log import Alert, Moment
from firn.log.store import Store

MOST_ENDED: Final = 50
_READS_AT_ONCE: Final = 16
T = TypeVar("T")


class TargetView(msgspec.Struct, frozen=True):
    """A target: `kind` webhook or sns; `where`: the place of the secret that holds its URL, or the topic's ARN; "" for
    who may not see all of the stack."""

    name: str
    kind: str
    where: str


class RuleView(msgspec.Struct, frozen=True):
    """A rule, in words; `lasting`: how many of its alerts last."""

    name: str
    on: str
    watches: str
    to: tuple[str, ...]
    lasting: int


class DeliveryView(msgspec.Struct, frozen=True):
    """What became of one message: `state` waits, sent, failed or unknown, and why if it did not arrive for sure."""

    target: str
    moment: Moment
    state: Delivery
    tries: int
    why: str = ""


class AlertView(msgspec.Struct, frozen=True):
    """One alert. Times: RFC 3339, UTC; `ended_at` None while it lasts."""

    rule: str
    on: str
    stream: str
    subject: str
    text: str
    began_at: str
    ended_at: str | None
    told: tuple[DeliveryView, ...]


class AlertsView(msgspec.Struct, frozen=True):
    """All that is configured, and what became of it: those that last, then the newest that ended, of `ended` in all."""

    targets: tuple[TargetView, ...]
    rules: tuple[RuleView, ...]
    alerts: tuple[AlertView, ...]
    ended: int


def alerts_view(
    store: Store,
    config: Config,
    now: datetime,
    *,
    most_ended: int = MOST_ENDED,
    sees: Callable[[str, str | None], bool] = lambda _stream, _table: True,
    whole: bool = True,
) -> AlertsView:
    """How the alerts are. `sees`: whether the one who asks may see a stream, and a table of it; `whole`: and all of the
    stack, so that where its secrets lie is told too. Raises StorageUnavailable."""
    alerts = config.alerts or Alerts()
    known = [alert for some in alert_log.read_all(store).alerts.values() for alert in some]
    lasting = sorted((one for one in known if one.ended_at is None), key=lambda one: one.began_at, reverse=True)
    ended = sorted((one for one in known if one.ended_at is not None), key=lambda one: one.began_at, reverse=True)
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        views = list(pool.map(lambda one: _view(store, one, alerts, now, whole), (*lasting, *ended[:most_ended])))
    return AlertsView(
        tuple(_target(one, whole) for one in alerts.targets.values()),
        tuple(
            RuleView(rule.name, rule.on, watches(rule), rule.to, sum(one.rule == rule.name for one in lasting))
            for rule in alerts.rules.values()
            if all(sees(stream, table) for stream in rule.streams or config.streams for table in rule.tables or (None,))
        ),
        tuple(one for one in views if one is not None and sees(one.stream, _table_of(one))),
        len(ended),
    )


def _table_of(view: AlertView) -> str | None:
    is_table = view.on == "freshness" or (view.on == "quarantine" and "." in view.subject)
    return view.subject if view.subject and is_table else None


def watches(rule: AlertRule) -> str:
    """What a rule waits for, in words."""
    where = ", ".join(rule.tables or rule.streams) or "every stream"
    match rule.on:
        case "freshness":
            return f"{where}: a change waits {span(rule.over)} for its commit"
        case "dead_letters":
            return f"{where}: {counted(rule.at_least, 'dead letter')} to replay"
        case "quarantine":
            return f"{where}: anything is quarantined"
        case _:
            return f"sources of {where}: a slot is {size(rule.over)} behind, or nobody reads it"


def _target(target: Target, whole: bool) -> TargetView:
    kind, where = ("webhook", target.address) if isinstance(target, Webhook) else ("sns", target.arn)
    return TargetView(target.name, kind, where if whole else "")


def _view(store: Store, alert: Alert, alerts: Alerts, now: datetime, whole: bool) -> AlertView | None:
    begun = alert_log.begun_of(store, alert)
    if begun is None:
        return None
    ended = alert_log.ended_of(store, alert) if alert.ended_at is not None else None
    moments: Sequence[Moment] = ("begun",) if ended is None else ("begun", "ended")
    told = tuple(_told(store, alert, moment, name, alerts, now) for name in begun.to for moment in moments)
    if not whole:  # why names the secret
        told = tuple(msgspec.structs.replace(one, why="") for one in told)
    text = begun.text if ended is None else ended.text
    return AlertView(
        alert.rule, begun.on, begun.stream, begun.subject, text, begun.at, None if ended is None else ended.at, told
    )


def _told(store: Store, alert: Alert, moment: Moment, target: str, alerts: Alerts, now: datetime) -> DeliveryView:
    tries = alert.tries.get((moment, target), ())
    state = delivery(tries, now)
    why = ""
    if state != "sent" and tries:
        found = alert_log.result_of(store, alert, moment, target, tries[-1])
        why = found.why if found is not None else _unanswered(tries[-1].known(now) is None)
        left = len(PAUSES) - len(tries)
        why += f"; {left} more {'try' if left == 1 else 'tries'}" if left else "; given up"
    if state == "waits" and target not in alerts.targets:
        state, why = "failed", "firn.yaml no longer names the target"
    return DeliveryView(target, moment, state, len(tries), why)


def _unanswered(is_made: bool) -> str:
    return "it is being sent" if is_made else DIED
