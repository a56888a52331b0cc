"""What single events of emitters become: what no history of tests/property/test_event_histories.py shows."""

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from firn.changes.change import STEPS, Change
from firn.changes.decode.codec import RowCodec
from firn.changes.decode.types import Column, decimal
from firn.changes.envelopes.extended_json import plain_document, text_of_millis
from firn.changes.envelopes.parser import parse
from firn.changes.envelopes.update_description import applied, read_update
from firn.changes.positions import position
from firn.config.reader import parse as parse_config
from firn.errors import EventError


def one(event: Any, envelope: str = "auto") -> Change:
    (found,) = parse(json.dumps(event).encode(), envelope).changes()
    return found


def refused(event: Any, envelope: str = "auto") -> str:
    (found,) = parse(json.dumps(event).encode(), envelope).rejected
    return found.code


def ignored(event: Any) -> dict[str, int]:
    return parse(json.dumps(event).encode(), "auto").ignored


# --- MongoDB

STREAM = {
    "_id": {"_data": "8265"}, "clusterTime": {"$timestamp": {"t": 1_795_377_480, "i": 1}},
    "ns": {"db": "shop", "coll": "orders"}, "documentKey": {"_id": {"$oid": "64b0"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"$oid": "64b0"}, '"64b0"'),
        ({"$numberLong": "9007199254740993"}, "9007199254740993"),
        ({"$numberInt": "-7"}, "-7"),
        ({"$numberDouble": "1.0"}, "1.0"),
        ({"$numberDouble": "NaN"}, '"NaN"'),
        ({"$numberDecimal": "12.30"}, '"12.30"'),
        ({"$date": "2026-11-22T19:58:00Z"}, '"2026-11-22T19:58:00.000Z"'),
        ({"$date": {"$numberLong": "1795377480123"}}, '"2026-11-22T19:58:00.123Z"'),
        ({"$binary": {"base64": "AQID", "subType": "00"}}, '"AQID"'),
        ({"$binary": "AQID", "$type": "00"}, '"AQID"'),
        ({"$uuid": "123e4567-e89b-12d3-a456-426655440000"}, '"123e4567-e89b-12d3-a456-426655440000"'),
        ({"$undefined": True}, "null"),
        ({"$timestamp": {"t": 1, "i": 2}}, '{"$timestamp":{"t": 1, "i": 2}}'),
        ([{"$oid": "1"}, {"a": {"$numberLong": "2"}}], '["1",{"a":2}]'),
        ({"a": 1, "b": [1, 2]}, '{"a": 1, "b": [1, 2]}'),
    ],
)
def test_extended_json_becomes_plain(value: Any, plain: str) -> None:
    document = json.dumps({"x": value, "y": {"$oid": "1"}}).encode()
    assert plain_document(document, "fullDocument") == f'{{"x":{plain},"y":"1"}}'.encode()


def test_a_uuid_in_binary_of_subtype_4_is_its_text() -> None:
    data = base64.b64encode(bytes(range(16))).decode()
    document = json.dumps({"x": {"$binary": {"base64": data, "subType": "04"}}}).encode()
    assert plain_document(document, "d") == b'{"x":"00010203-0405-0607-0809-0a0b0c0d0e0f"}'


@pytest.mark.parametrize(
    "value",
    [
        {"$numberLong": "x"}, {"$date": "yesterday"}, {"$date": {"a": 1}}, {"$binary": {"base64": "?", "subType": "0"}},
        {"$numberDouble": "abc"}, {"$numberDecimal": ""}, {"$oid": 7},
    ],
)  # fmt: skip
def test_a_wrapper_that_holds_something_else_is_refused(value: Any) -> None:
    with pytest.raises(EventError):
        plain_document(json.dumps({"x": value}).encode(), "d")


def test_a_document_without_wrappers_is_as_it_was_written_and_a_deep_one_is_refused() -> None:
    assert plain_document(b'{ "a" : [1,  2] }', "d") == b'{ "a" : [1,  2] }'
    deep = '{"a":' * 200 + '{"$oid":"1"}' + "}" * 200
    with pytest.raises(EventError) as caught:
        plain_document(deep.encode(), "d")
    assert caught.value.code == "too_deep"


