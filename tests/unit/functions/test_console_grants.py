"""The console's function under attack: what a narrower caller is shown and may do, and names that are made to hurt."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firn.auth.grants import RIGHTS, Grant
from firn.dispatch.dispatcher import Terms, dispatch
from firn.log import attempts, cuts, holds, layout, pause
from firn.log.holds import Quarantine
from firn.log.published_configs import current, publish
from firn_console.asked import HIDDEN
from firn_console.letters import MOST_COUNTS
from firn_console.shell_words import command
from tests.unit.functions.conftest import CONFIG
from tests.unit.functions.test_console import KEY, Ask, line, send
from tests.unit.functions.test_console import app as app
from tests.unit.functions.test_console import ask as ask
from tests.unit.log.storage_faults import FaultyStore

NOW = datetime.now(UTC)
SECRET = "4111-1111"
TWO_TABLES = CONFIG.replace(
    "      public.orders: {to: shop.orders, key: [id]}\n",
    "      public.orders: {to: shop.orders, key: [id]}\n      public.salaries: {to: shop.salaries, key: [id]}\n",
)
PAGES = (
    "overview", "streams/shop", "streams/shop/epochs", "streams/shop/batches", "dead-letters", "quarantine", "jobs",
    "tables",
)  # fmt: skip


def change(table: str, number: Any = 1, op: str = "c") -> str:
    return line(number).replace('"orders"', json.dumps(table)).replace('"op": "c"', f'"op": {json.dumps(op)}')


def busy_log(store: FaultyStore) -> str:
    """A log of two tables, one of them nobody's business: a batch, its dead letters, what is held, a failed job."""
    publish(store, TWO_TABLES)
    batch = send(
        store, line(1), change("salaries"), change("salaries", 2, SECRET), change("orders", 3, f"{SECRET} of orders")
    )
    config = current(store)
    terms = Terms(config.sha, config.streams["shop"].commit)
    dispatch(store, "shop", None, now=NOW, terms=terms, force=True)
    made_at = layout.instant(NOW)
    cuts.write(store, cuts.make("shop", 1, made_at, {"shop.orders": 7, "shop.salaries": 8}))
    message = f"the value {SECRET}"
    holds.hold(store, Quarantine(1, "shop", 1, made_at, "key_changed", message, "look", "shop.salaries", 1, 1))
    holds.hold(store, Quarantine(1, "shop", 1, made_at, "key_changed", message, "look", "shop.orders", 1, 1))
    attempts.fail(store, "shop", 2, 2, 1, "terminal", f"can't cast {SECRET}")
    return batch


def test_one_who_may_look_and_not_read_is_shown_no_text_that_quotes_a_row(
    ask: Ask, store: FaultyStore, tmp_path: Path
) -> None:
    batch = busy_log(store)
    keys = {"look": KEY, "read": KEY[::-1], "events": KEY.upper()}
    for name, key in keys.items():
        (tmp_path / name).write_text(key)
    auth = {name: f"auth: {{by: api_key, secret: 'file:{tmp_path}/{name}'}}" for name in keys}
    publish(
        store, f"{TWO_TABLES}console:\n  {auth['look']}\n  events: {{{auth['events']}}}\nquery:\n  {auth['read']}\n"
    )
    paths = (*PAGES, f"streams/shop/batches/{batch}", "tables/shop.orders")

    def told(key: str) -> str:
        return "".join(json.dumps(ask(path, **{"x-api-key": key})["json"]) for path in paths)

    looker = told(keys["look"])
    assert "error" not in {name for path in paths for name in ask(path, **{"x-api-key": KEY})["json"]}
    assert SECRET not in looker
    assert json.dumps(HIDDEN)[1:-1] in looker
    assert SECRET in told(keys["events"])


