"""The placeholder of an unchanged TOAST column, in all forms that Debezium's UnchangedToastedPlaceholder writes."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from firn.changes.decode.codec import Decoded, DecodeSettings, RowCodec
from firn.changes.decode.types import Column, Encoding, Type, list_of, parse

TEXT = "__debezium_unavailable_value"
BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
HEX = TEXT.encode().hex()
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"  # Java's UUID.nameUUIDFromBytes of the text
BYTES = list(TEXT.encode())


def row(value: Any, kind: Type, source: Encoding | None, settings: DecodeSettings | None = None) -> Decoded:
    column = Column("x", kind, source=source)
    codec = RowCodec([column], [column] if source else None, settings or DecodeSettings())
    return codec.decode(json.dumps({"x": value}).encode())


def array(kind: str, source: str) -> tuple[Type, Encoding]:
    return list_of(parse(kind)), Encoding("array", element=Encoding(source))


@pytest.mark.parametrize(
    ("value", "kind", "source"),
    [
        (TEXT, parse("string"), Encoding("string")),
        (TEXT, parse("string"), Encoding("json")),
        (BASE64, parse("binary"), Encoding("binary_base64")),
        ([TEXT], *array("string", "string")),
        ([TEXT], *array("string", "json")),
        ([TEXT], *array("int", "integer")),
        ([TEXT], *array("timestamptz", "timestamp_text")),
        ([BASE64], *array("binary", "binary_base64")),
        (BYTES, *array("int", "integer")),
        (BYTES, *array("long", "integer")),
        (BYTES, *array("date", "date_days")),
        ([UUID], *array("uuid", "uuid")),
        ({TEXT: TEXT}, parse("string"), Encoding("json")),
        (json.dumps({TEXT: TEXT}), parse("string"), Encoding("json")),
        ({"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326}, parse("string"), Encoding("geometry")),
        (TEXT, parse("decimal(12,2)"), Encoding("decimal_base64", scale=2)),
    ],
)
def test_with_a_schema_each_form_counts_where_it_belongs(value: Any, kind: Type, source: Encoding) -> None:
    found = row(value, kind, source)
    assert found.unavailable == (0,)
    assert found.values == [None]


@pytest.mark.parametrize(
    ("value", "kind", "source"),
    [
        (BASE64, parse("string"), Encoding("string")),
        (HEX, parse("string"), Encoding("string")),
        ([BASE64], *array("string", "string")),
        ([UUID], *array("string", "string")),
        ([TEXT, TEXT], *array("string", "string")),
        (TEXT + " ", parse("string"), Encoding("string")),
        (f"see {TEXT}", parse("string"), Encoding("string")),
        (BYTES[:-1], *array("int", "integer")),
    ],
)
def test_with_a_schema_another_columns_form_is_a_value(value: Any, kind: Type, source: Encoding) -> None:
    found = row(value, kind, source)
    assert found.unavailable == ()
    assert found.values == [value]


@pytest.mark.parametrize("wkb", [[], {}, {"a": []}, [[]], None, 5, True, ""])
def test_an_object_with_something_odd_for_a_geometry_is_a_value(wkb: Any) -> None:
    for source in (Encoding("geometry"), Encoding("json")):
        value = {"wkb": wkb, "note": TEXT}  # the text has each value looked at
        assert json.loads(row(value, parse("string"), source).values[0]) == value


@pytest.mark.parametrize("value", [TEXT, BASE64, BASE64.rstrip("="), HEX, HEX.upper(), [TEXT], [BASE64], [UUID], BYTES])
def test_without_schema_every_form_counts(value: Any) -> None:
    assert row(value, parse("string"), None).unavailable == (0,)


@pytest.mark.parametrize(("kind", "value"), [("binary", BASE64), ("list<int>", BYTES), ("list<long>", [TEXT])])
def test_without_schema_declared_columns_hold_it_too(kind: str, value: Any) -> None:
    assert row(value, parse(kind), None).unavailable == (0,)


@pytest.mark.parametrize("mode", ["hex", "base64", "base64-url-safe"])
def test_with_a_schema_a_string_may_be_bytes_if_the_connector_writes_bytes_as_strings(mode: Any) -> None:
    data = TEXT.encode()
    value = {"hex": data.hex(), "base64": BASE64, "base64-url-safe": urlsafe_b64encode(data).decode()}[mode]
    settings = DecodeSettings(binary=mode)
    assert row(value, parse("string"), Encoding("string"), settings).unavailable == (0,)
    assert row(value, parse("binary"), Encoding("string"), settings).unavailable == (0,)


@pytest.mark.parametrize("text", ["__custom_unavail", "nicht verfügbar", 'with "quotes" and \\', "a/b?c"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_custom_placeholder_may_be_any_text(text: str, ascii_only: bool) -> None:
    codec = RowCodec([Column("x", parse("string")), Column("y", parse("string"))], None, DecodeSettings(text))
    image = json.dumps({"x": text, "y": b64encode(text.encode()).decode()}, ensure_ascii=ascii_only).encode()
    assert codec.decode(image).unavailable == (0, 1)
    ints = RowCodec([Column("x", parse("list<int>"))], None, DecodeSettings(text))
    signed = [b - 256 if b > 127 else b for b in text.encode()]
    assert ints.decode(json.dumps({"x": signed}).encode()).unavailable == (0,)


def test_the_default_placeholder_is_a_value_where_another_is_configured() -> None:
    assert row(TEXT, parse("string"), None, DecodeSettings("__custom_unavail")).values == [TEXT]


def test_an_insert_gets_back_what_was_really_written() -> None:
    columns = [Column("id", parse("int")), Column("body", parse("string")), Column("tags", parse("list<int>"))]
    found = RowCodec(columns, None, DecodeSettings()).decode(
        json.dumps({"id": 1, "body": TEXT, "tags": [TEXT]}).encode()
    )
    assert found.values == [1, None, None]
    assert found.unavailable == (1, 2)
    assert found.literals == (TEXT, None)
    assert found.as_literal() == [1, TEXT, None]


def test_the_other_columns_of_such_a_row_are_decoded_as_ever() -> None:
    kinds = {"a": "decimal(12,2)", "b": "timestamptz", "c": "double", "d": "string", "e": "binary", "f": "string"}
    codec = RowCodec([Column(name, parse(kind)) for name, kind in kinds.items()], None, DecodeSettings())
    image = b'{"a": "AOjUpQ//", "b": "2024-02-29T18:14:59.999999Z", "c": 1.1, "d": "x", "e": "AP8Q3g==", "f": "%s"}'
    plain = codec.decode(image % b"?").values
    assert codec.decode(image % TEXT.encode()).values == [*plain[:5], None]
