"""A message to an HTTPS address, signed as Standard Webhooks has it, so that a receiver knows who sent it.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
One try: no redirect is followed, an answer's body is not read. What is known of the outcome is said, never guessed:
from the first byte of the request on, only an answer tells whether it arrived. Neither URL nor key is ever in a text.
"""

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from firn.alerts.alert_message import Message
from firn.alerts.public_address import is_public
from firn.auth.secrets import Secrets
from firn.auth.signatures import ID, SIGNATURE, TIMESTAMP, BadSecret, secret_of, sign
from firn.config.alerts import Webhook
from firn.errors import ConfigError, FirnError
from firn.log.alert_log import TryResult, result_now

SECONDS: Final = 5.0  # a try, from the first byte to the answer; a look-up of the name comes on top
_MOST_ADDRESSES: Final = 4
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True)
class _Place:
    """Where a URL leads. `netloc`: as the header Host has it; `target`: path and query."""

    host: str
    port: int
    netloc: str
    target: str
    encrypted: bool


class _Refused(FirnError):
    """It is not sent, for a reason that lies here."""


def send(target: Webhook, message: Message, secrets: Secrets, now: datetime, *, local: bool) -> TryResult:
    """One try. `local`: in an embedded stack, which may send to its own machine, and there without TLS."""
    try:
        place = _place_of(_held(secrets, target.address, f"{target.name}.webhook")[0], local=local)
        headers = _headers(message, _held(secrets, target.secret, f"{target.name}.secret"), now)
        connection = _connected(place, local=local)
    except BadSecret as error:
        return result_now("failed", now, f"alerts.targets.{target.name}.secret: {error}")
    except FirnError as error:
        return result_now("failed", now, str(error))
    return _asked(connection, place, message.body, headers, now)


def _held(secrets: Secrets, place: str, key: str) -> tuple[str, ...]:
    """What a secret holds. Raises TransientError, _Refused."""
    try:
        return secrets.keys(place)
    except ConfigError:
        raise _Refused(f"there is nothing at {place}: create the secret, or correct alerts.targets.{key}") from None


def _headers(message: Message, keys: tuple[str, ...], now: datetime) -> Mapping[str, str]:
    """One signature a key, the newest first: a receiver that knows any of them takes it. Raises BadSecret."""
    at = int(now.timestamp())
    return {
        "Content-Type": "application/json",
        "User-Agent": "firn",
        "Connection": "close",
        ID: message.id,
        TIMESTAMP: str(at),
        SIGNATURE: " ".join(sign(secret_of(key), message.id, at, message.body) for key in keys),
    }


def _place_of(url: str, *, local: bool) -> _Place:
    """Raises _Refused, whose text has nothing of the URL."""
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = (parts.hostname or "").encode("idna").decode() if ":" not in (parts.hostname or "") else parts.hostname
    except (ValueError, UnicodeError):
        raise _Refused("the URL in the secret can't be read: write https://HOST/PATH into it") from None
    if not host or _CONTROL.search(url) or parts.username is not None or parts.password is not None:
        raise _Refused("the URL in the secret is not https://HOST/PATH, without a name and a password")
    if parts.scheme != "https" and not (local and parts.scheme == "http"):
        raise _Refused("the URL in the secret is not https")
    shown = f"[{host}]" if ":" in host else host
    named = shown if parts.port is None else f"{shown}:{port}"
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=-._~") + (
        f"?{quote(parts.query, safe='/%:@!$&()*+,;=?-._~')}" if parts.query else ""
    )
    return _Place(host, port, named, target, parts.scheme == "https")


def _connected(place: _Place, *, local: bool) -> socket.socket:
    """A connection to an address that was looked at itself, so that no second look-up leads elsewhere. Raises
    _Refused: nothing was sent."""
    try:
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _Refused("the host of the URL has no address") from None
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    if not local and not all(map(is_public, addresses)):
        raise _Refused(
            "the host of the URL is an address of this machine, of its network or of no use at all: a deployed stack "
            "sends to public addresses alone"
        )
    why = "no address"
    for address in addresses[:_MOST_ADDRESSES]:
        try:
            plain = socket.create_connection((address, place.port), SECONDS / 2)
        except OSError as error:
            why = type(error).__name__
            continue
        if not place.encrypted:
            return plain
        try:
            return ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
        except (OSError, ValueError) as error:
            plain.close()
            why = type(error).__name__
    raise _Refused(f"no address of the URL's host can be reached, or has a certificate for that host ({why})")


def _asked(plain: socket.socket, place: _Place, body: bytes, headers: Mapping[str, str], now: datetime) -> TryResult:
    connection = http.client.HTTPConnection(place.host, place.port)
    connection.sock = plain
    # A receiver that answers a byte at a time would never run into a time-out of its own.
    ends = threading.Timer(SECONDS, _shut, (plain,))
    ends.daemon = True
    ends.start()
    try:
        plain.settimeout(SECONDS)
        connection.request("POST", place.target, body, {"Host": place.netloc, **headers})
        with connection.getresponse() as answer:
            status = answer.status
    except (OSError, http.client.HTTPException) as error:
        why = f"no answer came within {SECONDS:.0f} s ({type(error).__name__}): it may have arrived"
        return result_now("unknown", now, why)
    finally:
        ends.cancel()
        connection.close()
    if 200 <= status < 300:
        return result_now("sent", now, status=status)
    moved = " (no redirect is followed: write the address that it leads to into the secret)" if status < 400 else ""
    return result_now("failed", now, f"it answered HTTP {status}{moved}", status)


def _shut(plain: socket.socket) -> None:
    try:
        socket.socket.shutdown(plain, socket.SHUT_RDWR)  # the socket alone: TLS's own state is the reader's
    except OSError:
        return
