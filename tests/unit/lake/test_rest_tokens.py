"""Tokens of a REST catalog against a real endpoint: when one is fetched, and what each failure is."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from requests import Session

from firn.errors import ConfigError, TransientError
from firn_lake.catalogs.rest_tokens import CatalogTokens
from tests.token_server import TokenServer


@pytest.fixture
def endpoint() -> Iterator[TokenServer]:
    server = TokenServer()
    yield server
    server.stop()


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def tokens(endpoint: TokenServer, clock: Clock | None = None, **properties: str) -> CatalogTokens:
    told = {"credential": endpoint.credential, "firn.answer-seconds": "0.3", **properties}
    return CatalogTokens(told, endpoint.url, Session(), clock or Clock())


def test_the_client_is_sent_as_a_form_and_its_token_as_a_bearer(endpoint: TokenServer) -> None:
    header = tokens(endpoint, scope="PRINCIPAL_ROLE:ALL", audience="lake").auth_header()
    assert endpoint.asked == [
        {"grant_type": "client_credentials", "client_id": "firn", "client_secret": endpoint.secret,
         "scope": "PRINCIPAL_ROLE:ALL", "audience": "lake"}
    ]  # fmt: skip
    assert endpoint.knows(header)


@pytest.mark.parametrize(("lives", "kept"), [(3600.0, 3539.0), (40.0, 29.0)])
def test_a_token_is_replaced_before_it_ends(endpoint: TokenServer, lives: float, kept: float) -> None:
    endpoint.lives, clock = lives, Clock()
    held = tokens(endpoint, clock)
    first = held.auth_header()
    clock.now += kept
    assert held.auth_header() == first
    clock.now += 2
    assert held.auth_header() != first
    assert len(endpoint.asked) == 2


def test_a_token_whose_end_nobody_tells_is_kept_until_it_is_refused(endpoint: TokenServer) -> None:
    endpoint.says, clock = False, Clock()
    held = tokens(endpoint, clock)
    first = held.auth_header()
    clock.now += 1e6
    assert held.auth_header() == first
    assert held.renewed(first) not in (first, None)
    assert len(endpoint.asked) == 2


def test_of_many_that_are_refused_at_once_one_fetches(endpoint: TokenServer) -> None:
    held = tokens(endpoint)
    refused = held.auth_header()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: held.renewed(refused), range(16)))
    assert len(found) == 1
    assert found != {refused}
    assert len(endpoint.asked) == 2


def test_a_token_of_the_environment_is_sent_as_it_is_and_none_is_none(endpoint: TokenServer) -> None:
    fixed = CatalogTokens({"token": "t"}, endpoint.url, Session())
    assert (fixed.auth_header(), fixed.renewed("Bearer t")) == ("Bearer t", None)
    without = CatalogTokens({}, endpoint.url, Session())
    assert (without.auth_header(), without.renewed(None)) == (None, None)
    assert endpoint.asked == []


def test_an_endpoint_that_hangs_is_waited_for_no_longer_than_it_may(endpoint: TokenServer) -> None:
    endpoint.hangs = True
    began = time.monotonic()
    with pytest.raises(TransientError, match=r"token endpoint at http://127.*does not answer, try again"):
        tokens(endpoint).auth_header()
    assert time.monotonic() - began < 3


def test_an_endpoint_that_is_away_is_a_passing_error(endpoint: TokenServer) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{probe.getsockname()[1]}/t"
        with pytest.raises(TransientError, match="does not answer"):
            CatalogTokens({"credential": endpoint.credential}, away, Session()).auth_header()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_endpoint_that_is_not_ready_is_a_passing_error(endpoint: TokenServer, status: int) -> None:
    endpoint.status = status
    with pytest.raises(TransientError, match=f"answered {status}, try again"):
        tokens(endpoint).auth_header()


def test_a_client_that_is_refused_is_told_the_settings_and_no_secret(endpoint: TokenServer) -> None:
    with pytest.raises(ConfigError) as caught:
        tokens(endpoint, credential="firn:wrong-secret").auth_header()
    said = str(caught.value)
    assert "401: invalid_client: no such client" in said
    assert "PYICEBERG_CATALOG__FIRN__CREDENTIAL" in said
    assert "oauth2-server-uri" in said
    assert "wrong-secret" not in said


def test_a_refusal_that_repeats_the_secret_is_told_without_it(endpoint: TokenServer) -> None:
    endpoint.description = "wrong: client_secret=s%2Fe+c, s/e c"
    with pytest.raises(ConfigError) as caught:
        tokens(endpoint, credential="firn:s/e c").auth_header()
    assert r"401: invalid_client: wrong: client_secret=***, ***)" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        tokens(endpoint, credential="s/e c").auth_header()
    assert "client_secret=***, ***)" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "<html>", '{"token": "x"}', '{"access_token": "a\\nb"}', '{"access_token": 5}']
)
def test_what_is_no_token_endpoint_is_said_to_be_none(endpoint: TokenServer, text: str) -> None:
    endpoint.answers = text
    with pytest.raises(ConfigError, match="is no token endpoint"):
        tokens(endpoint).auth_header()


def test_the_last_token_is_not_sent_again_where_no_other_came(endpoint: TokenServer) -> None:
    held = tokens(endpoint)
    first = held.auth_header()
    endpoint.status = 503
    with pytest.raises(TransientError):
        held.renewed(first)
    endpoint.status = None
    assert endpoint.knows(held.auth_header())
