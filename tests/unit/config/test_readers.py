"""`query.auth` in firn.yaml: who may read tables."""

import pytest

from firn.config.model import Auth
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = "streams: {shop: {auth: {by: api_key, secret: 'ssm:/firn/posting'}, tables: {'*': {to: 'shop.{table}'}}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("query: {}\n", None),
        ("query: {auth: {by: iam}}\n", Auth("iam")),
        ("query: {auth: {by: api_key, secret: 'ssm:/firn/reading'}}\n", Auth("api_key", "ssm:/firn/reading")),
    ],
)
def test_readers_are_those_that_are_named(text: str, expected: Auth | None) -> None:
    assert parse(text + STREAMS).readers == expected


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ("{by: signature, secret: 'ssm:/x'}", "query.auth.by: is for posting: .*write by: api_key or by: iam"),
        ("{by: api_key}", "query.auth.secret: is missing"),
        ("{by: iam, secret: 'ssm:/x'}", "query.auth.secret: is not used by iam"),
        ("{by: api_key, secret: 'ssm:/firn/posting'}", "query.auth.secret: is the secret of the stream shop too"),
        ("{by: keys, secret: 'ssm:/x'}", "query.auth.by: 'keys' is not a way"),
        ("{secret: 'ssm:/x'}", "query.auth.by: is missing"),
    ],
)
def test_what_readers_can_not_be_is_named_by_its_line(auth: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"firn.yaml:1: {message}"):
        parse(f"query: {{auth: {auth}}}\n{STREAMS}")


def test_other_keys_below_query_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"query\.limit: is not a setting"):
        parse("query: {limit: 5}\n" + STREAMS)