def test_a_date_beyond_the_years_of_iso_8601_is_its_milliseconds() -> None:
    assert text_of_millis(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert text_of_millis(10**18) == str(10**18)


def test_an_update_is_applied_to_the_document_before_it() -> None:
    before = json.dumps({"_id": 1, "addr": {"zip": "0", "s": 1}, "tags": ["a", "b", "c"], "note": 1}).encode()
    update = {
        "updatedFields": {"addr.zip": "1", "tags.3": "z", "new.deep.er": True, "status": "paid"},
        "removedFields": ["note", "addr.s", "tags.0"], "truncatedArrays": [{"field": "tags", "newSize": 2}],
    }  # fmt: skip
    done = json.loads(applied(before, read_update(json.dumps(update).encode(), "u"), "d"))
    assert done == {
        "_id": 1, "addr": {"zip": "1"}, "tags": [None, "b", None, "z"], "status": "paid",
        "new": {"deep": {"er": True}},
    }  # fmt: skip


def test_a_field_whose_name_holds_dots_is_told_by_disambiguated_paths() -> None:
    said = {"updatedFields": {"a.b": 1, "c.0": 2}, "disambiguatedPaths": {"a.b": ["a.b"], "c.0": ["c", "0"]}}
    update = read_update(json.dumps(said).encode(), "u")
    assert {name: bytes(one) for name, one in update.cells().items()} == {"a.b": b"1"}
    assert [step[:2] for step in update.steps()["c"]] == [["set", ["0"]]]


def test_an_update_alone_holds_whole_fields_and_steps_into_others() -> None:
    told = {
        "updatedFields": {"status": "paid", "addr.zip": {"$numberLong": "1"}}, "removedFields": ["note", "addr.s"],
        "truncatedArrays": [{"field": "tags", "newSize": 1}],
    }  # fmt: skip
    event = STREAM | {"operationType": "update", "updateDescription": told}
    found = one(event)
    steps = {
        "addr": STEPS + '[["set",["zip"],1],["unset",["s"]]]', "tags": STEPS + '[["cut",[],1]]',
    }  # fmt: skip
    assert found.connector == "mongodb_stream_patch"
    assert json.loads(found.after or b"") == {"_id": "64b0", "status": "paid", "note": None} | steps
    whole = one(event | {"fullDocument": {"_id": {"$oid": "64b0"}, "addr": {"zip": "1"}}})
    assert (whole.connector, json.loads(whole.after or b"")) == (
        "mongodb_stream",
        {"_id": "64b0", "addr": {"zip": "1"}},
    )
    gone = one(event | {"fullDocument": None})  # looked up, and deleted since: a delete follows
    assert json.loads(gone.after or b"") == {"_id": "64b0", "status": "paid", "note": None}


def test_no_text_of_a_document_is_taken_for_steps() -> None:
    told = {"updatedFields": {"status": STEPS + "[]"}, "removedFields": []}
    assert refused(STREAM | {"operationType": "update", "updateDescription": told}) == "bad_event"
    row = one(STREAM | {"operationType": "insert", "fullDocument": {"_id": 1, "status": STEPS + "[]"}})
    assert row.connector == "mongodb_stream", "of a connector whose texts are what they say"


def test_an_update_of_too_many_or_too_deep_paths_is_refused() -> None:
    for fields in ({".".join("a" * 101): 1}, {f"a.{n}": 1 for n in range(10_001)}):
        told = {"updatedFields": fields, "removedFields": []}
        assert refused(STREAM | {"operationType": "update", "updateDescription": told}) == "bad_event"
    deep = json.loads("[" * 120 + "]" * 120)
    told = {"updatedFields": {"a.b": deep}, "removedFields": []}
    assert refused(STREAM | {"operationType": "update", "updateDescription": told}) == "too_deep"
    assert refused(STREAM | {"operationType": "insert", "fullDocument": {"_id": 1, "a": deep}}) == "too_deep"


def test_what_changes_no_document_is_ignored_and_a_drop_empties_the_table() -> None:
    assert ignored({"operationType": "invalidate"}) == {"control": 1}
    assert ignored(STREAM | {"operationType": "createIndexes"}) == {"schema_change": 1}
    dropped = one({"_id": {"_data": "8265"}, "operationType": "drop", "ns": {"db": "shop", "coll": "orders"}})
    assert (dropped.op, dropped.table, dropped.key) == ("t", "shop.orders", None)
    assert refused(STREAM | {"operationType": "update", "splitEvent": {"fragment": 1, "of": 2}}) == "bad_event"


def test_the_resume_token_orders_and_where_there_is_none_the_cluster_time() -> None:
    def of(**more: Any) -> bytes:
        event = one(STREAM | {"operationType": "delete"} | more)
        assert event.order is not None
        return position(event.connector, event.op, event.order, 0) or b""

    alone = of(_id=None)
    token = f"82{1_795_377_480:08X}{1:08X}2B042C0100296E5A1004"
    assert alone < of(_id={"_data": token + "00"}) < of(_id={"_data": token + "01"})
    assert of(_id={"_data": token.lower()}) == of(_id={"_data": token})
    later = {"$timestamp": {"t": 1_795_377_480, "i": 2}}
    assert of(_id={"_data": token + "ff"}) < of(_id=None, clusterTime=later)


def test_debeziums_key_is_the_documents() -> None:
    source = {"connector": "mongodb", "db": "shop", "collection": "o", "ts_ms": 1_700_000_000_000, "ord": 1}
    value = {"before": None, "after": None, "source": source, "op": "d"}
    for told, key in (('{"$oid": "64b0"}', "64b0"), ('"a"', "a"), ("7", 7), ('{"a": 1,  "b": 2}', {"a": 1, "b": 2})):
        found = one({"destination": "m.shop.o", "key": {"id": told}, "value": value})
        assert json.loads(found.key or b"") == {"_id": key}


# --- the others


def test_an_unchanged_toast_that_changes_tells_is_a_text() -> None:
    meta = {"table_schema": "public", "table_name": "t", "commit_lsn": 5, "commit_idx": 0}
    event = {"record": {"id": 1, "a": "unchanged_toast", "b": "unchanged_toast"}, "action": "update", "metadata": meta}
    assert json.loads(one(event | {"changes": {"a": "x"}}).after or b"") == {"id": 1, "a": "unchanged_toast"}
    assert json.loads(one(event | {"changes": None, "action": "insert"}).after or b"")["b"] == "unchanged_toast"


def test_a_batch_of_sequin_is_as_many_events() -> None:
    meta = {"table_schema": "public", "table_name": "t", "commit_lsn": 5}
    messages = [{"record": {"id": n}, "changes": None, "action": "insert", "metadata": meta} for n in range(3)]
    parsed = parse(json.dumps({"data": [*messages, {"record": 7}]}).encode(), "sequin")
    assert (parsed.index, [one.index for one in parsed.rejected]) == ([0, 1, 2], [3])
    assert ignored({"data": []}) == {"empty": 1}


def test_a_read_of_sequin_without_a_place_is_older_than_every_change() -> None:
    meta = {"table_schema": "public", "table_name": "t", "commit_timestamp": "2026-01-01T00:00:00Z"}
    read = one({"record": {"id": 1}, "changes": None, "action": "read", "metadata": meta})
    change = one({"record": {"id": 1}, "changes": None, "action": "insert", "metadata": meta | {"commit_lsn": 1}})
    places = [position(each.connector, each.op, each.order or "", 0) or b"" for each in (read, change)]
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    ("place", "order"),
    [
        ({}, None),
        ({"sequence": 7}, "[7,0]"),
        ({"lsn": "0/16B3748", "sequence": 2}, "[23803720,2]"),
        ({"timestamp": 1_700_000_000, "sequence": 3}, "[1700000000000000,3]"),
        ({"timestamp": 1_700_000_000_123}, "[1700000000123000,0]"),
        ({"timestamp": "1700000000.5"}, "[1700000000500000,0]"),
        ({"timestamp": "2023-11-14T22:13:20Z"}, "[1700000000000000,0]"),
    ],
)
def test_a_plain_change_stands_where_it_says(place: dict[str, Any], order: str | None) -> None:
    assert one({"operation": "insert", "table": "t", "newRow": {"id": 1}} | place).order == order


