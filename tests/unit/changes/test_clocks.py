"""Places that are times: one far ahead of when its change came would keep the row from changing until then."""

import json
from datetime import timedelta
from typing import Any

import pytest

from firn.changes import clocks
from firn.log.dead_letters.letters import read_dead
from firn.log.store import paths
from tests.emitters import Emitted

NOW = 1_700_000_000_000
DAY = 86_400_000


def fits(connector: str, order: str | None, ts: int | None = None, accepted: int = NOW) -> bool:
    found = clocks.ahead([connector], [order], [ts], [accepted])
    assert [error.code for error in found.values()] == ["future_order"] * len(found)
    return not found


@pytest.mark.parametrize("ahead", [-(10**12), 0, DAY, DAY + 1, 10**15])
def test_a_time_may_be_a_day_ahead_of_when_its_change_came(ahead: int) -> None:
    time = NOW + ahead
    good = ahead <= DAY
    assert fits("rows", f"@kafka-time:{max(time, 0)}:1:2:0") is good
    assert fits("hasura", f"[{time * 1_000 + 999}]") is good
    assert fits("seed", f"[{time * 1_000},7]", time) is good
    assert fits("firn", f"[{time},7]") is good
    assert fits("hasura", f"[{time * 1_000}]", accepted=0), "when it came is not known"


def test_what_is_no_time_is_not_compared_with_one() -> None:
    for connector, order, ts in (
        ("seed", f"[{9 * 10**18},0]", None),  # a number of its own
        ("seed", f"[{9 * 10**18},0]", NOW),  # an LSN, and a time beside it
        ("hasura", '["ffffffffffffffffffffffffffff",0]', None),
        ("rows", "@kafka:999999999999999:1:0", None),
        ("rows", "@kinesis:99999999999999999999:0:0", None),
        ("mongodb", f"[{NOW + 10 * DAY},1]", NOW + 10 * DAY),
        ("postgresql", f"[{NOW + 10 * DAY},{NOW + 10 * DAY}]", NOW + 10 * DAY),
        ("seed", None, NOW + 10 * DAY),
        ("rows", "@kafka-time:x:1:2:0", None),
        ("hasura", "[x]", None),
    ):
        assert fits(connector, order, ts)


def hasura(version: int, created: str) -> bytes:
    event = {"op": "UPDATE", "data": {"old": None, "new": {"id": 1, "version": version}}}
    told: dict[str, Any] = {"created_at": created, "event": event, "table": {"schema": "app", "name": "one"}, "id": "x"}
    return json.dumps(told | {"trigger": {"name": "t"}}).encode()


def seed(version: int, time: str) -> bytes:
    row = {"id": 1, "version": version}
    return json.dumps({"operation": "UPDATE", "table": "app.one", "newRow": row, "timestamp": time}).encode()


@pytest.mark.parametrize("write", [hasura, seed])
def test_a_change_from_far_ahead_is_a_dead_letter_and_later_ones_count(write: Any) -> None:
    lake = Emitted(write.__name__, {"app.one": "{to: lake.one, key: [id]}"})
    far, now = (lake.now + timedelta(days=400)).isoformat(), lake.now.isoformat()
    lake.post([write(1, far)])
    lake.post([write(2, now)])
    lake.commit()
    assert lake.rows("one") == [{"id": 1, "version": 2}]
    (letter,) = [one for path in paths(lake.ground.store, "dead/") for one in read_dead(lake.ground.store, path)]
    assert (letter.reason, "timestamp" in letter.message or "created_at" in letter.message) == ("future_order", True)


def test_a_version_orders_hasuras_changes_where_the_stream_names_it() -> None:
    events = [hasura(3, "2026-11-20T00:00:00"), hasura(2, "2026-11-20T00:00:01")]
    for order_by, version in (("", 2), ("order_by: version", 3)):
        lake = Emitted("hasura", {"app.one": "{to: lake.one, key: [id]}"}, order_by)
        lake.take(events[:1], events[1:])
        assert lake.rows("one") == [{"id": 1, "version": version}]
