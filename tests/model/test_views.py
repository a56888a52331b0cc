"""Views in jobs that die, are held and are resumed: in the end each is its query over the tables at the newest cuts."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.config.names import TableName
from firn.log import cuts
from firn.views import view_state
from tests.faults.calls import Counting, Died, Fault
from tests.model.memory_lake import Call
from tests.model.views_world import (
    APART,
    CUSTOMERS,
    NAMED,
    ORDERS,
    SIZES,
    SLOW,
    TOGETHER,
    TOTALS,
    VIEWS,
    Lakes,
    configuration,
    read_views,
)
from tests.soak import SEED, examples, few_cases, times


@pytest.fixture(autouse=True)
def views(monkeypatch: pytest.MonkeyPatch) -> None:
    read_views(monkeypatch)


def begun(streams: str = TOGETHER, gate: Counting | None = None) -> Lakes:
    """Two orders and a customer, and their views."""
    lakes = Lakes(configuration(streams=streams), gate)
    lakes.order(1, 1)
    lakes.order(2, 2)
    lakes.customer(1, "a")
    return lakes


@pytest.mark.parametrize("streams", [TOGETHER, APART])
def test_each_view_is_its_query_over_the_newest_cuts(streams: str) -> None:
    lakes = begun(streams)
    lakes.settle()
    for n in range(3, 6):
        lakes.order(n, n % 3)
        lakes.customer(n, f"c{n % 2}")
        lakes.settle()
    lakes.delete("shop", 1)
    lakes.delete("crm", 3)
    lakes.settle(quiet=20)
    lakes.check_history()


def settled(streams: str = TOGETHER, gate: Counting | None = None) -> Lakes:
    lakes = begun(streams, gate)
    lakes.settle()
    return lakes


def more(lakes: Lakes) -> None:
    """A change in each stream, so that each view changes."""
    lakes.order(3, 1, 5)
    lakes.customer(2, "b")


def calls_of_a_job(streams: str) -> int:
    gate = Counting()
    lakes = settled(streams, gate)
    more(lakes)
    lakes.tick()
    before = len(gate.log)
    lakes.jobs()
    return len(gate.log) - before


@few_cases(1)
@pytest.mark.parametrize("streams", [TOGETHER, APART])
@pytest.mark.parametrize("fault", ["dies before", "dies after", "lost after"])
def test_a_job_may_die_at_each_call(streams: str, fault: Fault) -> None:
    step = times(53, 1)
    for at in range(1 + SEED % step, calls_of_a_job(streams) + 1, step):
        gate = Counting()
        lakes = settled(streams, gate)
        more(lakes)
        lakes.tick()
        gate.at, gate.fault = len(gate.log) + at, fault
        lakes.jobs()
        gate.heal()
        lakes.settle()
        lakes.check_history()


def test_a_job_that_died_after_its_cut_is_followed_by_one_for_the_views() -> None:
    lakes = settled(APART)
    before = cuts.newest(lakes.disk, "shop")
    lakes.order(3, 1)
    lakes.fails = dying("load", TOTALS)
    lakes.work()
    assert lakes.unrest()
    assert cuts.newest(lakes.disk, "shop") > before, "the tables are in"
    lakes.fails = fine
    (done,) = lakes.tick("shop")
    assert done.run is not None
    lakes.settle()


def fine(call: Call) -> None:
    """Nothing fails."""


def dying(kind: str, table: TableName) -> Callable[[Call], None]:
    def fails(call: Call) -> None:
        if (call.kind, call.table) == (kind, table):
            raise Died

    return fails


def broken(kind: str, table: TableName, error: type[Exception] = ValueError) -> Callable[[Call], None]:
    def fails(call: Call) -> None:
        if (call.kind, call.table) == (kind, table):
            raise error("what is this")

    return fails


def test_a_view_of_which_jobs_die_keeps_no_other_waiting_and_no_table() -> None:
    lakes = settled(APART)
    lakes.fails = dying("commit", TOTALS)
    lakes.order(3, 3)
    lakes.work(2)
    assert lakes.is_at_newest(next(one for one in lakes.views() if one.table == NAMED)), "the second job begins with it"
    for n in range(3, 9):
        lakes.order(n, n)
        lakes.work()
    lakes.work(6)
    assert len(lakes.catalog.tables[ORDERS].rows()) == 8
    view = {one.table: one for one in lakes.views()}
    assert lakes.is_at_newest(view[NAMED])
    assert not lakes.is_at_newest(view[TOTALS])
    assert view_state.failing(view_state.read(lakes.disk, "shop")) == ("view v.totals",)
    lakes.fails = fine
    lakes.settle()


@pytest.mark.parametrize(("error", "most"), [(ValueError, 9), (OSError, 14)])
def test_a_view_that_fails_stops_nothing_and_is_tried_less_and_less_often(error: type[Exception], most: int) -> None:
    lakes = settled(APART)
    lakes.fails = broken("commit", TOTALS, error)
    more(lakes)
    lakes.work(3)
    view = {one.table: one for one in lakes.views()}
    assert lakes.is_at_newest(view[NAMED])
    assert lakes.is_at_newest(view[SLOW]) or lakes.standings("crm")[SLOW].due is not None
    standings = lakes.standings("shop")
    assert standings[TOTALS].state.error.endswith("what is this")
    assert standings[SIZES].waits_for == TOTALS
    assert SIZES not in {TableName.parse(one["table"]) for one in lakes.lines if one.get("status") == "failed"}
    started = len(lakes.emr.known)
    lakes.work(60)
    assert 2 <= len(lakes.emr.known) - started <= most, "jobs in an hour"
    lakes.order(7, 7)
    lakes.work(2)
    assert len(lakes.catalog.tables[ORDERS].rows()) == 4
    lakes.fails = fine
    lakes.settle()
    assert view_state.failing(view_state.read(lakes.disk, "shop")) == ()


def test_wrong_sql_is_tried_again_at_once_when_the_configuration_changes() -> None:
    wrong = {**VIEWS, TOTALS: replace(VIEWS[TOTALS], sql="SELECT gone FROM lake.orders")}
    lakes = Lakes(configuration(wrong))
    lakes.order(1, 1)
    lakes.customer(1, "a")
    lakes.work(40)
    standing = lakes.standings("shop")[TOTALS]
    assert "gone" in (standing.state.error or "")
    assert standing.due is not None
    assert standing.due > lakes.now + timedelta(minutes=2)
    assert lakes.is_at_newest(next(one for one in lakes.views() if one.table == NAMED))
    lakes.publish(configuration())
    lakes.work(2)
    assert lakes.is_at_newest(next(one for one in lakes.views() if one.table == TOTALS))
    lakes.settle()


def test_a_view_whose_sql_changes_is_refreshed_though_no_change_comes() -> None:
    lakes = settled()
    sql = "SELECT c, max(v) AS m FROM lake.orders GROUP BY c"
    lakes.publish(configuration({**VIEWS, TOTALS: replace(VIEWS[TOTALS], sql=sql.replace("c, max", "c, 1 AS n, max"))}))
    lakes.settle()
    assert lakes.catalog.tables[TOTALS].rows() == [{"c": 1, "n": 1, "m": 1}, {"c": 2, "n": 1, "m": 1}]
    lakes.check_history()


def test_views_of_one_interval_are_refreshed_at_its_moments_and_at_one_cut() -> None:
    twin = TableName("v", "twin")
    slow = {SLOW: VIEWS[SLOW], twin: replace(VIEWS[SLOW], sql="SELECT count(*) AS k FROM lake.customers")}
    lakes = Lakes(configuration(slow, APART))
    for n in range(40):
        lakes.customer(n, "a")
        lakes.work()
    lakes.settle()
    for name in (SLOW, twin):
        assert 8 <= len(lakes.catalog.tables[name].snapshots) <= 10
    told = [[one.summary["firn.view.cut"] for one in lakes.catalog.tables[name].ancestry()] for name in (SLOW, twin)]
    assert told[0] == told[1]
    lakes.check_history()


def test_a_change_of_another_stream_starts_a_job_where_the_view_is_at_home() -> None:
    lakes = settled(APART)
    lakes.customer(1, "z")
    lakes.tick("crm")
    lakes.jobs()
    (done,) = lakes.tick("shop")
    assert done.run is not None, "the cut of crm is newer"
    lakes.tick("shop")
    assert len(lakes.emr.active()) == 1
    lakes.settle()


def test_while_a_job_is_up_none_is_started_for_a_view_that_is_due() -> None:
    lakes = settled(APART)
    lakes.order(5, 5)
    lakes.tick("shop")
    (run,) = lakes.emr.active()
    seen = []

    def meanwhile(seconds: float) -> None:
        if not seen:
            lakes.customer(1, "y")
            lakes.tick("crm")
            for other in lakes.emr.active():
                if other.stream == "crm":
                    lakes.job(other)
            seen.extend(lakes.tick("shop"))

    lakes.job(run, meanwhile, 2.0)
    assert [one.waits_for for one in seen] == [run.id]
    assert seen[0].sealed == ()
    lakes.settle()


def test_what_comes_while_views_are_refreshed_is_committed_between_two_of_them() -> None:
    lakes = settled(APART)
    lakes.order(5, 5)
    lakes.tick("shop")
    order = []

    def watch(call: Call) -> None:
        if call.kind == "commit" and call.table in (TOTALS, NAMED, ORDERS):
            order.append(call.table)
            if call.table == TOTALS and len(order) == 2:
                lakes.order(6, 6)
                lakes.now += timedelta(seconds=10)

    lakes.fails = watch
    lakes.jobs()
    assert order[:4] == [ORDERS, TOTALS, ORDERS, NAMED]
    lakes.settle()
    lakes.check_history()


def test_a_twin_that_stood_still_takes_no_view_back() -> None:
    lakes = settled(APART)
    lakes.order(3, 3)
    lakes.tick("shop")
    (run,) = lakes.emr.active()
    done = []

    def stands_still(call: Call) -> None:
        if (call.kind, call.table) == ("load", TOTALS) and not done:
            done.append(1)
            lakes.order(4, 3)
            lakes.ended(run, 1)
            lakes.work(3)

    lakes.fails = stands_still
    lakes.job(run)
    lakes.settle()
    lakes.check_history()


@few_cases(1)
@pytest.mark.parametrize("streams", [TOGETHER, APART])
def test_tables_and_a_log_that_are_begun_anew_reach_the_views_that_were_there(streams: str) -> None:
    lakes = settled(streams)
    for n in range(10):
        lakes.order(n, 1)
        lakes.customer(n, "a")
        lakes.settle(quiet=0)
    for table in (ORDERS, CUSTOMERS):
        lakes.catalog.drop(table)
    lakes.disk = MemoryStore()
    lakes.publish(configuration(streams=streams))
    lakes.order(1, 2)
    lakes.customer(2, "b")
    lakes.settle()


def test_a_source_that_is_rolled_back_and_resumed() -> None:
    lakes = settled(APART)
    before = lakes.catalog.tables[ORDERS].current
    lakes.order(3, 3)
    lakes.settle()
    lakes.catalog.rollback(ORDERS, before)
    lakes.order(4, 4)
    lakes.work(2)
    assert len(lakes.catalog.tables[ORDERS].rows()) == 2, "it is held"
    lakes.check_history()
    lakes.release()
    lakes.settle()
    lakes.check_history()
    assert len(lakes.catalog.tables[NAMED].rows()) == 4


def test_a_table_that_is_held_leaves_its_views_at_what_the_cut_says() -> None:
    lakes = settled(APART)
    lakes.fails = broken("commit", ORDERS)
    lakes.order(3, 3)
    lakes.work(10)
    lakes.customer(1, "w")
    lakes.work(3)
    view = {one.table: one for one in lakes.views()}
    assert lakes.is_at_newest(view[NAMED])
    lakes.fails = fine
    lakes.release()
    lakes.settle()
    assert len(lakes.catalog.tables[NAMED].rows()) == 3


def test_a_view_of_a_table_that_is_not_there_yet_waits_and_starts_no_job() -> None:
    lakes = Lakes(configuration(streams=APART))
    lakes.order(1, 1)
    lakes.work(3)
    assert lakes.standings("shop")[NAMED].waits_for == CUSTOMERS
    assert lakes.is_at_newest(next(one for one in lakes.views() if one.table == TOTALS))
    lakes.customer(1, "a")
    lakes.settle()


def test_a_view_that_is_not_configured_any_more_keeps_its_table_and_no_state() -> None:
    lakes = settled()
    lakes.publish(configuration({name: VIEWS[name] for name in (TOTALS, NAMED)}))
    lakes.order(9, 9)
    lakes.settle()
    assert set(view_state.read(lakes.disk, "shop").views) == {str(TOTALS), str(NAMED)}
    assert SIZES in lakes.catalog.tables
    lakes.publish(configuration())
    lakes.settle()


@pytest.mark.parametrize("by_hand", ["drop", "rollback"])
def test_a_view_that_somebody_dropped_or_rolled_back_is_found_by_the_next_job(by_hand: str) -> None:
    lakes = settled()
    lakes.order(3, 3)
    lakes.settle()
    table = lakes.catalog.tables[TOTALS]
    if by_hand == "drop":
        lakes.catalog.drop(TOTALS)
    else:
        lakes.catalog.rollback(TOTALS, min(table.snapshots))
    lakes.customer(7, "q")
    lakes.settle()


def test_a_table_that_is_no_view_is_not_replaced() -> None:
    lakes = Lakes(configuration({ORDERS: replace(VIEWS[SLOW], every=0)}, APART))
    lakes.order(1, 1)
    lakes.customer(1, "a")
    lakes.work(5)
    assert [row["id"] for row in lakes.catalog.tables[ORDERS].rows()] == [1]
    assert "is no view" in (view_state.read(lakes.disk, "crm").views[str(ORDERS)].error or "")
    assert len(lakes.catalog.tables[ORDERS].snapshots) == 1


def test_audits_and_cuts_know_no_view() -> None:
    lakes = settled()
    for stream in ("shop", "crm"):
        cut = cuts.last(lakes.disk, stream)
        assert cut is not None
        assert not {*cut.known, *cut.counts} & {str(name) for name in VIEWS}


STEPS = ["order", "customer", "delete", "work", "die", "sql", "slow", "rollback", "release", "fail"]


@settings(max_examples=examples(5, 10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([TOGETHER, APART]), st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 400)), max_size=14)
)
def test_any_history_ends_with_each_view_at_the_newest_cuts(streams: str, steps: list[tuple[str, int]]) -> None:
    gate = Counting()
    lakes = begun(streams, gate)
    for step, n in steps:
        at = n % 5
        if step == "order":
            lakes.order(at, n % 3 or None, n)
        elif step == "customer":
            lakes.customer(at, f"n{n % 2}")
        elif step == "delete":
            lakes.delete("shop" if n % 2 else "crm", at)
        elif step == "work":
            lakes.work(1 + n % 7)
        elif step == "die":
            gate.at, gate.fault, gate.hit = len(gate.log) + 1 + n, "dies after" if n % 2 else "dies before", None
            lakes.work()
            gate.heal()
        elif step == "sql":
            sql = f"SELECT c, count(*) AS n, sum(v) + {n} AS s FROM lake.orders GROUP BY c"
            lakes.publish(configuration({**VIEWS, TOTALS: replace(VIEWS[TOTALS], sql=sql)}, streams))
        elif step == "slow":
            lakes.now += timedelta(seconds=n)
        elif step == "rollback" and ORDERS in lakes.catalog.tables:
            lakes.catalog.rollback(ORDERS, min(lakes.catalog.tables[ORDERS].snapshots, default=None))
        elif step == "release":
            lakes.release()
        elif step == "fail":
            lakes.fails = broken("commit", [TOTALS, ORDERS, NAMED, CUSTOMERS][n % 4], ValueError if n % 3 else OSError)
            lakes.work(1 + n % 3)
            lakes.fails = fine
    lakes.work(2)
    lakes.release()
    lakes.settle()
    lakes.check_history()
