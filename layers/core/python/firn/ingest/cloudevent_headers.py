"""CloudEvents in binary mode: the attributes are headers (`ce-…`), the body is the event's data. Pure.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from firn.errors import RequestError

_PREFIX: Final = "ce-"
_NAME: Final = re.compile("[a-z0-9]{1,64}", re.ASCII)
_QUOTED: Final = re.compile(r"\\(.)", re.DOTALL)
_encode: Final = msgspec.json.Encoder().encode
_one_value: Final = msgspec.json.Decoder(Raw).decode


def in_headers(headers: Mapping[str, str], envelope: str) -> bool:
    """Whether a request of a stream with this envelope is an event in binary mode. A body that is an event of another
    envelope stays one, whatever headers a broker gave it. `headers`: names in lower case."""
    if "ce-specversion" not in headers or headers.get("content-type", "").lower().startswith("application/cloudevents"):
        return False
    return envelope == "cloudevents" or (envelope == "auto" and "ce-iodebeziumop" in headers)


def structured(headers: Mapping[str, str], body: bytes) -> bytes:
    """The same event in structured mode. Raises RequestError 400: bad_json for a body that is not one JSON value, and
    not_utf8 for a header that is no text."""
    told = {name.removeprefix(_PREFIX): value for name, value in headers.items() if name.startswith(_PREFIX)}
    event: dict[str, object] = {name: _value(text) for name, text in told.items() if _NAME.fullmatch(name)}
    event["datacontenttype"] = headers.get("content-type", "application/json")
    if body.strip():
        try:
            event["data"] = _one_value(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RequestError(400, "bad_json", f"the event's data is not one JSON value: {error}") from None
    try:
        return _encode(event)
    except UnicodeEncodeError:
        raise RequestError(400, "not_utf8", "a header of the event holds half of a surrogate pair") from None


def _value(text: str) -> str:
    """A header's value without its quotes and percent signs."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = _QUOTED.sub(r"\1", text[1:-1])
    return unquote(text)
