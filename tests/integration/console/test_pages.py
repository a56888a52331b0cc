"""Each page: what it shows, that axe-core finds nothing serious in both themes, that it fits a phone and 200 %."""

from collections.abc import Iterator
from typing import Any

import pytest

from firn_console.contract.stream_pages import Overview, Totals
from tests.integration.console.conftest import SHOTS, Console
from tests.integration.console.example_answers import BATCH, BEFORE, SNAPSHOT, VIEW_SQL
from tests.integration.console.stand_in import Refused, StandIn
from tests.soak import few_cases

PAGES = {
    "overview": (
        "",
        "Overview",
        ["Needs you", "shop.orders is quarantined", "17,333", "slow could not be read in time"],
    ),
    "stream": ("streams/bank", "bank", ["55,462", "20 batches in 60 min", "no key is configured", "shop.customers"]),
    "batches": (
        "streams/bank?view=batches&batch=" + BATCH,
        "bank",
        ["What became of it", "heartbeat 2", SNAPSHOT, "it ends in a text"],
    ),
    "epochs": ("streams/bank?view=epochs", "bank", ["public.orders 3,000", "sealed"]),
    "receipts": ("streams/bank?view=receipts", "bank", ["Which batch does a key stand for?"]),
    "pipelines": ("streams/bank?view=pipelines", "bank", ["SELECT order_id FROM input", "shop.paid"]),
    "sources": ("streams/bank?view=sources", "bank", ["firn_crm", "one is open"]),
    "tables": ("tables", "Tables", ["2 tables", "shop.orders", "web.clicks"]),
    "rows": ("tables/shop.orders", "shop.orders", ["9007199254740993", "Open as a query"]),
    "time": ("tables/shop.orders?view=time", "shop.orders", ["2 snapshots", SNAPSHOT, "overwrite"]),
    "changes": (
        "tables/shop.orders?view=changes",
        "shop.orders",
        ["update 1", "status · before", f"firn diff shop.orders {BEFORE}"],
    ),
    "columns": ("tables/shop.orders?view=columns", "shop.orders", ["changed 1 time", "how far it is"]),
    "upkeep": (
        "tables/shop.orders?view=upkeep",
        "shop.orders",
        ["80 small files", "compacts within 15 min", "GLACIER_IR", "under $0.01"],
    ),
    "view": (
        "tables/sales.by_region?view=upkeep",
        "sales.by_region",
        ["Quarantined, 4 tries: Conversion Error: 'abc'", "crm 4, shop 12", "67 min", "every 5 min", VIEW_SQL],
    ),
    "letters": (
        "dead-letters?stream=shop&letter=shop.a1%2F0",
        "Dead letters",
        ["type_mismatch", "12345678901234567890", '"lsn": 1.50'],
    ),
    "quarantine": ("quarantine", "Quarantine", ["firn.yaml says (id)", "Resume: retry", "Was quarantined"]),
    "alerts": (
        "alerts",
        "Alerts",
        [
            "shop.orders is late",
            "it may have arrived; 4 more tries",
            "firn/prod/alerts/oncall-url",
            "The newest 1 of 7",
        ],
    ),
    "jobs": ("jobs", "Jobs", ["commit-shop-12", "Job aborted", "folding 1,200,000 of 3,000,000 rows, about 40 s left"]),
    "job": ("jobs/00f0001", "commit-shop-12", ["Epochs committed: 2 of 3", "ERROR Job aborted"]),
    "query": ("query?sql=SELECT+1", "Query", ["One SELECT in DuckDB's dialect"]),
}


@pytest.fixture(scope="module")
def tab(browser: Any, server: StandIn) -> Iterator[Console]:
    """One tab that goes from page to page, as a reader does: a new tab would cost as much as to look at the page."""
    one = Console(browser.new_page(), server.url)
    yield one
    one.page.close()


@pytest.fixture
def walked(tab: Console, stand_in: StandIn) -> Iterator[Console]:
    """That tab, as a new one would be."""
    assert stand_in.url == tab.url
    tab.page.emulate_media(color_scheme="light")
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    tab.faults.clear()
    yield tab
    assert tab.faults == []


