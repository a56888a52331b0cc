"""Queries, rows, time travel and what changed: what is asked of the query function, and what is shown."""

import json
import re
from typing import Any

from tests.integration.console.conftest import Console
from tests.integration.console.example_answers import BEFORE, SNAPSHOT, result
from tests.integration.console.stand_in import Refused, StandIn


def queries(stand_in: StandIn) -> list[dict[str, Any]]:
    return [json.loads(body) for method, path, _, body in stand_in.asked if (method, path) == ("POST", "/v1/query")]


def test_a_query_is_written_with_completion_run_shown_drawn_and_remembered(console: Console, stand_in: StandIn) -> None:
    page = console.open("query", "Query")
    page.locator(".editor").get_by_role("textbox", name="SQL").click()
    page.keyboard.type("SELECT order_id, n FROM shop.")
    page.get_by_role("option", name="orders").wait_for()
    page.wait_for_timeout(200)  # the editor takes no Enter for a choice in the 75 ms after the list has come
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.get_by_text("2 rows in").first.wait_for()
    assert queries(stand_in) == [{"sql": "SELECT order_id, n FROM shop.orders"}]
    assert page.get_by_text("9007199254740993").is_visible()  # 2^53 + 1
    page.get_by_role("button", name="n", exact=True).click()
    assert page.locator(".sheet tbody td").first.inner_text() == "1002"  # n: 2 before 4
    page.get_by_role("button", name="Chart").click()
    page.get_by_role("img", name=re.compile("The result: order_id from .* n from 2 to 4")).wait_for()
    assert console.axe() == []
    page.reload()
    page.get_by_role("button", name="SELECT order_id, n FROM shop.orders").wait_for()
    page.get_by_role("button", name="Forget them").click()
    assert page.evaluate("localStorage.getItem('firn.queries')") == "[]"


def test_typing_over_a_selection_offends_no_policy(console: Console) -> None:
    page = console.open("query?sql=SELECT+1+AS+one", "Query")
    page.locator(".editor").get_by_role("textbox", name="SQL").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("SELECT (2")
    assert page.locator(".editor").get_by_role("textbox", name="SQL").inner_text() == "SELECT (2)"


def test_an_address_asks_for_fresh_rows_and_a_query_of_them_has_such_a_one(console: Console, stand_in: StandIn) -> None:
    page = console.open("query?sql=SELECT+1&fresh=1", "Query")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("2 rows in").first.wait_for()
    page.get_by_role("checkbox", name="Fresh").uncheck()
    page.get_by_role("button", name="Run").click()
    page.wait_for_url(lambda address: "fresh" not in address)
    page.get_by_role("checkbox", name="Fresh").check()
    page.get_by_role("button", name="Run").click()
    page.wait_for_url(lambda address: address.endswith("fresh=1"))
    for _ in range(100):  # the address is there before the query is
        if len(queries(stand_in)) == 3:
            break
        page.wait_for_timeout(50)
    assert [one.get("fresh", False) for one in queries(stand_in)] == [True, False, True]


def test_a_bad_query_is_told_and_its_words_stay(console: Console, stand_in: StandIn) -> None:
    def refuse(_fields: object, _body: bytes) -> None:
        raise Refused(400, "bad_query", 'Binder Error: column "nope" is not there')

    stand_in.answers["query"] = refuse
    page = console.open("query?sql=SELECT+nope", "Query")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("alert").filter(has_text='column "nope" is not there').wait_for()
    page.locator(".editor").get_by_text("nope").wait_for()


def test_a_result_is_downloaded_and_one_that_is_too_large_is_a_link(console: Console, stand_in: StandIn) -> None:
    page = console.open("query?sql=SELECT+1", "Query")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("2 rows in").first.wait_for()
    with page.expect_download() as coming:
        page.get_by_label("Download").select_option("json")
    assert json.loads(coming.value.path().read_text()) == result
    stand_in.answers["query"] = {
        "url": "javascript:alert(1)",
        "expires_at": "soon",
        "bytes": 5,
        "rows": 1,
        "format": "csv",
    }
    page.get_by_label("Download").select_option("csv")
    page.get_by_text("too large for a page").wait_for()
    assert page.locator("a[href^='javascript']").count() == 0  # a link of another kind is text


def test_rows_are_asked_by_page_condition_and_column_and_fresh_if_wanted(console: Console, stand_in: StandIn) -> None:
    stand_in.answers["query"] = {**result, "rows": result["rows"] * 101}
    page = console.open("tables/shop.orders", "shop.orders")
    page.get_by_text("rows 1 to 200").wait_for()
    page.get_by_role("button", name="Next rows").click()
    page.get_by_text("rows 201 to 400").wait_for()
    page.get_by_role("checkbox", name="Fresh").check()
    page.get_by_label("WHERE").fill("status = 'paid'")
    page.keyboard.press("Enter")
    page.get_by_text("rows 1 to 200").wait_for()
    page.get_by_label("Columns").fill("stat")
    page.wait_for_timeout(400)
    asked = queries(stand_in)
    assert asked[0] == {"sql": 'SELECT "order_id", "status" FROM "shop"."orders" ORDER BY "order_id" LIMIT 201'}
    assert asked[1] == {
        "sql": 'SELECT "order_id", "status" FROM "shop"."orders" ORDER BY "order_id" LIMIT 201 OFFSET 200'
    }
    where = """FROM "shop"."orders" WHERE status = 'paid' ORDER BY "order_id" LIMIT 201"""
    assert asked[-1] == {"sql": f'SELECT "order_id", "status" {where}', "fresh": True}


def test_the_slider_travels_in_time_by_keys(console: Console, stand_in: StandIn) -> None:
    page = console.open("tables/shop.orders?view=time", "shop.orders")
    page.get_by_text(f"as of {SNAPSHOT}").wait_for()
    slider = page.get_by_role("slider", name="Moment")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "2026-01-31 12:00:00 UTC, append, 5 rows"
    page.get_by_text(f"as of {BEFORE}").wait_for()
    page.get_by_text("first-day").wait_for()
    page.get_by_role("link", name="What changed since").click()
    page.get_by_text("update 1").wait_for()
    changes = [path for _, path, _, _ in stand_in.asked if "/changes?" in path]
    assert changes == [f"/v1/tables/shop.orders/changes?from={BEFORE}&to={SNAPSHOT}&limit=5000"]
    before, after = (page.locator(f".{side} .differs").all_inner_texts() for side in ("before", "after"))
    assert (before, after) == (["new", "old"], ["paid", "new"])
