"""Firn's own plain form of a change: `{"operation", "table", "oldRow", "newRow"}`.

operation       INSERT, UPDATE, DELETE, READ (a row of a snapshot) or TRUNCATE, in any case; `createEntry` is INSERT
table           `schema.table`, or `table` with `schema` beside it or without one
oldRow, newRow  the row before and after; `row` stands for the one of them that an operation needs
createEntry     `{"createEntry": {"table", "newRow"}}` is the operation INSERT around its members

Where it stands, if it says so: `lsn` (a number, its digits, or PostgreSQL's 0/16B3748), else `timestamp` (ISO 8601, or
a number of s, ms, µs or ns since 1970, told apart by its size), then `sequence` among those that are equal; `sequence`
alone counts too. An event that says none of them counts as it comes.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from msgspec import Raw, structs

from firn.changes.change import Change
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode, fields_of, word_in
from firn.changes.envelopes.image_pair import change_of, micros_of, qualified, text_in
from firn.errors import EventError

_OPS: Final = {
    "INSERT": "c", "CREATE": "c", "CREATEENTRY": "c", "UPDATE": "u", "UPDATEENTRY": "u", "DELETE": "d",
    "DELETEENTRY": "d", "READ": "r", "SNAPSHOT": "r", "TRUNCATE": "t",
}  # fmt: skip
_ENTRY: Final = "createEntry"
_ROWS: Final = frozenset({"oldRow", "newRow", "row"})
_LSN: Final = re.compile("([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
# What one second is counted as, by how many digits a time of these days then has.
_UNITS: Final = (
    (Decimal(10) ** 17, Decimal("0.001")),
    (Decimal(10) ** 14, Decimal(1)),
    (Decimal(10) ** 11, Decimal(1_000)),
)


def recognises(fields: Mapping[str, Raw]) -> bool:
    """`operation` and `table` with a row or an empty place for it; or the one member `createEntry`, an object."""
    if fields.keys() == {_ENTRY}:
        return bytes(fields[_ENTRY])[:1] == b"{"
    return fields.keys() >= {"operation", "table"} and not _ROWS.isdisjoint(fields)


def read(value: Value) -> Change:
    """One event. Raises EventError."""
    if value.fields.keys() == {_ENTRY}:
        entry = bytes(value.fields[_ENTRY])
        value = structs.replace(value, text=entry, fields=fields_of(entry, f"`{_ENTRY}`"))
        op = "c"
    else:
        op = word_in((text_in(value, "operation") or "").upper(), "operation", _OPS)
    row = value.raw("row")
    before, after = value.raw("oldRow"), value.raw("newRow")
    if row is not None and op == "d":
        before = before or row
    elif row is not None and op in "cur":
        after = after or row
    order, micros = _order(value)
    table = qualified(text_in(value, "schema"), text_in(value, "table"))
    return change_of(value, op, table, "seed", (before, after), order=order, micros=micros)


def _order(value: Value) -> tuple[str | None, int | None]:
    """The order text, None where the event does not say where it stands; and its time, µs."""
    lsn, sequence = _number(value, "lsn"), _number(value, "sequence")
    time = _time(value)
    first = time if lsn is None else lsn
    if first is None and sequence is None:
        return None, None
    return f"[{sequence if first is None else first},{0 if first is None else sequence or 0}]", time


def _number(value: Value, name: str) -> int | None:
    raw = value.raw(name)
    if raw is None:
        return None
    told: int | str = decode(raw, int | str, within=name)
    if isinstance(told, str) and (found := _LSN.fullmatch(told)):
        return int(found[1], 16) << 32 | int(found[2], 16)
    if isinstance(told, str) and re.fullmatch("[0-9]{1,20}", told, re.ASCII):
        told = int(told)
    if isinstance(told, int) and 0 <= told < 1 << 64:
        return told
    raise EventError("bad_event", f"`{name}` is not a whole number from 0 to 2^64 - 1")


def _time(value: Value) -> int | None:
    raw = value.raw("timestamp")
    if raw is None:
        return None
    if raw[:1] == b'"':
        text: str = decode(raw, str, within="timestamp")
        if not re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})?", text, re.ASCII):
            return _not_before(micros_of(text, "timestamp"))
        raw = text.encode()
    try:
        number = Decimal(raw.decode("ascii", "replace"))
        if not 0 <= number < 1 << 64:
            raise EventError("bad_event", "`timestamp` is not a time since 1970")
    except InvalidOperation:
        raise EventError("bad_event", "`timestamp` is neither a number nor a time in ISO 8601") from None
    factor = next((by for least, by in _UNITS if number >= least), Decimal(1_000_000))
    return int(number * factor)


def _not_before(micros: int) -> int:
    if micros < 0:
        raise EventError("bad_event", "`timestamp` is not a time since 1970")
    return micros


def table_hint(value: Value) -> str | None:
    """The table that it names."""
    if value.fields.keys() == {_ENTRY}:
        fields = fields_of(value.fields[_ENTRY], f"`{_ENTRY}`")
        value = structs.replace(value, fields=fields)
    elif "operation" not in value.fields:
        return None
    return qualified(text_in(value, "schema"), text_in(value, "table")) or None


ENVELOPE = alone("this is a change of Firn's own plain form (operation, oldRow, newRow)", read, table_hint, recognises)
