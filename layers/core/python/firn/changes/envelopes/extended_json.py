"""MongoDB's documents as plain JSON: extended JSON (version 2, canonical or relaxed, and version 1's binary) undone.

https://www.mongodb.com/docs/manual/reference/mongodb-extended-json/

| BSON type | in the image |
|---|---|
| int32, int64, double | a number; NaN and the infinities as text |
| decimal128 | its digits, as text |
| date | text, 2026-11-22T19:58:00.000Z; of years that ISO 8601 has no four digits for its milliseconds |
| ObjectId, symbol | text |
| binary | base64, of subtype 4 (and `$uuid`) a UUID's text |
| undefined | null |
| timestamp, regular expression, code, min and max key, DBRef | as they come: an object |

In arrays and documents within the document, too. What holds none of these stays as it was written, byte for byte.
"""

import binascii
import re
import uuid
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Raw

from firn.changes.envelopes.limits import TOKEN
from firn.errors import EventError

DEEPEST: Final = 110  # MongoDB's own limit is 100; what is around a value counts here
_WRAPPED: Final = b'"$'
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_DIGITS: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,6})?|-?NaN|-?Infinity", re.ASCII)
_SPECIAL: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_items: Final = msgspec.json.Decoder(list[Raw]).decode
_text: Final = msgspec.json.Decoder(str).decode
_any: Final = msgspec.json.Decoder(Any).decode
encode: Final = msgspec.json.Encoder().encode

Cells = Mapping[str, Raw]
"""A document's fields, plain, in their order."""


class _Odd(ValueError):
    """A wrapper that holds something else than it says."""


def plain_document(document: bytes, within: str) -> bytes:
    """A document as plain JSON. Raises EventError not_an_object, bad_json, bad_event, too_deep."""
    if not document.lstrip().startswith(b"{"):
        raise EventError("not_an_object", f"`{within}` is not a document")
    try:
        _check_depth(document)
        if _WRAPPED not in document:
            return document
        return b"{" + b",".join(_member(name, one) for name, one in _members(document).items()) + b"}"
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise EventError("bad_json", f"`{within}`: {error}") from None
    except RecursionError:
        raise EventError("too_deep", f"`{within}` is nested too deeply") from None
    except _Odd as error:
        raise EventError("bad_event", f"`{within}`: {error}") from None


def _check_depth(text: bytes) -> None:
    if text.count(b"[") + text.count(b"{") <= DEEPEST:  # nearly always
        return
    depth = 0
    for token in TOKEN.finditer(text):
        sign = token[0]
        depth += (sign in (b"[", b"{")) - (sign in (b"]", b"}"))
        if depth > DEEPEST:
            raise EventError("too_deep", f"the document is nested more than {DEEPEST} levels deep")


def plain_cell(cell: bytes, within: str) -> Raw:
    """One value as plain JSON, without spaces between its signs. Raises as `plain_document`."""
    document = _members(plain_document(b'{"_":' + cell + b"}", within))
    text = bytes(document["_"])
    return Raw(msgspec.json.format(text, indent=-1) if text[:1] in (b"{", b"[") else text)


def _member(name: str, raw: Raw) -> bytes:
    return encode(name) + b":" + _plain(bytes(raw))


def _plain(text: bytes) -> bytes:
    if _WRAPPED not in text:
        return text
    if text[:1] == b"[":
        return b"[" + b",".join(_plain(bytes(one)) for one in _items(text)) + b"]"
    if text[:1] != b"{":
        return text
    members = _members(text)
    unwrap = _WRAPPERS.get(tuple(sorted(members)))
    if unwrap is not None:
        return unwrap(members)
    return b"{" + b",".join(_member(name, one) for name, one in members.items()) + b"}"


def _number(members: Cells) -> bytes:
    (raw,) = members.values()
    text = _said(raw)
    if not _NUMBER.fullmatch(text):
        raise _Odd("a whole number that is none")
    return b"%d" % int(text)


def _double(members: Cells) -> bytes:
    (raw,) = members.values()
    text = _said(raw)
    if text in _SPECIAL:
        return encode(text)
    if not _DIGITS.fullmatch(text) or "n" in text:
        raise _Odd("a double that is none")
    return (
        encode(float(text))
        if abs(float(text)) != float("inf")
        else encode("Infinity" if text[0] != "-" else "-Infinity")
    )


def _decimal(members: Cells) -> bytes:
    text = _said(members["$numberDecimal"])
    if not _DIGITS.fullmatch(text):
        raise _Odd("a decimal that is none")
    return encode(text)


def _said(raw: Raw) -> str:
    """Text as it is, a number's digits."""
    text = bytes(raw)
    return _text(text) if text[:1] == b'"' else text.decode("ascii", "replace")


def _date(members: Cells) -> bytes:
    raw = bytes(members["$date"])
    if raw[:1] == b"{":
        inner = _members(raw)
        if inner.keys() != {"$numberLong"}:
            raise _Odd("a date that is none")
        raw = _number(inner)
    if raw[:1] == b'"':
        try:
            time = datetime.fromisoformat(_text(raw))
        except ValueError:
            raise _Odd("a date that is none") from None
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        return encode(_iso(time))
    if not _NUMBER.fullmatch(raw.decode("ascii", "replace")):
        raise _Odd("a date that is none")
    return encode(text_of_millis(int(raw)))


def text_of_millis(millis: int) -> str:
    """A date's text. `millis`: since 1970."""
    try:
        return _iso(_EPOCH + timedelta(milliseconds=millis))
    except OverflowError:
        return str(millis)


def _iso(time: datetime) -> str:
    try:
        return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        raise _Odd("a date out of the years 1 to 9999") from None


def _binary(members: Cells) -> bytes:
    raw = bytes(members["$binary"])
    kind, data = members.get("$type", Raw(b'"00"')), raw
    if raw[:1] == b"{":
        inner = _members(raw)
        if inner.keys() != {"base64", "subType"}:
            raise _Odd("a binary value that is none")
        kind, data = inner["subType"], bytes(inner["base64"])
    text = _text(data)
    try:
        found = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _Odd("a binary value that is not base64") from None
    if _said(kind).lstrip("0") == "4" and len(found) == 16:
        return encode(str(uuid.UUID(bytes=found)))
    return encode(text)


def _text_of(members: Cells) -> bytes:
    (raw,) = members.values()
    return encode(_text(raw))


def _null(_members: Cells) -> bytes:
    return b"null"


_WRAPPERS: Final[dict[tuple[str, ...], Callable[[Cells], bytes]]] = {
    ("$oid",): _text_of,
    ("$symbol",): _text_of,
    ("$uuid",): _text_of,
    ("$numberInt",): _number,
    ("$numberLong",): _number,
    ("$numberDouble",): _double,
    ("$numberDecimal",): _decimal,
    ("$date",): _date,
    ("$binary",): _binary,
    ("$binary", "$type"): _binary,
    ("$undefined",): _null,
}
