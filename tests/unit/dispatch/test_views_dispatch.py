"""Dispatch starts a job for views that are due, and asks for nothing where there are none."""

from datetime import timedelta
from typing import Any

from firn.dispatch.dispatcher import Dispatched
from firn.log import cuts, epochs, holds, job_closed_marker, layout
from firn.log.holds import Quarantine
from firn.log.store import Store
from firn.tables.failures import Failure
from firn.views import due, view_state
from firn.views.due import Under
from firn.views.view_sources import ViewSources
from firn.views.view_state import ViewState, ViewStates
from tests.faults.calls import Counting, WatchedStore
from tests.unit.dispatch.jobs_list import MINUTE, NOW, ListOfJobs, run, stage
from tests.unit.log.storage_faults import FaultyStore
from tests.unit.views.test_views_due import HOURLY, TOTALS, sources

VIEWS: ViewSources = sources(TOTALS)


def committed(store: Store, n: int = 1, snapshot: int = 10) -> None:
    """What a job leaves of the stream."""
    cuts.write(store, cuts.make("shop", n, "2026-03-01T12:00:00.000Z", {"lake.orders": snapshot}))


def begun() -> tuple[Store, ListOfJobs]:
    """A stream with one epoch, which is committed."""
    store, jobs = FaultyStore(), ListOfJobs()
    stage(store, NOW - 2 * MINUTE)
    assert run(store, jobs).run == "r1"
    jobs.end_all("SUCCESS")
    committed(store)
    return store, jobs


def at(store: Store, jobs: ListOfJobs, minutes: int, views: ViewSources = VIEWS, **more: Any) -> Dispatched:
    return run(store, jobs, NOW + minutes * MINUTE, views=views, **more)


def refreshed(store: Store, views: ViewSources = VIEWS) -> None:
    """What a turn leaves."""
    newest = {"shop": found} if (found := cuts.last(store, "shop")) else {}
    told = Under(views, newest, "c").standings(ViewStates())
    view_state.write(store, "shop", ViewStates(views={str(one.view.table): due.done(one, NOW) for one in told}))


def test_a_view_that_is_behind_gets_an_empty_epoch_and_its_job_and_no_second_one() -> None:
    store, jobs = begun()
    done = at(store, jobs, 1)
    assert (done.sealed, done.events, done.run) == ((2,), 0, "r2")
    assert at(store, jobs, 2).waits_for == "r2"
    committed(store, 2)
    refreshed(store)
    jobs.end_all("SUCCESS")
    for minute in range(3, 30):
        done = at(store, jobs, minute)
        assert (done.run, done.sealed) == (None, ())


def test_a_job_that_is_up_refreshes_them_by_itself() -> None:
    store, jobs = begun()
    jobs.start("shop", 1, 1, 2)
    done = at(store, jobs, 1)
    assert (done.waits_for, done.sealed) == ("r2", ())
    job_closed_marker.close(store, "firn-shop-1-1-2")
    assert at(store, jobs, 2).run == "r3"


def test_a_job_of_another_configuration_is_none_that_does() -> None:
    store, jobs = begun()
    jobs.start("shop", 1, 1, 2)
    found = epochs.read(store, "shop", 1)
    assert found is not None
    done = run(store, jobs, NOW + MINUTE, views=VIEWS)
    assert done.waits_for == "r2"
    store.delete("epochs/shop/00000000000000000001.json")
    assert run(store, jobs, NOW + MINUTE, views=VIEWS).sealed


def test_one_that_fails_waits_and_then_has_a_job_of_its_own() -> None:
    store, jobs = begun()
    wrong = due.failed(ViewState(), Failure("terminal", "no such column"), NOW, run_config())
    view_state.write(store, "shop", ViewStates(views={str(TOTALS.table): wrong}))
    done = run(store, jobs, NOW + timedelta(seconds=30), views=VIEWS)
    assert (done.run, done.quarantined) == (None, ("view v.totals",))
    assert at(store, jobs, 1).run is not None


def run_config() -> str:
    from tests.unit.dispatch.jobs_list import CONFIG

    return CONFIG.sha


def test_an_interval_is_kept() -> None:
    store, jobs = begun()
    hourly = sources(HOURLY)
    refreshed(store, hourly)
    committed(store, 2, 20)
    assert at(store, jobs, 20, hourly).run is None
    assert at(store, jobs, 30, hourly).run is not None  # 13:00


def test_a_view_of_a_stream_that_is_held_starts_nothing() -> None:
    store, jobs = begun()
    holds.hold(store, Quarantine(1, "shop", 1, layout.instant(NOW), "source_restored", "why", "advice", high="00"))
    done = at(store, jobs, 1)
    assert (done.run, done.sealed) == (None, ())


def test_the_first_view_of_a_stream_without_a_cut_waits_for_its_tables() -> None:
    store, jobs = FaultyStore(), ListOfJobs()
    assert at(store, jobs, 1).sealed == ()


def test_streams_without_views_cost_no_request_more() -> None:
    store, jobs = begun()
    plain, viewed = Counting(), Counting()
    run(WatchedStore(store, plain), jobs, NOW + MINUTE)
    refreshed(store)
    run(WatchedStore(store, viewed), jobs, NOW + MINUTE, views=VIEWS)
    assert not [one for one in plain.log if "views" in one]
    assert [one for one in viewed.log if "views" in one] == ["get views"]
    assert len(viewed.log) - len(plain.log) == 3, "the state, and two listings of a stream without a cut"
