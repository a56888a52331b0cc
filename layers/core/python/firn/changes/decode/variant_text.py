"""The JSON text of a variant: of Iceberg's type for JSON, as Parquet has it in two binaries, `metadata` and `value`
(parquet-format, VariantEncoding.md, version 1). Pure, and the bytes may be anybody's: work and text are bounded.

Equal variants have equal texts, however their numbers and names are stored: members by name, numbers, dates and moments
as docs/types.md writes the texts of columns. What JSON has no value for is text in it.
"""

import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from itertools import pairwise
from json.encoder import encode_basestring
from typing import Final
from uuid import UUID

from firn.changes.decode.texts import text_of
from firn.changes.decode.types import DOUBLE, FLOAT, Type
from firn.changes.decode.values import DAY_US, EXACT

DEEPEST: Final = 1_000
"""Arrays and objects in one another; Spark's `parse_json` takes no more."""

MOST_TEXT: Final = 128 * 1024 * 1024
"""Characters of a text. Names that are stored once may be told very often."""

_VERSION: Final = 1
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # after which the calendar is the same again
_EPOCH: Final = date(1970, 1, 1).toordinal()

quoted: Callable[[str], str] = encode_basestring
"""A string as JSON has it."""


class BadVariant(ValueError):
    """The bytes are not a variant, or one that is too large; the text says why."""


class Names:
    """The names that a variant's objects use: its `metadata`."""

    def __init__(self, metadata: bytes) -> None:
        """Raises BadVariant."""
        header = metadata[0] if metadata else 0
        if header & 0x0F != _VERSION:
            raise BadVariant(f"its metadata is of version {header & 0x0F}, not {_VERSION}")
        size = (header >> 6) + 1
        count = _number(metadata, 1, size)
        first = 1 + size * (count + 2)
        if first > len(metadata):
            raise BadVariant("its metadata is cut off")
        ends = [_number(metadata, 1 + size * place, size) for place in range(1, count + 2)]
        if sorted(ends) != ends or first + ends[-1] > len(metadata):
            raise BadVariant("a name lies outside of its metadata")
        self.all = [_text(metadata[first + begin : first + end]) for begin, end in pairwise(ends)]


def json_of(names: Names, value: bytes) -> str:
    """The text of a variant. Raises BadVariant."""
    return _Reader(names, value).text(0)


def members_of(names: Names, value: bytes) -> dict[str, str]:
    """The texts of an object's members by name. Raises BadVariant, also for what is no object."""
    reader = _Reader(names, value)
    if _number(value, 0, 1) & 3 != _OBJECT:
        raise BadVariant("what is beside its shredded members is no object")
    return {name: reader.text(place) for name, place in reader.members(0)}


def json_object(members: Mapping[str, str]) -> str:
    """The text of an object of such members."""
    return "{" + ",".join(f"{quoted(name)}:{members[name]}" for name in sorted(members)) + "}"


def json_array(items: Iterable[str]) -> str:
    """The text of an array of such texts."""
    return "[" + ",".join(items) + "]"


_PRIMITIVE, _SHORT, _OBJECT, _ARRAY = range(4)


class _Reader:
    """Reads one value. `left`: how many parts it may still have: each takes at least a byte, so more than there are
    bytes lie over one another."""

    def __init__(self, names: Names, value: bytes) -> None:
        self._names = names.all
        self._value = value
        self._left = len(value)

    def text(self, place: int) -> str:
        """Of the part at `place`. Without recursion: what comes is put on a pile."""
        parts: list[str] = []
        pile: list[str | int] = [place]
        size = depth = 0
        while pile:
            one = pile.pop()
            if isinstance(one, int):
                basic = _number(self._value, one, 1) & 3
                if basic in (_OBJECT, _ARRAY):
                    depth += 1
                    if depth > DEEPEST:
                        raise BadVariant(f"it is nested more than {DEEPEST} deep")
                    self._open(one, basic, pile)
                    continue
                one = self._primitive(one)
            elif one in _ENDS:
                depth -= 1
            parts.append(one)
            size += len(one)
            if size > MOST_TEXT:
                raise BadVariant(f"its text has more than {MOST_TEXT:,} characters")
        return "".join(parts)

    def _open(self, place: int, basic: int, pile: list[str | int]) -> None:
        if basic == _ARRAY:
            _, places = self._parts(place, 0)
            pile.append("]")
            for number in range(len(places) - 1, -1, -1):
                pile += (places[number], ",") if number else (places[number],)
            pile.append("[")
            return
        members = self.members(place)
        pile.append("}")
        for number in range(len(members) - 1, -1, -1):
            name, at = members[number]
            pile += (at, f",{quoted(name)}:" if number else f"{quoted(name)}:")
        pile.append("{")

    def members(self, place: int) -> list[tuple[str, int]]:
        """The members of the object at `place`, by name, and where they are."""
        ids, places = self._parts(place, ((self._value[place] >> 4) & 3) + 1)
        if ids and max(ids) >= len(self._names):
            raise BadVariant("a member's name is not in its metadata")
        found = sorted((self._names[one], at) for one, at in zip(ids, places, strict=True))
        if len({name for name, _ in found}) < len(found):
            raise BadVariant("an object has a member twice")
        return found

    def _parts(self, place: int, id_size: int) -> tuple[list[int], list[int]]:
        """The ids of the members of an object or array, and where they are."""
        value, header = self._value, self._value[place] >> 2
        size = (header & 3) + 1
        large = header >> 4 if id_size else header >> 2
        width = 4 if large & 1 else 1
        count = _number(value, place + 1, width)
        ids = place + 1 + width
        offsets = ids + count * id_size
        first = offsets + (count + 1) * size
        self._left -= count
        if first > len(value) or self._left < 0:
            raise BadVariant("it is cut off, or its parts lie over one another")
        read = int.from_bytes
        places = [first + read(value[at : at + size], "little") for at in range(offsets, first - size, size)]
        if places and max(places) >= len(value):
            raise BadVariant("a part lies outside of it")
        if not id_size:
            return [], places
        return [read(value[at : at + id_size], "little") for at in range(ids, offsets, id_size)], places

    def _primitive(self, place: int) -> str:
        value, header = self._value, self._value[place] >> 2
        if self._value[place] & 3 == _SHORT:
            return quoted(_text(_bytes(value, place + 1, header)))
        if header not in _PRIMITIVES:
            raise BadVariant(f"it has a value of type {header}, which the specification had not when this was written")
        return _PRIMITIVES[header](value, place + 1)


