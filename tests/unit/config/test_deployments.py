"""`targets:` of firn.yaml."""

import pytest

from firn.config.model import TargetConfig
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = "streams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}\n"


def test_a_target_is_a_stack_and_where_it_is() -> None:
    text = (
        "targets:\n  dev: {}\n  prod: {stack: acme-firn, region: eu-central-1, profile: acme-prod}\n"
        "  local: {stack: firn, endpoint: 'http://127.0.0.1:4566/'}\n"
    )
    assert parse(text + STREAMS).targets == {
        "dev": TargetConfig("firn-dev"),
        "prod": TargetConfig("acme-firn", "eu-central-1", "acme-prod"),
        "local": TargetConfig("firn", endpoint="http://127.0.0.1:4566"),
    }
    assert parse(STREAMS).targets == {}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("{stack: 'a b'}", "targets.dev.stack: 'a b'"),
        ("{region: europe}", "targets.dev.region: 'europe' is not a region"),
        ("{endpoint: localhost}", "targets.dev.endpoint: 'localhost' is not an http:// or https:// address"),
        ("{regoin: eu-central-1}", "targets.dev.regoin"),
        ("{profile: 'a b'}", "targets.dev.profile: 'a b' is not a profile"),
    ],
)
def test_what_is_no_target_is_told_with_its_line(target: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"targets:\n  dev: {target}\n{STREAMS}")
    assert str(raised.value).startswith(f"firn.yaml:2: {said}")
