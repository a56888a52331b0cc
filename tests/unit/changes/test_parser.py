"""A change is the same in every envelope and every wrapping."""

import json
from typing import Any

import pytest

from firn.changes.envelopes import registry
from firn.changes.envelopes.parser import parse
from tests.unit.changes.debezium_events import (
    KEY_SCHEMA,
    ROW,
    SCHEMA,
    VALUES,
    body,
    cloudevent,
    event,
    one,
    record,
    row,
    source,
    wrapped,
)

# --- the same change in every wrapping


@pytest.mark.parametrize("envelope", VALUES)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "auto"])
def test_a_change_is_the_same_in_every_wrapping(envelope: str, declared: bool) -> None:
    name, value = envelope if declared else "auto", VALUES[envelope]
    bare = one(value, name)
    assert (bare.op, bare.table, bare.ts, bare.connector) == ("c", "public.orders", 1795216234000, "postgresql")
    assert bare.order == ("100" if envelope == "flat" else '["90","100"]')
    assert bare.flat is (envelope == "flat")
    assert bare.before is None
    assert json.loads(bare.after or b"") == (value if envelope == "flat" else ROW)
    for wrapping in (wrapped(value), record(value), record(wrapped(value)), record(wrapped(value), wrapped({"id": 1}))):
        change = one(wrapping, name)
        fields = ("op", "table", "ts", "connector", "order", "tx_order", "flat", "before", "after")
        assert [getattr(change, f) for f in fields] == [getattr(bare, f) for f in fields]


def test_every_envelope_is_tested_in_every_wrapping() -> None:
    bare = {name for name in registry.KNOWN.names if registry.KNOWN.bare(name)}
    shaped = {name for name, one in registry.KNOWN.envelopes.items() if one.recognises is not None}
    assert {*VALUES, *bare, *shaped, "auto"} == set(registry.KNOWN.names)
    assert bare == {"rows"}  # tests/unit/ingest/test_rows.py: they have none


def test_the_inline_schema_comes_along_and_equal_schemas_are_one_object() -> None:
    parsed = parse(body(wrapped(event()), wrapped(event()), wrapped(event(), {"type": "struct"})), "debezium")
    assert [json.loads(schema or b"") for schema in parsed.schema] == [SCHEMA, SCHEMA, {"type": "struct"}]
    assert parsed.schema[0] is parsed.schema[1]
    assert one(event()).schema is None
    assert one(wrapped(event(), None)).schema is None


@pytest.mark.parametrize(
    ("key", "handed_on"),
    [
        (None, None),
        ({"id": 1}, {"id": 1}),
        (wrapped({"id": 1}, KEY_SCHEMA), {"id": 1}),
        (wrapped(None, None), None),
        (wrapped("b", "a"), wrapped("b", "a")),
        ({"schema": None, "payload": 1, "id": 2}, {"schema": None, "payload": 1, "id": 2}),
    ],
)
def test_a_record_hands_on_its_key_without_the_schema(key: Any, handed_on: Any) -> None:
    for value in VALUES.values():
        change = one(record(value, key))
        assert (None if change.key is None else json.loads(change.key)) == handed_on


@pytest.mark.parametrize("op", list("cudrt"))
def test_every_op_is_a_change(op: str) -> None:
    change = one(event(op))
    assert change.op == op
    assert (change.before is not None, change.after is not None) == (op == "d", op in "cur")


def test_the_row_images_travel_byte_for_byte() -> None:
    image = b'{ "id" : 1.0,"id":2, "s":"\\u00e9\\/\xc3\xa9" , "n": 1e400 }'
    text = json.dumps(event()).encode().replace(json.dumps(ROW).encode(), image)
    (change,) = parse(text, "auto").changes()
    assert change.after == image


# --- what each source says


LSN = "00000027:00000758:0005"
MYSQL = {"connector": "mysql", "schema": None, "file": "mysql-bin.000009", "pos": 154, "row": 0}
MARIADB = {"connector": "mariadb", "schema": None, "file": "", "pos": 0, "row": 0}
SQL_SERVER = {"connector": "sqlserver", "schema": "dbo", "commit_lsn": LSN, "change_lsn": None, "event_serial_no": None}
ORACLE = {"connector": "oracle", "schema": "SHOP", "commit_scn": "12", "scn": "10", "rs_id": "0x1.2.3", "ssn": 0}
MONGODB = {"connector": "mongodb", "collection": "orders", "table": None, "schema": None, "ord": 3}
CONNECTORS = [
    ({"connector": "postgresql"}, "public.orders", '["90","100"]'),
    ({"connector": "postgresql", "sequence": None}, "public.orders", "100"),
    ({"connector": "postgresql", "sequence": None, "lsn": None}, "public.orders", None),
    (MYSQL, "shop.orders", '["mysql-bin.000009",154,0]'),
    (MARIADB, "shop.orders", None),
    (SQL_SERVER, "dbo.orders", f'["{LSN}",null,null]'),
    (ORACLE, "SHOP.orders", '["12","10","0x1.2.3",0]'),
    (MONGODB, "shop.orders", "[1795216234000,3]"),
    ({"connector": "firn", "sequence": "[1795216234000,10]"}, "public.orders", "[1795216234000,10]"),
    ({"connector": "cassandra"}, "public.orders", None),
    ({"connector": "acme", "schema": None}, "orders", None),
]