@few_cases(5)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_it_is_for_in_both_themes_on_a_phone_and_at_200_percent(walked: Console, name: str) -> None:
    console, (address, title, texts) = walked, PAGES[name]
    page = console.open(address, title)
    for text in texts:
        page.get_by_text(text).first.wait_for()
    page.locator("main .loading").first.wait_for(state="detached")
    assert page.title() == f"{title} · Firn"
    page.screenshot(path=SHOTS / f"{name}-light.png")
    assert console.axe() == []
    page.emulate_media(color_scheme="dark")
    assert console.axe("color-contrast") == []
    page.screenshot(path=SHOTS / f"{name}-dark.png")
    page.set_viewport_size({"width": 640, "height": 400})  # 1280 by 800 at 200 %
    assert console.overflow() <= 0
    page.set_viewport_size({"width": 375, "height": 720})
    assert console.overflow() <= 0
    page.screenshot(path=SHOTS / f"{name}-phone.png")


NOTHING = Overview(3_600, (), (), Totals(0, 0, 0, 0, 0))
EMPTY = {
    "": ("console/overview", NOTHING, ["Nothing needs you", "firn init", "firn flush"]),
    "tables": (
        "console/tables",
        {"tables": [], "total": 0, "next": None},
        ["No table yet", "firn send STREAM FILE.ndjson && firn flush"],
    ),
    "dead-letters": (
        "console/dead-letters",
        {"counts": [], "counted_objects": 0, "objects": 0, "letters": [], "next": None},
        ["No event was refused"],
    ),
    "quarantine": ("console/quarantine", {"held": [], "past": []}, ["Nothing is quarantined"]),
    "alerts": ("console/alerts", {"targets": [], "rules": [], "alerts": [], "ended": 0}, ["firn.yaml has no alerts"]),
    "jobs": (
        "console/jobs",
        {"runs": [], "next": None, "from_emr": False, "why_not": "this stack has no EMR"},
        ["No job ran yet", "firn flush", "this stack has no EMR"],
    ),
    "streams/bank?view=batches": (
        "console/streams/bank/batches",
        {"batches": [], "next": None},
        ["No batch is in the log", "firn send bank FILE.ndjson"],
    ),
    "tables/a.b?view=time": (
        "tables/[^/]+/timeline",
        {"snapshots": 0, "points": [], "refs": [], "current": None},
        ["no snapshot yet", "firn flush"],
    ),
}


def test_an_empty_page_tells_the_next_command(console: Console, stand_in: StandIn) -> None:
    stand_in.answers |= {path: answer for path, answer, _ in EMPTY.values()}
    for address, (_, _, texts) in EMPTY.items():
        page = console.open(address)
        for text in texts:
            page.get_by_text(text).first.wait_for()


FAILING = {
    "": "console/overview",
    "streams/bank": "console/streams/bank",
    "tables": "console/tables",
    "tables/shop.orders": "tables/shop.orders/schema",
    "tables/shop.orders?view=changes": "tables/shop.orders/changes",
    "dead-letters": "console/dead-letters",
    "quarantine": "console/quarantine",
    "jobs/1": "console/jobs/1",
    "streams/bank?view=epochs": "console/streams/bank/epochs",
}


def test_an_error_is_told_in_the_apis_words_and_the_rest_of_the_page_stays(console: Console, stand_in: StandIn) -> None:
    def refuse(_fields: object, _body: bytes) -> None:
        raise Refused(503, "storage_unavailable", "the storage did not answer; retry")

    stand_in.answers |= dict.fromkeys(FAILING.values(), refuse)
    for address in FAILING:
        page = console.open(address)
        alert = page.get_by_role("alert").filter(has_text="the storage did not answer; retry").first
        alert.wait_for()
        assert "storage unavailable" in alert.inner_text()
        assert page.get_by_role("navigation", name="Pages").is_visible()


def test_an_address_that_is_no_page_leads_back(console: Console) -> None:
    page = console.open("nowhere", "No such page")
    page.get_by_role("link", name="Go to the overview").click()
    page.get_by_role("heading", level=1, name="Overview").wait_for()
