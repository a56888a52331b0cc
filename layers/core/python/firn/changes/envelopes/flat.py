"""Rows flattened by Debezium's ExtractNewRecordState: the columns, and metadata among them as `__op`, `__table`, ….

Firn needs `delete.tombstone.handling.mode=rewrite` and `add.fields=op,table,lsn,source.ts_ms` (or more, below). With
the default prefix `__` these are read:

| member | for |
|---|---|
| `__op` | the op; `__deleted` = "true" makes a delete whatever it is. A message (`m`) is ignored |
| `__table`, `__schema`, `__db`, `__collection` | the table |
| `__lsn`, `__sequence`, `__file`, `__pos`, `__row`, … | the order, by the rules of sources.py |
| `__connector` | whose order it is; else it is told from the order's fields (`__lsn` is PostgreSQL's) |
| `__source_ts_ms`, else `__ts_ms` | the time |
| `__transaction_total_order` | the place in the transaction; Vitess also has `__transaction_transaction_{epoch,rank}` |
| `__transaction_id` | which transaction it is |
| `__ts_ns` | when the connector made the event: MongoDB's order, with `__ord`, `__version` and `__wallTime` |

The table is `__schema`.`__table`; without `__schema` the schema comes from the record's destination
`prefix.schema.table` (if it ends in this very table); without a record it is just `__table`. For MySQL `__db` counts as
the schema.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import takewhile
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firn.changes.change import Change, Ignored, Int64, Time
from firn.changes.envelopes.columnar_events import Columns, irregular, single, transactions
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value, decode, required_op
from firn.changes.envelopes.sources import SCHEMAS, MongoDb, Source, orders_of, source_type, table_of
from firn.errors import EventError

# Which connector a row comes from when it does not say: by the order field that only this one has.
_TELLTALE = {
    "__lsn": "postgresql",
    "__file": "mysql",
    "__commit_lsn": "sqlserver",
    "__scn": "oracle",
    "__ord": "mongodb",
    "__vgtid": "vitess",
    "__mod_number": "spanner",
}
_DELETED = ("true", True)


@cache
def _earlier(source: type[Source]) -> tuple[str, ...]:
    """The telltale fields that count before this source's own: the first that is there counts."""
    named = {f"__{field.name}" for field in msgspec.structs.fields(source)}
    return tuple(takewhile(lambda name: name not in named, _TELLTALE))


@cache
def row_type(source: type[Source]) -> Any:
    """The metadata of a row, with this connector's source fields: sources.py reads it like a source."""
    times = ("ts_us", "ts_ns")  # `__ts_us` is the event's, `__source_ts_us` its source's
    fields = [field for field in msgspec.structs.fields(source) if field.name not in ("ts_ms", *times)]
    own: list[tuple[str, Any, Any, str]] = [
        ("op", str | None, None, "__op"),
        ("deleted", str | bool | None, None, "__deleted"),
        ("ts_ms", Time | None, None, "__source_ts_ms"),
        ("event_ts_ms", Time | None, None, "__ts_ms"),
        ("event_ts_ns", Int64 | None, None, "__ts_ns"),
        ("tx_total_order", Int64 | None, None, "__transaction_total_order"),
        ("tx_epoch", Int64 | None, None, "__transaction_transaction_epoch"),
        ("tx_rank", int | str | None, None, "__transaction_transaction_rank"),
        ("transaction_id", Raw, Raw(b"null"), "__transaction_id"),
    ]
    own += [(f.name, f.type, None, f"__source_{f.name}") for f in msgspec.structs.fields(source) if f.name in times]
    own += [(f"has{name}", Raw | UnsetType, UNSET, name) for name in _earlier(source)]
    return msgspec.defstruct(
        "FlatRow",
        [(field.name, field.type, field.default) for field in fields] + [member[:3] for member in own],
        rename={
            **{field.name: f"__{field.name}" for field in fields},
            **{name: renamed for name, _, _, renamed in own},
        },
        frozen=True,
        gc=False,
    )


def value_type(connector: str, foreign: frozenset[str]) -> Any:  # noqa: ARG001
    """What the fast path decodes a value into: the row itself is the image."""
    return Raw


def connector_of(value: Value) -> str:
    """`__connector`, or told from the order's fields; "" if nothing tells. Raises EventError bad_event."""
    raw = value.raw("__connector")
    connector: str = "" if raw is None else decode(raw, str, within="__connector")
    return connector or next((name for field, name in _TELLTALE.items() if field in value.fields), "")


@cache
def _decoder(kind: Any) -> Callable[[Raw], Any]:
    return msgspec.json.Decoder(kind).decode


