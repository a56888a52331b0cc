"""firn flush waits for the views over what it has committed."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from firn.deployment.flushed_views import FlushedViews
from firn.log import cuts
from firn.status.view_status import view_statuses
from firn.tables.failures import Failure
from firn.views import due, view_state
from firn.views.view_state import ViewStates
from tests.model.views_world import (
    APART,
    CUSTOMERS,
    NAMED,
    SIZES,
    SLOW,
    TOTALS,
    VIEWS,
    Lakes,
    configuration,
    read_views,
)


@pytest.fixture(autouse=True)
def views(monkeypatch: pytest.MonkeyPatch) -> None:
    read_views(monkeypatch)


@pytest.fixture
def lakes() -> Lakes:
    found = Lakes(configuration(streams=APART))
    found.order(1, 1)
    found.customer(1, "a")
    found.settle()
    found.now = found.now.replace(minute=50, second=5)
    found.customer(1, "b")
    found.work()
    return found


def flushed(
    lakes: Lakes, *streams: str, dispatch: Callable[[str], Mapping[str, Any]] | None = None, seconds: float = 60.0
) -> dict[str, dict[str, str]]:
    def at_work(stream: str) -> Mapping[str, Any]:
        lakes.tick(stream)
        lakes.jobs()
        return {"stream": stream, "pending": None}

    epochs = {name: cuts.newest(lakes.disk, name) for name in streams}
    waiting = FlushedViews(lakes.disk, epochs, dispatch or at_work, lambda *_: None, lambda: lakes.now)
    return waiting.wait(time.monotonic() + seconds, 0.001)


def behind(lakes: Lakes) -> set[str]:
    return {
        one.view for name in ("shop", "crm") for one in view_statuses(lakes.disk, lakes.config, name, lakes.now)
        if one.behind_seconds is not None
    }  # fmt: skip


def changed(lakes: Lakes) -> None:
    """A customer is committed, and no view refreshed: crm's are not due, shop's job does not know yet."""
    lakes.customer(1, "c")
    lakes.tick("crm")
    [run] = lakes.emr.active()
    lakes.job(run)


def test_views_with_every_and_those_of_other_streams_are_brought_to_the_cut(lakes: Lakes) -> None:
    changed(lakes)
    assert behind(lakes) == {str(SLOW), str(NAMED), str(SIZES)}
    assert flushed(lakes, "crm") == {}
    assert behind(lakes) == set()
    state = view_state.read(lakes.disk, "crm").views[str(SLOW)]
    assert (state.asked, state.refreshed_at and state.refreshed_at.minute) == (False, lakes.now.minute)
    lakes.now = lakes.now.replace(minute=56)
    for name in ("d", "e"):
        lakes.customer(1, name)
        lakes.work()
    assert str(SLOW) in behind(lakes), "once asked for is once"


def test_views_of_tables_that_were_not_flushed_are_not_waited_for(lakes: Lakes) -> None:
    changed(lakes)
    assert flushed(lakes, dispatch=_nobody) == {}
    assert str(SLOW) in behind(lakes)


def test_a_view_that_was_refreshed_since_is_not_waited_for_again(lakes: Lakes) -> None:
    """While changes go on coming a view is always behind."""
    changed(lakes)
    states = [one for name in ("shop", "crm") for one in view_state.read(lakes.disk, name).views.values()]
    epoch = min(one.epochs["crm"] for one in states if "crm" in one.epochs)
    assert epoch < cuts.newest(lakes.disk, "crm")
    waiting = FlushedViews(lakes.disk, {"crm": epoch}, _nobody, lambda *_: None, lambda: lakes.now)
    assert waiting.wait(time.monotonic() + 60, 0.001) == {}


def test_one_that_is_quarantined_and_those_over_it_are_named_with_the_reason(lakes: Lakes) -> None:
    known = view_state.read(lakes.disk, "shop")
    wrong = due.failed(known.views[str(TOTALS)], Failure("terminal", "no column c"), lakes.now, lakes.config.sha)
    wrong = msgspec.structs.replace(wrong, due=lakes.now + timedelta(hours=1))
    view_state.write(lakes.disk, "shop", ViewStates(views={**known.views, str(TOTALS): wrong}))
    lakes.order(7, 1)
    lakes.tick("shop")
    lakes.jobs()
    assert flushed(lakes, "shop") == {
        "shop": {str(TOTALS): "it is quarantined: no column c", str(SIZES): f"it waits for {TOTALS}"}
    }


def test_at_the_end_of_the_time_those_that_are_on_their_way_are_named(lakes: Lakes) -> None:
    changed(lakes)
    asked: list[str] = []
    left = flushed(lakes, "crm", dispatch=lambda name: asked.append(name) or {"stream": name}, seconds=1)
    why = "its refresh goes on, see firn status"
    assert left == {"crm": {str(NAMED): why, str(SIZES): why, str(SLOW): why}}
    assert asked == ["shop", "crm"], "not at each look"


def test_why_no_job_comes_is_told(lakes: Lakes) -> None:
    changed(lakes)
    for answer, why in (
        ({"paused": "2026-01-01T00:00:00Z"}, "commits are paused (firn resume)"),
        ({"held": "broken", "pending": [1, 2]}, "is quarantined: broken"),
        ({"error": "storage is away"}, "no job can be started for it: storage is away"),
        ({"pending": [1, 2]}, "no job was started for it, see firn status"),
    ):
        left = flushed(lakes, "crm", dispatch=lambda name, answer=answer: {"stream": name, **answer})  # type: ignore[misc]
        assert [*left] == ["crm"]
        assert all(why in one for one in left["crm"].values()), left


def test_a_view_that_waits_for_a_table_is_named_with_it() -> None:
    lakes = Lakes(configuration({NAMED: VIEWS[NAMED]}, APART))
    lakes.order(1, 1)
    lakes.work(2)
    assert flushed(lakes, "shop", dispatch=_nobody) == {"shop": {str(NAMED): f"it waits for {CUSTOMERS}"}}


def _nobody(stream: str) -> Mapping[str, Any]:
    raise AssertionError(stream)
