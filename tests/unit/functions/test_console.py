"""functions/console: each answer on a real log, who may do what, and what a hostile page or path gets."""

import gzip
import json
import logging
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from firn.alerts.alert_views import AlertsView
from firn.dispatch.dispatcher import Terms, dispatch
from firn.ingest.accept import accept
from firn.log import cuts, holds, layout, pause
from firn.log.holds import Quarantine
from firn.log.published_configs import current, publish
from firn.tables.failures import Failure
from firn.views import due, view_state
from firn.views.view_state import ViewState, ViewStates
from firn_console import actions
from firn_console.actions import ACTIONS
from firn_console.contract import action_pages, job_pages, letter_pages, stream_pages, table_pages
from tests.unit.functions.conftest import CONFIG
from tests.unit.log.storage_faults import FaultyStore

OWN = {"Host": "127.0.0.1:8080", "Content-Type": "application/json", "X-Firn-Console": "1"}
KEY = "a-key-of-twenty-characters"
Ask = Callable[..., dict[str, Any]]


def line(number: Any) -> str:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": f'["{number}","{number}"]'}
    return json.dumps({"before": None, "after": {"id": number}, "source": source, "op": "c", "ts_ms": 1})


def send(store: FaultyStore, *lines: str) -> str:
    return accept(store, current(store), "shop", "\n".join(lines).encode(), now=datetime.now(UTC)).batch_id


@pytest.fixture
def app(load: Callable[..., ModuleType]) -> ModuleType:
    return load("console", open_reads=True)


@pytest.fixture
def ask(app: ModuleType) -> Ask:
    """One request -> the answer, with `json` where its body is that."""

    def call(path: str, method: str = "GET", body: Any = None, **headers: str) -> dict[str, Any]:
        path, _, query = path.partition("?")
        given = {**(OWN if method == "POST" else {"Host": OWN["Host"]}), **headers}
        event: dict[str, Any] = {
            "httpMethod": method,
            "path": path if path.startswith("/") else f"/v1/console/{path}",
            "headers": {name: value for name, value in given.items() if value},
            "queryStringParameters": dict(pair.split("=", 1) for pair in query.split("&") if pair) or None,
            "requestContext": {"identity": {}},
            "body": body if isinstance(body, str) else json.dumps(body) if body is not None else None,
        }
        answer: dict[str, Any] = app.handler(event, None)
        if answer["body"] and not answer["isBase64Encoded"]:
            answer["json"] = json.loads(answer["body"]) if "json" in answer["headers"]["Content-Type"] else None
        return answer

    return call


def test_the_log_page_by_page(ask: Ask, store: FaultyStore) -> None:
    first, second = send(store, line(1)), send(store, line(2), line("x"), "{")
    config = current(store)
    dispatch(
        store, "shop", None, now=datetime.now(UTC), terms=Terms(config.sha, config.streams["shop"].commit), force=True
    )
    third = send(store, line(4))

    page = ask("streams/shop")["json"]
    msgspec.convert(page, stream_pages.StreamPage)
    assert (page["way"]["sealed_epochs"], page["way"]["staged_events"]) == (1, 1)
    assert page["row"]["state"] == "busy"
    epoch = ask("streams/shop/epochs")["json"]
    assert [(one["n"], one["state"], one["batches"]) for one in epoch["epochs"]] == [(1, "sealed", 2)]
    batches = ask("streams/shop/batches?limit=2")["json"]
    assert [one["id"] for one in batches["batches"]] == [third, second]
    rest = ask(f"streams/shop/batches?limit=2&cursor={batches['next']}")["json"]
    assert ([one["id"] for one in rest["batches"]], rest["next"]) == ([first], None)
    assert ask(f"streams/shop/batches/{first}")["json"]["state"] == "sealed"
    assert ask(f"streams/other/batches/{first}")["statusCode"] == 404
    overview = ask("overview")["json"]
    msgspec.convert(overview, stream_pages.Overview)
    assert [one["kind"] for one in overview["needs"]] == ["dead_letters"]
    assert {one["stream"] for one in overview["streams"]} == {"shop", "other"}


