"""Whether a change stays within a part of a table's rows: the rule of a writer's `rows`. Pure.

A change is within only if what it writes says so by itself, the row after or of a delete the row before or the key, and
no image that it carries says otherwise. So a truncate never is, nor a change that leaves the columns out. An image with
none of the columns (a primary key without them) says nothing: in a mirror, whose key holds them, it names no row. The
condition compares columns with values by `=` and IN: then what two readings of a value might make of it
(`7.0000000000000001` in a double) can't widen it.
"""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from firn.changes.json_member import member
from firn.changes.row_condition import Compared, Condition, Constant, Field, Holds, Is, Joined, RowCondition


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
    condition: RowCondition, op: str, key: bytes | None, before: bytes | None, after: bytes | None
) -> str | None:
    """What of a change is not within the condition, in words; None if all of it is."""
    if op == "t":
        return "a truncate, which removes the rows of others"
    images = {"its row after": after, "its row before": before, "its key": key}
    by = {"its row before", "its key"} if op == "d" else {"its row after"}
    told: set[str] = set()
    for name, image in images.items():
        if image is None:
            continue
        if _holds(condition, image):
            told.add(name)
        elif not _is_silent(condition, image):
            return name
    if told & by:
        return None
    return next((name for name in images if name in by and images[name] is not None), "a change without a row")


def _is_silent(condition: RowCondition, image: bytes) -> bool:
    """Whether none of the columns is in it."""
    try:
        return all(member(name)(image) is UNSET for name in condition.fields)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False


def _holds(condition: RowCondition, image: bytes) -> bool:
    try:
        return condition.holds(image)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
