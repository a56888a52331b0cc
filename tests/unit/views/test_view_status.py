"""How people see views: in `firn status`, and by alerts."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from firn.alerts.alert_signals import Observer
from firn.config.alerts import AlertRule
from firn.log import cuts, published_configs
from firn.log.store import open_store
from firn.status.stream_status import stream_statuses
from firn.status.view_status import ViewStatus, view_statuses
from firn.tables.failures import Failure
from firn.views import due, view_state
from firn.views.view_state import ViewState, ViewStates
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog
from tests.model.memory_lake import Call
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
    return found


def statuses(lakes: Lakes, stream: str = "shop") -> dict[str, ViewStatus]:
    return {one.view: one for one in view_statuses(lakes.disk, lakes.config, stream, lakes.now)}


def test_a_view_that_is_of_the_newest_cuts_says_so(lakes: Lakes) -> None:
    one = statuses(lakes)[str(NAMED)]
    assert one.cut == {name: cuts.newest(lakes.disk, name) for name in ("crm", "shop")}
    assert (one.behind_seconds, one.due, one.waits_for, one.tries, one.note("shop")) == (None, None, None, 0, None)
    assert one.refreshed_at is not None


def test_one_that_is_behind_says_since_when_and_what_is_next(lakes: Lakes) -> None:
    lakes.now = lakes.now.replace(minute=50, second=5)
    lakes.customer(1, "b")
    lakes.work()
    before = statuses(lakes, "crm")[str(SLOW)].cut
    lakes.customer(1, "c")
    lakes.work()
    lakes.now += timedelta(minutes=1)
    one = statuses(lakes, "crm")[str(SLOW)]
    assert one.cut == before
    assert one.behind_seconds is not None
    assert 60 <= one.behind_seconds < 120
    assert one.due == lakes.now.replace(minute=55, second=0, microsecond=0)
    (told,) = (found for found in stream_statuses(lakes.disk, [], lakes.now) if found.stream == "crm")
    assert told.oldest_by_table[str(SLOW)] == one.behind_seconds
    assert told.views == (one,)


def failing(lakes: Lakes) -> None:
    known = view_state.read(lakes.disk, "shop")
    wrong = due.failed(known.views[str(TOTALS)], Failure("terminal", "no column c"), lakes.now, lakes.config.sha)
    view_state.write(lakes.disk, "shop", replace_views(known, wrong))


def replace_views(known: ViewStates, wrong: ViewState) -> ViewStates:
    return ViewStates(views={**known.views, str(TOTALS): wrong})


def test_one_that_fails_of_itself_is_quarantined_and_the_view_over_it_waits_for_it(lakes: Lakes) -> None:
    failing(lakes)
    lakes.customer(2, "z")
    lakes.tick("crm")
    lakes.jobs()
    found = statuses(lakes)
    assert found[str(TOTALS)].quarantined
    note = found[str(TOTALS)].note("shop") or ""
    assert "view v.totals is quarantined (1 try, the next after " in note
    assert "): no column c; its rows stay as they were and no table waits for it" in note
    assert "firn resume shop v.totals" in note
    assert found[str(SIZES)].waits_for == str(TOTALS)
    (told,) = (one for one in stream_statuses(lakes.disk, [], lakes.now) if one.stream == "shop")
    assert told.quarantined == ("view v.totals",)
    assert any("no column c" in note for note in told.notes)
    seen = Observer(lakes.disk, lakes.config, lakes.now).see(AlertRule("held", "quarantine"))
    assert [(one.subject, one.holds(lasting=False)) for one in seen.signals] == [("view v.totals", True)]
    assert "can't be refreshed" in seen.signals[0].text
    assert "no column" not in seen.signals[0].text, "it may quote a value"


def test_an_alert_about_a_view_that_is_late(lakes: Lakes) -> None:

    def away(call: Call) -> None:
        if call.table == TOTALS:
            raise OSError("away")

    lakes.fails = away
    lakes.order(5, 5)
    lakes.work()
    lakes.now += timedelta(minutes=20)
    rule = AlertRule("late", "freshness", over=900, tables=(str(TOTALS), str(CUSTOMERS)))
    seen = Observer(lakes.disk, lakes.config, lakes.now).see(rule)
    assert {one.subject: one.holds(lasting=False) for one in seen.signals} == {str(TOTALS): True, str(CUSTOMERS): False}


def test_a_view_that_waits_for_a_table_says_for_which() -> None:
    lakes = Lakes(configuration({NAMED: VIEWS[NAMED]}, APART))
    lakes.order(1, 1)
    lakes.work(2)
    one = statuses(lakes)[str(NAMED)]
    assert (one.due, one.waits_for, one.refreshed_at, one.cut) == (None, str(CUSTOMERS), None, {})
    assert one.note("shop") == "view v.named waits for lake.customers"


def test_the_command_shows_what_each_view_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(f"file://{tmp_path}/staging")
    config = published_configs.publish(store, configuration(streams=APART))
    cuts.write(store, cuts.make("shop", 4, "2026-03-01T12:00:00.000Z", {"lake.orders": 40}))
    cuts.write(store, cuts.make("crm", 2, "2026-03-01T12:00:00.000Z", {"lake.customers": 20}))
    open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {}).close()
    failure = Failure("terminal", "no column c")
    wrong = due.failed(ViewState(epochs={"shop": 3}), failure, datetime.now(UTC), config.sha)
    view_state.write(store, "shop", replace_views(ViewStates(), wrong))
    assert main(["status", "--dir", str(tmp_path), "--wide"]) == 0
    told = capsys.readouterr()
    shown = " ".join((told.out + told.err).split())
    for words in ("v.totals", "shop 3", "quarantined", "waits for v.totals", "no column c"):
        assert words in shown, words
    assert main(["status", "--dir", str(tmp_path), "--json"]) == 0
    found = {one["stream"]: one for one in json.loads(capsys.readouterr().out)}
    assert [one["view"] for one in found["crm"]["views"]] == ["v.slow"]
    assert found["shop"]["views"][0]["error"] == "no column c"
