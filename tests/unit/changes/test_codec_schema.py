"""Images with inline schema: the schema tells how values are written, the table what they become."""

import json
from base64 import b64encode
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.types import Column, parse
from firn.errors import EventError

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def field(name: str, kind: str, semantic: str | None = None, **parameters: str) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": True, "name": semantic, "parameters": parameters or None}


def columns(*fields: dict[str, Any]) -> tuple[Column, ...]:
    row = {"type": "struct", "optional": True, "fields": list(fields), "field": "after"}
    return columns_of(json.dumps({"type": "struct", "fields": [row]}).encode())


def test_the_encoding_decstring_iso_lands_as_the_same_values() -> None:
    """decimal string, time isostring, binary hex, interval string, an own placeholder, NaN and infinities."""
    source = columns(
        field("n", "string"),
        field("n2", "string"),
        field("d", "string", "io.debezium.time.IsoDate"),
        field("tm", "string", "io.debezium.time.IsoTime"),
        field("ts", "string", "io.debezium.time.IsoTimestamp"),
        field("tstz", "string", "io.debezium.time.ZonedTimestamp"),
        field("iv", "string", "io.debezium.time.Interval"),
        field("by", "string"),
        field("vb", "bytes", "io.debezium.data.Bits", length="20"),
    )
    settings = DecodeSettings("__custom_unavail", decimal="string", time="isostring", binary="hex", interval="string")
    target = [Column(c.name, {"n2": parse("decimal(12,2)"), "by": parse("binary")}.get(c.name, c.type)) for c in source]
    image = {
        "n": "123456789012345678901234567890.123456789", "n2": "9999999999.99", "d": "2024-02-29Z",
        "tm": "23:59:59.999999Z", "ts": "2024-02-29T23:59:59.999999Z", "tstz": "2024-02-29T18:14:59.999999Z",
        "iv": "P1Y2M3DT4H5M6.789S", "by": "00ff10de", "vb": "BQ==",
    }  # fmt: skip
    without_bits = [c for c in target if c.name != "vb"]  # bits are base64 in every mode: only a schema tells them
    for codec in (RowCodec(target, source, settings), RowCodec(without_bits, None, settings)):
        row = dict(zip(image, codec.decode(json.dumps(image).encode()).values, strict=False))
        assert row["n"] == "123456789012345678901234567890.123456789"
        assert str(row["n2"]) == "9999999999.99"
        assert (row["d"], row["ts"], row["tstz"]) == (19782, 1709251199999999, 1709230499999999)
        assert (row["iv"], row["by"]) == ("P1Y2M3DT4H5M6.789S", b"\x00\xff\x10\xde")
    codec = RowCodec(target, source, settings)
    assert codec.decode(b'{"vb": "BQ=="}').values[-1] == b"\x05"
    assert codec.decode(b'{"tm": "23:59:59Z"}').values[3] == "23:59:59.000000"
    specials = codec.decode(b'{"n": "POSITIVE_INFINITY", "n2": "NAN"}').values
    assert specials[:2] == ["POSITIVE_INFINITY", None]  # text keeps what the source wrote; a decimal has no NaN
    unavailable = codec.decode(b'{"n": "__custom_unavail", "by": "5f5f637573746f6d5f756e617661696c"}')
    assert unavailable.unavailable == (0, 7)
    assert unavailable.literals == ("__custom_unavail", b"__custom_unavail")


def test_the_encoding_decdouble_connect_lands_as_the_same_values() -> None:
    """decimal double, time connect, binary base64, NaN and infinities."""
    source = columns(
        field("n2", "double"),
        field("n", "double"),
        field("d", "int32", "org.apache.kafka.connect.data.Date"),
        field("tm", "int32", "org.apache.kafka.connect.data.Time"),
        field("ts", "int64", "org.apache.kafka.connect.data.Timestamp"),
        field("by", "string"),
    )
    settings = DecodeSettings(decimal="double", time="connect", binary="base64")
    kinds = {"n2": "decimal(12,2)", "n": "double", "d": "date", "tm": "string", "ts": "timestamp", "by": "binary"}
    target = [Column(name, parse(kind)) for name, kind in kinds.items()]
    codec = RowCodec(target, source, settings)
    image = b'{"n2": 9999999999.99, "n": "NaN", "d": 19782, "tm": 86399999, "ts": 1709251199999, "by": "AP8Q3g=="}'
    n2, n, *others = codec.decode(image).values
    assert str(n2) == "9999999999.99"
    assert n != n
    assert others == [19782, "23:59:59.999000", 1709251199999000, b"\x00\xff\x10\xde"]
    assert codec.decode(b'{"n2": "Infinity", "n": "-Infinity"}').values[:2] == [None, float("-inf")]
    dead = RowCodec(target, source, DecodeSettings(decimal="double", time="connect", out_of_range="dead_letter"))
    with pytest.raises(EventError, match="column n2: NaN or infinity") as caught:
        dead.decode(b'{"n2": "NaN"}')
    assert caught.value.code == "out_of_range"


