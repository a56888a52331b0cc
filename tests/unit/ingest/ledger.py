"""An application's own change events as an envelope that Firn does not have: a module as the ones in
firn/changes/envelopes.

`{"ledger": "shop", "entity": "orders", "verb": "insert" | "update" | "delete", "at": seconds, "place": [file, offset],
"row": {…}}`, or several of them: `{"ledger": "shop", "entries": [{"entity", "verb", …}]}`
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

from firn.changes.change import Change
from firn.changes.envelopes.columnar_events import Columns, absent, images, irregular, single
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parts import Parts, members
from firn.errors import EventError

_OPS = {"insert": "c", "update": "u", "delete": "d"}
_NULL = Raw(b"null")


@cache
def event_type(foreign: frozenset[str]) -> Any:
    others, named = absent(foreign)
    return msgspec.defstruct(
        "Event",
        [
            ("ledger", str, ""), ("entity", str, ""), ("verb", str, ""), ("at", int | None, None),
            ("place", tuple[str, int] | None, None), ("row", Raw, _NULL), *others,
        ],
        rename=named,
    )  # fmt: skip


def value_type(_connector: str, foreign: frozenset[str]) -> Any:
    return event_type(foreign) | None


def connector_of(_value: Value) -> str:
    return "mysql"


def columns(events: Sequence[Any], _destinations: Sequence[str | None], connector: str) -> Columns:
    op = [_OPS.get(event.verb, "") for event in events]
    table = [f"{event.ledger}.{event.entity}" if event.entity else "" for event in events]
    rows, plain = images([event.row for event in events])
    before = [row if o == "d" else None for row, o in zip(rows, op, strict=True)]
    after = [None if o == "d" else row for row, o in zip(rows, op, strict=True)]
    nothing: list[int | None] = [None] * len(events)
    connectors = [connector] * len(events)
    return Columns(
        op=op,
        table=table,
        ts=[None if event.at is None else event.at * 1000 for event in events],
        connector=connectors,
        order=[None if event.place is None else f'["{event.place[0]}",{event.place[1]},0]' for event in events],
        tx_order=nothing,
        emitted=nothing,
        before=before,
        after=after,
        irregular=irregular(op, table, before, after, objects=plain, connectors=connectors, connector=connector),
    )


def read(value: Value) -> Change:
    event = decode(value.text, event_type(frozenset()))
    if event.verb not in _OPS:
        raise EventError("unknown_op", f"`verb` is {event.verb[:20]!r}")
    return single(columns([event], [None], "mysql"), value, flat=False)


def parts(value: Value, limits: EventLimits) -> Parts | None:
    if (entries := value.raw("entries")) is None:
        return None
    found = members(entries, "entries", limits)
    ledger = b'{"ledger":' + bytes(value.fields["ledger"]) + b","
    return Parts(len(found), (ledger + bytes(one)[1:] for one in found))


def table_hint(value: Value) -> str | None:
    named = [msgspec.json.decode(value.fields[name], type=str) for name in ("ledger", "entity") if name in value.fields]
    return ".".join(named) or None


ENVELOPE = Envelope(
    "this is an entry of a ledger", connector_of, value_type, columns, read, table_hint, marks=frozenset({"ledger"}),
    parts=parts,
)  # fmt: skip
