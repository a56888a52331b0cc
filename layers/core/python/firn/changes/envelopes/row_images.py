"""Row images made of what emitters send: members of JSON objects put together and taken apart, their values as sent."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from firn.changes.change import TIMES
from firn.changes.envelopes.event_reader import Value, decode
from firn.errors import EventError

Members = Mapping[str, Raw | bytes]
# When an event was made, where its order is its own: two that are equal in all are one, brought twice (change.emitted).
ITS_OWN: Final = 0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode: Final = msgspec.json.encode


def members_of(value: Value, name: str) -> dict[str, Raw] | None:
    """The members of the object in this field; None if it is absent or null. Raises EventError bad_event."""
    raw = value.raw(name)
    return None if raw is None else decode(raw, dict[str, Raw], within=name)


def image(members: Members) -> bytes:
    """A row of these values."""
    return b"{" + b",".join([_name(name) + bytes(text) for name, text in members.items()]) + b"}"


def some(members: Members, names: Iterable[str] | None) -> bytes | None:
    """A row of these columns alone: a key. None if there are no names, or one is not there."""
    wanted = dict.fromkeys(names or ())
    if not wanted or not wanted.keys() <= members.keys():
        return None
    return image({name: members[name] for name in wanted})


@lru_cache(4096)
def _name(name: str) -> bytes:
    return _encode(name) + b":"


# A JSON number with a fraction or an exponent.
_FRACTION: Final = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONGEST: Final = 15  # digits that a double always keeps
_MAY_BE_LONG: Final = re.compile(rb"[0-9.eE+-]{17}")


def with_exact_numbers(members: Members) -> Members:
    """The values of an emitter that says no types: numbers with a fraction that a double does not keep are texts, so
    that the column keeps all digits. Others stay numbers."""
    found: dict[str, bytes] = {}
    for name, raw in members.items():
        text = bytes(raw)
        if _MAY_BE_LONG.match(text) and not _is_double(text):
            found[name] = b'"' + text + b'"'
    return {**members, **found} if found else members


def _is_double(text: bytes) -> bool:
    """Whether a JSON number is whole, or the double nearest to it prints the same digits."""
    if not _FRACTION.fullmatch(text) or not any(sign in text for sign in b".eE"):
        return True
    mantissa, _, _exponent = text.lower().partition(b"e")
    digits = mantissa.replace(b".", b"").lstrip(b"-0").rstrip(b"0")
    if len(digits) <= _LONGEST:
        return True
    near = repr(float(text)).lower().partition("e")[0]
    return near.replace(".", "").lstrip("-0").rstrip("0").encode() == digits


def time_in(number: float | None, unit: int, what: str) -> int | None:
    """Milliseconds of a source time in so many units a second. Raises EventError bad_event beyond the years 1 to
    9999."""
    if number is None:
        return None
    found = int(number * 1000 / unit) if isinstance(number, float) else number * 1000 // unit
    if found not in TIMES:
        raise EventError("bad_event", f"`{what}` is not in the years 1 to 9999")
    return found


def micros_of(text: str | None, what: str) -> int | None:
    """Microseconds since 1970 of a source time in ISO 8601, without a zone in UTC. Raises EventError bad_event."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise EventError("bad_event", f"`{what}` is no time in ISO 8601") from None


def named(database: str | None, table: str) -> str:
    """`database.table`, or the table alone. Raises EventError missing_table."""
    if not table:
        raise EventError("missing_table", "the event does not name its table")
    return f"{database}.{table}" if database else table


def hinted(fields: Mapping[str, Raw], database: str, table: str) -> str | None:
    """The table that a broken event names in these members."""
    names: dict[str, Any] = {}
    for name in (database, table):
        if name in fields:
            names[name] = msgspec.json.decode(fields[name], type=str | None)
    return (f"{names[database]}.{names[table]}" if names.get(database) else names[table]) if names.get(table) else None


def schema_of(fields: Iterable[Mapping[str, Any]]) -> bytes:
    """The inline schema of rows of these Connect fields."""
    row = {"type": "struct", "field": "after", "optional": True, "fields": list(fields)}
    return _encode({"type": "struct", "fields": [row]})


def word(name: str, kind: str, meaning: str | None = None, **parameters: object) -> dict[str, Any]:
    """A Connect field. `meaning`: its semantic name."""
    field: dict[str, Any] = {"field": name, "type": kind, "optional": True}
    if meaning is not None:
        field["name"] = meaning
    return field | ({"parameters": {one: str(value) for one, value in parameters.items()}} if parameters else {})
