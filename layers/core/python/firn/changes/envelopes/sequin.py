"""Sequin: `{"record", "changes", "action", "metadata"}`, alone or several in `{"data": […]}`.

https://sequinstream.com/docs/reference/messages, …/reference/sinks/webhooks, …/reference/databases (TOAST columns).
Order: the commit's LSN and the change's index in the transaction. A backfill's rows (`read`) may say neither: they
then stand before all changes, among each other by when they were read. `changes` holds what changed columns were
before, so a key that changed is there. A column that an update left unchanged and out of line is the text
"unchanged_toast": the update says nothing of it, unless `changes` does.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode, fields_of, word_in
from firn.changes.envelopes.image_pair import change_of, micros_of, qualified, word_of
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parts import Parts, members

_OPS: Final = {"insert": "c", "update": "u", "delete": "d", "read": "r"}
_MEMBERS: Final = frozenset({"record", "action", "metadata"})
_BATCH: Final = frozenset({"data"})
_UNCHANGED: Final = b'"unchanged_toast"'
_encode: Final = msgspec.json.Encoder().encode


class _Metadata(Struct, frozen=True):
    table_schema: str | None = None
    table_name: str | None = None
    commit_timestamp: str | None = None
    commit_lsn: int | None = None
    commit_idx: int | None = None


def recognises(fields: Mapping[str, Raw]) -> bool:
    """A record, one of the four actions and metadata that names a table; or nothing but an array `data`."""
    if fields.keys() == _BATCH:
        return bytes(fields["data"])[:1] == b"["
    told = fields.keys() >= _MEMBERS and word_of(fields["action"]) in _OPS
    return told and b'"table_name"' in bytes(fields["metadata"])


def parts(value: Value, limits: EventLimits) -> Parts | None:
    """The messages of a batch."""
    if value.fields.keys() != _BATCH:
        return None
    found = members(bytes(value.fields["data"]), "data", limits)
    return Parts(len(found), map(bytes, found))


def read(value: Value) -> Change:
    """One message. Raises EventError."""
    action: str = decode(value.raw("action") or b'""', str, within="action")
    op = word_in(action, "action", _OPS)
    said: _Metadata = decode(value.raw("metadata") or b"{}", _Metadata, within="metadata")
    time = None if said.commit_timestamp is None else micros_of(said.commit_timestamp, "metadata.commit_timestamp")
    record, changes = value.raw("record"), value.raw("changes")
    before = record if op == "d" else None
    after = None if op == "d" else record
    if op == "u" and record is not None:
        told = {} if changes is None else fields_of(changes, "`changes`")
        row = fields_of(record, "`record`") if told or _UNCHANGED in record else {}
        if told:
            before = _encode(row | {name: one for name, one in told.items() if name in row})
        if _UNCHANGED in record:
            after = _encode({name: one for name, one in row.items() if bytes(one) != _UNCHANGED or name in told})
    table = qualified(said.table_schema, said.table_name)
    return change_of(value, op, table, "sequin", (before, after), order=_order(op, said, time), micros=time)


def _order(op: str, said: _Metadata, time: int | None) -> str | None:
    if said.commit_lsn is not None:
        return f"[{said.commit_lsn},{said.commit_idx or 0}]"
    return f"[0,{max(time or 0, 0)}]" if op == "r" else None


def table_hint(value: Value) -> str | None:
    """The table that the metadata names."""
    raw = value.raw("metadata")
    if raw is None or "action" not in value.fields:
        return None
    said: _Metadata = decode(raw, _Metadata, within="metadata")
    return qualified(said.table_schema, said.table_name) or None


ENVELOPE = alone("this is a message of Sequin", read, table_hint, recognises, parts)
