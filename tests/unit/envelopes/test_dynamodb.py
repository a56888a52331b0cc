"""Records of DynamoDB Streams, and of its stream to Kinesis."""

import base64
import json
import random
from decimal import Decimal
from typing import Any

import pytest

from firn.changes.positions import by_arrival, position
from tests.emitters import Emitted, shuffled
from tests.unit.envelopes.reading import body, change, changes, refused, row, types

ARN = "arn:aws:dynamodb:us-east-1:111122223333:table/orders/stream/2026-01-01T00:00:00.000"


def record(name: str = "INSERT", number: str | None = "1", **attributes: Any) -> dict[str, Any]:
    item = {"pk": {"S": "a"}, **attributes}
    told: dict[str, Any] = {"ApproximateCreationDateTime": 1795377480, "Keys": {"pk": {"S": "a"}}, "SizeBytes": 30}
    told |= {"OldImage": item} if name == "REMOVE" else {"NewImage": item}
    if number is not None:
        told |= {"SequenceNumber": number, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    return {"eventID": "7f", "eventName": name, "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "dynamodb": told, "eventSourceARN": ARN}  # fmt: skip


def kinesis(name: str, micros: int, unit: int, **attributes: Any) -> dict[str, Any]:
    event = record(name, None, **attributes)
    del event["eventSourceARN"]
    event["dynamodb"]["ApproximateCreationDateTime"] = micros // unit
    return event | {"tableName": "orders", "recordFormat": "application/json", "userIdentity": None}


def test_records_are_changes_with_their_key_and_place() -> None:
    made, changed, gone = changes(
        "dynamodb",
        record(n={"N": "5"}),
        record("MODIFY", "9"),
        record("REMOVE", "1100000000017454423009123456789012345678"),
    )
    assert [one.op for one in (made, changed, gone)] == ["c", "u", "d"]
    assert (made.table, made.ts, row(made.key), row(made.after)) == (
        "orders",
        1795377480000,
        {"pk": "a"},
        {"pk": "a", "n": 5},
    )
    places = [position(one.connector, one.op, one.order, 0) for one in (made, changed, gone)]
    assert places == sorted(places)
    assert row(gone.before) == {"pk": "a"}


def test_a_removal_by_time_to_live_is_a_delete_and_keys_are_enough_for_it() -> None:
    event = record("REMOVE")
    del event["dynamodb"]["OldImage"]
    event["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    assert row(change("dynamodb", event).before) == {"pk": "a"}


@pytest.mark.parametrize(
    ("attribute", "value", "column"),
    [
        ({"N": "9223372036854775807"}, "9223372036854775807", "long"),
        ({"N": "9223372036854775808"}, "9223372036854775808", "decimal(21,2)"),
        ({"N": "0.1"}, "0.10", "decimal(21,2)"),
        ({"N": "1E+3"}, "1000", "long"),
        ({"N": "-1.5E-3"}, "-0.0015", "decimal(23,4)"),
        ({"N": "12345678901234567890.123456789012345678"}, "12345678901234567890.123456789012345678", "decimal(38,18)"),
        ({"N": "1" * 38}, "1" * 38, "decimal(38,0)"),
        ({"N": "1E-130"}, "0." + "0" * 129 + "1", "string"),
        ({"S": "NaN"}, "NaN", "string"),
        ({"BOOL": False}, "False", "boolean"),
        ({"B": "AP8="}, "b'\\x00\\xff'", "binary"),
        ({"SS": ["b", "a"]}, "['b', 'a']", "list<string>"),
        ({"NS": ["2", "1"]}, "[2, 1]", "list<long>"),
        ({"BS": ["AQ=="]}, "[b'\\x01']", "list<binary>"),
        ({"L": [{"N": "1.10"}, {"S": "z"}, {"NULL": True}, {"B": "AQ=="}]}, '[1.10,"z",null,"AQ=="]', "string"),
        ({"M": {"k": {"N": "1"}, "e": {"M": {}}, "s": {"SS": ["a"]}}}, '{"k":1,"e":{},"s":["a"]}', "string"),
    ],
)  # fmt: skip
def test_attributes_are_exact(attribute: Any, value: str, column: str) -> None:
    lake = Emitted("dynamodb")
    lake.take([body(record(c=attribute))])
    (found,) = lake.rows("orders")
    assert (
        format(found["c"], "f") if isinstance(found["c"], Decimal) else str(found["c"]),
        lake.columns("orders")["c"],
    ) == (
        value if column != "decimal(21,2)" or "." in value else f"{value}.00",
        column,
    )


def test_an_attribute_that_is_whole_here_and_not_there_stays_exact() -> None:
    lake = Emitted("dynamodb")
    lake.take([body(record(c={"N": "7"}))], [body(record("MODIFY", "2", c={"N": "0.25"}))], each=1)
    assert (lake.rows("orders")[0]["c"], lake.columns("orders")["c"]) == (Decimal("0.25"), "decimal(21,2)")


def test_what_is_no_longer_there_is_null() -> None:
    lake = Emitted("dynamodb")
    lake.take([body(record(a={"S": "x"}, b={"NULL": True}), record("MODIFY", "2", b={"S": "y"}))])
    assert lake.rows("orders") == [{"pk": "a", "a": None, "b": "y"}]


def test_the_schema_is_one_for_items_of_one_form() -> None:
    some = change("dynamodb", record(a={"S": "x"}, b={"N": "1"}))
    others = change("dynamodb", record(b={"N": "2"}, a={"S": "y"}))
    assert some.schema == others.schema
    assert types(some) == {"a": "string", "b": "long", "pk": "string"}


@pytest.mark.parametrize("unit", [1, 1000])
def test_the_kinesis_form_is_ordered_by_its_time(unit: int) -> None:
    start = 1795377480_000_000
    history = [
        kinesis("INSERT", start, unit, v={"S": "a"}), kinesis("MODIFY", start + 5_000, unit, v={"S": "b"}),
        kinesis("REMOVE", start + 9_000, unit), kinesis("INSERT", start + 11_000, unit, v={"S": "c"}),
    ]  # fmt: skip
    for seed in range(10):
        lake = Emitted("dynamodb")
        for request in shuffled([body(one) for one in history], random.Random(seed)):
            lake.take(request)
        assert lake.rows("orders") == [{"pk": "a", "v": "c"}]
    found = change("dynamodb", history[0])
    assert (found.ts, by_arrival("dynamodb", found.order)) == (start // 1000, False)


def test_a_delivery_to_a_function_is_its_records() -> None:
    whole = {"Records": [record(), record("MODIFY", "2", v={"S": "b"})]}
    assert [one.op for one in changes("dynamodb", whole)] == ["c", "u"]
    inside = base64.b64encode(json.dumps(kinesis("INSERT", 1795377480_000_000, 1)).encode()).decode()
    assert changes("dynamodb", {"Records": [{"kinesis": {"data": inside, "sequenceNumber": "1"}}]})[0].table == "orders"


def test_what_is_wrong_is_named() -> None:
    assert refused("dynamodb", record("UPSERT"))[0] == "unknown_op"
    assert (
        refused("dynamodb", {name: x for name, x in record().items() if name != "eventSourceARN"})[0] == "missing_table"
    )
    keys_only = record()
    keys_only["dynamodb"]["StreamViewType"] = "KEYS_ONLY"
    code, why = refused("dynamodb", keys_only)
    assert code == "missing_image"
    assert "set it to NEW_IMAGE or NEW_AND_OLD_IMAGES" in why
    without = record()
    del without["dynamodb"]["NewImage"]
    assert refused("dynamodb", without)[0] == "missing_image"
    assert refused("dynamodb", record(number="x"))[0] == "bad_event"
    assert refused("dynamodb", record(c={"N": "seven"})) == ("bad_event", "attribute 'c': N is not a number")
    assert refused("dynamodb", record(c={"X": "1"}))[1] == "attribute 'c': 'X' is no type of DynamoDB's"
    assert refused("dynamodb", record(c={"B": "?"}))[0] == "bad_event"
    assert refused("dynamodb", record(c={"N": "1", "S": "a"}))[0] == "bad_event"
    deep: Any = {"S": "a"}
    for _ in range(60):
        deep = {"L": [deep]}
    assert "nested more than 40" in refused("dynamodb", record(c=deep))[1]
