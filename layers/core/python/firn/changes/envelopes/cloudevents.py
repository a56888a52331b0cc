"""CloudEvents 1.0 (structured JSON) as Debezium's CloudEventsConverter writes them.

Debezium puts each field of `source` into an attribute `iodebezium` + the name without underscores (`ts_ms` ->
`iodebeziumtsms`), numbers as text; the row images are in `data`, bare or as `{"schema", "payload"}`.
Rules from "Exporting CloudEvents" in Debezium's documentation, from cloudevents.io's JSON format, and the recordings.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored, Int64
from firn.changes.envelopes.columnar_events import Columns, absent, images, irregular, transactions
from firn.changes.envelopes.connector_rows import change_of_row, read_alone
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value, decode, required_op
from firn.changes.envelopes.sources import Source, orders_of, source_type, table_of
from firn.errors import EventError

_PREFIX = "iodebezium"
_NULL = Raw(b"null")


class Images(Struct, frozen=True, gc=False):
    """`data.payload`."""

    before: Raw = _NULL
    after: Raw = _NULL
    updateDescription: Raw = _NULL


class Data(Struct, frozen=True, gc=False):
    """`data`, bare or with an inline schema. Rows are inside `before` and `after`: no column is mistaken for these."""

    before: Raw = _NULL
    after: Raw = _NULL
    updateDescription: Raw = _NULL
    schema: Raw = _NULL
    payload: Images | None = None


_NO_DATA = Data()


@cache
def event_type(source: type[Source], foreign: frozenset[str] = frozenset()) -> Any:
    """The event, with this connector's source fields as attributes of its own: sources.py reads it like a source."""
    fields = msgspec.structs.fields(source)
    others, named = absent(foreign)
    return msgspec.defstruct(
        "CloudEvent",
        [(field.name, field.type, field.default) for field in fields]
        + [
            ("specversion", str, ""),
            ("op", str, ""),
            ("tx_total_order", Int64 | None, None),
            ("txid", Raw, _NULL),
            ("data", Data | None, _NO_DATA),
            *others,
        ],
        rename={
            **{field.name: attribute(field.name) for field in fields},
            "op": attribute("op"),
            "tx_total_order": attribute("tx_total_order"),
            "txid": _PREFIX + "txid",
            **named,
        },
        frozen=True,
        gc=False,
    )


def attribute(name: str) -> str:
    """The attribute that holds this field of `source`."""
    return _PREFIX + name.replace("_", "")


def value_type(connector: str, foreign: frozenset[str]) -> Any:
    """What the fast path decodes a value into."""
    return event_type(source_type(connector), foreign) | None


def connector_of(value: Value) -> str:
    """Which connector's attributes to expect. Raises EventError bad_event."""
    raw = value.raw(attribute("connector"))
    return "" if raw is None else decode(raw, str, within=attribute("connector"))


def columns(events: Sequence[Any], _destinations: Sequence[str | None], connector: str) -> Columns:
    """The columns of many events, read with this connector's attributes."""
    kind = source_type(connector)
    datas = [event.data or _NO_DATA for event in events]
    rows = [data if data.payload is None else data.payload for data in datas]
    connectors = [event.connector for event in events]
    op = [event.op for event in events]
    table = kind.tables(events)
    before, before_plain = images([row.before for row in rows])
    after, after_plain = images([row.after for row in rows])
    schema, _ = images([data.schema for data in datas])
    nothing: list[int | None] = [None] * len(events)
    numbers = [event.tx_total_order for event in events]
    others = [
        i
        for i, (event, text) in enumerate(zip(events, schema, strict=True))
        if event.specversion != "1.0" or (text is not None and not text.startswith(b"{"))
    ]
    others += read_alone(connector, op)
    # Without a place in it, this attribute is `source.txId`.
    ids = [_NULL if event.tx_total_order is None else event.txid for event in events]
    return Columns(
        op=op,
        table=table,
        ts=[event.ts_ms for event in events],
        connector=connectors,
        order=orders_of(kind, events, lambda: nothing, lambda: numbers),
        tx_order=numbers,
        emitted=nothing,  # the format leaves it out
        before=before,
        after=after,
        irregular=irregular(
            op,
            table,
            before,
            after,
            objects=before_plain and after_plain,
            connectors=connectors,
            connector=connector,
            others=others,
        ),
        schema=schema,
        transaction=transactions(ids),
    )


def read(value: Value) -> Change | Ignored:
    """One event, with a reason if it can't be taken. Raises EventError."""
    if value.raw("specversion") != b'"1.0"':
        raise EventError("bad_event", "`specversion` is not 1.0, so this is not a CloudEvent that Firn can read")
    hint = ": Debezium's CloudEventsConverter writes it with extension.attributes.enable=true"
    op = required_op(value, attribute("op"), hint)
    if op == "m":
        return Ignored("message")
    connector = connector_of(value)
    event = decode(value.text, event_type(source_type(connector)), strict=False)
    capture = getattr(event, "value_capture_type", None) or ""
    change = change_of_row(columns([event], [None], connector), value, connector, _description(event.data), capture)
    if change.schema is not None and not change.schema.startswith(b"{"):
        raise EventError("bad_event", "`data.schema` is not a JSON object")
    return change


def _description(data: Data | None) -> bytes | None:
    """MongoDB's `updateDescription`."""
    told = data or _NO_DATA
    raw = (told if told.payload is None else told.payload).updateDescription
    return None if raw == _NULL else bytes(raw)


def table_hint(value: Value) -> str | None:
    """The table that the attributes name."""
    return table_of(value.fields, attribute) if "specversion" in value.fields else None


ENVELOPE = Envelope(
    "this is a CloudEvent", connector_of, value_type, columns, read, table_hint,
    marks=frozenset({"specversion"}), strict=False, counted=True,
)  # fmt: skip
