"""JSON as the bytes of a variant (variant_text.py reads them), pure: the same JSON always gives the same bytes.

What is lost is how it was written: blanks, the order of members, all but the last of members of one name, escapes, and
how a number is spelled (`1`, `1.0` and `1e0` are one). Numbers are exact or refused: whole ones of 64 bits are
integers, others of up to 38 digits decimals, others doubles if a double prints the same digits.
"""

import json
import struct
from decimal import Decimal
from typing import Any, Final

from firn.changes.decode.variant_text import BadVariant, Names, json_of

DEEPEST: Final = 500
"""Arrays and objects in one another."""

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of a value, and of its names: Spark 4.0 reads no larger one."""

_DIGITS: Final = 38
_EMPTY: Final = b"\x11\x00\x00"


def variant_of(text: str | bytes) -> tuple[bytes, bytes]:
    """The `metadata` and the `value` of a JSON text. Raises BadVariant; its text quotes nothing of the JSON."""
    try:
        told = _DECODER.decode(text if isinstance(text, str) else text.decode())
        names: set[str] = set()
        _names(told, names)
        ordered = sorted(names)
        metadata = _metadata(ordered)
        value = _value(told, {name: place for place, name in enumerate(ordered)})
    except BadVariant:
        raise
    except RecursionError as error:
        raise BadVariant(f"the JSON is nested more than {DEEPEST} deep") from error
    except UnicodeEncodeError as error:
        raise BadVariant("a text in the JSON has half of a surrogate pair, which UTF-8 has no bytes for") from error
    except ArithmeticError as error:
        raise BadVariant("a number in it has a larger exponent than a decimal or a double holds") from error
    except ValueError as error:
        raise BadVariant("it is not JSON") from error
    if max(len(metadata), len(value)) > MOST_BYTES:
        raise BadVariant(f"it has more than {MOST_BYTES:,} bytes")
    return metadata, value


def canonical_json(text: str) -> str:
    """The text that the JSON's variant has, for all JSON of one variant the same one. Raises BadVariant."""
    metadata, value = variant_of(text)
    return json_of(Names(metadata), value)


def _refused(_: str) -> Any:
    raise BadVariant("NaN and infinities are not JSON")


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _DIGITS else Decimal(text)


_DECODER: Final = json.JSONDecoder(parse_int=_whole, parse_float=Decimal, parse_constant=_refused)


def _names(told: Any, found: set[str]) -> None:
    pile = [(told, 1)]
    while pile:
        one, depth = pile.pop()
        if isinstance(one, dict):
            found.update(one)
        inside = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if depth > DEEPEST:
            raise BadVariant(f"the JSON is nested more than {DEEPEST} deep")
        pile += ((part, depth + 1) for part in inside if isinstance(part, dict | list))


def _metadata(names: list[str]) -> bytes:
    if not names:
        return _EMPTY
    parts = [name.encode() for name in names]
    size = _size(max(len(parts), sum(map(len, parts))))
    ends, end = [0], 0
    for part in parts:
        end += len(part)
        ends.append(end)
    header = bytes([0x11 | (size - 1) << 6])
    return header + b"".join(number.to_bytes(size, "little") for number in (len(parts), *ends)) + b"".join(parts)


def _value(told: Any, ids: dict[str, int]) -> bytes:
    """Without recursion: what is in an array or object is done before it, and lies on top of what is done."""
    order, pile = [], [told]
    while pile:
        one = pile.pop()
        order.append(one)
        if isinstance(one, dict):
            pile += [one[name] for name in sorted(one)]
        elif isinstance(one, list):
            pile += one
    done: list[bytes] = []
    for one in reversed(order):
        if isinstance(one, dict | list):
            first = len(done) - len(one)
            values = done[first:]
            del done[first:]
            done.append(_object(one, values, ids) if isinstance(one, dict) else _array(values))
        else:
            done.append(_primitive_of(one))
    return done[0]


def _object(told: dict[str, Any], values: list[bytes], ids: dict[str, int]) -> bytes:
    numbers = [ids[name] for name in sorted(told)]
    id_size, size, large = _size(max(numbers, default=0)), _size(sum(map(len, values))), len(values) > 255
    header = 2 | (size - 1 | (id_size - 1) << 2 | large << 4) << 2
    told_ids = b"".join(number.to_bytes(id_size, "little") for number in numbers)
    return _counted(header, len(values), large) + told_ids + _offsets(values, size) + b"".join(values)


def _array(values: list[bytes]) -> bytes:
    size, large = _size(sum(map(len, values))), len(values) > 255
    return _counted(3 | (size - 1 | large << 2) << 2, len(values), large) + _offsets(values, size) + b"".join(values)


def _primitive_of(told: Any) -> bytes:
    if isinstance(told, str):
        text = told.encode()
        short = len(text) < 64
        return bytes([1 | len(text) << 2]) + text if short else _primitive(16, len(text).to_bytes(4, "little") + text)
    if told is None:
        return b"\x00"
    if isinstance(told, bool):
        return _primitive(1 if told else 2)
    return _of_number(told)


def _of_number(told: int | Decimal) -> bytes:
    if isinstance(told, Decimal):
        if not told:
            told = 0
        elif told.adjusted() < _DIGITS and told == told.to_integral_value():
            told = int(told)
    if isinstance(told, int):
        for header, size in ((3, 1), (4, 2), (5, 4), (6, 8)):
            if -(1 << 8 * size - 1) <= told < 1 << 8 * size - 1:
                return _primitive(header, told.to_bytes(size, "little", signed=True))
        told = Decimal(told)
    sign, digits, exponent = told.as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    scale = len(shown) - len(digits) - int(exponent)  # of the digits that count
    if scale < 0 and len(shown) - scale <= _DIGITS:
        shown, scale = shown + "0" * -scale, 0
    if 0 <= scale <= _DIGITS >= len(shown):
        unscaled = -int(shown) if sign else int(shown)
        width = max(len(shown), scale)
        header, size = (8, 4) if width <= 9 else (9, 8) if width <= 18 else (10, 16)
        return _primitive(header, bytes([scale]) + unscaled.to_bytes(size, "little", signed=True))
    near = float(told)
    if near in (float("inf"), float("-inf")) or Decimal(repr(near)) != told:
        raise BadVariant("a number in it has more digits than a decimal or a double holds")
    return _primitive(7, struct.pack("<d", near))


def _primitive(header: int, data: bytes = b"") -> bytes:
    return bytes([header << 2]) + data


def _counted(header: int, count: int, large: bool) -> bytes:
    return bytes([header]) + count.to_bytes(4 if large else 1, "little")


def _offsets(values: list[bytes], size: int) -> bytes:
    parts, end = [(0).to_bytes(size, "little")], 0
    for value in values:
        end += len(value)
        parts.append(end.to_bytes(size, "little"))
    return b"".join(parts)


def _size(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)
