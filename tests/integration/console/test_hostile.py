"""Whatever anybody wrote into a table's name, a row, an error or a dead letter is text in the page, nothing else."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from firn_console.contract.action_pages import ActionDone
from tests.integration.console.conftest import Console
from tests.integration.console.example_answers import everything, tables
from tests.integration.console.stand_in import Refused, StandIn
from tests.integration.console.test_pages import PAGES
from tests.integration.console.test_scale import struct

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


def wait_for(told: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.02)


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


def test_a_word_of_javascript_is_no_page(console: Console) -> None:
    for word in ("constructor", "toString", "__proto__"):
        page = console.open(word, "No such page")
        assert page.get_by_role("alert").count() == 0


NAMES = ("shop.orders WHERE 1=0", 'shop."orders"', "shop.x,web.users", "shop.select", "order.group", "__proto__.body")


def test_a_tables_name_is_no_sql_and_its_columns_are_no_words_of_it(console: Console, stand_in: StandIn) -> None:
    """Else whoever names a table would choose which rows are shown under its name."""
    row = struct(tables.tables[0])
    schema = {"table": "x", "key": ["order"], "columns": [{"name": "order", "type": "long"}]}
    stand_in.answers |= {"tables/.+/schema": schema, "console/tables": {"tables": [row], "total": 1, "next": None}}
    for name in NAMES:
        stand_in.asked.clear()
        console.open(f"tables/{quote(name, safe='')}", name).get_by_role("status").first.wait_for()
        space, _, table = name.partition(".")
        quoted = '"' + table.replace('"', '""') + '"'
        wait_for(lambda: any(path == "/v1/query" for _, path, _, _ in stand_in.asked))
        [sql] = [json.loads(body)["sql"] for _, path, _, body in stand_in.asked if path == "/v1/query"]
        assert sql == f'SELECT "order" FROM "{space}".{quoted} ORDER BY "order" LIMIT 201'
        [path] = [unquote(path) for _, path, _, _ in stand_in.asked if path.endswith("/schema")]
        assert path in (f"/v1/tables/{space}.{quoted}/schema", f"/v1/tables/{name}/schema")
        assert '"' not in name or quoted in path


def test_tables_with_names_of_javascript_complete_and_change_no_prototype(console: Console, stand_in: StandIn) -> None:
    row = struct(tables.tables[0])
    names = ("__proto__.body", "constructor.prototype", "shop.__proto__")
    stand_in.answers["console/tables"] = {"tables": [row | {"table": one} for one in names], "total": 3, "next": None}
    stand_in.answers["tables/.+/schema"] = {"columns": [{"name": "__proto__", "type": "long"}]}
    page = console.open("query", "Query")
    editor = page.get_by_role("textbox", name="SQL")
    editor.click()
    page.keyboard.type("SELECT * FROM __proto__.body")
    wait_for(lambda: any(path.endswith("/schema") for _, path, _, _ in stand_in.asked))
    assert page.evaluate("({}).body") is None


def test_an_event_of_many_levels_is_shown_at_about_its_size(console: Console, stand_in: StandIn) -> None:
    console.open()
    deep = "[" * 900 + "1," * 40_000 + "1" + "]" * 900
    shown = console.page.evaluate("async text => (await import('./app/pages/letters.js')).pretty(text).length", deep)
    assert shown < 50 * len(deep)
    assert (
        console.page.evaluate("async () => (await import('./app/pages/letters.js')).pretty('['.repeat(3e5)).length")
        == 300_000
    )


def test_what_is_copied_into_a_terminal_stays_one_word(console: Console, tmp_path: Path) -> None:
    console.open()
    for name in (
        "x; touch pwned",
        "$(touch pwned)",
        "a'b",
        "a\nb",
        "\x1b[201~touch pwned\n",
        "\u202egnp.x",
        "\\'\t",
        "\U0001f600",
    ):
        word = console.page.evaluate("async text => (await import('./app/shell/format.js')).shellWord(text)", name)
        assert word.isprintable()
        done = subprocess.run(
            ["bash", "-c", f"printf %s {word}"],
            capture_output=True,
            cwd=tmp_path,
            check=True,
            env={"LC_ALL": "C.UTF-8"},
        )
        assert done.stdout.decode() == name
    assert list(tmp_path.iterdir()) == []


def test_names_are_told_by_the_query_function_as_sql_and_come_back(console: Console) -> None:
    console.open()
    for name in ("shop.orders", "shop.Mixed Case", 'shop.a"b', "a b.c.d", 'x."q"'):
        both = "async name => { const f = await import('./app/shell/format.js'); return f.tableName(f.sqlName(name)); }"
        assert console.page.evaluate(both, name) == name


def test_what_there_was_no_time_for_is_done_next(console: Console, stand_in: StandIn) -> None:
    bodies: list[dict[str, str]] = []

    def act(_fields: object, body: bytes) -> Any:
        if not body:
            return plan
        bodies.append(json.loads(body))
        more = {**bodies[0], "after": "2026/01/01/x.parquet"} if len(bodies) == 1 else None
        return ActionDone("replay", f"part {len(bodies)}", "firn dead replay shop", following=more)

    plan = everything()["console/actions/.+"]
    plan = msgspec.to_builtins(plan if not callable(plan) else plan({"path": "console/actions/replay"}, b""))
    stand_in.answers["console/actions/.+"] = act
    page = console.open("dead-letters?stream=shop", "Dead letters")
    page.get_by_role("button", name="Replay these").click()
    dialog = page.get_by_role("dialog")
    dialog.locator(".primary").click()
    dialog.get_by_text("part 1").wait_for()
    dialog.get_by_role("button", name="Go on with the rest").click()
    dialog.get_by_text("part 2").wait_for()
    assert bodies == [{"stream": "shop"}, {"stream": "shop", "after": "2026/01/01/x.parquet"}]
    assert dialog.get_by_role("button", name="Go on with the rest").count() == 0