def test_a_plain_change_with_a_place_that_is_none_is_refused() -> None:
    for place in ({"sequence": -1}, {"lsn": "x"}, {"timestamp": "soon"}, {"timestamp": [1]}, {"timestamp": -5}):
        assert refused({"operation": "insert", "table": "t", "newRow": {"id": 1}} | place) == "bad_event"


def test_a_manual_event_of_hasura_and_airbytes_messages_beside_records_are_ignored() -> None:
    event = {"op": "MANUAL", "data": {"old": None, "new": {"id": 1}}}
    assert ignored({"event": event, "table": {"name": "t"}, "created_at": "2026-01-01T00:00:00"}) == {"manual": 1}
    assert ignored({"type": "STATE", "state": {"type": "STREAM"}}) == {"control": 1}


# --- what is recognised as what

SHOWN = {
    "mongodb": STREAM | {"operationType": "delete"},
    "sequin": {"record": {"id": 1}, "changes": None, "action": "delete", "metadata": {"table_name": "t"}},
    "supabase": {"type": "DELETE", "table": "t", "schema": "s", "record": None, "old_record": {"id": 1}},
    "hasura": {"event": {"op": "DELETE", "data": {"old": {"id": 1}}}, "table": {"name": "t"}, "trigger": {"name": "x"}},
    "airbyte": {"type": "RECORD", "record": {"stream": "t", "data": {"id": 1}}},
    "seed": {"operation": "DELETE", "table": "t", "oldRow": {"id": 1}},
}