@pytest.mark.parametrize(("members", "table", "order"), CONNECTORS)
def test_a_source_names_its_table_and_order(members: dict[str, Any], table: str, order: str | None) -> None:
    connector = members["connector"]
    fields = {k: v for k, v in source(**members).items() if k in {*members, "schema", "db", "table", "ts_ms"}}
    attributes = {f"iodebezium{k.replace('_', '')}": v if v is None else str(v) for k, v in source(**members).items()}
    flattened = {f"__{k}": v for k, v in fields.items() if k != "ts_ms"}
    for change in (
        one(event(source=source(**members))),
        one(cloudevent(**attributes)),
        one(record(cloudevent(**attributes))),
    ):
        assert (change.connector, change.table, change.order) == (connector, table, order)
    if order != "100" and "lsn" not in members and connector != "postgresql":
        change = one(row(**{"__lsn": None, **flattened}))
        assert (change.connector, change.table, change.order) == (connector, table, order)


def test_the_place_in_the_transaction_comes_along() -> None:
    block = {"id": "7:100", "total_order": 5, "data_collection_order": 1}
    assert one(event(transaction=block)).tx_order == 5
    assert one(cloudevent(iodebeziumtxtotalorder="5")).tx_order == 5
    assert one(row(__transaction_total_order=5)).tx_order == 5
    assert one(event()).tx_order is None


def test_the_transaction_comes_along_and_makes_no_event_bad() -> None:
    block = {"id": "7:100", "total_order": 5}
    assert one(event(transaction=block)).transaction == "7:100"
    assert one(event(transaction=block | {"id": 7})).transaction == "7"
    assert one(cloudevent(iodebeziumtxid="7:100", iodebeziumtxtotalorder="5")).transaction == "7:100"
    assert one(cloudevent(iodebeziumtxid="7")).transaction is None  # `source.txId`
    assert one(row(__transaction_id="7:100")).transaction == "7:100"
    for bad in (None, True, 1.5, {"a": 1}, [], "x" * 1_000):
        assert one(event(transaction=block | {"id": bad})).transaction is None
    assert [one(other).transaction for other in (event(), event(transaction=None), row())] == [None] * 3


def test_a_document_that_travels_as_text_is_unpacked() -> None:
    document = '{"_id": {"$oid": "6a"}, "n": 1, "tags": [1, 2]}'
    change = one(event(source=source(connector="mongodb", collection="orders", ord=1), after=document))
    assert change.after == b'{"_id":"6a","n":1,"tags":[1, 2]}'


# --- flattened rows


def test_a_flattened_delete_is_the_row_before() -> None:
    for members in ({"__op": "d"}, {"__op": "d", "__deleted": "true"}, {"__op": None, "__deleted": "true"}):
        change = one(row(**members), "flat")
        assert (change.op, change.after) == ("d", None)
        assert json.loads(change.before or b"")["id"] == 1


@pytest.mark.parametrize(
    ("destination", "members", "table"),
    [
        (None, {}, "orders"),
        (None, {"__schema": "s"}, "s.orders"),
        ("shop.public.orders", {}, "public.orders"),
        ("shop.public.orders", {"__schema": "s"}, "s.orders"),
        ("a.b.c.public.orders", {}, "public.orders"),
        ("shop.s.Mixed_Case-Table", {"__table": "Mixed Case-Table"}, "s.Mixed Case-Table"),
        ("shop.s.dot.ted", {"__table": "dot.ted"}, "s.dot.ted"),
        ("shop.orders", {}, "orders"),
        ("orders", {}, "orders"),
        ("shop.public.all_shards", {}, "orders"),
    ],
)
def test_a_flattened_row_takes_its_schema_from_the_destination(
    destination: str | None, members: Any, table: str
) -> None:
    value = row(**members)
    assert one(value if destination is None else record(value, destination=destination)).table == table
