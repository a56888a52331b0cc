"""`console` in firn.yaml: who may look, see events, and act."""

import pytest

from firn.config.console_access import ConsoleAccess
from firn.config.model import Auth
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = "streams: {shop: {auth: {by: api_key, secret: 'ssm:/firn/posting'}, tables: {'*': {to: 'shop.{table}'}}}}\n"
READERS = "query: {auth: {by: api_key, secret: 'ssm:/firn/reading'}}\n"


def test_each_right_has_its_own_holders() -> None:
    text = (
        "console: {auth: {by: iam}, events: {auth: {by: api_key, secret: 'ssm:/firn/events'}},"
        " actions: {auth: {by: api_key, secret: 'ssm:/firn/acting'}}}\n"
    )
    events, act = Auth("api_key", "ssm:/firn/events"), Auth("api_key", "ssm:/firn/acting")
    assert parse(text + STREAMS).console == ConsoleAccess(Auth("iam"), events, act)
    assert parse(STREAMS).console == ConsoleAccess()


def test_who_looks_may_have_the_key_of_queries() -> None:
    text = "console: {auth: {by: api_key, secret: 'ssm:/firn/reading'}}\n"
    assert parse(text + READERS + STREAMS).console == ConsoleAccess(Auth("api_key", "ssm:/firn/reading"))


@pytest.mark.parametrize(
    ("console", "message"),
    [
        ("{auth: {by: signature, secret: 'ssm:/x'}}", "console.auth.by: is for posting"),
        ("{actions: {auth: {by: api_key}}}", "console.actions.auth.secret: is missing"),
        ("{actions: {auth: {by: api_key, secret: 'ssm:/firn/reading'}}}", "secret: is the secret of query.auth too"),
        ("{events: {auth: {by: api_key, secret: 'ssm:/firn/reading'}}}", "secret: is the secret of query.auth too"),
        ("{auth: {by: api_key, secret: 'ssm:/firn/posting'}}", "secret: is the secret of the stream shop too"),
        (
            "{actions: {auth: {by: api_key, secret: 'ssm:/firn/posting'}}}",
            "secret: is the secret of the stream shop too",
        ),
        ("{actions: {by: iam}}", "console.actions.by: is not a setting"),
        ("{act: {auth: {by: iam}}}", "console.act: is not a setting"),
        ("yes", "console: "),
    ],
)
def test_what_can_not_be_is_named_by_its_line(console: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"firn.yaml:1: .*{message}"):
        parse(f"console: {console}\n{READERS}{STREAMS}")


def test_one_key_does_not_look_and_act() -> None:
    both = "{by: api_key, secret: 'ssm:/firn/one'}"
    with pytest.raises(ConfigError, match=r"console\.actions\.auth\.secret: is the secret of console\.auth too"):
        parse(f"console: {{auth: {both}, actions: {{auth: {both}}}}}\n{STREAMS}")
    with pytest.raises(
        ConfigError, match=r"console\.actions\.auth\.secret: is the secret of console\.events\.auth too"
    ):
        parse(f"console: {{events: {{auth: {both}}}, actions: {{auth: {both}}}}}\n{STREAMS}")
