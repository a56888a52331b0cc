"""Maxwell's JSON: `{database, table, type, ts, xid, xoffset | commit, position, primary_key_columns, data, old}`.

| type | becomes |
|---|---|
| `insert`, `update`, `delete` | a change; `data` is the row after it, of a delete before it; `old`: what changed |
| `bootstrap-insert` | a snapshot read, which every change of the stream beats |
| `bootstrap-start`, `bootstrap-complete` | ignored: `snapshot` |
| `table-create`, `table-alter`, `table-drop`, `database-…` | ignored: `schema_change` |

An update of the key is one event whose `old` holds the old key. Rows stand in the order of (`position`, `xoffset`); the
last row of a transaction has `commit` in place of the number. Maxwell writes `position` with output_binlog_position and
the key's columns with output_primary_key_columns; without a position a change counts as it comes.

Values come without types, and numbers as they are in MySQL: one with more digits than a double keeps becomes text.

https://maxwells-daemon.io/dataformat/, and the recording in tests/data/emitters/maxwell.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored, Int64
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.row_images import (
    ITS_OWN,
    hinted,
    image,
    members_of,
    named,
    some,
    time_in,
    with_exact_numbers,
)
from firn.errors import EventError

_OPS: Final = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_IGNORED: Final = {
    **dict.fromkeys(("bootstrap-start", "bootstrap-complete"), "snapshot"),
    **{f"{what}-{done}": "schema_change" for what in ("table", "database") for done in ("create", "alter", "drop")},
}
_POSITION: Final = re.compile(r"[^:\"\\\x00-\x1f]{1,200}:[0-9]{1,20}", re.ASCII)


class _Event(Struct, frozen=True):
    database: str = ""
    table: str = ""
    type: str = ""
    ts: Int64 | None = None
    xoffset: int | None = None
    commit: bool | None = None
    position: str | None = None
    primary_key_columns: list[str] | None = None


def recognises(fields: Mapping[str, Raw]) -> bool:
    """What has a database and a type, and is not Canal's."""
    return {"database", "type"} <= fields.keys() and fields.keys().isdisjoint({"es", "isDdl"})


def read(value: Value) -> Change | Ignored:
    """One row, or why it is ignored. Raises EventError."""
    event = decode(value.text, _Event)
    if (reason := _IGNORED.get(event.type)) is not None:
        return Ignored(reason)
    op = _OPS.get(event.type)
    if op is None:
        raise EventError("unknown_op", f"`type` is {event.type[:40]!r}, which is none of Maxwell's")
    table = named(event.database, event.table)
    sent = members_of(value, "data")
    if sent is None:
        why = "; switch its encryption off" if "encrypted" in value.fields else ""
        raise EventError("missing_image", f"{event.type} comes without the row in `data`{why}")
    row = with_exact_numbers(sent)
    old = with_exact_numbers(members_of(value, "old") or {}) if op == "u" else {}
    after = None if op == "d" else image(row)
    before = image(row) if op == "d" else image({**row, **old}) if old else None
    key = some(row, event.primary_key_columns)
    order, ts = _order(event, op), time_in(event.ts, 1, "ts")
    # Without a number, rows of one statement have one position.
    emitted = ITS_OWN if order is not None and (event.xoffset is not None or event.commit or op == "r") else None
    return Change(op, table, ts, "maxwell", order, None, emitted, False, key, before, after, None)


def _order(event: _Event, op: str) -> str | None:
    if op == "r":
        return f"[null,{max(event.ts or 0, 0)},null]"
    if event.position is None:
        return None
    if not _POSITION.fullmatch(event.position):
        raise EventError("bad_event", "`position` is not a binlog file and an offset, such as bin.000001:4")
    file, _, offset = event.position.rpartition(":")
    number = event.xoffset if event.xoffset is not None else None if event.commit else 0
    return f'["{file}",{offset},{"null" if number is None else number}]'


def table_hint(value: Value) -> str | None:
    """The table that the event names."""
    return hinted(value.fields, "database", "table") if recognises(value.fields) else None


ENVELOPE = alone("this is Maxwell's JSON", read, table_hint, recognises)