def test_a_dead_letter_is_shown_corrected_and_replayed_once(ask: Ask, store: FaultyStore) -> None:
    send(store, line(1), "{")
    page = ask("dead-letters?stream=shop")["json"]
    msgspec.convert(page, letter_pages.LetterPage)
    [letter] = page["letters"]
    assert ([one["waiting"] for one in page["counts"]], letter["reason"]) == ([1], "bad_json")
    where = f"dead-letters/shop/{letter['object']}/{letter['row']}"
    assert ask(where)["json"]["original"] == "{"
    fields = {"stream": "shop", "object": letter["object"], "row": letter["row"], "original": line(2)}
    done = ask("actions/replay", "POST", fields)
    assert (done["statusCode"], done["json"]["text"]) == (200, "1 letter was taken")
    assert ask("actions/replay", "POST", fields)["json"]["text"] == "0 letters were taken"
    assert ask(where)["json"]["letter"]["replayed_in"]
    assert ask(f"dead-letters/shop/{letter['object']}/7")["statusCode"] == 404
    assert ask("dead-letters/shop/..%2F..%2Fconfig%2Fcurrent.json/0")["statusCode"] == 404


def test_a_replay_that_had_no_time_goes_on_behind_what_it_did(
    ask: Ask, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(store, line(0), "{")  # its letter stays dead, and comes first
    for number in range(2):
        send(store, line(number), json.dumps({"id": number, "t": "orders"}))
    rows = "envelope: rows\n    table_by: t"
    publish(store, CONFIG.replace("envelope: auto", rows).replace("public.orders", "orders"))
    monkeypatch.setattr(actions, "_REPLAY_SECONDS", -1.0)
    fields: Any = {"stream": "shop"}
    taken = []
    for _ in range(4):
        done = ask("actions/replay", "POST", fields)["json"]
        taken.append(done["text"])
        if (fields := done["following"]) is None:
            break
        assert done["lines"][-1] == "there was no time for all: go on with the rest"
    assert taken == ["0 letters were taken", "1 letter was taken", "1 letter was taken"]


@pytest.mark.parametrize("number", ["9" * 5_000, "-1", "\u0663", "1e3", ""])
def test_numbers_that_are_none_are_told(ask: Ask, number: str) -> None:
    for name, fields in (
        ("resume", {"stream": "shop", "name": f"epoch {number}"}),
        ("replay", {"stream": "shop", "object": "x", "row": number or "x"}),
    ):
        assert ask(f"actions/{name}", "POST", fields)["json"]["error"] == "bad_field"


def test_what_is_held_is_told_and_resumed(ask: Ask, store: FaultyStore) -> None:
    made_at = layout.instant(datetime.now(UTC))
    holds.hold(store, Quarantine(1, "shop", 1, made_at, "key_changed", "the key", "look", "shop.orders", 1, 1))
    [row] = ask("quarantine")["json"]["held"]
    assert (row["name"], row["kind"], row["ways"]) == ("shop.orders", "table", ["retry", "replay", "skip"])
    assert [one["severity"] for one in ask("overview")["json"]["needs"]] == ["critical"]
    plan = ask("actions/resume?stream=shop&name=shop.orders&how=skip")["json"]
    assert plan["command"] == "firn resume shop shop.orders --skip"
    fields = {"stream": "shop", "name": "shop.orders", "how": "replay"}
    assert ask("actions/resume", "POST", fields)["statusCode"] == 200
    assert ask("actions/resume", "POST", fields)["json"]["error"] == "not_resumed"


def test_pause_and_what_others_do(ask: Ask, store: FaultyStore) -> None:
    send(store, line(1))
    assert ask("actions/pause", "POST", {})["statusCode"] == 200
    assert pause.since(store) is not None
    assert ask("session")["json"]["paused_since"]
    assert ask("actions/unpause", "POST", {})["statusCode"] == 200
    assert pause.since(store) is None
    for name, fields in (("flush", {"stream": "shop"}), ("compact", {"table": "shop.orders"})):
        assert ask(f"actions/{name}", "POST", fields)["json"]["error"] == "not_started"


def test_tables_and_jobs_as_the_log_tells_of_them(ask: Ask, store: FaultyStore) -> None:
    cuts.write(store, cuts.make("shop", 1, layout.instant(datetime.now(UTC)), {"shop.orders": 7 << 60}))
    page = ask("tables")["json"]
    msgspec.convert(page, table_pages.TablePage)
    assert [(one["table"], one["snapshot"]) for one in page["tables"]] == [("shop.orders", str(7 << 60))]
    msgspec.convert(ask("tables/shop.orders")["json"], table_pages.TableAnswer)
    assert ask("tables/shop.nothing")["statusCode"] == 404
    jobs = ask("jobs")["json"]
    msgspec.convert(jobs, job_pages.RunPage)
    assert (jobs["from_emr"], jobs["why_not"]) == (False, "no EMR Serverless application is set")
    assert ask("jobs/..")["statusCode"] == 404


def test_a_view_is_shown_with_what_it_is_of_and_why_it_is_not_refreshed(ask: Ask, store: FaultyStore) -> None:
    sql = "SELECT id FROM shop.orders"
    config = publish(store, f"{CONFIG}views:\n  sales.all: {{sql: {sql}, every: 5m}}\n  sales.new: {{sql: {sql}}}\n")
    now = datetime.now(UTC)
    for n in (1, 2):
        cuts.write(store, cuts.make("shop", n, layout.instant(now - timedelta(minutes=7 - n)), {"shop.orders": n}))
    views = {one.table.table: one for one in config.streams["shop"].views}
    of = ViewState(views["all"].sha, "of before", {"shop": 1}, now - timedelta(minutes=6))
    failed = due.failed(of, Failure("terminal", "no column c"), now, config.sha)
    view_state.write(
        store, "shop", ViewStates(views={"sales.all": failed, "sales.new": due.begun(ViewState(), now, "")})
    )
    rows = {one["table"]: one["state"] for one in ask("tables")["json"]["tables"]}
    assert rows == {"sales.all": "held", "sales.new": "unknown", "shop.orders": "unknown"}
    found = msgspec.convert(ask("tables/sales.all")["json"], table_pages.TableAnswer)
    assert [(one.source, one.mode, one.sql) for one in found.feeds] == [("shop.orders", "view", sql)]
    one = found.view
    assert one is not None
    assert (one.stream, one.cut, one.every) == ("shop", {"shop": 1}, 300)
    assert (one.quarantined, one.tries, one.error) == (True, 1, "no column c")
    assert one.refreshed_at == layout.instant(now - timedelta(minutes=6))
    assert one.behind_seconds is not None
    assert 290 < one.behind_seconds < 400
    assert one.due is not None
    assert msgspec.convert(ask("tables/shop.orders")["json"], table_pages.TableAnswer).view is None
    [need] = msgspec.convert(ask("overview")["json"], stream_pages.Overview).needs
    assert (need.kind, need.subject, need.link) == ("view_held", "sales.all", "tables/sales.all")
    assert need.text == "the view sales.all is quarantined: no column c; its rows stay as they were"
    assert need.command == "firn resume shop sales.all"


ALERTS = """
alerts:
  targets:
    oncall: {webhook: 'ssm:/firn/url', secret: 'ssm:/firn/key'}
    ops: {sns: 'arn:aws:sns:eu-west-1:123456789012:x'}
  rules: {held: {on: quarantine, to: [oncall]}}
"""


def test_every_action_says_what_it_does_before_it_is_done(ask: Ask, store: FaultyStore) -> None:
    publish(store, CONFIG + ALERTS)
    listed = msgspec.convert(ask("actions")["json"], action_pages.ActionList)
    assert {one.name for one in listed.actions} == set(ACTIONS)
    fields = {"stream": "shop", "name": "stream", "table": "shop.orders"}
    for one in listed.actions:
        given = "&".join(f"{field.name}={fields[field.name]}" for field in one.fields if field.required)
        plan = msgspec.convert(ask(f"actions/{one.name}?{given}")["json"], action_pages.ActionPlan)
        assert plan.does
        assert plan.command.startswith("firn ")
        missing = [field.name for field in one.fields if field.required]
        if missing:
            assert ask(f"actions/{one.name}", "POST", {})["json"]["error"] == "missing_field"
        assert ask(f"actions/{one.name}", "POST", {"stranger": "x"})["json"]["error"] == "bad_field"


def test_alerts_are_shown_and_tested_by_the_function_that_sends_them(
    ask: Ask, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("alerts")["json"] == {"targets": [], "rules": [], "alerts": [], "ended": 0}
    assert ask("actions/test-alerts")["json"]["error"] == "no_alerts"
    publish(store, CONFIG + ALERTS)
    page = msgspec.convert(ask("alerts")["json"], AlertsView)
    assert [(one.name, one.kind, one.where) for one in page.targets] == [
        ("oncall", "webhook", "ssm:/firn/url"),
        ("ops", "sns", "arn:aws:sns:eu-west-1:123456789012:x"),
    ]
    assert [(one.name, one.watches, one.to) for one in page.rules] == [
        ("held", "every stream: anything is quarantined", ("oncall",))
    ]
    plan = ask("actions/test-alerts?name=held")["json"]
    assert (plan["command"], "to oncall." in plan["does"]) == ("firn alerts test held", True)
    assert ask("actions/test-alerts?name=nobody")["json"]["error"] == "no_such_alert"
    answers: list[dict[str, Any]] = [
        {
            "tests": [
                {"target": "oncall", "outcome": "sent", "why": ""},
                {"target": "ops", "outcome": "unknown", "why": "?"},
            ]
        },
        {"streams": []},
    ]
    asked: list[Any] = []
    monkeypatch.setattr(actions, "_invoked", lambda _, event: asked.append(event) or answers.pop(0))
    done = ask("actions/test-alerts", "POST", {})["json"]
    assert (done["text"], done["lines"], done["command"]) == (
        "1 of 2 arrived", ["oncall: sent", "ops: unknown: ?"], "firn alerts test"
    )  # fmt: skip
    assert (asked[0]["test"], len(asked[0]["nonce"])) == ("", 32)
    assert ask("actions/test-alerts", "POST", {"name": "ops"})["json"]["error"] == "not_sent"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"X-Firn-Console": ""}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_a_page_of_another_origin_changes_nothing(
    ask: Ask, store: FaultyStore, headers: dict[str, str], status: int
) -> None:
    assert ask("actions/pause", "POST", {}, **headers)["statusCode"] == status
    assert pause.since(store) is None


@pytest.mark.parametrize("path", ["overview", "dead-letters", "/console/"])
def test_the_answer_has_a_tag_and_guards(ask: Ask, path: str) -> None:
    answer = ask(path)
    assert answer["statusCode"] == 200
    assert answer["headers"]["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in answer["headers"]["Content-Security-Policy"]
    assert answer["headers"]["X-Frame-Options"] == "DENY"
    again = ask(path, **{"If-None-Match": answer["headers"]["ETag"]})
    assert (again["statusCode"], again["body"]) == (304, "")


def test_pages_are_files_of_the_package_alone(ask: Ask) -> None:
    assert ask("/")["headers"]["Location"] == "console/"
    for path in (
        "/console/../pages.py",
        "/console/%2e%2e/pages.py",
        "/console//etc/passwd",
        "/console/app/../../pages.py",
    ):
        assert ask(path)["statusCode"] == 404, path
    packed = ask("/console/firn.css", **{"Accept-Encoding": "gzip"})
    assert b"{" in gzip.decompress(b64decode(packed["body"]))


@pytest.mark.parametrize(
    "path",
    [
        "overview?window=1", "overview?window=99999999999", "dead-letters?limit=0", "dead-letters?cursor=AAAA",
        "dead-letters?replayed=maybe", "tables?cursor=%", "streams/shop/receipts", f"tables?like={'x' * 2000}",
    ],
)  # fmt: skip
def test_bad_parameters_are_told(ask: Ask, path: str) -> None:
    answer = ask(path)
    assert answer["statusCode"] == 400
    assert answer["json"]["message"]


def test_bodies_that_are_no_objects_are_refused(ask: Ask) -> None:
    for body in ("[]", "{", "null", "[" * 100_000):
        assert ask("actions/pause", "POST", body)["json"]["error"] == "bad_json"


def test_who_may_what(ask: Ask, store: FaultyStore, tmp_path: Path) -> None:
    (tmp_path / "look").write_text(KEY)
    (tmp_path / "act").write_text(KEY[::-1])
    look, act = (f"auth: {{by: api_key, secret: 'file:{tmp_path}/{name}'}}" for name in ("look", "act"))
    publish(store, f"{CONFIG}console:\n  {look}\n  actions: {{{act}}}\n")
    send(store, line(1), "{")
    assert ask("overview")["statusCode"] == 401
    looker, actor = {"x-api-key": KEY}, {"x-api-key": KEY[::-1]}
    [letter] = ask("dead-letters", **looker)["json"]["letters"]
    assert ask(f"dead-letters/shop/{letter['object']}/0", **looker)["json"]["error"] == "not_granted"
    assert ask("actions/pause", "POST", {}, **looker)["json"]["error"] == "not_granted"
    assert pause.since(store) is None
    assert ask("session", **looker)["json"]["rights"] == ["look"]
    assert ask("actions/pause", "POST", {}, **actor)["statusCode"] == 200


def test_no_log_line_holds_an_event(ask: Ask, store: FaultyStore, caplog: pytest.LogCaptureFixture) -> None:
    send(store, line(1), '{"secret-word')
    [letter] = ask("dead-letters")["json"]["letters"]
    with caplog.at_level(logging.DEBUG):
        ask(
            "actions/replay",
            "POST",
            {"stream": "shop", "object": letter["object"], "row": 0, "original": "secret-word"},
        )
    assert "secret-word" not in caplog.text


def test_the_documentation_is_served_from_its_folder_and_its_absence_told(
    ask: Ask, app: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("/docs")["headers"]["Location"] == "docs/"
    monkeypatch.setattr(app, "_documentation", tmp_path / "html")
    assert "make docs" in ask("/docs/")["body"]
    (tmp_path / "html/how-to").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("not for anybody")
    (tmp_path / "html/link.txt").symlink_to(tmp_path / "secret.txt")
    for name in ("index.html", "how-to/index.html", "how-to/duckdb.html"):
        (tmp_path / "html" / name).write_text(name)
    for path, name in (
        ("", "index.html"),
        ("how-to/", "how-to/index.html"),
        ("how-to/duckdb.html", "how-to/duckdb.html"),
    ):
        answer = ask(f"/docs/{path}")
        assert (answer["statusCode"], answer["body"]) == (200, name)
        policy = answer["headers"]["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "worker-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
    for path in (
        "../secret.txt",
        "%2e%2e/secret.txt",
        "link.txt",
        "/etc/passwd",
        "how-to/../../secret.txt",
        "nothing.html",
    ):
        assert ask(f"/docs/{path}")["statusCode"] == 404, path
    assert ask("/docs/", "POST", {})["statusCode"] == 405
