"""Schemas by their ids from a registry, over HTTP: asked for once, within bounded time, and kept.

An id stands for one schema for ever, so that what was fetched is never asked for again. A registry that is away, or
answers anything but the schema or that it knows none, is a TransientError: the batch comes again.

APIs: Confluent's `GET /schemas/ids/{id}` ("Schema Registry API Reference"), which Apicurio has below
/apis/ccompat/v7; ids of 8 bytes are Apicurio's own: `GET /ids/globalIds/{id}` below /apis/registry/v2.
"""

import base64
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from firn.auth.secrets import Secrets
from firn.config.event_sources import Registry
from firn.errors import EventError, TransientError

SECONDS: Final = 5.0  # for an answer
_LARGEST: Final = 4 * 1024 * 1024  # bytes of a schema
_KEPT: Final = 1_000
_UNKNOWN: Final = (404, 410)


class AnySchema(Protocol):
    """What decodes the bytes behind an id."""

    def json(self, data: bytes, *, typed: bool) -> bytes:
        """As JSON text; see kafka_values.value_json. Raises EventError bad_record."""
        ...


class _Answer(msgspec.Struct):
    schema: str
    schemaType: str = "AVRO"
    references: list[dict[str, Any]] = []


class _JsonSchema:
    """The value is JSON by itself."""

    def json(self, data: bytes, *, typed: bool) -> bytes:  # noqa: ARG002
        return data


Ask = Callable[[str, dict[str, str]], bytes | None]
"""An address and headers -> the answer's body, None if there is nothing at it. Raises TransientError."""


class Schemas:
    """The schemas of one registry. `ask`: how it is asked, in tests another way than HTTP."""

    def __init__(self, registry: Registry, secrets: Secrets, ask: "Ask | None" = None) -> None:
        self._registry, self._secrets, self._ask = registry, secrets, ask or _http
        self._known: dict[int, AnySchema] = {}

    def __call__(self, number: int) -> AnySchema:
        """The schema of an id. Raises EventError unknown_schema, bad_record (a kind that is not read), TransientError,
        ConfigError."""
        found = self._known.get(number)
        if found is None:
            found = self._fetched(number)
            if len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[number] = found
        return found

    def _fetched(self, number: int) -> AnySchema:
        own = self._registry.id_bytes == 8  # Apicurio's
        path = f"ids/globalIds/{number}" if own else f"schemas/ids/{number}"
        body = self._ask(f"{self._registry.url}/{path}", self._headers())
        if body is None:
            raise EventError("unknown_schema", f"the registry {self._registry.url} knows no schema {number}")
        try:
            answer = _bare(body) if own else msgspec.json.decode(body, type=_Answer)
        except msgspec.DecodeError:
            raise TransientError(f"the registry {self._registry.url} answers no schema for {number}") from None
        if answer.schemaType == "JSON":
            return _JsonSchema()
        if answer.schemaType != "AVRO" or answer.references:
            what = f"of the type {answer.schemaType}" if answer.schemaType != "AVRO" else "with references to others"
            raise EventError(
                "bad_schema", f"the schema {number} is {what[:60]}, and Avro and JSON Schema are read here"
            )
        from firn.triggers.avro import AvroSchema  # with fastavro, which no other value needs

        return AvroSchema(answer.schema)

    def _headers(self) -> dict[str, str]:
        if not self._registry.secret:
            return {}
        # One pair, or several while it is rotated: the first is the newest.
        pair = self._secrets.keys(self._registry.secret)[0]
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _bare(body: bytes) -> _Answer:
    """Apicurio's answer is the schema itself. One of Avro says `record`, one of JSON Schema `object`."""
    schema = msgspec.json.decode(body, type=dict[str, Any])
    is_avro = schema.get("type") in ("record", "enum", "fixed") and "name" in schema
    return _Answer(body.decode(), "AVRO" if is_avro else "JSON")


def _http(url: str, headers: dict[str, str]) -> bytes | None:
    import urllib.error  # with TLS, which takes longer to import than all else here
    import urllib.request

    request = urllib.request.Request(url, headers={"Accept": "application/json", **headers})  # noqa: S310 (firn.yaml's)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            body: bytes = answer.read(_LARGEST + 1)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _UNKNOWN:
            return None
        raise TransientError(f"the registry answers {error.code} at {url}") from None
    except (OSError, ValueError) as error:
        raise TransientError(f"the registry can't be asked at {url}: {type(error).__name__}") from None
    if len(body) > _LARGEST:
        raise EventError("bad_schema", f"the schema at {url} has more than {_LARGEST:,} bytes")
    return body