@pytest.mark.parametrize("name", SHOWN)
def test_no_event_is_taken_for_another_envelopes(name: str) -> None:
    from firn.changes.envelopes import registry
    from firn.changes.envelopes.event_reader import Value, unwrap

    value = unwrap(json.dumps(SHOWN[name]).encode())
    assert isinstance(value, Value)
    recognised = [n for n, one in registry.KNOWN.envelopes.items() if one.recognises and one.recognises(value.fields)]
    assert recognised == [name]
    assert registry.KNOWN.envelope_of(value, "auto") == name
    assert refused(SHOWN[name], "debezium") == "missing_op"


def test_rows_whose_columns_are_called_alike_are_rows() -> None:
    for event in SHOWN.values():
        (row,) = parse(json.dumps(event).encode(), "rows").changes()
        assert json.loads(row.after or b"") == event
        flat = event | {"__op": "c", "__table": "t"}
        assert parse(json.dumps(flat).encode(), "auto").flat == [True]


# --- in wrappings


def test_an_event_in_the_detail_of_event_bridge_or_a_record_of_kinesis_is_that_event() -> None:
    inside = {
        "specversion": "1.0", "id": "x", "source": "/debezium", "type": "t", "iodebeziumop": "c",
        "iodebeziumconnector": "postgresql", "iodebeziumschema": "public", "iodebeziumtable": "t",
        "iodebeziumsequence": '["1","2"]', "data": {"before": None, "after": {"id": 1}},
    }  # fmt: skip
    bridge = {"version": "0", "id": "6a", "detail-type": "t", "source": "debezium", "resources": [], "detail": inside}
    data = base64.b64encode(json.dumps(inside).encode()).decode()
    kinesis = {"Records": [{"kinesis": {"data": data, "sequenceNumber": "1"}, "eventSource": "aws:kinesis"}]}
    plain = one(inside)
    for event in (bridge, kinesis):
        found = one(event)
        assert (found.table, found.order, json.loads(found.after or b"")) == (plain.table, plain.order, {"id": 1})
    for name, event in SHOWN.items():
        found = one(bridge | {"detail": event})
        assert (found.op, name) == ("c" if name == "airbyte" else "d", name)


@pytest.mark.parametrize("first", [0, 1])
def test_a_row_with_columns_called_like_an_event_of_event_bridge_is_that_row(first: int) -> None:
    inside = SHOWN["sequin"]
    rows = [
        {
            "id": n,
            "__op": "c",
            "__table": "t",
            "__lsn": n,
            **({"detail-type": "x", "source": "s", "detail": inside} if n else {}),
        }
        for n in (first, 1 - first)
    ]
    for envelope in ("auto", "flat"):
        found = parse(json.dumps(rows).encode(), envelope)
        assert (found.table, found.rejected) == (["t", "t"], [])
        assert [json.loads(row or b"") for row in found.after] == rows


def test_a_declared_decimal_is_read_from_its_digits() -> None:
    config = parse_config(
        "streams: {s: {envelope: mongodb, tables: {'*': {to: 'l.{table}', columns: {price: 'decimal(12,2)'}}}}}"
    )
    assert config.streams["s"].settings.decimal == "double"  # reads numbers and digits
    (price,) = [Column("price", decimal(12, 2))]
    codec = RowCodec([price], None, config.streams["s"].settings)
    assert [codec.decode(image).values for image in (b'{"price":"12.30"}', b'{"price":12.3}')] == [
        [Decimal("12.30")]
    ] * 2
