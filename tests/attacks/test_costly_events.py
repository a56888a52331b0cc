"""One event of a few bytes costs what a few bytes cost, and no event makes a table that can't be read any more."""

import json
import time
from typing import Any, Final

import pytest

from firn.changes.decode.connect_schema import columns_of
from firn.changes.envelopes.parser import parse
from firn.changes.merge.nested_updates import applied
from firn.errors import EventError
from tests.soak import few_cases

_SECONDS: Final = 2.0  # each took from 30 to for ever, or failed


def canal(kind: str) -> dict[str, Any]:
    row = {"data": [{"a": "1"}], "mysqlType": {"a": kind}, "old": None, "pkNames": None, "type": "INSERT"}
    return row | {"database": "app", "table": "one", "es": 1, "isDdl": False}


def mongodb(description: dict[str, Any]) -> dict[str, Any]:
    of = {"operationType": "update", "ns": {"db": "app", "coll": "one"}, "documentKey": {"_id": 1}}
    return of | {
        "_id": {"_data": "82"},
        "fullDocumentBeforeChange": {"_id": 1, "a": []},
        "updateDescription": description,
    }


_DIGITS: Final = "9" * 5_000
EVENTS: Final = {
    "a type of spaces": canal("a" + " " * 5_000 + "!"),
    "a type of words": canal("a " * 5_000 + "!"),
    "a type of brackets": canal("(" * 5_000),
    "labels that never end": canal("enum(" + "'" * 20_001),
    "ten million places": mongodb({"updatedFields": {f"a.{999 * n}": 1 for n in range(1, 9_999)}}),
    "a place of 5,000 digits": mongodb({"updatedFields": {f"a.{_DIGITS}": 1}}),
    "below a place of 5,000 digits": mongodb({"updatedFields": {f"a.{_DIGITS}.b": 1}}),
    "a place of 5,000 digits that goes": mongodb({"removedFields": [f"a.{_DIGITS}", f"a.{_DIGITS}.b"]}),
    "a place of 5,000 digits that is cut": mongodb({"truncatedArrays": [{"field": f"a.{_DIGITS}", "newSize": 2**70}]}),
}


def parsed_in_time(body: bytes) -> Any:
    """What is read of it, in less than _SECONDS of CPU: the least of three tries, for neighbours lengthen one."""
    took = []
    for _ in range(3):
        began = time.process_time()
        parsed = parse(body, "auto")
        took.append(time.process_time() - began)
        if took[-1] < _SECONDS:
            return parsed
    raise AssertionError(f"it took {took} s")


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_takes_the_time_and_the_room_that_its_bytes_take(name: str) -> None:
    parsed = parsed_in_time(body := json.dumps(EVENTS[name]).encode())
    assert len(parsed) + len(parsed.rejected) == 1
    assert sum(len(image) for image in parsed.after if image) <= 2 * len(body)


@few_cases(1)
@pytest.mark.parametrize(("kind", "value"), [("set", str(2**63 - 1)), ("set", "b"), ("set", "a,b"), ("enum", "b")])
def test_rows_of_a_type_of_many_labels_take_no_time_for_each_of_them(kind: str, value: str) -> None:
    event = canal(kind + "(" + "'a'," * 60_000 + "'b')")
    event["data"] = [{"a": value}] * 1_000
    parsed_in_time(json.dumps(event).encode())


@few_cases(1)
@pytest.mark.parametrize("kind", ["set", "enum"])
def test_rows_of_a_type_of_a_long_label_take_no_room_for_it_each(kind: str) -> None:
    """Of MySQL a label has 255 characters at most."""
    event = canal(f"{kind}('{'x' * 20_000}')") | {"data": [{"a": "1"}] * 400}
    body = json.dumps(event).encode()
    parsed = parse(body, "auto")
    assert sum(len(image) for image in parsed.after if image) <= 40 * len(body)
    assert {one.code for one in parsed.rejected} == {"bad_event"}


def test_an_update_within_an_array_fills_a_thousand_places_in_all() -> None:
    near = mongodb({"updatedFields": {"a.400.b": 1, "a.800": 2}})
    (image,) = parse(json.dumps(near).encode(), "auto").after
    assert json.loads(image or b"")["a"] == [None] * 400 + [{"b": 1}] + [None] * 399 + [2]
    (far,) = parse(json.dumps(mongodb({"updatedFields": {"a.700": 1, "a.1402": 2}})).encode(), "auto").rejected
    assert (far.code, "sets `a.1402`" in far.message) == ("bad_event", True)


def test_steps_that_are_replayed_fill_a_thousand_places_an_update() -> None:
    steps = json.dumps([["set", ["700"], 1], ["set", ["1402"], 2], ["set", [_DIGITS], 3]])
    assert applied("[]", [steps]) == json.dumps([None] * 700 + [1], separators=(",", ":"))
    grown = json.loads(applied("[]", [steps, json.dumps([["set", ["1402"], 2]])]) or "")
    assert (len(grown), grown[-1]) == (1_403, 2)


def test_a_key_that_begins_as_steps_do_is_no_step() -> None:
    event = mongodb({"updatedFields": {"v": 1}}) | {"documentKey": {"_id": "\0steps:[]"}}
    del event["fullDocumentBeforeChange"]
    (letter,) = parse(json.dumps(event).encode(), "auto").rejected
    assert letter.code == "bad_event"


def lists(depth: int) -> bytes:
    field: dict[str, Any] = {"type": "int32"}
    for _ in range(depth):
        field = {"type": "array", "items": field}
    row = {"type": "struct", "field": "after", "fields": [field | {"field": "a"}]}
    return json.dumps({"type": "struct", "fields": [row]}).encode()


def test_lists_are_nested_no_deeper_than_readers_of_parquet_go() -> None:
    (column,), (deep,) = columns_of(lists(16)), columns_of(lists(60))
    assert (str(column.type).count("list"), "int" in str(column.type)) == (16, True)
    assert (str(deep.type).count("list"), "string" in str(deep.type)) == (16, True)


@pytest.mark.parametrize("length", ["²", "9" * 5_000, "", "x"])
def test_bits_of_a_length_that_is_none_are_bits(length: str) -> None:
    field = {"type": "bytes", "field": "a", "name": "io.debezium.data.Bits", "parameters": {"length": length}}
    row = {"type": "struct", "field": "after", "fields": [field]}
    (column,) = columns_of(json.dumps({"type": "struct", "fields": [row]}).encode())
    assert str(column.type) == "binary"


def test_a_schema_that_is_nested_without_end_says_so() -> None:
    items = b'{"type":"array","items":' * 5_000 + b'{"type":"int32"}' + b"}" * 5_000
    text = b'{"type":"struct","fields":[{"type":"struct","field":"after","fields":[' + items + b"]}]}"
    with pytest.raises(EventError, match="nested more than 800 levels deep") as caught:
        columns_of(text)
    assert caught.value.code == "bad_schema"
