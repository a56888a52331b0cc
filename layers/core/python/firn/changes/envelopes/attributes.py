"""DynamoDB's typed attributes to row images and their schemas: each exactly. Pure.

| attribute | column |
|---|---|
| `S` | `string` |
| `N` | whole and of 64 bits: `long`; others `decimal(21,2)` or the next larger; of more digits than 38: `string` |
| `BOOL` | `boolean` |
| `B` | `binary` |
| `NULL` | null, whatever the column's type |
| `SS`, `NS`, `BS` | `list` of these |
| `L`, `M` | `string`: their JSON, without the types; numbers by their digits, bytes in base64 |

The precision of a decimal goes up in steps, so that a column's type seldom changes: 19 digits before the point as in a
long, and 2, 4, 6, 9, 12 or 19 behind it.

https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_AttributeValue.html
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from firn.changes.envelopes.event_reader import decode
from firn.changes.envelopes.row_images import schema_of, word
from firn.errors import EventError

_Kind = tuple[str, ...]  # of a column: the Connect type, its semantic name, precision and scale
_encode: Final = msgspec.json.encode
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_LONGEST: Final = 400  # characters of a number: 38 digits at most 130 places from the point
_DEEPEST: Final = 40  # DynamoDB's own: 32
_LONG: Final = range(-(2**63), 2**63)
_SCALES: Final = (2, 4, 6, 9, 12, 19)

_TEXT: Final = ("string",)
_LONGS: Final = ("int64",)
_BYTES: Final = ("bytes",)
_JSON: Final = ("string", "io.debezium.data.Json")


@dataclass(frozen=True)
class Item:
    """`values`: JSON by column; `kinds`: of those that are not null."""

    values: Mapping[str, bytes]
    kinds: Mapping[str, _Kind]

    @property
    def schema(self) -> bytes:
        """The inline schema, the same for the same kinds in whatever order they come."""
        return _schema(tuple(sorted(self.kinds.items())))


def item_of(attributes: Mapping[str, Mapping[str, Raw]]) -> Item:
    """An image's attributes. Raises EventError bad_event, with the attribute's name."""
    values: dict[str, bytes] = {}
    kinds: dict[str, _Kind] = {}
    for name, attribute in attributes.items():
        try:
            kind, values[name] = _value(attribute)
        except (_NoAttribute, msgspec.MsgspecError, UnicodeError, RecursionError, Base64Error, ValueError) as error:
            why = str(error) if isinstance(error, _NoAttribute) else "its value is not one of its type"
            raise EventError("bad_event", f"attribute {name[:200]!r}: {why}") from None
        if kind is not None:
            kinds[name] = kind
    return Item(values, kinds)


class _NoAttribute(Exception):
    """Why it is none."""


def _only(attribute: Mapping[str, Raw]) -> tuple[str, Raw]:
    if len(attribute) != 1:
        raise _NoAttribute("it is not an object of one type and its value")
    return next(iter(attribute.items()))


def _value(attribute: Mapping[str, Raw]) -> tuple[_Kind | None, bytes]:
    """The kind of an attribute's column, None for NULL, and its value as JSON."""
    name, raw = _only(attribute)
    if name == "N":
        number, kind = _number(msgspec.json.decode(raw, type=str))
        return kind, number
    if name in _SETS:
        return _set(name, msgspec.json.decode(raw, type=list[str]))
    if name in ("L", "M"):
        return _JSON, _nested(attribute, 0)
    if name == "NULL":
        return None, b"null"
    if name not in _SINGLE:
        raise _NoAttribute(f"{name[:20]!r} is no type of DynamoDB's")
    return _KINDS[name], _SINGLE[name](raw)


def _bytes(raw: Raw) -> bytes:
    text = msgspec.json.decode(raw, type=str)
    b64decode(text, validate=True)
    return _encode(text)


_SINGLE: Final[Mapping[str, Callable[[Raw], bytes]]] = {
    "S": lambda raw: _encode(msgspec.json.decode(raw, type=str)),
    "B": _bytes,
    "BOOL": lambda raw: _encode(msgspec.json.decode(raw, type=bool)),
}
_KINDS: Final[Mapping[str, _Kind]] = {"S": _TEXT, "B": _BYTES, "BOOL": ("boolean",)}
_SETS: Final = frozenset({"SS", "NS", "BS"})


def _number(text: str) -> tuple[bytes, _Kind]:
    """A number's digits as JSON, and the kind of its column."""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise _NoAttribute("N is not a number")
    if not _JSON_NUMBER.fullmatch(text):
        text = format(Decimal(text), "f")
        if len(text) > _LONGEST:
            raise _NoAttribute("N is beyond DynamoDB's numbers")
    whole, _, fraction = text.lstrip("-").partition(".")
    if not fraction and int(text) in _LONG:
        return str(int(text)).encode(), _LONGS
    return text.encode(), _decimal(len(whole.lstrip("0")), len(fraction.rstrip("0")))


def _decimal(whole: int, scale: int) -> _Kind:
    """Of so many digits before and behind the point."""
    if whole + scale > 38:
        return "string", "firn.data.Number"
    step = next((one for one in _SCALES if one >= scale), scale)
    precision = max(whole, 19) + step
    if precision > 38:
        precision, step = 38, max(scale, min(step, 38 - whole))
    return "string", "firn.data.Number", str(precision), str(step)


def _set(name: str, members: Sequence[str]) -> tuple[_Kind, bytes]:
    if name == "NS":
        numbers = [_number(text) for text in members]
        kinds = {kind for _, kind in numbers}
        return ("array", *_widest(kinds)), b"[" + b",".join(number for number, _ in numbers) + b"]"
    if name == "BS":
        for text in members:
            b64decode(text, validate=True)
    return ("array", *(_BYTES if name == "BS" else _TEXT)), _encode(list(members))


def _widest(kinds: set[_Kind]) -> _Kind:
    """One kind for all numbers of a set."""
    if kinds <= {_LONGS}:
        return _LONGS
    others = kinds - {_LONGS}
    if any(len(kind) < 4 for kind in others):
        return "string", "firn.data.Number"
    whole = max(19, *(int(kind[2]) - int(kind[3]) for kind in others))
    scale = max(int(kind[3]) for kind in others)
    if whole + scale > 38:
        return "string", "firn.data.Number"
    return "string", "firn.data.Number", str(whole + scale), str(scale)


def _nested(attribute: Mapping[str, Raw], depth: int) -> bytes:
    """The JSON of a list's or map's member, without its type."""
    if depth > _DEEPEST:
        raise _NoAttribute(f"it is nested more than {_DEEPEST} deep")
    name, raw = _only(attribute)
    if name == "L":
        members = decode(raw, list[dict[str, Raw]])
        return b"[" + b",".join([_nested(one, depth + 1) for one in members]) + b"]"
    if name == "M":
        named = decode(raw, dict[str, dict[str, Raw]])
        return b"{" + b",".join([_encode(key) + b":" + _nested(one, depth + 1) for key, one in named.items()]) + b"}"
    return _value(attribute)[1]


@lru_cache(4096)
def _schema(kinds: tuple[tuple[str, _Kind], ...]) -> bytes:
    return schema_of(_field(name, kind) for name, kind in kinds if name)


def _field(name: str, kind: _Kind) -> dict[str, Any]:
    if kind[0] == "array":
        return word(name, "array") | {"items": _field("", kind[1:])}
    digits = {"precision": kind[2], "scale": kind[3]} if len(kind) > 2 else {}
    return word(name, kind[0], kind[1] if len(kind) > 1 else None, **digits)
