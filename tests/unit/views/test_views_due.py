"""Which views are behind, and when a job is to refresh them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firn.config.model import Config, TableRule
from firn.config.modes import VIEW
from firn.config.names import TableName
from firn.config.reader import parse
from firn.config.views import View
from firn.log import cuts
from firn.log.cuts import Cut
from firn.tables.failures import Failure
from firn.views.cut import Told, ViewCut, moment, told
from firn.views.due import Under, ViewStanding, begun, done, failed, next_turn
from firn.views.view_sources import ViewSources, sources_of
from firn.views.view_state import ViewState, ViewStates, is_failing

NOW = datetime(2026, 3, 1, 12, 3, 20, tzinfo=UTC)
TEXT = """
streams:
  shop:
    tables:
      app.orders: {to: lake.orders, key: [id]}
      app.log: {to: lake.log, mode: append}
    pipelines:
      rest: {mode: mirror, sql: 'INSERT INTO lake.rest SELECT id FROM app.orders'}
  crm: {tables: {'app.*': {to: 'lake.{table}', mode: append}, app.no: {to: lake.no, ignore: true}}}
  far: {tables: {app.far: {to: far.things, key: [id]}}}
"""


def view(name: str, *sources: str, every: int = 0, sql: str = "") -> View:
    tables = tuple(map(TableName.parse, sources))
    return View(TableName("v", name), sql or f"SELECT {name}", tables, TableRule(f"v.{name}", f"v.{name}", mode=VIEW),
                every)  # fmt: skip


TOTALS = view("totals", "lake.orders")
SIZES = view("sizes", "v.totals", "far.things")
HOURLY = view("hourly", "lake.orders", every=3600)


def configured(*views: View) -> Config:
    found = parse(TEXT)
    return replace(found, streams={**found.streams, "shop": replace(found.streams["shop"], views=views)})


def sources(*views: View) -> ViewSources:
    found = sources_of(configured(*views), "shop")
    assert found is not None
    return found


def cut(stream: str, n: int, **tables: int) -> Cut:
    named = {f"{'far' if stream == 'far' else 'lake'}.{name}": snapshot for name, snapshot in tables.items()}
    return cuts.make(stream, n, "2026-03-01T12:00:00.000Z", named)


NEWEST = {"shop": cut("shop", 7, orders=70), "far": cut("far", 3, things=30)}


def standings(
    views: tuple[View, ...], states: Mapping[str, ViewState], newest: Mapping[str, Cut] = NEWEST, config: str = "c"
) -> dict[str, ViewStanding]:
    named = {f"v.{name}": one for name, one in states.items()}
    found = Under(sources(*views), newest, config).standings(ViewStates(views=named))
    return {one.view.table.table: one for one in found}


def refreshed(one: View, at: datetime = NOW, newest: Mapping[str, Cut] = NEWEST, *others: View) -> ViewState:
    return done(standings((*others, one), {}, newest)[one.table.table], at)


def test_the_streams_that_may_feed_a_table_are_those_of_its_rules_and_pipelines() -> None:
    read = view("a", "lake.orders", "lake.rest", "lake.no", "far.things")
    assert {str(name): some for name, some in sources(read).feeders.items()} == {
        "lake.orders": ("shop", "crm"), "lake.rest": ("shop", "crm"), "lake.no": ("crm",), "far.things": ("far",),
    }  # fmt: skip
    assert sources(read).streams == ("crm", "far", "shop")
    assert sources_of(configured(), "shop") is None
    assert sources_of(configured(read), "nowhere") is None


def test_a_view_is_to_be_of_the_newest_cuts_of_the_streams_that_feed_it_through_other_views_too() -> None:
    every = Under(sources(TOTALS, SIZES), NEWEST, "c")
    assert every.cut_of(TOTALS).epochs == {"shop": 7}
    assert every.cut_of(SIZES).epochs == {"far": 3, "shop": 7}
    assert every.cut_of(SIZES).snapshots == {
        TableName("lake", "orders"): {70}, TableName("far", "things"): {30}
    }  # fmt: skip
    both = {**NEWEST, "crm": cut("crm", 1, orders=71)}
    assert Under(every.sources, both, "c").cut_of(TOTALS).snapshots[TableName("lake", "orders")] == {70, 71}


def test_a_view_that_never_was_refreshed_is_due_at_once() -> None:
    found = standings((TOTALS,), {})["totals"]
    assert (found.behind, found.is_due(NOW)) == (True, True)


def test_a_cut_that_changes_no_table_of_a_view_makes_it_not_due() -> None:
    known = {"totals": refreshed(TOTALS)}
    assert not standings((TOTALS,), known)["totals"].behind
    newer = {"shop": cut("shop", 9, orders=70, log=99), "crm": cut("crm", 2, other=1)}
    assert not standings((TOTALS,), known, newer)["totals"].behind
    assert standings((TOTALS,), known, {"shop": cut("shop", 9, orders=90)})["totals"].is_due(NOW)


def test_a_view_whose_sql_changed_is_due_at_once_whatever_its_interval() -> None:
    known = {"hourly": refreshed(HOURLY)}
    changed = replace(HOURLY, sql="SELECT other")
    assert standings((changed,), known)["hourly"].is_due(NOW)


def test_a_view_over_one_whose_sql_changed_is_behind_too() -> None:
    known = {"totals": refreshed(TOTALS), "sizes": refreshed(SIZES, NOW, NEWEST, TOTALS)}
    assert not standings((TOTALS, SIZES), known)["sizes"].behind
    assert standings((replace(TOTALS, sql="SELECT other"), SIZES), known)["sizes"].is_due(NOW)


@pytest.mark.parametrize(
    ("every", "after", "due"),
    [(0, "12:03:20", "12:03:20"), (300, "12:03:20", "12:05:00"), (300, "12:05:00", "12:10:00"),
     (3600, "12:59:59", "13:00:00")],
)  # fmt: skip
def test_an_interval_is_one_by_the_clock(every: int, after: str, due: str) -> None:
    day = datetime(2026, 3, 1, tzinfo=UTC)
    at, then = (day + timedelta(**dict(zip(("hours", "minutes", "seconds"), map(int, one.split(":")), strict=True)))
                for one in (after, due))  # fmt: skip
    assert next_turn(at, every) == then


def test_a_view_with_an_interval_waits_for_its_moment() -> None:
    known, newer = {"hourly": refreshed(HOURLY)}, {"shop": cut("shop", 8, orders=80)}
    found = standings((HOURLY,), known, newer)["hourly"]
    assert (found.behind, found.due) == (True, datetime(2026, 3, 1, 13, tzinfo=UTC))


def test_a_view_waits_for_one_that_it_reads() -> None:
    slow = replace(TOTALS, every=3600)
    known = {"totals": refreshed(slow), "sizes": refreshed(SIZES, NOW, NEWEST, slow)}
    newer = {**NEWEST, "shop": cut("shop", 8, orders=80)}
    found = standings((slow, SIZES), known, newer)
    assert found["sizes"].due == found["totals"].due == datetime(2026, 3, 1, 13, tzinfo=UTC)
    assert found["sizes"].waits_for == TOTALS.table


def test_a_view_that_reads_a_table_that_is_in_no_cut_waits_and_starts_nothing() -> None:
    found = standings((TOTALS, SIZES), {}, {"shop": NEWEST["shop"]})
    assert found["totals"].is_due(NOW)
    assert (found["sizes"].due, found["sizes"].waits_for) == (None, TableName("far", "things"))
    found = standings((TOTALS, SIZES), {}, {"far": NEWEST["far"]})
    assert [found[name].due for name in ("totals", "sizes")] == [None, None]


def failing(kind: Any, times: int, config: str = "c") -> list[timedelta]:
    """The pauses of so many failures in a row."""
    state, pauses = ViewState(), []
    for _ in range(times):
        state = failed(state, Failure(kind, "why"), NOW, config)
        assert state.due is not None
        pauses.append(state.due - NOW)
    return pauses


def test_pauses_double_as_far_as_the_kind_of_the_failure_lets_them() -> None:
    transient = [one.total_seconds() for one in failing("transient", 9)]
    assert transient == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert [one.total_seconds() for one in failing("terminal", 8)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert failing("column_gone", 1) == [timedelta(minutes=1)]
    assert failing("transient", 2_000)[-1] == timedelta(minutes=10)


def test_a_failed_view_waits_and_one_that_fails_of_itself_is_tried_at_once_under_another_configuration() -> None:
    for kind, at_once in (("transient", False), ("terminal", True)):
        state = failed(ViewState(), Failure(kind, "why"), NOW, "c")  # type: ignore[arg-type]
        assert not standings((TOTALS,), {"totals": state})["totals"].is_due(NOW)
        assert standings((TOTALS,), {"totals": state})["totals"].is_due(NOW + timedelta(minutes=1))
        assert standings((TOTALS,), {"totals": state}, config="d")["totals"].is_due(NOW) is at_once
        again = failed(state, Failure(kind, "why"), NOW, "d")  # type: ignore[arg-type]
        assert again.tries == 1, "of that configuration"


def test_a_view_that_a_job_began_and_did_not_end_is_behind_whatever_it_was() -> None:
    state = begun(refreshed(TOTALS), NOW, "c")
    found = standings((TOTALS,), {"totals": state})["totals"]
    assert (found.behind, found.is_due(NOW), found.is_due(NOW + timedelta(seconds=10))) == (True, False, True)


def test_what_a_person_should_look_at() -> None:
    passing = Failure("transient", "why")
    state = failed(ViewState(), passing, NOW, "c")
    assert not is_failing(state)
    assert is_failing(failed(failed(state, passing, NOW, "c"), passing, NOW, "c"))
    assert is_failing(failed(ViewState(), Failure("terminal", "why"), NOW, "c"))
    assert not is_failing(ViewState())


def test_a_long_error_is_cut() -> None:
    assert len(failed(ViewState(), Failure("terminal", "x" * 9_000), NOW, "c").error or "") == 500


RECENT = view("recent", "lake.orders", every=3600, sql="SELECT a FROM lake.orders WHERE a > now()")
OVER = view("over", "v.recent", sql="SELECT 1")
HOUR = datetime(2026, 3, 1, 13, tzinfo=UTC)


def test_a_view_that_asks_for_the_time_is_due_at_each_multiple_though_nothing_changes() -> None:
    found = standings((RECENT, OVER), {"recent": refreshed(RECENT), "over": refreshed(OVER, NOW, NEWEST, RECENT)})
    assert [(one.behind, one.due) for one in found.values()] == [(False, HOUR), (False, HOUR)]
    assert not standings((HOURLY,), {"hourly": refreshed(HOURLY)})["hourly"].due


def test_a_view_over_one_that_time_has_changed_is_behind_until_it_is_of_that_moment() -> None:
    later = HOUR + timedelta(seconds=5)
    states = {"recent": refreshed(RECENT, later), "over": refreshed(OVER, NOW, NEWEST, RECENT)}
    found = standings((RECENT, OVER), states)
    assert (found["recent"].behind, found["over"].behind) == (False, True)
    assert found["over"].is_due(later)
    states["over"] = refreshed(OVER, later, NEWEST, RECENT)
    found = standings((RECENT, OVER), states)
    assert [(one.behind, one.due) for one in found.values()] == [(False, HOUR + timedelta(hours=1))] * 2


def test_a_view_over_it_waits_for_its_own_interval() -> None:
    slow = replace(OVER, every=86_400)
    states = {"recent": refreshed(RECENT), "over": refreshed(slow, NOW, NEWEST, RECENT)}
    assert standings((RECENT, slow), states)["over"].due == datetime(2026, 3, 2, tzinfo=UTC)


def test_a_moment_is_never_before_that_of_the_last_refresh() -> None:
    before = Told(RECENT.sha, {}, {}, HOUR)
    assert moment(RECENT, ViewCut({}, {}, NOW), before) == HOUR
    assert moment(RECENT, ViewCut({}, {}, NOW), None) == NOW
    assert moment(RECENT, ViewCut({}, {}, HOUR + timedelta(1), looks=True), before) == HOUR
    assert moment(RECENT, ViewCut({}, {}, NOW, looks=True), None) == NOW
    assert moment(TOTALS, ViewCut({}, {}, NOW), before) is None
    assert told((before.summary(),)) == before
    assert told((Told(TOTALS.sha, {}, {}).summary(),)) == Told(TOTALS.sha, {}, {})
    with pytest.raises(ValueError, match="no moment"):
        moment(RECENT, ViewCut({}, {}), None)
    assert told(({**before.summary(), "firn.view.now": "soon"},)) is None, "all of it is made again"