def columns(raws: Sequence[Raw], destinations: Sequence[str | None], connector: str) -> Columns:
    """The columns of many rows, read with this connector's fields."""
    kind = source_type(connector)
    decode_row = _decoder(row_type(kind) | None)
    nothing = row_type(kind)()  # for a null: it has no op, so it is read on its own
    rows = [decode_row(raw) or nothing for raw in raws]
    op = ["d" if row.deleted in _DELETED else row.op or "" for row in rows]
    named = list(map(attrgetter("connector"), rows))
    connectors = [one or connector for one in named] if "" in named else named
    table = _tables(rows, destinations, connector)
    numbers = [row.tx_total_order for row in rows]
    emitted = [row.event_ts_ns for row in rows]
    order = orders_of(
        kind, rows, lambda: emitted, lambda: numbers, lambda: [(row.tx_epoch, row.tx_rank) for row in rows]
    )
    texts: list[bytes | None] = list(map(bytes, raws))
    before = [text if o == "d" else None for text, o in zip(texts, op, strict=True)]
    after = [None if o in "dt" else text for text, o in zip(texts, op, strict=True)]
    return Columns(
        op=op,
        table=table,
        ts=[row.event_ts_ms if row.ts_ms is None else row.ts_ms for row in rows],
        connector=connectors,
        order=order,
        tx_order=numbers,
        emitted=emitted,
        before=before,
        after=after,
        irregular=irregular(
            op,
            table,
            before,
            after,
            objects=True,
            connectors=connectors,
            connector=connector,
            others=_told_otherwise(rows, connector) if "" in named else (),
        ),
        transaction=transactions([row.transaction_id for row in rows]),
    )


def _told_otherwise(rows: Sequence[Any], connector: str) -> list[int]:
    """The places of rows that name no connector, and whose fields tell another one than `connector`, or may."""
    own = next((field for field, told in _TELLTALE.items() if told == connector), None)
    earlier = [f"has{field}" for field in _earlier(source_type(connector))]
    if own is not None and not earlier and None not in map(attrgetter(own[2:]), rows):
        return []  # nearly always: PostgreSQL's, all with their LSN
    silent = [i for i, row in enumerate(rows) if not row.connector]
    if connector and own is None:  # one that no field tells
        return silent
    return [
        i
        for i in silent
        if (own is not None and getattr(rows[i], own[2:]) is None)
        or any(getattr(rows[i], name) is not UNSET for name in earlier)
    ]


def read(value: Value) -> Change | Ignored:
    """One row, with a reason if it can't be taken. Raises EventError."""
    deleted = value.raw("__deleted")
    if deleted is None or decode(deleted, str | bool, within="__deleted") not in _DELETED:
        hint = ": add `op` to ExtractNewRecordState's add.fields"
        if "op" in value.fields and "source" in value.fields:
            hint = "; if it is Debezium's own envelope, write `envelope: debezium` (or auto) for this stream"
        if required_op(value, "__op", hint) == "m":
            return Ignored("message")
    connector = connector_of(value)
    row = decode(value.text, row_type(source_type(connector)))
    if not (row.collection if connector == "mongodb" else row.table):
        raise EventError("missing_table", "the row has no `__table`: add `table` to ExtractNewRecordState's add.fields")
    return single(columns([Raw(value.text)], [value.destination], connector), value, flat=True)


def _tables(rows: Sequence[Any], destinations: Sequence[str | None], connector: str) -> list[str]:
    kind = source_type(connector)
    if kind is MongoDb:
        return kind.tables(rows)
    # MySQL's databases are its schemas; elsewhere `__db` says nothing about the schema.
    named = SCHEMAS.get(kind, "schema")
    return [
        _table(row.table, row.schema or getattr(row, named), destination) if row.table else ""
        for row, destination in zip(rows, destinations, strict=True)
    ]


def _table(table: str, schema: str | None, destination: str | None) -> str:
    schema = schema or _schema_in(destination, table)
    return f"{schema}.{table}" if schema else table


def _schema_in(destination: str | None, table: str) -> str | None:
    """`s` for the destination `prefix.s.orders` of the table `orders`. Debezium writes _ for what Kafka forbids."""
    if destination is None:
        return None
    suffix = "." + re.sub(r"[^a-zA-Z0-9._-]", "_", table)
    before = destination.removesuffix(suffix)
    _, dot, schema = before.rpartition(".")
    return schema if before != destination and dot and schema else None


def table_hint(value: Value) -> str | None:
    """The table that `__table` and its like name."""
    return table_of(value.fields, "__{}".format)


ENVELOPE = Envelope(
    "the event is flattened", connector_of, value_type, columns, read, table_hint,
    marks=frozenset({"__op", "__deleted"}), flat=True, counted=True,
)  # fmt: skip
