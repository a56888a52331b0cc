"""Which alerts have begun and ended, and who was told of it: append-only, each object created if absent.

    alerts/{rule}/{hash of what it is about}/{n:020d}.begun, .ended
    alerts/{rule}/{hash}/{n:020d}.{begun, ended}.{target}.{k:02d}.try                      try k is claimed
    alerts/{rule}/{hash}/{n:020d}.{begun, ended}.{target}.{k:02d}.{sent, failed, unknown}  what came of it

Whoever creates `.begun` has begun the alert, whoever creates `.try` makes that try, and nobody else: two rounds at once
tell nobody twice. A try whose maker died has no outcome, and says by its age that nobody knows it. A lifecycle rule
takes the objects after 30 days: an alert that lasts longer begins once more, which reminds of it.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from firn.config.alerts import AlertOn
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, objects, put_if_absent
from firn.log.store_cache import Remembered

Moment = Literal["begun", "ended"]
Outcome = Literal["sent", "failed", "unknown"]
PREFIX: Final = "alerts"
STALE: Final = timedelta(minutes=3)  # of a try: longer than any function that makes one may run
_SKEW: Final = timedelta(hours=1)  # how far clocks may be apart
_NAME: Final = re.compile(
    r"alerts/(?P<rule>[a-z0-9_-]+)/(?P<subject>[0-9a-f]{32})/(?P<n>[0-9]{20})\.(?P<moment>begun|ended)"
    r"(\.(?P<target>[a-z0-9_-]+)\.(?P<k>[0-9]{2})\.(?P<kind>try|sent|failed|unknown))?"
)


class Begun(msgspec.Struct, frozen=True):
    """That an alert has begun. `subject`: the table, the source or what is held; "" for the stream itself. `value` had
    reached `limit`, in `unit`. `to`: the targets that are told."""

    format: int
    rule: str
    on: AlertOn
    stream: str
    subject: str
    n: int
    at: str  # RFC 3339, UTC, milliseconds
    value: float
    limit: float
    unit: str
    text: str
    to: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True):
    """That it has ended."""

    format: int
    at: str
    text: str


class TryResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a try. `why`: if it was not sent; `status`: HTTP's, where there was one."""

    format: int
    at: str
    outcome: Outcome
    why: str = ""
    status: int = 0


@dataclass(frozen=True)
class Try:
    """One try to tell a target. `at`: when the storage took its claim. `outcome`: None while it may still be made."""

    k: int
    at: datetime
    outcome: Outcome | None = None

    def known(self, now: datetime) -> Outcome | None:
        """What came of it, as far as anybody can tell; None while it is made."""
        return self.outcome or ("unknown" if is_past(self.at, STALE, now) else None)


@dataclass(frozen=True)
class Alert:
    """One alert, by the names of its objects. `tries`: by moment and target, in order; `ended_at`: when the storage
    took its end, None while it lasts."""

    rule: str
    place: str  # of its subject (place_of)
    n: int
    began_at: datetime
    ended_at: datetime | None = None
    tries: Mapping[tuple[Moment, str], tuple[Try, ...]] = field(default_factory=dict)


_begun: Final = msgspec.json.Decoder(Begun).decode
_ended: Final = msgspec.json.Decoder(Ended).decode
_result: Final = msgspec.json.Decoder(TryResult).decode
_encode: Final = msgspec.json.encode
_known: Final = Remembered[str, bytes]()
_MOST_KNOWN: Final = 5_000


def is_past(since: datetime, least: timedelta, now: datetime) -> bool:
    """Whether at least so much time has gone by. What lies further ahead than clocks are apart is waited for by nobody:
    the clock that wrote it was set back. Pure."""
    return now - since >= least or since - now > _SKEW


