"""What all pages share: keys and focus, themes, following the stack by entity tags, and what happens without it."""

import re
import time
from typing import Any

from tests.integration.console.conftest import Console
from tests.integration.console.example_answers import overview, session, stream
from tests.integration.console.stand_in import Refused, StandIn

NAME = """(e => e === document.body ? null
  : e.ariaLabel || e.textContent.trim() || e.closest('label')?.textContent)(document.activeElement)"""


def focused(console: Console) -> str:
    return str(console.page.evaluate("document.activeElement.textContent.trim()"))


def test_keys_alone_reach_every_page_and_the_focus_follows(console: Console) -> None:
    page = console.open("", "Overview")
    page.keyboard.press("Tab")
    assert focused(console) == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Tables")
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Tables").wait_for()
    page.wait_for_timeout(100)
    assert focused(console) == "Tables"
    assert link.get_attribute("aria-current") == "page"
    assert page.title() == "Tables · Firn"


def test_everything_that_can_be_pressed_has_a_name_and_can_be_reached(console: Console) -> None:
    page = console.open("streams/bank", "bank")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(NAME)
        if name is None:
            break
        assert name
        seen.append(name)
    assert {"Way", "Batches", "Flush …", "Tables of the stream"} <= set(seen)


def test_a_theme_that_is_chosen_stays(console: Console) -> None:
    page = console.open("", "Overview")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(ground)
    page.reload()
    page.get_by_role("heading", level=1, name="Overview").wait_for()
    assert light != dark == page.evaluate(ground)


def test_nothing_moves_for_who_wants_no_motion(console: Console) -> None:
    page = console.open("streams/bank", "bank")
    moving = "document.getAnimations().length"
    page.locator(".flow path.moving").first.wait_for(state="attached")
    assert page.evaluate(moving) > 0
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == 0


def test_a_page_follows_the_stack_and_costs_it_a_304_while_nothing_changes(console: Console, stand_in: StandIn) -> None:
    console.page.clock.install()
    page = console.open("streams/bank", "bank")
    for _ in range(50):  # the answers come by the machine's time, however much of the page's own has passed
        page.clock.run_for(1_000)
        page.wait_for_timeout(100)
        if stand_in.unchanged:
            break
    assert stand_in.unchanged > 0
    stand_in.answers["console/overview"] = {**_fields(overview), "streams": [stream("brand-new", "idle")]}
    page.clock.run_for(6_000)
    page.get_by_role("link", name="brand-new").wait_for()


def _fields(struct: object) -> dict[str, object]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}  # type: ignore[attr-defined]


def test_a_page_that_nobody_sees_asks_nothing(console: Console, stand_in: StandIn) -> None:
    console.page.clock.install()
    page = console.open("quarantine", "Quarantine")
    page.get_by_text("Was quarantined").wait_for()
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    page.wait_for_timeout(200)
    before = len(stand_in.asked)
    page.clock.run_for(60_000)
    page.wait_for_timeout(200)
    assert len(stand_in.asked) == before


def test_a_stack_that_is_away_is_told_and_found_again(console: Console, stand_in: StandIn) -> None:
    console.page.clock.install()
    page = console.open("quarantine", "Quarantine")
    page.get_by_text("Was quarantined").wait_for()
    page.context.set_offline(True)
    page.clock.run_for(6_000)
    page.get_by_text("no answer", exact=True).wait_for()
    page.get_by_role("alert").filter(has_text="Start it with: firn up").wait_for()
    assert page.get_by_text("Was quarantined").is_visible()  # what was known stays
    page.context.set_offline(False)
    page.clock.run_for(40_000)
    page.get_by_text("live", exact=True).wait_for()
    console.faults.clear()  # of the requests that went nowhere


def test_a_stack_that_asks_for_a_key_gets_it_from_this_tab_alone(console: Console, stand_in: StandIn) -> None:
    def ask(fields: dict[str, str], _body: bytes) -> object:
        if stand_in.asked[-1][2].get("x-api-key") != "secret":
            raise Refused(401, "unauthorized", "this stack lets only readers look")
        return session if fields["path"].endswith("session") else overview

    stand_in.answers |= {"console/session": ask, "console/overview": ask}
    page = console.open("", "Overview")
    page.get_by_text("this stack lets only readers look").wait_for()
    page.get_by_label("Key").fill("secret")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Needs you").wait_for()
    assert page.evaluate("Object.values(localStorage)").count("secret") == 0


def test_a_paused_stack_says_so_on_every_page(console: Console, stand_in: StandIn) -> None:
    stand_in.answers["console/session"] = {**_fields(session), "paused_since": "2026-01-31T12:00:00Z"}
    page = console.open("jobs", "Jobs")
    page.get_by_text(re.compile("Paused since 2026-01-31 12:00:00 UTC")).wait_for()


def test_a_phone_has_the_pages_behind_a_button(console: Console) -> None:
    console.page.set_viewport_size({"width": 375, "height": 720})
    page = console.open("", "Overview")
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs")
    assert not link.is_visible()
    page.get_by_role("button", name="Menu").click()
    link.click()
    page.get_by_role("heading", level=1, name="Jobs").wait_for()
    assert not link.is_visible()


def test_nothing_moves_once_it_is_read_while_a_charts_parts_arrive(browser: Any, stand_in: StandIn) -> None:
    """Layout Instability API: the shares of the window by which things moved; what is far below 0.1 is called good."""
    console = Console(browser.new_page(viewport={"width": 1350, "height": 940}), stand_in.url)
    console.page.add_init_script(
        "window.moved = 0; new PerformanceObserver(list => list.getEntries().forEach(one => window.moved += one.value))"
        ".observe({type: 'layout-shift', buffered: true})"
    )

    def late(route: Any) -> None:
        time.sleep(0.3)
        route.continue_()

    console.page.route("**/uplot.*", late)
    page = console.open("streams/bank", "bank")
    page.locator("canvas").wait_for()
    page.wait_for_timeout(200)
    assert page.evaluate("window.moved") < 0.03
    page.close()
