"""Who may look at the console, see events and act: every combination of what firn.yaml says and what a request has."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.auth.grants import RIGHTS, Grant, Grants, NotGranted
from firn.auth.readers import NotAReader
from firn.auth.senders import Request
from firn.config.model import Config
from firn.config.reader import parse

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAMS = "streams: {web: {tables: {'*': {to: 'web.{table}'}}}}\n"
KEYS = {"reading": "r" * 24, "looking": "l" * 24, "events": "e" * 24, "acting": "a" * 24}


def config(tmp_path: Path, text: str) -> Config:
    for name, key in KEYS.items():
        (tmp_path / name).write_text(key)
    return parse(text.replace("PLACE", f"file:{tmp_path}") + STREAMS)


def rights(found: Config, key: str | None, *, open_to_all: bool = False) -> tuple[str, ...]:
    headers = {} if key is None else {"x-api-key": KEYS.get(key, key)}
    try:
        return Grants().of(found, Request(headers, b""), NOW, open_to_all).rights
    except NotAReader:
        return ()


ALL = (
    "query: {auth: {by: api_key, secret: PLACE/reading}}\n"
    "console: {events: {auth: {by: api_key, secret: PLACE/events}},"
    " actions: {auth: {by: api_key, secret: PLACE/acting}}}\n"
)


def test_a_key_has_its_right_and_those_below(tmp_path: Path) -> None:
    found = config(tmp_path, ALL)
    assert rights(found, None) == ()
    assert rights(found, "w" * 24) == ()
    assert rights(found, "reading") == ("look",)
    assert rights(found, "events") == ("look", "events")
    assert rights(found, "acting") == RIGHTS


def test_who_may_query_does_not_look_where_the_console_names_others(tmp_path: Path) -> None:
    text = "console: {auth: {by: api_key, secret: PLACE/looking}}\n"
    found = config(tmp_path, "query: {auth: {by: api_key, secret: PLACE/reading}}\n" + text)
    assert (rights(found, "reading"), rights(found, "looking")) == ((), ("look",))


def test_a_deployment_that_says_nothing_lets_nobody_in(tmp_path: Path) -> None:
    assert rights(config(tmp_path, ""), None) == ()


def test_an_embedded_stack_that_says_nothing_lets_everybody_act(tmp_path: Path) -> None:
    assert rights(config(tmp_path, ""), None, open_to_all=True) == RIGHTS


def test_actions_that_have_a_key_need_it_though_all_may_look(tmp_path: Path) -> None:
    found = config(tmp_path, "console: {actions: {auth: {by: api_key, secret: PLACE/acting}}}\n")
    assert rights(found, None, open_to_all=True) == ("look",)
    assert rights(found, "acting", open_to_all=True) == RIGHTS


def test_with_readers_and_no_actions_the_console_is_read_only_in_an_embedded_stack_too(tmp_path: Path) -> None:
    found = config(tmp_path, "query: {auth: {by: api_key, secret: PLACE/reading}}\n")
    assert rights(found, None, open_to_all=True) == ()
    assert rights(found, "reading", open_to_all=True) == ("look",)


def test_callers_of_aws_are_told_apart(tmp_path: Path) -> None:
    role = "arn:aws:iam::123456789012:role/ops"
    found = config(tmp_path, f"console: {{auth: {{by: iam}}, actions: {{auth: {{by: iam, iam: ['{role}']}}}}}}\n")

    def of(caller: str) -> tuple[str, ...]:
        return Grants().of(found, Request({}, b"", caller), NOW, False).rights

    assert of("arn:aws:sts::123456789012:assumed-role/ops/me") == RIGHTS
    assert of("arn:aws:sts::123456789012:assumed-role/other/me") == ("look",)
    with pytest.raises(NotAReader):
        of("")


def test_a_right_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(NotGranted, match=r"console\.actions\.auth") as raised:
        Grant(("look", "events")).require("act")
    assert (raised.value.status, raised.value.code) == (403, "not_granted")
    Grant(("look", "events")).require("events")


def test_a_grant_with_names_sees_these_alone() -> None:
    grant = Grant(("look",), frozenset({"shop"}), frozenset({"shop.orders"}))
    assert grant.sees("shop", "shop.orders")
    assert not grant.sees("shop", "shop.people")
    assert not grant.sees("web")
    assert Grant(("look",)).sees("web", "web.users")


def test_where_some_read_some_tables_the_console_is_open_to_nobody(tmp_path: Path) -> None:
    scoped = "query: {%sreaders: {acme: {auth: {by: api_key, secret: PLACE/acme}, tables: ['acme.*']}}}\n"
    (tmp_path / "acme").write_text("acme." + "k" * 24)
    found = config(tmp_path, scoped % "")
    for key in (None, "acme." + "k" * 24):
        assert rights(found, key, open_to_all=True) == ()
    found = config(tmp_path, scoped % "auth: {by: api_key, secret: PLACE/reading}, ")
    assert (rights(found, "acme." + "k" * 24, open_to_all=True), rights(found, "reading")) == ((), ("look",))
