"""Columns that are declared as variants: what a change may have in one, and what becomes of it."""

import json
import struct
from typing import Any

import pytest

from firn.changes.decode import variant_text
from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.iceberg_fields import column_of
from firn.changes.decode.source_encodings import declared_column
from firn.changes.decode.types import INT, STRING, VARIANT, Column, parse, promotable, widen
from firn.changes.decode.variant_bytes import canonical_json
from firn.errors import EventError
from firn.tables.planning import NotPromotable, plan_columns

SETTINGS = DecodeSettings(out_of_range="dead_letter")
DECLARED = declared_column("x", VARIANT, None, SETTINGS)
MARK = "__debezium_unavailable_value"


def decoded(json_text: str, source: Any = None) -> Any:
    return RowCodec([DECLARED], source, SETTINGS).decode(f'{{"x": {json_text}}}'.encode())


def connect(**field: Any) -> Any:
    row = {"type": "struct", "fields": [{"field": "x", "optional": True, **field}], "optional": True}
    schema = {"type": "struct", "fields": [row | {"field": side} for side in ("before", "after")]}
    return columns_of(json.dumps(schema).encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ('{"b": 1, "a": [1.50, "ü", null, true]}', '{"a":[1.5,"ü",null,true],"b":1}'),
        (json.dumps('{"b": 1, "a": [1.50, "ü", null, true]}'), '{"a":[1.5,"ü",null,true],"b":1}'),
        ('"null"', "null"),
        ('"\\"text\\""', '"text"'),
        ('"5"', "5"),
        ("5", "5"),
        ("1.0", "1"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ("false", "false"),
    ],
)
def test_a_text_holds_json_and_what_is_none_is_itself(text: str, value: Any) -> None:
    assert decoded(text).values == [value]


@pytest.mark.parametrize(
    "text", ['"no json"', '""', '"{"', "1e400", '"1e1000000000000000000000"', '"NaN"', '"[1,]"', '"\\"\\\\ud800\\""']
)
def test_what_no_variant_can_be_made_of_is_a_mismatch(text: str) -> None:
    with pytest.raises(EventError, match="column x: no variant can be made of it: ") as caught:
        decoded(text)
    assert caught.value.code == "type_mismatch"


def test_an_unavailable_value_is_one() -> None:
    found = decoded(f'"{MARK}"')
    assert (found.values, found.unavailable) == ([None], (0,))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string", "name": "io.debezium.data.Json"}, '"{\\"a\\": 1}"', '{"a":1}'),
        ({"type": "string"}, '"[1]"', "[1]"),
        ({"type": "int64"}, "7", "7"),
        ({"type": "boolean"}, "true", "true"),
        ({"type": "struct", "fields": [{"field": "a", "type": "int32"}]}, '{"a": 1}', '{"a":1}'),
        ({"type": "array", "items": {"type": "int32"}}, "[1, null]", "[1,null]"),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, '{"k": "v"}', '{"k":"v"}'),
    ],
)
def test_with_a_schema(schema: dict[str, Any], text: str, value: str) -> None:
    assert decoded(text, connect(**schema)).values == [value]


def test_a_variant_is_a_whole_column() -> None:
    assert parse("variant") == VARIANT
    for one in ("list<variant>", "map<string, variant>", "struct<a: variant>"):
        with pytest.raises(ValueError, match="a variant is a column, and no part of one"):
            parse(one)
    field = {"id": 1, "name": "x", "required": False}
    assert column_of({**field, "type": "variant"}) == Column("x", VARIANT)
    nested = {"type": "list", "element-id": 2, "element": "variant", "element-required": False}
    assert column_of({**field, "type": nested}) is None


def test_a_variant_stays_one_and_no_other_column_becomes_one() -> None:
    assert widen(VARIANT, INT) == widen(STRING, VARIANT) == VARIANT
    assert not promotable(STRING, VARIANT)
    assert not promotable(VARIANT, STRING)
    there = [Column("x", VARIANT)]
    plan = plan_columns(there, (), [[Column("x", STRING)], [Column("x", INT)]])
    assert (plan.columns, plan.retyped, plan.widened) == (tuple(there), (), ())
    assert plan_columns((), [DECLARED], [[Column("x", STRING)]]).added[0].type == VARIANT
    with pytest.raises(NotPromotable, match="column x is string in the table and a variant"):
        plan_columns([Column("x", STRING)], [DECLARED], [[Column("x", STRING)]])
    plan = plan_columns(there, [declared_column("x", STRING, None, SETTINGS)], [[Column("x", STRING)]])
    assert plan.columns[0].type == VARIANT


@pytest.mark.parametrize("number", ["1e21", "1e-7", "1.5e22", "-2.5e-10", "1e37", "1e38", "1e-38", "1e-39", "5e-324"])
def test_a_number_has_one_text_whether_a_double_or_a_decimal_holds_it(number: str) -> None:
    double = b"\x1c" + struct.pack("<d", float(number))
    assert variant_text.json_of(variant_text.Names(b"\x11\x00\x00"), double) == canonical_json(number)
