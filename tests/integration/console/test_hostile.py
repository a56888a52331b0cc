"""Whatever anybody wrote into a table's name, a row, an error or a dead letter is text in the page, nothing else."""

from typing import Any

import msgspec

from tests.integration.console.conftest import Console
from tests.integration.console.example_answers import everything
from tests.integration.console.stand_in import Refused, StandIn
from tests.integration.console.test_pages import PAGES

EVIL = (
    """'"><img src=x onerror="window.hit=1"><script>window.hit=1</script>"""
    """<svg onload="window.hit=1">${window.hit=1}</style>"""
)
# What the page chooses by, and what is no text: the rest holds what somebody sent.
KEPT = {"state", "severity", "kind", "scope", "how", "next", "rights", "allowed", "fields"}
RAN = "window.hit === 1 || document.querySelector('main img, main script, main style, #console script') !== null"


def hostile(value: Any, name: str = "") -> Any:
    """The value with every text that is no time, number or word of the contract replaced."""
    if isinstance(value, dict):
        return {key if key.isidentifier() else EVIL: hostile(one, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [hostile(one, name) for one in value]
    if not isinstance(value, str) or name in KEPT or name.endswith("_at") or value[:4] == "2026" or value.isdigit():
        return value
    return f"javascript:window.hit=1//{EVIL}" if name in ("link", "url") else EVIL


def evil_answers() -> dict[str, Any]:
    plain = {path: found for path, found in everything().items() if not callable(found)}
    made = {path: hostile(msgspec.to_builtins(found)) for path, found in plain.items()}
    made["console/actions"] = msgspec.to_builtins(everything()["console/actions"])
    for one in made["console/actions"]["actions"]:
        one |= {"title": EVIL, "does": EVIL, "command": EVIL}
    made["console/actions/.+"] = {
        "name": EVIL,
        "title": EVIL,
        "does": EVIL,
        "command": EVIL,
        "allowed": True,
        "text": EVIL,
        "lines": [EVIL],
    }
    return made


def test_no_field_of_any_answer_runs(console: Console, stand_in: StandIn) -> None:
    stand_in.answers = evil_answers()
    for name in [one for one in PAGES if one not in ("receipts", "query")]:
        page = console.open(PAGES[name][0])
        shown = page.locator("main :not(option)").filter(has_text="onerror")
        shown.first.wait_for()
        page.locator("main .loading").first.wait_for(state="detached")
        assert not page.evaluate(RAN), name
        assert page.locator("main a[href^='javascript']").count() == 0, name


def test_no_name_in_an_address_runs(console: Console) -> None:
    for address in (f"tables/{EVIL}", f"streams/{EVIL}", EVIL, f"query?sql={EVIL}", f"jobs/{EVIL}"):
        page = console.open(address.replace("%", "%25").replace("#", "%23"))
        assert not page.evaluate(RAN)


def test_no_error_and_no_dialog_runs(console: Console, stand_in: StandIn) -> None:
    def refuse(_fields: object, body: bytes) -> Any:
        if body:
            raise Refused(400, EVIL, EVIL)
        return evil["console/actions/.+"]

    evil = evil_answers()
    stand_in.answers |= {"console/actions": evil["console/actions"], "console/actions/.+": refuse}
    page = console.open("streams/bank", "bank")
    page.locator(".title .actions button").first.click()
    page.locator("dialog .primary").click()
    page.get_by_role("dialog").get_by_role("alert").get_by_text("onerror").first.wait_for()
    assert not page.evaluate(RAN)


def test_answers_that_are_no_json_or_of_another_shape_are_told_and_break_no_frame(
    console: Console, stand_in: StandIn
) -> None:
    stand_in.answers["console/quarantine"] = {"held": None, "past": 7}
    page = console.open("quarantine")
    page.get_by_role("alert").get_by_text("This page failed").wait_for()
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("heading", level=1, name="Jobs").wait_for()
