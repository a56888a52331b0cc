"""Maxwell's JSON as an envelope that Firn does not have: a module as the ones in firn/changes/envelopes.

`{"database", "table", "type": "insert" | "update" | "delete", "ts": seconds, "position": "file:offset", "data": {…}}`
https://maxwells-daemon.io/dataformat/
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
from firn.errors import EventError

_OPS = {"insert": "c", "update": "u", "delete": "d"}
_NULL = Raw(b"null")


@cache
def event_type(foreign: frozenset[str]) -> Any:
    members, named = absent(foreign)
    return msgspec.defstruct(
        "Event",
        [
            ("database", str, ""), ("table", str, ""), ("type", str, ""), ("ts", int | None, None),
            ("position", str, ""), ("data", Raw, _NULL), *members,
        ],
        rename=named,
    )  # fmt: skip


def value_type(_connector: str, foreign: frozenset[str]) -> Any:
    return event_type(foreign) | None


def connector_of(_value: Value) -> str:
    return "mysql"


def columns(events: Sequence[Any], _destinations: Sequence[str | None], connector: str) -> Columns:
    op = [_OPS.get(event.type, "") for event in events]
    table = [f"{event.database}.{event.table}" if event.table else "" for event in events]
    rows, plain = images([event.data for event in events])
    before = [row if o == "d" else None for row, o in zip(rows, op, strict=True)]
    after = [None if o == "d" else row for row, o in zip(rows, op, strict=True)]
    places = [event.position.partition(":") for event in events]
    nothing: list[int | None] = [None] * len(events)
    connectors = [connector] * len(events)
    return Columns(
        op=op,
        table=table,
        ts=[None if event.ts is None else event.ts * 1000 for event in events],
        connector=connectors,
        order=[f'["{file}",{offset},0]' if offset else None for file, _, offset in places],
        tx_order=nothing,
        emitted=nothing,
        before=before,
        after=after,
        irregular=irregular(op, table, before, after, objects=plain, connectors=connectors, connector=connector),
    )


def read(value: Value) -> Change:
    event = decode(value.text, event_type(frozenset()))
    if event.type not in _OPS:
        raise EventError("unknown_op", f"`type` is {event.type[:20]!r}")
    return single(columns([event], [None], "mysql"), value, flat=False)


def table_hint(value: Value) -> str | None:
    named = [
        msgspec.json.decode(value.fields[name], type=str) for name in ("database", "table") if name in value.fields
    ]
    return ".".join(named) or None


ENVELOPE = Envelope(
    "this is Maxwell's JSON", connector_of, value_type, columns, read, table_hint, marks=frozenset({"database"})
)
