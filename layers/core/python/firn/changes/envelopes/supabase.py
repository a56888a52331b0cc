"""Supabase database webhooks: `{"type": "INSERT" | "UPDATE" | "DELETE", "table", "schema", "record", "old_record"}`.

https://supabase.com/docs/guides/database/webhooks. The payload says nothing of order: a trigger queues it and pg_net
posts it later, once. So the changes count as they come, unless the stream names `order_by`.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from firn.changes.change import Change
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, required_word
from firn.changes.envelopes.image_pair import change_of, qualified, text_in, word_of

_OPS: Final = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_MEMBERS: Final = frozenset({"type", "table", "schema", "record", "old_record"})


def recognises(fields: Mapping[str, Raw]) -> bool:
    """All five members, and a `type` that is one of the three."""
    return fields.keys() >= _MEMBERS and word_of(fields["type"]) in _OPS


def read(value: Value) -> Change:
    """One event. Raises EventError."""
    op = required_word(value, "type", _OPS)
    return change_of(value, op, table_hint(value) or "", "supabase", (value.raw("old_record"), value.raw("record")))


def table_hint(value: Value) -> str | None:
    """`schema.table`."""
    if "old_record" not in value.fields and "record" not in value.fields:
        return None
    return qualified(text_in(value, "schema"), text_in(value, "table")) or None


ENVELOPE = alone("this is a Supabase database webhook", read, table_hint, recognises)
