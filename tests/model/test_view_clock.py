"""Views whose SQL asks for the time: refreshed at each multiple of `every`, also by jobs that die; each snapshot is the
query at the cut and the moment that it names."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from firn.config.names import TableName
from firn.views import view_state
from firn.views.cut import told
from tests.faults.calls import Counting, Fault
from tests.model.views_world import APART, ORDERS, TOGETHER, VIEWS, Lakes, Written, configuration, read_views
from tests.soak import SEED, few_cases, times

RECENT, BUSY = TableName("v", "recent"), TableName("v", "busy")
TIMED = {
    RECENT: Written(
        "shop", "SELECT id, c FROM lake.orders WHERE to_timestamp(v) > now() - INTERVAL 1 HOUR", (ORDERS,), 600
    ),
    BUSY: Written("shop", "SELECT c, count(*) AS n FROM v.recent GROUP BY c", (RECENT,)),
    **VIEWS,
}


@pytest.fixture(autouse=True)
def views(monkeypatch: pytest.MonkeyPatch) -> None:
    read_views(monkeypatch)


def begun(streams: str = TOGETHER, gate: Counting | None = None) -> Lakes:
    """Orders of now, of half an hour ago and of in ten minutes."""
    lakes = Lakes(configuration(TIMED, streams), gate)
    for n, minutes in enumerate((0, -30, 10, -90)):
        lakes.order(n, n % 2, epoch(lakes, minutes))
    lakes.customer(1, "a")
    lakes.settle(quiet=0)
    return lakes


def epoch(lakes: Lakes, minutes: int = 0) -> int:
    return int((lakes.now + timedelta(minutes=minutes)).timestamp())


def ids(lakes: Lakes) -> list[int]:
    return sorted(row["id"] for row in lakes.catalog.tables[RECENT].rows())


def snapshots(lakes: Lakes, table: TableName = RECENT) -> int:
    return len(lakes.catalog.tables[table].snapshots)


def check(lakes: Lakes) -> None:
    """Both are what they say, and were at the moment that is noted: no refresh was left out."""
    lakes.check_history()
    view = {one.table: one for one in lakes.views()}
    noted = view_state.read(lakes.disk, "shop").views[str(RECENT)]
    assert noted.refreshed_at is not None
    assert lakes.now - noted.refreshed_at < timedelta(minutes=13)
    rows = lakes.expected(view[RECENT], now=noted.refreshed_at)
    assert rows == lakes.expected(view[RECENT])
    said = told(lakes.catalog.tables[BUSY].state().ancestry)
    assert said is not None
    assert said.sources[RECENT][1] == lakes.catalog.tables[RECENT].current
    assert lakes.is_at_newest(view[BUSY])


@pytest.mark.parametrize("streams", [TOGETHER, APART])
def test_rows_go_as_time_passes_and_then_no_snapshot_is_made_any_more(streams: str) -> None:
    lakes = begun(streams)
    assert ids(lakes) == [0, 1, 2]
    lakes.work(40)
    assert ids(lakes) == [0, 2]
    check(lakes)
    lakes.work(50)
    assert ids(lakes) == []
    check(lakes)
    made, started = snapshots(lakes), len(lakes.emr.known)
    busy = snapshots(lakes, BUSY)
    lakes.work(60)
    assert (snapshots(lakes), snapshots(lakes, BUSY)) == (made, busy)
    assert 5 <= len(lakes.emr.known) - started <= 7, "a job at each multiple of ten minutes"
    check(lakes)
    lakes.order(8, 1, epoch(lakes))
    lakes.order(9, 1, epoch(lakes, -120))
    lakes.work(12)
    assert ids(lakes) == [8], "one that comes late stays out"
    check(lakes)


def test_one_job_brings_a_view_over_it_along() -> None:
    lakes = begun(APART)
    lakes.work(5)
    started = len(lakes.emr.known)
    lakes.work(30)
    assert 2 <= len(lakes.emr.known) - started <= 4
    check(lakes)


def test_a_clock_that_goes_back_takes_no_moment_back() -> None:
    lakes = begun()
    lakes.work(40)
    lakes.now -= timedelta(minutes=35)
    lakes.order(7, 1, epoch(lakes, 30))
    lakes.settle(quiet=0)
    assert ids(lakes) == [0, 2, 7]
    lakes.check_history()


def test_a_view_that_was_dropped_is_made_again_as_of_the_moment_that_is_noted() -> None:
    lakes = begun()
    lakes.work(12)
    noted = view_state.read(lakes.disk, "shop").views[str(RECENT)].refreshed_at
    lakes.catalog.drop(RECENT)
    lakes.customer(5, "q")
    lakes.work(1)
    said = told(lakes.catalog.tables[RECENT].state().ancestry)
    assert said is not None
    assert noted is not None
    assert said.now is not None
    assert (said.now - noted) % timedelta(minutes=10) < timedelta(minutes=2)
    lakes.work(12)
    assert view_state.read(lakes.disk, "shop").views[str(RECENT)].refreshed_at != noted


def calls_of_a_turn() -> int:
    gate = Counting()
    lakes = begun(APART, gate)
    passed(lakes)
    before = len(gate.log)
    lakes.jobs()
    return len(gate.log) - before


def passed(lakes: Lakes) -> None:
    """So much time that a row goes."""
    lakes.now += timedelta(minutes=40)
    lakes.tick()


@few_cases(1)
@pytest.mark.parametrize("fault", ["dies before", "dies after", "lost after"])
def test_a_job_that_time_alone_has_started_may_die_at_each_call(fault: Fault) -> None:
    step = times(23, 1)
    for at in range(1 + SEED % step, calls_of_a_turn() + 1, step):
        gate = Counting()
        lakes = begun(APART, gate)
        passed(lakes)
        gate.at, gate.fault = len(gate.log) + at, fault
        lakes.jobs()
        gate.heal()
        lakes.work(13)
        assert ids(lakes) == [0, 2], at
        check(lakes)


def test_a_view_that_fails_by_the_time_is_tried_again() -> None:
    lakes = begun(APART)
    lakes.fails = broken(RECENT)
    lakes.work(40)
    assert ids(lakes) == [0, 1, 2]
    standing = lakes.standings("shop")[RECENT]
    assert standing.behind
    assert standing.state.tries
    lakes.fails = lambda call: None
    lakes.work(15)
    assert ids(lakes) == [0, 2]
    check(lakes)


def broken(table: TableName) -> Callable[[Any], None]:
    def fails(call: Any) -> None:
        if (call.kind, call.table) == ("commit", table):
            raise OSError("what is this")

    return fails


def test_new_sql_is_of_a_moment_too() -> None:
    lakes = begun(APART)
    sql = TIMED[RECENT].sql.replace("1 HOUR", "2 HOUR")
    lakes.publish(configuration({**TIMED, RECENT: replace(TIMED[RECENT], sql=sql)}, APART))
    lakes.work(13)
    assert ids(lakes) == [0, 1, 2, 3]
    check(lakes)
