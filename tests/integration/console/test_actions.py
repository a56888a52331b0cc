"""What changes something: said before it is done, with its command, and done once."""

import json

from tests.integration.console.conftest import Console
from tests.integration.console.example_answers import EVENT
from tests.integration.console.stand_in import Refused, StandIn


def posted(stand_in: StandIn, action: str) -> list[dict[str, str]]:
    """Bodies that an action got; each with the header that no foreign page can send."""
    found = [
        (headers, body)
        for method, path, headers, body in stand_in.asked
        if (method, path) == ("POST", f"/v1/console/actions/{action}")
    ]
    assert all(
        headers["X-Firn-Console"] == "1" and headers["Content-Type"] == "application/json" for headers, _ in found
    )
    return [json.loads(body) for _, body in found]


def test_an_action_says_what_it_will_do_to_just_this_and_does_it_once(console: Console, stand_in: StandIn) -> None:
    page = console.open("streams/bank", "bank")
    page.get_by_role("button", name="Flush …").click()
    dialog = page.get_by_role("dialog", name="Flush")
    dialog.get_by_text("flush would be done to: bank").wait_for()
    dialog.get_by_text("firn flush bank").wait_for()
    assert posted(stand_in, "flush") == []
    assert console.axe() == []
    dialog.get_by_role("button", name="Flush", exact=True).click()
    dialog.get_by_text("34 events are on their way").wait_for()
    assert posted(stand_in, "flush") == [{"stream": "bank"}]
    dialog.get_by_role("link", name="Follow the job 00f0001").click()
    page.get_by_role("heading", level=1, name="commit-shop-12").wait_for()


def test_escape_leaves_a_dialog_with_nothing_done_and_the_focus_where_it_was(
    console: Console, stand_in: StandIn
) -> None:
    page = console.open("", "Overview")
    button = page.get_by_role("button", name="Pause …")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Pause").get_by_text("firn pause").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert button.evaluate("one => one === document.activeElement")
    assert posted(stand_in, "pause") == []


def test_an_action_that_is_refused_says_why_and_can_be_tried_again(console: Console, stand_in: StandIn) -> None:
    examples = stand_in.answers["console/actions/.+"]

    def refuse(fields: dict[str, str], body: bytes) -> object:
        if body and len(posted(stand_in, "flush")) == 1:
            raise Refused(409, "busy", "another flush is running: wait for it")
        return examples(fields, body)

    stand_in.answers["console/actions/.+"] = refuse
    page = console.open("streams/bank", "bank")
    page.get_by_role("button", name="Flush …").click()
    act = page.get_by_role("dialog").get_by_role("button", name="Flush", exact=True)
    act.click()
    page.get_by_role("dialog").get_by_role("alert").filter(has_text="another flush is running").wait_for()
    act.click()
    page.get_by_role("dialog").get_by_text("34 events are on their way").wait_for()


def test_who_may_only_look_can_press_nothing(console: Console) -> None:
    page = console.open("tables/shop.orders", "shop.orders")
    assert page.get_by_role("button", name="Expire …").is_disabled()
    assert page.get_by_role("button", name="Compact …").is_enabled()


def test_what_is_quarantined_is_resumed_by_one_of_its_ways(console: Console, stand_in: StandIn) -> None:
    page = console.open("quarantine", "Quarantine")
    page.get_by_role("button", name="Resume: skip").click()
    dialog = page.get_by_role("dialog", name="Resume")
    dialog.get_by_role("button", name="Resume", exact=True).click()
    dialog.get_by_text("34 events are on their way").wait_for()
    assert posted(stand_in, "resume") == [{"stream": "shop", "name": "shop.orders", "how": "skip"}]


def test_letters_of_a_reason_are_replayed(console: Console, stand_in: StandIn) -> None:
    page = console.open("dead-letters", "Dead letters")
    page.get_by_role("button", name="Replay … type_mismatch of shop").click()
    dialog = page.get_by_role("dialog", name="Replay")
    dialog.get_by_role("button", name="Replay", exact=True).click()
    dialog.get_by_text("34 events are on their way").wait_for()
    assert posted(stand_in, "replay") == [{"stream": "shop", "reason": "type_mismatch", "table": "public.orders"}]


def test_a_letter_is_corrected_and_replayed_with_every_digit_as_it_was(console: Console, stand_in: StandIn) -> None:
    page = console.open("dead-letters", "Dead letters")
    page.get_by_role("region", name="Dead letters, 2 rows").get_by_text("type_mismatch").click()
    page.get_by_role("button", name="Correct …").click()
    field = page.get_by_label("The event, corrected")
    text = field.input_value()
    assert "".join(text.split()) == EVENT
    field.fill(text.replace('"abc"', "19.90,"))
    page.get_by_text("Not JSON yet").wait_for()
    field.fill(text.replace('"abc"', "19.90"))
    page.get_by_role("button", name="Replay corrected …").click()
    dialog = page.get_by_role("dialog", name="Replay")
    dialog.get_by_role("button", name="Replay", exact=True).click()
    dialog.get_by_text("34 events are on their way").wait_for()
    (sent,) = posted(stand_in, "replay")
    assert "".join(sent.pop("original").split()) == EVENT.replace('"abc"', "19.90")
    assert sent == {"stream": "shop", "object": "shop.a1", "row": "0"}
    assert not any("19.90" in path for _, path, _, _ in stand_in.asked)  # an event stands in no address


def test_a_test_of_one_target_says_what_it_sends_and_is_sent_once(console: Console, stand_in: StandIn) -> None:
    page = console.open("alerts", "Alerts")
    page.get_by_role("row", name="oncall webhook").get_by_role("button", name="Send a test …").click()
    dialog = page.get_by_role("dialog", name="Send a test")
    dialog.get_by_text("firn test-alerts oncall").wait_for()
    assert posted(stand_in, "test-alerts") == []
    assert console.axe() == []
    dialog.get_by_role("button", name="Send a test", exact=True).click()
    dialog.get_by_text("34 events are on their way").wait_for()
    assert posted(stand_in, "test-alerts") == [{"name": "oncall"}]
