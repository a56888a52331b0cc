"""Whether a change stays within a part of a table's rows: the rule of a writer's `rows`. Pure.

A change is within only if what it writes says so by itself, the row after or of a delete the row before or the key, and
no image that it carries says otherwise, or says it of a column in other letters too. So a truncate never is, nor a
change that leaves the columns out. An image with none of the columns (a primary key without them) says nothing: in a
mirror, whose key holds them, it names no row.

What is looked at is the JSON, and what a column stores may be another value. So the condition compares columns with
values by `=` and IN, and a value that is equal has to be stored as that: an event's own schema that makes another of it
(a Decimal in base64, a 32 bit float) is outside, and so is a number that a double would round.
"""

from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from firn.changes.json_member import member
from firn.changes.row_condition import Compared, Condition, Constant, Field, Holds, Is, Joined, RowCondition
from firn.errors import EventError

_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_NUMBERS: Final = frozenset(b"-0123456789"[i : i + 1] for i in range(11))
_NOT_WHOLE: Final = frozenset(b".eE")


def not_bounding(condition: RowCondition) -> str | None:
    """Why a condition can't bound what may be written; None if it can."""
    for part in _parts(condition.test):
        match part:
            case Compared(Field() as one, "=", Constant()) | Compared(Constant(), "=", Field() as one):
                field: Field = one
            case Holds(one) | Is(one, _):
                field = one
            case _:
                return "compares by something else than = and IN of a column and values, or has NOT in it"
        if len(field.path) > 1:
            return f"looks into {field.path[0][:60]!r}, and a column is bounded as a whole"
    return None


def _parts(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, Joined):
        for part in condition.parts:
            yield from _parts(part)
    else:
        yield condition


def outside(
    condition: RowCondition,
    op: str,
    key: bytes | None,
    before: bytes | None,
    after: bytes | None,
    misread: frozenset[str] = frozenset(),
) -> str | None:
    """What of a change is not within the condition, in words; None if all of it is. `misread`: as below."""
    if op == "t":
        return "a truncate, which removes the rows of others"
    images = {"its row after": after, "its row before": before, "its key": key}
    by = {"its row before", "its key"} if op == "d" else {"its row after"}
    told: set[str] = set()
    for name, image in images.items():
        if image is None:
            continue
        if _holds(condition, image, misread):
            told.add(name)
        elif not _is_silent(condition, image):
            return name
    if told & by:
        return None
    return next((name for name in images if name in by and images[name] is not None), "a change without a row")


# Of an inline schema: how a value is written that every column stores as it stands, or does not take. Not of floats,
# which keep some of the digits; binary_base64 alone of those of bytes: what a column of bytes reads one way is one.
_AS_IT_STANDS: Final = frozenset(
    {
        "string", "text", "uuid", "boolean", "integer", "unsigned", "decimal_number", "decimal_text", "binary_base64",
    }
)  # fmt: skip
_FLOATS: Final = frozenset({"float", "double"})


def misread(condition: RowCondition, schema: bytes, *, flat: bool) -> frozenset[str]:
    """The condition's columns that are not stored as an image's JSON has them, by the event's own schema: it leaves
    them out, or may make another value of them. `flat`: as firn.changes.decode.connect_schema.columns_of has it."""
    from firn.changes.decode.connect_schema import columns_of  # few events bring a schema

    try:
        columns = columns_of(schema, flat)
    except EventError:
        return condition.fields
    kinds = _AS_IT_STANDS - ({"unsigned"} if any(number < 0 for number in condition.numbers) else set())
    plain = {True: set[str](), False: set[str]()}
    for one in columns:
        stands = one.source is not None and one.source.kind in kinds and one.type.name not in _FLOATS
        plain[stands].add(one.name)
    return condition.fields - (plain[True] - plain[False]) if columns else frozenset()


def _is_silent(condition: RowCondition, image: bytes) -> bool:
    """Whether none of the columns is in it."""
    try:
        return all(member(name)(image) is UNSET for name in condition.fields)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False


def _holds(condition: RowCondition, image: bytes, misread: frozenset[str]) -> bool:
    try:
        if any(member(name)(image) is not UNSET for name in misread):
            return False
        if not condition.holds(image) or _has_twins(condition.fields, image):
            return False
        return not (condition.has_long_numbers and _is_rounded(condition, image))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False


def _has_twins(fields: frozenset[str], image: bytes) -> bool:
    """Whether one of the columns stands in it in other letters too: SQL takes both for one, the first that it meets."""
    if b"\\" not in image:
        low = image.lower()
        if all(low.count(as_low) == image.count(name) for name, as_low in _written(fields)):
            return False
    lows = {name.lower() for name in fields}
    return any(name.lower() in lows and name not in fields for name in _members(image))


@lru_cache(maxsize=64)
def _written(fields: frozenset[str]) -> tuple[tuple[bytes, bytes], ...]:
    names = [msgspec.json.encode(name)[1:-1] for name in fields]
    return tuple((name, name.lower()) for name in names)


def _is_rounded(condition: RowCondition, image: bytes) -> bool:
    """Whether a number in it has a point or an exponent, and is none that a double is."""
    found = (bytes(raw) for name in condition.fields if (raw := member(name)(image)) is not UNSET)
    numbers = (raw.decode() for raw in found if raw[:1] in _NUMBERS and not _NOT_WHOLE.isdisjoint(raw))
    return any(Decimal(repr(float(text))) != Decimal(text) for text in numbers)