def test_the_log_of_a_job_is_not_for_one_who_may_not_read(
    ask: Ask, app: ModuleType, store: FaultyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firn_console import jobs

    run = {"jobRunId": "r1", "name": "firn-shop-1-1-1", "state": "FAILED", "stateDetails": SECRET, "createdAt": 1}
    monkeypatch.setattr(jobs.aws_calls, "call", lambda *_args, **_more: ({"jobRun": run}, {}))
    monkeypatch.setattr(jobs, "_application", lambda _asked: "a")
    monkeypatch.setattr(jobs, "_tail", lambda _file: f"ERROR {SECRET}")
    settings = app.staging()
    changed = settings._replace(settings=_with_logs(settings.settings, str(tmp_path)))
    monkeypatch.setattr(app, "staging", lambda: changed)
    for grant, seen in (
        (Grant(("look",), reads=False), False),
        (Grant(RIGHTS, tables=frozenset({"shop.orders"})), False),
        (Grant(("look",)), True),
    ):
        monkeypatch.setattr(app.grants, "of", lambda *_args, grant=grant: grant)
        answer = ask("jobs/r1")["json"]
        assert (SECRET in json.dumps(answer), answer["log"] is not None) == (seen, seen)


def _with_logs(settings: Any, folder: str) -> Any:
    from dataclasses import replace

    return replace(settings, job_logs=folder)


def test_a_caller_of_some_tables_hears_of_no_other(
    ask: Ask, app: ModuleType, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = busy_log(store)
    mine = Grant(("look", "events"), frozenset({"shop"}), frozenset({"shop.orders"}))
    letters = ask("dead-letters")["json"]["letters"]
    monkeypatch.setattr(app.grants, "of", lambda *_args: mine)
    for path in (*PAGES, f"streams/shop/batches/{batch}", "tables/shop.orders"):
        answer = ask(path)
        assert answer["statusCode"] == 200, path
        assert "salaries" not in answer["body"], path
        assert "other" not in [one.get("stream") for one in answer["json"].get("streams", [])]
    assert ask("tables/shop.salaries")["statusCode"] == 404
    assert ask("streams/other")["statusCode"] == 404
    hidden = [one for one in letters if one["table"] != "public.orders"]
    assert len(hidden) == len(letters) - 1 > 0
    for one in letters:
        status = 404 if one in hidden else 200
        assert ask(f"dead-letters/shop/{one['object']}/{one['row']}")["statusCode"] == status


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("pause", {}), ("unpause", {}), ("flush", {"stream": "shop"}), ("replay", {"stream": "shop"}),
        ("resume", {"stream": "shop", "name": "stream"}), ("resume", {"stream": "shop", "name": "epoch 1"}),
        ("resume", {"stream": "shop", "name": "shop.salaries"}), ("compact", {"table": "shop.salaries"}),
        ("flush", {"stream": "other"}), ("replay", {"stream": "other"}),
    ],
)  # fmt: skip
def test_a_caller_of_some_tables_acts_on_no_other(
    ask: Ask, app: ModuleType, store: FaultyStore, monkeypatch: pytest.MonkeyPatch, name: str, fields: dict[str, str]
) -> None:
    busy_log(store)
    before = set(store.puts)
    mine = Grant(RIGHTS, frozenset({"shop"}), frozenset({"shop.orders"}))
    monkeypatch.setattr(app.grants, "of", lambda *_args: mine)
    assert ask(f"actions/{name}", "POST", fields)["statusCode"] in (403, 404)
    assert set(store.puts) == before
    assert pause.since(store) is None


@pytest.mark.parametrize(
    "name",
    [
        "x; touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "a'b",
        "a\nb",
        "\x1b[201~touch pwned\n",
        "\u202egnp.x",
        "",
        "-x",
    ],
)
def test_a_name_in_a_command_stays_one_word_and_acts_on_no_terminal(name: str, tmp_path: Path) -> None:
    text = command("printf", "%s|", "firn", name, "--flag")
    assert text.isprintable()
    done = subprocess.run(
        ["bash", "-c", text], capture_output=True, cwd=tmp_path, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode() == f"firn|{name}|--flag|"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["\x1b'; touch pwned; #", "\n'\\'; touch pwned; #", "\x1b\\'; touch pwned; #"])
def test_a_name_in_a_command_acts_in_no_shell_that_lacks_the_quotes_of_bash(name: str, tmp_path: Path) -> None:
    """/bin/sh of Debian and Alpine reads `$'` as a dollar and a quote, in which a backslash is one."""
    subprocess.run(["sh", "-c", command("echo", name, "--flag")], capture_output=True, cwd=tmp_path, check=False)
    assert list(tmp_path.iterdir()) == []


def test_commands_of_plans_quote_what_a_source_sent(ask: Ask) -> None:
    table = "x; touch pwned"
    plan = ask(f"actions/replay?stream=shop&table={table}")["json"]
    assert plan["command"] == f"firn dead replay shop --table '{table}'"
    plan = ask(f"actions/resume?stream=shop&name=shop.{table}&how=skip")["json"]
    assert plan["command"] == f"firn resume shop 'shop.{table}' --skip"


def test_a_thousand_kinds_of_dead_letters_are_the_hundred_with_the_most(ask: Ask, store: FaultyStore) -> None:
    send(store, *(change(f"t{n}", n, "nonsense") for n in range(150)), change("t7", 7, "nonsense"))
    page = ask("dead-letters?limit=1")["json"]
    assert (len(page["counts"]), page["more_counts"]) == (MOST_COUNTS, 50)
    assert (page["counts"][0]["table"], page["all_waiting"], page["all_letters"]) == ("public.t7", 151, 151)
    one = ask("dead-letters?limit=1&table=public.t9")["json"]
    assert (one["all_waiting"], one["letters"][0]["table"]) == (1, "public.t9")
