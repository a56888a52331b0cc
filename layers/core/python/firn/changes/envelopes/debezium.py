"""Debezium's own envelope: `{before, after, source, op, ts_ms, transaction}`.

Rules from Debezium's documentation ("Data change events" of each connector) and the recordings in tests/data/corpus.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored, Int64, Number, whole
from firn.changes.envelopes.columnar_events import Columns, absent, images, irregular, transactions
from firn.changes.envelopes.connector_rows import change_of_row, read_alone
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value, decode, required_op
from firn.changes.envelopes.sources import Postgres, Sequenced, Source, frequent_type, orders_of, source_type, table_of
from firn.errors import EventError

_NULL = Raw(b"null")
_Op = Literal["c", "u", "d", "r", "t", "m"]


class Transaction(Struct, frozen=True, gc=False):
    """`transaction`, there when the connector runs with provide.transaction.metadata. Vitess tells epoch and rank."""

    total_order: Number | None = None
    transaction_epoch: Int64 | None = None
    transaction_rank: int | str | None = None
    id: Raw = _NULL


_NO_TRANSACTION = Transaction()


@cache
def event_type(source: type[Source], op: Any = str, foreign: frozenset[str] = frozenset()) -> Any:
    """The envelope with this connector's source. Members that Firn doesn't need are skipped undecoded.

    Everything has a default, so that a heartbeat among events does not fail the decode of them all: its op is "".
    """
    others, named = absent(foreign)
    return msgspec.defstruct(
        "Event",
        [
            ("before", Raw, _NULL),
            ("after", Raw, _NULL),
            ("source", source, source()),
            ("transaction", Transaction | None, None),
            ("ts_ns", Number | None, None),
            ("op", op, ""),
            *others,
        ],
        rename=named,
        frozen=True,
        gc=False,
    )


def value_type(connector: str, foreign: frozenset[str]) -> Any:
    """What the fast path decodes a value into."""
    return event_type(frequent_type(connector), foreign=foreign) | None


def exact_type(connector: str, foreign: frozenset[str]) -> Any:
    """The same for events that have an op of _Op and this connector: one object for all, where each had its own."""
    source = msgspec.defstruct(
        "Source", [("connector", Literal[connector], "")], bases=(frequent_type(connector),), frozen=True, gc=False
    )
    return event_type(source, _Op, foreign) | None


def connector_of(value: Value) -> str:
    """Which connector's source to expect. Raises EventError bad_event."""
    source = value.raw("source")
    connector: str = "" if source is None else decode(source, Source, within="source").connector
    return connector


def columns(events: Sequence[Any], _destinations: Sequence[str | None], connector: str) -> Columns:
    """The columns of many events, read with this connector's fields."""
    sources = [event.source for event in events]
    kind = type(sources[0]) if sources else Source  # the frequent fields for many events, all fields for one
    connectors = [source.connector for source in sources]
    op = [event.op for event in events]
    table = kind.tables(sources)
    told = [event.transaction for event in events]
    numbers = whole([one.total_order if one else None for one in told])
    ids = [one.id if one else _NULL for one in told] if any(told) else ()
    made = whole([event.ts_ns for event in events])
    order = orders_of(kind, sources, lambda: made, lambda: numbers, lambda: _ranks(events))
    before, before_plain = images([event.before for event in events])
    after, after_plain = images([event.after for event in events])
    plain = before_plain and after_plain
    # What else orders a source of frequent fields was not decoded.
    frequent = issubclass(kind, Sequenced) and not issubclass(kind, Postgres)
    others = [i for i, text in enumerate(order) if text is None] if frequent and not all(order) else []
    others += read_alone(connector, op)
    return Columns(
        op=op,
        table=table,
        ts=[source.ts_ms for source in sources],
        connector=connectors,
        order=order,
        tx_order=numbers,
        # With transaction metadata nobody asks for it.
        emitted=[None if event.transaction else at for event, at in zip(events, made, strict=True)],
        before=before,
        after=after,
        irregular=irregular(
            op, table, before, after, objects=plain, connectors=connectors, connector=connector, others=others
        ),
        transaction=transactions(ids),
    )


def _ranks(events: Sequence[Any]) -> list[tuple[int | None, int | str | None]]:
    told = [event.transaction or _NO_TRANSACTION for event in events]
    return [(one.transaction_epoch, one.transaction_rank) for one in told]


def read(value: Value) -> Change | Ignored:
    """One event, with a reason if it can't be taken. Raises EventError."""
    op = required_op(value, "op", " (a flattened row needs `__op`: add `op` to ExtractNewRecordState's add.fields)")
    if op == "m":
        return Ignored("message")
    if value.raw("source") is None:
        raise EventError("missing_table", "the event has no `source`, which names its table")
    connector = connector_of(value)
    kind = frequent_type(connector)
    event = decode(value.text, event_type(kind))
    if kind is not source_type(connector) and kind.orders([event.source]) == [None]:
        event = decode(value.text, event_type(source_type(connector)))
    capture = getattr(event.source, "value_capture_type", None) or ""
    told = columns([event], [None], connector)
    return change_of_row(told, value, connector, value.raw("updateDescription"), capture)


def table_hint(value: Value) -> str | None:
    """The table that `source` names."""
    source = value.raw("source")
    return None if source is None else table_of(msgspec.json.decode(source, type=dict[str, Raw]))


ENVELOPE = Envelope(
    "the event is in Debezium's own envelope",
    connector_of,
    value_type,
    columns,
    read,
    table_hint,
    exact_type=exact_type,
)