@pytest.mark.parametrize(
    ("semantic", "kind", "value", "text"),
    [
        ("io.debezium.time.Date", "int32", "19782", "2024-02-29"),
        ("io.debezium.time.MicroTimestamp", "int64", "1709251199999999", "2024-02-29T23:59:59.999999"),
        ("io.debezium.time.ZonedTimestamp", "string", '"2024-02-29T23:59:59+05:45"', "2024-02-29T18:14:59.000000Z"),
        (None, "int64", "5", "5"),
        (None, "boolean", "true", "true"),
        (None, "double", "1.10", "1.1"),
        (None, "float", "0.10000000149011612", "0.1"),
        (None, "double", '"NaN"', "NaN"),
        (None, "bytes", '"AP8Q3g=="', "AP8Q3g=="),
        (DECIMAL, "bytes", '"Lg=="', "46"),
    ],
)
def test_an_existing_text_column_takes_any_value_as_its_canonical_text(
    semantic: str | None, kind: str, value: str, text: str
) -> None:
    codec = RowCodec([Column("x", parse("string"))], columns(field("x", kind, semantic, scale="0")), DecodeSettings())
    assert codec.decode(f'{{"x": {value}}}'.encode()).values == [text]


@pytest.mark.parametrize(
    ("semantic", "kind", "target", "value", "result"),
    [
        (None, "int32", "long", "5", 5),
        (None, "int64", "int", "5", 5),
        (None, "int64", "double", "5", 5.0),
        (None, "float", "double", "1.5", 1.5),
        (None, "double", "float", "1.5", 1.5),
        ("io.debezium.time.MicroTimestamp", "int64", "long", "1709251199999999", 1709251199999999),
        (DECIMAL, "bytes", "long", '"Lg=="', 46),
        (DECIMAL, "bytes", "double", '"Lg=="', 46.0),
        ("org.apache.kafka.connect.data.Timestamp", "int64", "timestamptz", "1000", 1000000),
    ],
)
def test_an_existing_column_of_another_type_takes_what_it_holds_exactly(
    semantic: str | None, kind: str, target: str, value: str, result: Any
) -> None:
    codec = RowCodec([Column("x", parse(target))], columns(field("x", kind, semantic, scale="0")), DecodeSettings())
    assert codec.decode(f'{{"x": {value}}}'.encode()).values == [result]


@pytest.mark.parametrize(
    ("semantic", "kind", "target", "value"),
    [
        (None, "int64", "int", "3000000000"),
        (None, "string", "int", '"abc"'),
        (None, "string", "int", '"5"'),
        (None, "double", "int", "1.5"),
        (None, "double", "float", "1.1"),
        (None, "int32", "date", "5"),
        ("io.debezium.time.MicroTimestamp", "int64", "timestamptz", "1"),
        ("io.debezium.time.ZonedTimestamp", "string", "timestamp", '"2024-02-29T23:59:59Z"'),
        ("io.debezium.time.MicroTimestamp", "int64", "date", "0"),
        ("io.debezium.data.Json", "string", "binary", '"{}"'),
    ],
)
def test_an_existing_column_of_another_type_refuses_what_it_does_not_hold(
    semantic: str | None, kind: str, target: str, value: str
) -> None:
    codec = RowCodec([Column("x", parse(target))], columns(field("x", kind, semantic)), DecodeSettings())
    with pytest.raises(EventError, match="column x: ") as caught:
        codec.decode(f'{{"x": {value}}}'.encode())
    assert caught.value.code == "type_mismatch"
    assert codec.decode(b'{"x": null}').values == [None]


def test_a_column_that_this_schema_lacks_is_null() -> None:
    codec = RowCodec(
        [Column("x", parse("int")), Column("y", parse("date"))], columns(field("x", "int32")), DecodeSettings()
    )
    assert codec.decode(b'{"x": 1}').values == [1, None]


def test_a_misread_negative_scale_is_the_right_number() -> None:
    """numeric(5,-2) travels with scale 2046: thousands of digits that are 12300."""
    unscaled = 12300 * 10**2046
    text = b64encode(unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)).decode()
    source = columns(
        {**field("x", "bytes", DECIMAL), "parameters": {"scale": "2046", "connect.decimal.precision": "5"}}
    )
    assert RowCodec(source, source, DecodeSettings()).decode(f'{{"x": "{text}"}}'.encode()).values == [12300]
