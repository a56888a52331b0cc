"""Hasura event triggers: `{"event": {"op", "data": {"old", "new"}}, "table": {"schema", "name"}, "created_at", "id"}`.

https://hasura.io/docs/2.0/event-triggers/payload/. `created_at` is when the change's transaction began, so the changes
of one transaction share it, and deliveries run side by side and are repeated: it is what orders them, and a stream
whose rows say more names `order_by`. `MANUAL` is sent again from the console and changes nothing.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode, word_in
from firn.changes.envelopes.image_pair import change_of, micros_of, qualified, text_in

_OPS: Final = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "MANUAL": "m"}
_NULL: Final = Raw(b"null")


class _Data(Struct, frozen=True):
    old: Raw = _NULL
    new: Raw = _NULL


class _Event(Struct, frozen=True):
    op: str
    data: _Data = _Data()


class _Table(Struct, frozen=True):
    name: str | None = None
    schema: str | None = None


def recognises(fields: Mapping[str, Raw]) -> bool:
    """`event` and `table` are objects, and `trigger` or `created_at` is beside them."""
    objects = all(bytes(fields.get(name, _NULL))[:1] == b"{" for name in ("event", "table"))
    return objects and not {"trigger", "created_at"}.isdisjoint(fields)


def read(value: Value) -> Change | Ignored:
    """One event. Raises EventError."""
    event: _Event = decode(value.raw("event") or b"null", _Event, within="event")
    op = word_in(event.op, "event.op", _OPS)
    if op == "m":
        return Ignored("manual")
    said = text_in(value, "created_at")
    micros = None if said is None else micros_of(said, "created_at")
    images = [None if image == _NULL else bytes(image) for image in (event.data.old, event.data.new)]
    order = None if micros is None else f"[{micros}]"
    return change_of(value, op, table_hint(value) or "", "hasura", (images[0], images[1]), order=order, micros=micros)


def table_hint(value: Value) -> str | None:
    """`schema.name` of `table`."""
    raw = value.raw("table")
    if raw is None or "event" not in value.fields:
        return None
    table: _Table = decode(raw, _Table, within="table")
    return qualified(table.schema, table.name) or None


ENVELOPE = alone("this is an event of a Hasura trigger", read, table_hint, recognises)
