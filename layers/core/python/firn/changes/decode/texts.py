"""The one text of each stored value, and what becomes of a value whose column gets another type (docs/adr/0032).

A column that becomes text holds the same text whether its values were stored before (retype.py) or come now (codec.py):
both go through `retyped`. Values are as the codec gives them: days, microseconds, Decimal, bytes, lists.
"""

import struct
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec

from firn.changes.decode.types import DOUBLE, FLOAT, STRING, Type
from firn.changes.decode.values import EXACT, text_of_days, text_of_decimal, text_of_micros, text_of_nanos

Change = Callable[[Any], Any]
_encode: Final = msgspec.json.Encoder().encode


def changes_form(old: Type, new: Type) -> bool:
    """Whether values of `old` become text in `new`, or get the digits of a double: what no cast does as `retyped`."""
    if old.element is not None and new.element is not None:
        return changes_form(old.element, new.element)
    if old.entry and new.entry:
        return old.entry[0] != new.entry[0] or changes_form(old.entry[1], new.entry[1])
    if old.fields and new.fields:
        wanted = dict(new.fields)
        return any(changes_form(part, wanted.get(name, part)) for name, part in old.fields)
    return old != new and (new == STRING or (old == FLOAT and new == DOUBLE))


def retyped(old: Type, new: Type) -> Change:
    """From a value of `old` (never null) to one of `new`, which holds it (types.widen). Over whatever types in between
    it comes out the same."""
    if old == new:
        return lambda value: value
    if old.element is not None and new.element is not None:
        element = retyped(old.element, new.element)
        return lambda value: [None if item is None else element(item) for item in value]
    if old.entry and new.entry:
        of_value = retyped(old.entry[1], new.entry[1])
        return lambda value: [(key, None if one is None else of_value(one)) for key, one in value]
    if old.fields and new.fields:
        before = dict(old.fields)
        parts = {name: retyped(before[name], part) for name, part in new.fields if name in before}
        return lambda value: {
            name: parts[name](value[name]) if name in parts and value.get(name) is not None else None
            for name, _ in new.fields
        }
    if new == STRING:
        return text_of(old)
    if new.name in ("float", "double"):
        # 0.1 as float is 0.1 as double, as if the source had sent it so: not 0.10000000149011612.
        return (lambda value: float(_digits_of_single(value))) if old == FLOAT else float
    if new.name == "binary":  # from bytes of one length
        return lambda value: value
    if new.name == "decimal":
        return lambda value: Decimal(value).quantize(Decimal(1).scaleb(-(new.scale or 0)), context=EXACT)
    return int


def text_of(kind: Type) -> Callable[[Any], str]:
    """The canonical text of values of a type, never null: docs/types.md lists the forms."""
    if kind.element is not None:
        element = text_of(kind.element)
        return lambda value: _encode([None if item is None else element(item) for item in value]).decode()
    if kind.entry is not None:
        of_key, of_value = map(text_of, kind.entry)
        return lambda value: _encode(
            {of_key(key): None if one is None else of_value(one) for key, one in value}
        ).decode()
    if kind.fields:
        parts = {name: text_of(part) for name, part in kind.fields}
        return lambda value: _encode(
            {name: None if value.get(name) is None else part(value[name]) for name, part in parts.items()}
        ).decode()
    return _TEXTS[kind.name]


def text_of_double(value: float) -> str:
    """As ECMAScript's Number::toString (ECMA-262; RFC 8785): the shortest digits, no `.0`, no minus before zero."""
    return _number(repr(value))


def text_of_json_number(text: str) -> str | None:
    """The text of a JSON number that nobody has declared: an integer by its digits, others as doubles. None: too
    large for one."""
    if text.lstrip("-").isdigit():
        return "0" if text == "-0" else text
    value = float(text)
    return None if value in (float("inf"), float("-inf")) else text_of_double(value)


def _number(digits: str) -> str:
    if digits in _SPECIAL:
        return _SPECIAL[digits]
    value = Decimal(digits).normalize()
    if not value:
        return "0"
    sign, shown, exponent = value.as_tuple()
    whole, point = "".join(map(str, shown)), len(shown) + int(exponent)
    if -6 < point <= 21:
        return format(value, "f")
    rest = f".{whole[1:]}" if whole[1:] else ""
    return f"{'-' if sign else ''}{whole[0]}{rest}e{point - 1:+d}"


_SPECIAL: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _digits_of_single(value: float) -> str:
    """The fewest digits that give the 32-bit float."""
    near = _single(value)
    if near != near or near in (float("inf"), float("-inf")):
        return repr(near)
    return next(text for text in (f"{near:.{n}g}" for n in range(1, 18)) if _single(float(text)) == near)


def _single(value: float) -> float:
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:  # one digit less than the largest may round beyond it
        return float("inf") if value > 0 else float("-inf")
    return found


def _text_of_decimal(value: Decimal) -> str:
    text = text_of_decimal(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "int": str,
    "long": str,
    "float": lambda value: _number(_digits_of_single(value)),
    "double": text_of_double,
    "decimal": _text_of_decimal,
    "date": text_of_days,
    "timestamp": lambda value: text_of_micros(value, zoned=False),
    "timestamptz": lambda value: text_of_micros(value, zoned=True),
    "timestamp_ns": lambda value: text_of_nanos(value, zoned=False),
    "timestamptz_ns": lambda value: text_of_nanos(value, zoned=True),
    "string": str,
    "variant": str,
    "uuid": str,
    "binary": lambda value: b64encode(value).decode(),
    "fixed": lambda value: b64encode(value).decode(),
}
