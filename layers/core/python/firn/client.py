"""Post changes to a stream over HTTP, with the standard library alone: quick to import, safe to retry.

A batch keeps one Idempotency-Key over all its tries, so a try whose answer was lost is not staged twice.
"""

import gzip
import hashlib
import http.client
import json
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from firn.auth import signatures
from firn.errors import ConfigError, RequestError, TransientError

_log = logging.getLogger(__name__)
# Not the module's own generator: forked senders would share its seed, and a background thread its state.
_RANDOM = random.SystemRandom()
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Answers that decide nothing: try again, later. Anything else from 400 up is final."""

NDJSON = "application/x-ndjson"


@dataclass(frozen=True)
class Receipt:
    """The stream's answer to one batch. `ignored` events change no row (heartbeats, …); `errors` has one entry per
    rejected event: its index in the batch, the reason's code and a message."""

    batch_id: str
    accepted: int
    rejected: int
    duplicate: bool
    ignored: int = 0
    errors: tuple[Mapping[str, Any], ...] = ()


class StreamUnreachable(TransientError):
    """The stream did not take the batch within all tries; nothing is known to be lost, send it again."""


@dataclass(frozen=True)
class Retry:
    """How often and how long to try: waits double from `first_wait` up to `longest_wait` (seconds), with jitter.

    A 429 that says when to come again (Retry-After) is not a failure: the stream is busy, and is asked again after
    that time, for `patience` seconds in all.
    """

    tries: int = 8
    first_wait: float = 0.2
    longest_wait: float = 10.0
    patience: float = 900.0

    def wait(self, failures: int, asked: float | None, jitter: float) -> float:
        """Seconds to wait after this many `failures`; `asked` is the server's Retry-After, `jitter` in [0, 1)."""
        backoff: float = min(self.longest_wait, self.first_wait * 2 ** (failures - 1)) * (0.5 + jitter / 2)
        return max(backoff, min(asked, self.longest_wait) if asked is not None else 0.0)

    def busy_wait(self, waited: float, asked: float | None) -> float | None:
        """Seconds to wait for a busy stream after `waited` seconds already; None: patience is at its end, or the stream
        does not say how long."""
        wait = None if asked is None else max(asked, self.first_wait)
        return wait if wait is not None and waited + wait <= self.patience else None