_ENDS: Final = ("]", "}")


def _bytes(value: bytes, place: int, size: int) -> bytes:
    found = value[place : place + size]
    if len(found) < size:
        raise BadVariant("it is cut off")
    return found


def _number(value: bytes, place: int, size: int) -> int:
    return int.from_bytes(_bytes(value, place, size), "little")


def _signed(value: bytes, place: int, size: int) -> int:
    return int.from_bytes(_bytes(value, place, size), "little", signed=True)


def _text(found: bytes) -> str:
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise BadVariant("a text in it is not UTF-8") from error


def _sized(value: bytes, place: int) -> bytes:
    return _bytes(value, place + 4, _number(value, place, 4))


def _decimal(size: int) -> Callable[[bytes, int], str]:
    def read(value: bytes, place: int) -> str:
        scale = _number(value, place, 1)
        if scale > 38:
            raise BadVariant(f"it has a decimal of {scale} digits after the point")
        return of_decimal(Decimal(_signed(value, place + 1, size)).scaleb(-scale, EXACT))

    return read


def _unpacked(form: str, kind: Type) -> Callable[[bytes, int], str]:
    size = struct.calcsize(form)
    return lambda value, place: of_float(struct.unpack(form, _bytes(value, place, size))[0], kind)


def of_float(value: float, kind: Type) -> str:
    """The text of a FLOAT or DOUBLE; NaN and infinities are strings. A number that a decimal holds too has the text of
    that: who wrote the variant chooses between them."""
    text = text_of(kind)(value)
    if "e" in text.lower() and not text[-1].isalpha():
        exact = Decimal(text)
        digits, exponent = exact.as_tuple()[1:]
        if max(len(digits), len(digits) + int(exponent), -int(exponent)) <= _DIGITS:
            return of_decimal(exact)
    return quoted(text) if text[-1].isalpha() else text


def of_decimal(value: Decimal) -> str:
    """The digits, without zeros at their end."""
    return text_of(_A_DECIMAL)(value)


def of_days(value: int) -> str:
    """The text of a date, of any year."""
    return quoted(_day(value))


def of_micros(value: int, *, zoned: bool) -> str:
    """The text of a moment, of any year."""
    return _moment(value, DAY_US, 6, zoned=zoned)


def of_nanos(value: int, *, zoned: bool) -> str:
    """The same of nanoseconds."""
    return _moment(value, DAY_US * 1_000, 9, zoned=zoned)


def of_time(value: int) -> str:
    """The text of a time of day in microseconds."""
    if not 0 <= value < DAY_US:
        raise BadVariant("it has a time of day beyond 24 hours")
    return quoted(_time(value, 6))


def of_bytes(value: bytes) -> str:
    """The text of bytes: base64."""
    return quoted(b64encode(value).decode())


def of_uuid(value: bytes) -> str:
    """The text of the 16 bytes of a UUID."""
    return quoted(str(UUID(bytes=value)))


def _moment(value: int, day: int, digits: int, *, zoned: bool) -> str:
    days, rest = divmod(value, day)
    return quoted(f"{_day(days)}T{_time(rest, digits)}{'Z' if zoned else ''}")


def _time(value: int, digits: int) -> str:
    seconds, fraction = divmod(value, 10**digits)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:0{digits}d}"


def _day(value: int) -> str:
    cycles, rest = divmod(value, _CYCLE_DAYS)
    found = date.fromordinal(_EPOCH + rest)
    year = found.year + cycles * _CYCLE_YEARS
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}-{found.month:02d}-{found.day:02d}"


_DIGITS: Final = 38  # of a decimal
_A_DECIMAL: Final = Type("decimal", _DIGITS, 0)
_PRIMITIVES: Final[Mapping[int, Callable[[bytes, int], str]]] = {
    0: lambda _value, _place: "null",
    1: lambda _value, _place: "true",
    2: lambda _value, _place: "false",
    3: lambda value, place: str(_signed(value, place, 1)),
    4: lambda value, place: str(_signed(value, place, 2)),
    5: lambda value, place: str(_signed(value, place, 4)),
    6: lambda value, place: str(_signed(value, place, 8)),
    7: _unpacked("<d", DOUBLE),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    11: lambda value, place: of_days(_signed(value, place, 4)),
    12: lambda value, place: of_micros(_signed(value, place, 8), zoned=True),
    13: lambda value, place: of_micros(_signed(value, place, 8), zoned=False),
    14: _unpacked("<f", FLOAT),
    15: lambda value, place: of_bytes(_sized(value, place)),
    16: lambda value, place: quoted(_text(_sized(value, place))),
    17: lambda value, place: of_time(_signed(value, place, 8)),
    18: lambda value, place: of_nanos(_signed(value, place, 8), zoned=True),
    19: lambda value, place: of_nanos(_signed(value, place, 8), zoned=False),
    20: lambda value, place: of_uuid(_bytes(value, place, 16)),
}
