"""Values of the column that a table is sharded by: which types it may have, and how its values compare and hash.

Values are as the codec gives them: days, micro- or nanoseconds, Decimal, text, bytes. What is no value of the column's
type, or none that compares, is odd: `comparable` gives None for it, as for null.
"""

import re
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, Literal

from firn.changes.decode.types import MAX_PRECISION, Type
from firn.changes.decode.values import Refused, days_of_text, decimal_of_text, micros_of_text, nanos_of_text
from firn.changes.placement.murmur3 import bytes_of_decimal, murmur3

By = Literal["hash", "range", "tenant", "geographic"]
Comparable = int | Decimal | str | bytes

HASHES: Final = 2**31  # of bucket_hash
# Bits. A column of int may be promoted to long while a map lasts: no value changes its place then.
_WHOLE: Final = {"int": 63, "long": 63, "date": 31} | dict.fromkeys(
    ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), 63
)
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NAMES: Final = frozenset({"int", "long", "string", "uuid"})  # whose values name a shard
_TAKES: Final[dict[By, frozenset[str]]] = {
    "hash": frozenset({*_WHOLE, "decimal", "string", "uuid", "binary", "fixed"}),
    "range": frozenset({*_WHOLE, "decimal", "string", "uuid"}),
    "tenant": _NAMES,
    "geographic": _NAMES,
}


def misfit(by: By, column: str, kind: Type) -> str | None:
    """Why a table can't be sharded so by a column of this type, and what can be had; None if it can."""
    if kind.name in _TAKES[by]:
        return None
    more = ": equal values of it may be written differently" if kind.name in ("float", "double") else ""
    return f"{by}({column}): {column} is {kind}{more}; shard by a column of {', '.join(sorted(_TAKES[by]))}"


def comparable(kind: Type, value: Any) -> Comparable | None:
    """The value as it compares with others of its column: numbers and moments as numbers, texts by their code points,
    as Iceberg's bounds do. None: it is null, or odd."""
    if kind.name in _WHOLE:
        bits = _WHOLE[kind.name]
        return value if value.__class__ is int and -(2**bits) <= value < 2**bits else None
    if kind.name == "decimal":
        return _of_scale(value, kind.scale or 0) if value.__class__ is Decimal and value.is_finite() else None
    if kind.name == "string":
        return value if value.__class__ is str and _is_text(value) else None
    if kind.name == "uuid":
        return _uuid_text(value)
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def bound_of(kind: Type, text: str) -> Comparable:
    """A bound as firn.yaml writes it, as it compares with values. Raises ValueError that says what to write."""
    try:
        match kind.name:
            case "string":
                found: Any = text
            case "uuid":
                found = _uuid_text(text)
            case "date":
                found = days_of_text(text)
            case "timestamp_ns" | "timestamptz_ns":
                found = nanos_of_text(_moment(text), kind.name == "timestamptz_ns")
            case "timestamp" | "timestamptz":
                found = micros_of_text(_moment(text), kind.name == "timestamptz")
            case "decimal":
                found = decimal_of_text(text)
            case _:
                found = int(text) if _INTEGER.fullmatch(text) else None
    except Refused:
        found = None
    bound = None if found is None else comparable(kind, found)
    if bound is None:
        raise ValueError(f"{text[:60]!r} is no {kind}; {_HOW.get(kind.name, 'write whole numbers, such as 1000000')}")
    return bound


def bucket_hash(kind: Type, value: Comparable) -> int:
    """Iceberg's hash of a comparable value, without its sign: 0 to HASHES - 1. `bucket(N, column)` is it modulo N."""
    if kind.name.endswith("_ns"):
        data = (int(value) // 1000).to_bytes(8, "little", signed=True)
    elif isinstance(value, int):
        data = value.to_bytes(8, "little", signed=True)
    elif isinstance(value, Decimal):
        data = bytes_of_decimal(value)
    elif isinstance(value, str):
        data = uuid.UUID(value).bytes if kind.name == "uuid" else value.encode()
    else:
        data = value
    return murmur3(data) % HASHES


def text_of(value: Comparable) -> str:
    """The text by which maps name a value of a column that names shards."""
    return str(value)


def check_listed(kind: Type, texts: Iterable[str]) -> None:
    """Raises ValueError for a text that no value of the column has: `007` of a number."""
    for text in texts:
        if (known := text_of(bound_of(kind, text))) != text:
            raise ValueError(f"{text!r:.80} would meet no {kind}; write {known!r:.80}")


_HOW: Final = {
    "decimal": "write a number with no more digits after the point than the column has, such as '9.99'",
    "date": "write a day, such as '2026-01-31'",
    "uuid": "write 36 characters, such as 'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
    "string": "write a text of whole characters",
    **dict.fromkeys(
        ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), "write a moment, such as '2026-01-31T12:00:00'"
    ),
}


def _moment(text: str) -> str:
    """A day alone means its beginning."""
    return f"{text}T00:00:00" if len(text) == len("2026-01-31") else text


def _of_scale(value: Decimal, scale: int) -> Decimal | None:
    sign, digits, exponent = value.as_tuple()
    if exponent == -scale:
        return value
    missing, kept = int(exponent) + scale, len(digits) if value else 0
    if not 0 < missing <= MAX_PRECISION - kept:  # digits that the column does not keep, or more than it has
        return None
    return Decimal((sign, (*digits, *(0,) * missing), -scale))


def _is_text(value: str) -> bool:
    """Whether it can be written: half of a surrogate pair can't."""
    return value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value)


def _uuid_text(value: Any) -> str | None:
    if value.__class__ is not str or len(value) != 36:
        return None
    try:
        return value if str(uuid.UUID(value)) == value else None
    except ValueError:
        return None