class StreamClient:
    """One keep-alive connection to the HTTP ingress. Not for use by several threads at once."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 60.0,
        retry: Retry | None = None,
        headers: Mapping[str, str] | None = None,
        secret: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
        found_within: float | None = None,
    ) -> None:
        """`secret`: the sender's, if the streams ask for one: a `whsec_…` signs each request, any other is an API key.
        None: what the file holds that FIRN_SECRET_FILE names. Raises ConfigError if it is none. `found_within`: seconds
        after which an address where nothing has listened yet is given up, whatever `retry` allows."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL of a stack: write http://127.0.0.1:8080 or https://…")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._base = parts.path.rstrip("/")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._timeout, self._retry, self._sleep = timeout, retry or Retry(), sleep
        self._found_within = found_within
        self._headers = dict(headers or {})
        self._secret = _from_file() if secret is None else secret
        self._signing = _signing_key(self._secret)
        self._connection: http.client.HTTPConnection | None = None

    def post(
        self, stream: str, body: bytes, *, key: str, content_type: str = NDJSON, table: str | None = None
    ) -> Receipt:
        """Send one batch to `stream`: `body` is a JSON object, an array or NDJSON, `key` its Idempotency-Key. `table`:
        the source table of the rows in it, where the stream takes plain rows.

        Raises RequestError (with the HTTP status) if the stream refuses the batch, StreamUnreachable if it could not be
        handed over within the tries.
        """
        headers = {
            **self._headers,
            "Content-Type": content_type,
            "Content-Encoding": "gzip",
            "Idempotency-Key": key,
        }
        packed = gzip.compress(body, compresslevel=1, mtime=0)
        path = f"/v1/streams/{quote(stream, safe='')}"
        path += "" if table is None else f"/tables/{quote(table, safe='')}"
        answer = self.request("POST", path, packed, headers)
        return Receipt(
            batch_id=str(answer.get("batch_id", "")),
            accepted=int(answer.get("accepted", 0)),
            rejected=int(answer.get("rejected", 0)),
            duplicate=bool(answer.get("duplicate", False)),
            ignored=sum((answer.get("ignored") or {}).values()),
            errors=tuple(answer.get("errors") or ()),
        )

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """One request with retries; returns the JSON object of the answer. Raises as `post` does."""
        failures, reason, waited, began = 0, "", 0.0, time.monotonic()
        while True:
            asked: float | None = None
            try:
                status, text, asked = self._once(method, path, body, headers or self._headers)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                if (
                    self._found_within is not None
                    and isinstance(error, ConnectionRefusedError | socket.gaierror)
                    and time.monotonic() - began + self._retry.first_wait * 2**failures > self._found_within
                ):
                    raise StreamUnreachable(f"nothing listens at {self.url}: {self._instead}") from error
            else:
                self._found_within = None
                if status < 400:
                    return _json_object(text)
                if status not in RETRIED_STATUSES:
                    raise _refusal(status, text)
                reason = f"HTTP {status}"
                busy = self._retry.busy_wait(waited, asked) if status == 429 else None
                if busy is not None:
                    if not waited:
                        _log.warning("%s; waiting up to %.0f s", _refusal(status, text), self._retry.patience)
                    waited += busy
                    self._sleep(busy)
                    continue
                if status == 429:
                    reason = str(_refusal(status, text))
            failures += 1
            if failures >= self._retry.tries:
                waits = f", {waited:.0f} s of waiting as it asked" if waited else ""
                raise StreamUnreachable(f"{method} {self.url}{path}: {reason}, {failures} tries{waits}")
            self._sleep(self._retry.wait(failures, asked, _RANDOM.random()))

    @property
    def _instead(self) -> str:
        if self._host in ("127.0.0.1", "localhost", "::1"):
            return "start the embedded stack (firn up; firn doctor finds what it lacks), or give its address in url"
        return "look at the address in url (the output Url of the deployment) and at the network"

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, float | None]:
        connection = self._connection or self._open()
        self._connection = connection
        connection.request(method, self._base + path, body=body, headers={**headers, **self._signed(body, headers)})
        response = connection.getresponse()
        return response.status, response.read(), _seconds(response.getheader("Retry-After"))

    def _signed(self, body: bytes | None, headers: Mapping[str, str]) -> dict[str, str]:
        """What tells who sends: again for each try, since a signature holds for five minutes."""
        if self._signing is None:
            return {"X-Api-Key": self._secret} if self._secret else {}
        key, now = headers.get("Idempotency-Key", ""), int(time.time())
        id = f"msg_{hashlib.sha256(key.encode()).hexdigest()[:32]}"  # the same at each try of a batch
        signature = signatures.sign(self._signing, id, now, body or b"")
        return {signatures.ID: id, signatures.TIMESTAMP: str(now), signatures.SIGNATURE: signature}

    def _open(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        connection.connect()
        # Header and body are two writes: without this the second waits for the server's delayed ACK (40 ms a batch).
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _from_file() -> str:
    file = os.environ.get("FIRN_SECRET_FILE", "")
    try:
        # While it is rotated it holds two: the first is the newest.
        return (Path(file).read_text().split() or [""])[0] if file else ""
    except OSError as error:
        raise ConfigError(f"FIRN_SECRET_FILE is {file!r}, which can't be read: {error.strerror}") from error


def _signing_key(secret: str) -> bytes | None:
    try:
        return signatures.secret_of(secret) if secret.startswith("whsec_") else None
    except signatures.BadSecret as error:
        raise ConfigError(f"the sender's secret is not valid: {error}") from error


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RequestError(502, "bad_answer", f"the stack answered something else than a JSON object: {text[:200]!r}")
    return value


def _refusal(status: int, text: bytes) -> RequestError:
    code, message = "refused", text[:500].decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict):  # ours: {"error": code, "message": text}; a gateway's own: {"message": text}
        code, message = str(answer.get("error", code)), str(answer.get("message", message))
    return RequestError(status, code, f"HTTP {status}: {message}")


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.strip().isdecimal() else None
