"""The console of a real stack in a real browser: what was posted, one button that commits it, and the rows that came of
it. Each page in each state: tests/integration/console."""

import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.e2e.conftest import Stack
from tests.integration.console.conftest import Console
from tests.integration.console.conftest import browser as browser

pytestmark = pytest.mark.spark

HOSTILE = "<img src=x onerror=document.title='run'>"
CONFIG = """
streams:
  shop:
    commit: {every: 600s}
    tables:
      public.t: {to: shop.t, key: [id]}
"""


def event(n: int, value: str) -> dict[str, object]:
    source = {"connector": "postgresql", "schema": "public", "table": "t", "ts_ms": n, "sequence": f'["1","{n}"]'}
    return {"op": "c", "before": None, "after": {"id": n, "v": value}, "source": source}


@pytest.fixture
def console(browser: Any, stack: Stack) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    one = Console(page, stack.about["url"])
    yield one
    page.close()
    assert one.faults == []


def test_what_is_posted_is_seen_committed_by_a_button_and_read(stack: Stack, console: Console) -> None:
    events = [event(1, "first"), event(2, HOSTILE), {"op": "c", "after": {"id": HOSTILE}}]
    assert stack.post("shop", json.dumps(events).encode())[0] == 202
    page = console.open("", "Overview")
    page.get_by_text("1 dead letter waits: missing_table 1").wait_for()
    console.open("streams/shop", "shop")
    page.get_by_role("button", name="Commit now").click()
    page.get_by_role("dialog").get_by_text("firn flush shop").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Commit now").click()
    page.get_by_role("dialog").get_by_text("commits epochs 1 to 1").wait_for()
    deadline = time.monotonic() + 180
    while not stack.request("GET", "/v1/console/tables")[1]["tables"]:
        assert time.monotonic() < deadline
        time.sleep(1)
    console.open("tables/shop.t", "shop.t")
    page.get_by_role("cell", name=HOSTILE).wait_for()
    console.open("jobs", "Jobs")
    page.get_by_role("link", name="firn-shop-1-1-1").wait_for()
    assert page.title() != "run"
    assert console.axe() == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_pages_of_other_sites_get_nothing(stack: Stack, headers: dict[str, str], status: int) -> None:
    for path in ("/console/", "/v1/console/overview"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(stack.about["url"] + path, headers=headers), timeout=30)
        assert refused.value.code == status
