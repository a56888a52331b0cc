"""Who may post to a stream and ask about it: `auth` in firn.yaml. Whoever may not is told nothing but that."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from firn.auth import signatures
from firn.auth.secrets import Secrets
from firn.config.callers import is_one_of
from firn.config.model import Auth, Config
from firn.errors import ConfigError, FirnError, RequestError, TransientError

if TYPE_CHECKING:
    from firn.config.writers import Writer

SHORTEST_API_KEY: Final = 20  # characters
# One text for every reason: an unknown stream, a wrong secret and an old signature look alike from outside.
_REFUSAL: Final = (
    "this request is not from a sender of this stream: check the stream's name, the secret, the headers that carry it, "
    f"and that the sender's clock is right within {signatures.WINDOW} s; the reason is in the function's log"
)
_NO_KEY: Final = bytes(32)


class Unauthorized(RequestError):
    """Not a sender of this stream. `reason` is for our own log."""

    def __init__(self, reason: str) -> None:
        super().__init__(401, "unauthorized", _REFUSAL)
        self.reason = reason


@dataclass(frozen=True)
class Request:
    """What tells who sent a request. `headers`: names in lower case; `body`: as sent; `caller`: the ARN of who signed
    it for AWS, which has checked that and let it through; "" for any other. `writer`: which of a stream's writers it
    says that it is, "" for none; its secret has to show it."""

    headers: Mapping[str, str]
    body: bytes
    caller: str = ""
    writer: str = ""


class Senders:
    """Checks requests. Keeps secrets for a while (Secrets)."""

    def __init__(self, secrets: Secrets | None = None) -> None:
        self._secrets = secrets or Secrets()

    def check(self, config: Config, stream: str, request: Request, now: datetime) -> "Writer | None":
        """The writer that the request is from, None if it may write all of the stream.

        Raises Unauthorized unless it is from one who may; for an unknown stream too, if any stream asks who sends.
        Raises TransientError, ConfigError if a secret can't be had.
        """
        found = config.streams.get(stream)
        if found is None:
            if any(other.auth or other.writers for other in config.streams.values()):
                self._unknown(request, now, "unknown stream")
            return None
        writer, auth = None, found.auth
        if found.writers and request.writer:  # one look, however many there are: who sends says which it is
            if (writer := found.writers.get(request.writer)) is None:
                self._unknown(request, now, "unknown writer")
            auth = writer.auth if writer is not None else None
        elif found.writers and auth is None:
            self._unknown(request, now, "it names no writer (?writer=NAME, or x-firn-writer)")
        if auth is not None and (reason := self.fault(auth, request, now)) is not None:
            raise Unauthorized(reason)
        return writer

    def _unknown(self, request: Request, now: datetime, reason: str) -> None:
        """Raises Unauthorized, and takes as long as a wrong secret does."""
        signatures.fault(request.headers, request.body, [_NO_KEY], now)
        raise Unauthorized(reason)

    def open_to(
        self, config: Config, streams: Iterable[str], request: Request, now: datetime
    ) -> "dict[str, Writer | None]":
        """Those of the streams for which `check` lets the request through, and the writer that it is from.

        A stream whose secret can't be had is left out, unless nothing is left: it is nobody else's trouble. Raises
        TransientError, ConfigError then.
        """
        found: dict[str, Writer | None] = {}
        trouble: FirnError | None = None
        for stream in streams:
            try:
                found[stream] = self.check(config, stream, request, now)
            except Unauthorized:
                continue
            except (TransientError, ConfigError) as error:
                trouble = error
        if trouble is not None and not found:
            raise trouble
        return found

    def check_any(self, config: Config, streams: Iterable[str], request: Request, now: datetime) -> None:
        """Raises as `check` unless the request is from one who may post all of one of the streams; of none, as for an
        unknown stream."""
        names = sorted(streams) or [""]
        found = self.open_to(config, names, request, now)
        if not found:
            self.check(config, names[0], request, now)
        elif None not in found.values():
            raise Unauthorized("a writer may write a part of the stream, and this is about all of it")

    def fault(self, auth: Auth, request: Request, now: datetime) -> str | None:
        """Why the request is not one that `auth` lets through; None if it is. Raises TransientError, ConfigError."""
        match auth.by:
            case "queue":
                return "who sends by queue only"
            case "iam":
                return _caller_fault(request.caller, auth.callers)
            case "api_key":
                return _key_fault(request.headers, self._api_keys(auth.secret))
            case "signature":
                return signatures.fault(request.headers, request.body, self._signing_keys(auth.secret), now)

    def _api_keys(self, place: str) -> Sequence[str]:
        keys = self._secrets.keys(place)
        if any(len(key) < SHORTEST_API_KEY for key in keys):
            raise ConfigError(f"an API key at {place} has fewer than {SHORTEST_API_KEY} characters: make a longer one")
        return keys

    def _signing_keys(self, place: str) -> Sequence[bytes]:
        try:
            return [signatures.secret_of(text) for text in self._secrets.keys(place)]
        except signatures.BadSecret as error:
            raise ConfigError(f"a secret at {place} is not valid: {error}") from error


def given_key(headers: Mapping[str, str]) -> str:
    """The key that a request carries, "" if none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")


def _caller_fault(caller: str, callers: tuple[str, ...]) -> str | None:
    if not caller:
        return "no request that AWS signed"
    return None if not callers or is_one_of(caller, callers) else f"{caller} is not one of those that firn.yaml names"


def _key_fault(headers: Mapping[str, str], keys: Sequence[str]) -> str | None:
    given = given_key(headers)
    if not given:
        return "no x-api-key, and no authorization: Bearer"
    # As hashes, which are equally long: comparing takes as long for a wrong length as for a wrong key.
    right = [hmac.compare_digest(_hash(given), _hash(key)) for key in keys]
    return None if any(right) else "no known API key"


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
