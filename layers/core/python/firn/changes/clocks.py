"""Places that are times of somebody's clock: a change far in the future would keep its row from changing until then.

So one that lies more than a day after the change was accepted is refused, as a time of `order_by` is: a record's
timestamp in Kafka (`order: timestamp`), Hasura's `created_at`, `timestamp` of Firn's plain changes, the start of a
firn.Producer. A position in a source's log is no such place, though it may hold a time (MongoDB's cluster time goes on
from wherever it is). Pure (docs/adr/0067-places-that-are-times.md).
"""

from collections.abc import Collection, Sequence
from typing import Final

from firn.changes.record import BY_TIME
from firn.errors import EventError

AHEAD: Final = 86_400_000  # ms after a change was accepted
_WHY: Final = "more than a day after the change came: no change of the row before then would count any more"
_RECORDS: Final = "the timestamp of its record"
_SAID: Final = {"hasura": "`created_at`", "seed": "`timestamp`", "firn": "when its producer started"}


def ahead(
    connectors: Sequence[str | None],
    orders: Sequence[str | None],
    times: Sequence[int | None],
    accepted: Sequence[int],
    *,
    without: Collection[str] = (),
) -> dict[int, EventError]:
    """The places of changes that stand too far ahead, and why. `orders`: their order texts; what can't be read is
    passed over. `times`: their source times, ms, or nothing; `accepted`: when each came, ms, 0 if that is not known;
    `without`: connectors whose order does not count in this stream."""
    if _SAID.keys().isdisjoint(connectors) and not any(order and order.startswith(BY_TIME) for order in orders):
        return {}
    found = {}
    for row, (connector, order, came) in enumerate(zip(connectors, orders, accepted, strict=False)):
        if order is None or not came or connector in without:
            continue
        time = _time(connector or "", order, times[row] if times else None)
        if time is not None and time > came + AHEAD:
            what = _RECORDS if order.startswith(BY_TIME) else _SAID[connector or ""]
            found[row] = EventError("future_order", f"{what} is {_WHY}")
    return found


def _time(connector: str, order: str, ts: int | None) -> int | None:
    """The time that the place is, ms; None if it is none."""
    try:
        if order.startswith(BY_TIME):
            return int(order.split(":", 2)[1][:60])
        if connector not in _SAID or not order.startswith("[") or order.startswith('["'):
            return None
        first = int(order[1:-1].partition(",")[0][:60])
    except ValueError:
        return None
    if connector != "seed":
        return first if connector == "firn" else first // 1_000
    # Of a plain change the place may be an LSN or a number of its own: then it is not its time.
    return ts if first // 1_000 == ts else None
