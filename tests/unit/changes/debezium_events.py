"""Events as Debezium writes them, small, for the tests of envelopes."""

import json
from typing import Any

from firn.changes.change import Change
from firn.changes.envelopes.parser import parse

SOURCE = {
    "version": "3.6.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1795216234000, "snapshot": "false",
    "db": "shop", "sequence": '["90","100"]', "schema": "public", "table": "orders", "txId": 7, "lsn": 100,
}  # fmt: skip
ROW = {"id": 1, "note": "a"}
SCHEMA = {"type": "struct", "name": "shop.public.orders.Envelope", "fields": []}
KEY_SCHEMA = {"type": "struct", "name": "shop.public.orders.Key", "fields": []}


def event(op: str = "c", **members: Any) -> dict[str, Any]:
    images = {"before": ROW if op == "d" else None, "after": ROW if op in "cru" else None}
    return {**images, "source": SOURCE, "transaction": None, "op": op, "ts_ms": 1795216234999, **members}


def source(**members: Any) -> dict[str, Any]:
    return {**SOURCE, **members}


def row(**members: Any) -> dict[str, Any]:
    metadata = {"__deleted": "false", "__op": "c", "__table": "orders", "__lsn": 100, "__source_ts_ms": 1795216234000}
    return {**ROW, **metadata, **members}


def cloudevent(**members: Any) -> dict[str, Any]:
    return {
        "id": "name:shop;lsn:100", "source": "/debezium/postgresql/shop", "specversion": "1.0",
        "type": "io.debezium.connector.postgresql.DataChangeEvent", "time": "2026-11-20T23:10:50.996Z",
        "datacontenttype": "application/json", "iodebeziumop": "c", "iodebeziumconnector": "postgresql",
        "iodebeziumtsms": "1795216234000", "iodebeziumsequence": '["90","100"]', "iodebeziumschema": "public",
        "iodebeziumtable": "orders", "iodebeziumlsn": "100", "iodebeziumtxid": None, "iodebeziumtxtotalorder": None,
        "data": {"before": None, "after": ROW}, **members,
    }  # fmt: skip


def body(*events: Any) -> bytes:
    return json.dumps(list(events)).encode()


def ndjson(*events: Any) -> bytes:
    return b"".join(json.dumps(e).encode() + b"\n" for e in events)


def one(value: Any, envelope: str = "auto") -> Change:
    parsed = parse(body(value), envelope)
    assert not parsed.rejected, parsed.rejected
    (change,) = parsed.changes()
    return change


def rejected(value: Any, envelope: str = "auto") -> tuple[str, str]:
    """Code and message, and that the good event beside it lands."""
    good = row() if envelope == "flat" else cloudevent() if envelope == "cloudevents" else event()
    parsed = parse(body(good, value, good), envelope)
    assert parsed.index == [0, 2]
    (problem,) = parsed.rejected
    assert problem.index == 1
    assert json.loads(problem.original) == value
    return problem.code, problem.message


def wrapped(value: Any, schema: Any = SCHEMA) -> dict[str, Any]:
    return {"schema": schema, "payload": value}


def record(value: Any, key: Any = None, destination: str = "shop.public.orders") -> dict[str, Any]:
    return {"destination": destination, "key": key, "value": value, "headers": []}


# One event of each envelope, saying the same.
VALUES = {"debezium": event(), "flat": row(__schema="public"), "cloudevents": cloudevent()}
