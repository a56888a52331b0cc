"""The tokens of a REST catalog: OAuth2's client credentials with bounded waits, each replaced before it ends.

PyIceberg fetches a token as a catalog is opened, waits for it as long as it takes, and again only once a request was
refused. Source: RFC 6749 (4.4, 5.1, 5.2), and Iceberg's REST specification, which sends the client in the form.
"""

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlsplit

import requests
from pyiceberg.catalog.rest.auth import AuthManager
from requests import Session
from requests.exceptions import RequestException

from firn.config.catalogs import ANSWER, ANSWER_SECONDS, CONNECT, CONNECT_SECONDS
from firn.errors import ConfigError, TransientError

MARGIN: Final = 60.0
"""Seconds before its end at which a token is replaced; at most a quarter of what it lives."""

_SHARE: Final = 0.25
_NOT_NOW: Final = frozenset({408, 425, 429})
_MOST_SAID: Final = 300
_FORM: Final = "application/x-www-form-urlencoded"
_CREDENTIAL: Final = (
    "set the property credential (CLIENT_ID:SECRET) by PYICEBERG_CATALOG__FIRN__CREDENTIAL, or by firn.credential, "
    "the place of a secret that holds it; scope and oauth2-server-uri under catalog.properties"
)


class CatalogTokens(AuthManager):
    """What a session sends as Authorization. Safe in threads: one of them fetches, the others wait for it.

    properties  PyIceberg's: `credential` (a client that gets tokens), else `token` (one that never changes), else none
    url         of the token endpoint
    session     whose TLS settings count for the token endpoint too
    clock       seconds that never go back
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        url: str,
        session: Session,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credential, self._token = properties.get("credential"), properties.get("token")
        if self._credential:
            self._token = None
        self._url, self._session, self._clock = url, session, clock
        self._waits = (float(properties.get(CONNECT, CONNECT_SECONDS)), float(properties.get(ANSWER, ANSWER_SECONDS)))
        self._asks = {"scope": properties.get("scope") or "catalog"}
        self._asks |= {name: properties[name] for name in ("audience", "resource") if properties.get(name)}
        self._replaced_at = float("inf")
        self._lock = Lock()

    def auth_header(self) -> str | None:
        """The header's text; None where there are no tokens. Raises TransientError, ConfigError."""
        with self._lock:
            if self._credential and (self._token is None or self._clock() >= self._replaced_at):
                self._fetch(self._credential)
            return f"Bearer {self._token}" if self._token else None

    def renewed(self, refused: str | None) -> str | None:
        """The header to send instead of one that the catalog refused, None if there is no other. Raises as
        `auth_header`."""
        with self._lock:
            if not self._credential:
                return None
            if refused == f"Bearer {self._token}" or self._token is None:
                self._fetch(self._credential)
            return f"Bearer {self._token}"

    def _fetch(self, credential: str) -> None:
        self._token = None  # whatever happens now, the old one is not sent again
        name, colon, secret = credential.partition(":")
        client = {"client_id": name, "client_secret": secret} if colon else {"client_secret": credential}
        asked_at = self._clock()
        try:
            with Session() as session:
                session.verify, session.cert, session.trust_env = self._session.verify, self._session.cert, True
                answer = session.post(
                    self._url,
                    data={"grant_type": "client_credentials", **client, **self._asks},
                    headers={"Content-Type": _FORM, "Accept": "application/json"},
                    timeout=self._waits,
                    allow_redirects=False,  # a redirect would take the secret along
                )
        except RequestException as error:
            why = str(error).rpartition(">: ")[2] or type(error).__name__
            raise TransientError(
                f"the token endpoint at {_host(self._url)} does not answer, try again: {why}"
            ) from None
        if answer.status_code >= 500 or answer.status_code in _NOT_NOW:
            raise TransientError(f"the token endpoint at {_host(self._url)} answered {answer.status_code}, try again")
        if answer.status_code != 200:
            raise ConfigError(
                f"the token endpoint at {_host(self._url)} refuses this client "
                f"({_reason(answer, secret or credential)}): {_CREDENTIAL}"
            )
        self._take(answer, asked_at)

    def _take(self, answer: requests.Response, asked_at: float) -> None:
        told = _json(answer)
        token, lives = told.get("access_token"), told.get("expires_in")
        if not isinstance(token, str) or not token or not token.isprintable() or not token.isascii():
            raise ConfigError(
                f"what answers at {_host(self._url)} is no token endpoint: its answer has no access_token; set the "
                "property oauth2-server-uri under catalog.properties to the whole address of the one"
            )
        self._token, self._replaced_at = token, float("inf")
        if isinstance(lives, int | float) and not isinstance(lives, bool) and lives > 0:
            self._replaced_at = asked_at + lives - min(MARGIN, lives * _SHARE)


def _json(answer: requests.Response) -> Mapping[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def without(text: str, secret: str) -> str:
    """What a server says, less a secret that it repeats, also as forms and addresses have it."""
    for written in {secret, quote(secret, safe=""), quote_plus(secret)} - {""}:
        text = text.replace(written, "***")
    return text


def _reason(answer: requests.Response, secret: str) -> str:
    """Status, and OAuth2's error where there is one; `secret`: what was sent, which an error may repeat."""
    told = _json(answer)
    said = [str(told[name]) for name in ("error", "error_description") if isinstance(told.get(name), str)]
    return without(": ".join([str(answer.status_code), *said]), secret)[:_MOST_SAID]


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
