"""Signed requests, as Standard Webhooks has them; Debezium Server's HTTP sink signs so.

The signature is over the bytes as sent, before any content encoding is undone. Source:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

WINDOW: Final = 300  # seconds by which a request's time may differ from ours, both ways
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_PREFIX: Final = "whsec_"
_MOST_SIGNATURES: Final = 8
# Without a dot, which separates what is signed: so that no other id, time and body give the same bytes.
_ID: Final = re.compile(r"[!-\-/-~]{1,255}")
_TIME: Final = re.compile(r"[0-9]{1,12}")


class BadSecret(ValueError):
    """The text is not a signing secret. The message never holds it."""


def secret_of(text: str) -> bytes:
    """The key that `whsec_` and base64 stand for: 24 to 64 bytes. Raises BadSecret."""
    if not text.startswith(_PREFIX):
        raise BadSecret(
            f"a signing secret begins with {_PREFIX}; write {_PREFIX} and 24 to 64 bytes as base64 behind it"
        )
    try:
        key = binascii.a2b_base64(text[len(_PREFIX) :], strict_mode=True)
    except ValueError as error:  # binascii.Error is one
        raise BadSecret(f"what follows {_PREFIX} is not base64") from error
    if not 24 <= len(key) <= 64:
        raise BadSecret(f"a signing secret holds 24 to 64 bytes, this one {len(key)}")
    return key


def sign(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    """The value of the header webhook-signature."""
    return f"v1,{_digest(key, id, str(timestamp), body)}"


def fault(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], now: datetime) -> str | None:
    """Why a request is not a sender's who has one of the keys, None if it is.

    For our own log: a sender is told one text whatever it is. `headers`: names in lower case; `now`: aware.
    """
    id, timestamp, given = (headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not id or not timestamp or not given:
        return f"no {ID}, {TIMESTAMP} or {SIGNATURE}"
    if not _ID.fullmatch(id) or not _TIME.fullmatch(timestamp):
        return f"{ID} or {TIMESTAMP} is not of its form"
    if abs(now.timestamp() - int(timestamp)) > WINDOW:
        return f"{TIMESTAMP} is more than {WINDOW} seconds off"
    known = [_digest(key, id, timestamp, body).encode() for key in keys]
    # Every one is compared with every other: how long it takes says nothing about which was nearly right.
    parts = [part.partition(",") for part in given.split(" ")[:_MOST_SIGNATURES]]
    offered = [text.encode("utf-8", "surrogatepass") for version, _, text in parts if version == "v1"]
    right = [hmac.compare_digest(one, other) for one in offered for other in known]
    return None if any(right) else "no signature by a known secret"


def _digest(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    said = hmac.new(key, f"{id}.{timestamp}.".encode(), hashlib.sha256)
    said.update(body)
    return binascii.b2a_base64(said.digest(), newline=False).decode()