def place_of(on: AlertOn, stream: str, subject: str) -> str:
    """The folder of an alert's subject: names are whatever a source calls its tables. A rule that watches something
    else from now on begins anew."""
    return hashlib.sha256(f"{on}\n{stream}\n{subject}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class AlertLog:
    """Every alert by (rule, place), by number; and the highest number that anything of a subject has, which outlives
    the beginning of an alert that has expired."""

    alerts: Mapping[tuple[str, str], Sequence[Alert]]
    highest: Mapping[tuple[str, str], int]

    def newest(self, rule: str, place: str) -> Alert | None:
        """The newest alert of a subject, None if there is none."""
        return next(iter(self.alerts.get((rule, place), ())[-1:]), None)

    def following(self, rule: str, place: str) -> int:
        """The number of the next alert of a subject."""
        return 1 + self.highest.get((rule, place), 0)


def read_all(store: Store) -> AlertLog:
    """What there is. One listing. Raises StorageUnavailable."""
    found: dict[tuple[str, str, int], Alert] = {}
    highest: dict[tuple[str, str], int] = {}
    tries: dict[tuple[str, str, int], dict[tuple[Moment, str, int], Try]] = {}
    for path, _, modified in objects(store, PREFIX):
        name = _NAME.fullmatch(path)
        if name is None:
            continue
        of, moment = (name["rule"], name["subject"], int(name["n"])), _moment(name["moment"])
        highest[of[:2]] = max(of[2], highest.get(of[:2], 0))
        if name["kind"] is not None:
            key = (moment, name["target"], int(name["k"]))
            _note(tries.setdefault(of, {}), key, name["kind"], modified)
        elif moment == "begun":
            before = found.get(of)
            found[of] = Alert(*of, began_at=modified, ended_at=before.ended_at if before else None)
        elif of in found:  # `.begun` sorts before `.ended`
            found[of] = replace(found[of], ended_at=modified)
    alerts: dict[tuple[str, str], list[Alert]] = {}
    for of, alert in sorted(found.items()):
        made = tries.get(of, {})
        ways = dict.fromkeys((moment, target) for moment, target, _ in made)
        by = {way: tuple(one for key, one in sorted(made.items()) if key[:2] == way) for way in ways}
        alerts.setdefault(of[:2], []).append(replace(alert, tries=by))
    return AlertLog(alerts, highest)


def _moment(text: str) -> Moment:
    return "begun" if text == "begun" else "ended"


def _note(made: dict[tuple[Moment, str, int], Try], key: tuple[Moment, str, int], kind: str, at: datetime) -> None:
    before = made.get(key)
    if kind == "try":
        made[key] = Try(key[2], at, before.outcome if before else None)
    elif before is None or before.outcome != "sent":  # who was thought dead may have sent it
        outcome: Outcome = "sent" if kind == "sent" else "failed" if kind == "failed" else "unknown"
        made[key] = Try(key[2], before.at if before else at, outcome)


def begin(store: Store, begun: Begun) -> bool:
    """Begin it. -> False if somebody else has. Raises StorageUnavailable, UnknownOutcome."""
    place = place_of(begun.on, begun.stream, begun.subject)
    return put_if_absent(store, path_of(begun.rule, place, begun.n), _encode(begun))


def end(store: Store, alert: Alert, ended: Ended) -> bool:
    """End it. -> False if somebody else has. Raises StorageUnavailable, UnknownOutcome."""
    return put_if_absent(store, path_of(alert.rule, alert.place, alert.n, "ended"), _encode(ended))


def claim(store: Store, alert: Alert, moment: Moment, target: str, k: int, nonce: str) -> bool:
    """Claim a try. `nonce`: whose claim it is. -> False if somebody else makes it. Raises StorageUnavailable,
    UnknownOutcome: then nobody makes it."""
    return put_if_absent(store, _try_path(alert, moment, target, k, "try"), nonce.encode())


def write_result(store: Store, alert: Alert, moment: Moment, target: str, k: int, result: TryResult) -> bool:
    """Write what came of a try that was claimed. -> False if that is there. Raises StorageUnavailable,
    UnknownOutcome."""
    return put_if_absent(store, _try_path(alert, moment, target, k, result.outcome), _encode(result))


def begun_of(store: Store, alert: Alert) -> Begun | None:
    """What it says of itself; None if it expired meanwhile, or can't be read. Raises StorageUnavailable."""
    data = _object(store, path_of(alert.rule, alert.place, alert.n))
    try:
        found = None if data is None else _begun(data)
    except msgspec.MsgspecError:
        return None
    return found if found is not None and found.format <= FORMAT else None


def ended_of(store: Store, alert: Alert) -> Ended | None:
    """What its end says, likewise."""
    data = _object(store, path_of(alert.rule, alert.place, alert.n, "ended"))
    try:
        return None if data is None else _ended(data)
    except msgspec.MsgspecError:
        return None


def result_of(store: Store, alert: Alert, moment: Moment, target: str, made: Try) -> TryResult | None:
    """What came of a try, likewise; None while that is not known."""
    if made.outcome is None:
        return None
    data = _object(store, _try_path(alert, moment, target, made.k, made.outcome))
    try:
        return None if data is None else _result(data)
    except msgspec.MsgspecError:
        return None


def path_of(rule: str, place: str, n: int, moment: Moment = "begun") -> str:
    """Where an alert's begin or end lies."""
    return f"{PREFIX}/{rule}/{place}/{n:020d}.{moment}"


def result_now(outcome: Outcome, now: datetime, why: str = "", status: int = 0) -> TryResult:
    """What came of a try, of the present format."""
    return TryResult(FORMAT, layout.instant(now), outcome, why, status)


def _try_path(alert: Alert, moment: Moment, target: str, k: int, kind: str) -> str:
    return f"{path_of(alert.rule, alert.place, alert.n, moment)}.{target}.{k:02d}.{kind}"


def _object(store: Store, path: str) -> bytes | None:
    """An object that never changes."""
    known = _known.of(store)
    if path not in known:
        data = get(store, path)
        if data is None:
            return None
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[path] = data
    return known[path]
