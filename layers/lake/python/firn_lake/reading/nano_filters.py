"""Filters on columns of nanoseconds, compared as nanoseconds: texts of up to nine digits, Python's moments, numbers.

PyIceberg 0.12 reads such columns and has no literal for them. Importing this gives it some, for all that it does in
this process: whole nanoseconds since 1970-01-01T00:00:00, as bounds and partitions hold them.
"""

import re
from typing import Any, Final

from pyiceberg.expressions.literals import (
    Literal,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
)
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from firn.changes.decode.values import FIRST_NS, LAST_NS, Refused, moment_of_text

_ZONED: Final = re.compile(r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)$", re.ASCII)


def _nanoseconds(value: int) -> Literal[Any]:
    if FIRST_NS <= value <= LAST_NS:
        return LongLiteral(value)
    # Above or below all, PyIceberg would say, and take null for true.
    raise ValueError("the moment lies outside 1677-09-21 to 2262-04-11, which nanoseconds reach; leave it out")


def _of_text(literal: Any, kind: Any) -> Literal[Any]:
    text, zoned = literal.value, isinstance(kind, TimestamptzNanoType)
    if zoned and not _ZONED.search(text):
        raise ValueError(f"{text!r} has no offset; write such as '2026-01-31T12:00:00.123456789Z'")
    try:
        count = moment_of_text(text, zoned)
    except Refused as refused:
        raise ValueError(f"{text!r} is no {kind}: {refused.reason}") from refused
    return _nanoseconds(count)


def _register(literal: type[Literal[Any]], of: Any) -> None:
    for kind in (TimestampNanoType, TimestamptzNanoType):
        literal.__dict__["to"].register(kind, of)


_register(StringLiteral, _of_text)
_register(TimestampLiteral, lambda literal, _kind: _nanoseconds(literal.value * 1000))
_register(LongLiteral, lambda literal, _kind: _nanoseconds(literal.value))
