import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.source_encodings import declared_column
from firn.changes.decode.types import Column, parse
from firn.errors import EventError

SETTINGS = DecodeSettings(out_of_range="dead_letter")


def decoded(kind: str, json_text: str, settings: DecodeSettings = SETTINGS) -> Any:
    """One value of a declared column, from an image without schema, and the same inside a list."""
    value = RowCodec([Column("x", parse(kind))], None, settings).decode(f'{{"x": {json_text}}}'.encode()).values[0]
    listed = RowCodec([Column("x", parse(f"list<{kind}>"))], None, settings)
    assert repr(listed.decode(f'{{"x": [null, {json_text}, null]}}'.encode()).values) == repr([[None, value, None]])
    return value


def refusal(kind: str, json_text: str, settings: DecodeSettings = SETTINGS) -> str:
    with pytest.raises(EventError, match="column x: ") as caught:
        RowCodec([Column("x", parse(kind))], None, settings).decode(f'{{"x": {json_text}}}'.encode())
    return caught.value.code


def test_metadata_of_a_flattened_row_is_no_value_of_a_column_that_is_called_so() -> None:
    """Whether another form of event has brought the column before or after: one commit would have it, another not."""
    target = [
        Column("id", parse("long")),
        Column("__file", parse("string")),
        Column("f", parse("string"), earlier=("__op",)),
    ]
    image = b'{"id": 1, "__file": "binlog.1", "__op": "c"}'
    for codec in (
        RowCodec(target, None, SETTINGS, flat=True),
        RowCodec(target, None, SETTINGS, flat=True, unnamed=[""]),
    ):
        assert codec.decode(image).values == [1, None, None]
    assert RowCodec(target, None, SETTINGS, flat=True).cells(image)[1:] == [[UNSET], [UNSET]]
    declared = [target[0], declared_column("__file", parse("string"), None, SETTINGS)]
    assert RowCodec(declared, None, SETTINGS, flat=True).decode(image).values == [1, "binlog.1"]
    assert RowCodec(target, None, SETTINGS).decode(image).values == [1, "binlog.1", "c"]


def test_values_come_in_the_targets_order_and_what_is_absent_is_null() -> None:
    codec = RowCodec([Column(name, parse("long")) for name in ("a", "b", "c", "d")], None, SETTINGS)
    assert codec.decode(b'{"d": 4, "b": null, "extra": {"a": 9}, "a": 1}').values == [1, None, None, 4]


def test_names_with_blanks_dots_and_letters_of_all_scripts_are_columns_like_others() -> None:
    names = ["with space", "dot.ted", "$d", "select", "Größe", "日本語", 'quo"te', "c0"]
    codec = RowCodec([Column(name, parse("long")) for name in names], None, SETTINGS)
    image = json.dumps({name: i for i, name in enumerate(names)}).encode()
    assert codec.decode(image).values == list(range(len(names)))


@pytest.mark.parametrize(
    "image", [b"", b"{", b"[1]", b"1", b'{"x": NaN}', b'{"x": "\\ud800"}', b'{"x": "\xff"}', b'"{"']
)
def test_an_image_that_is_no_json_object_in_utf8_is_a_dead_letter(image: bytes) -> None:
    with pytest.raises(EventError) as caught:
        RowCodec([Column("x", parse("string"))], None, SETTINGS).decode(image)
    assert caught.value.code == "bad_image"


def test_an_image_wrapped_in_a_json_string_is_read() -> None:
    assert RowCodec([Column("x", parse("long"))], None, SETTINGS).decode(b'"{\\"x\\": 5}"').values == [5]


def test_a_refusal_names_the_column_and_never_the_value() -> None:
    with pytest.raises(EventError) as caught:
        RowCodec([Column("salary", parse("decimal(5,2)"))], None, replace(SETTINGS, decimal="string")).decode(
            b'{"salary": "123456.78"}'
        )
    assert "salary" in str(caught.value)
    assert "123456" not in str(caught.value)


# numbers


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "true", True),
        ("boolean", "0", False),
        ("int", "-2147483648", -(2**31)),
        ("int", "7.0", 7),
        ("long", "9223372036854775807", 2**63 - 1),
        ("double", "1", 1.0),
        ("double", "2.2250738585072014e-308", 2.2250738585072014e-308),
        ("double", '"Infinity"', math.inf),
        ("double", '"-Infinity"', -math.inf),
        ("float", "1.1", 1.1),
        ("float", '"Infinity"', math.inf),
    ],
)
def test_a_number_that_its_column_holds_is_taken(kind: str, text: str, value: Any) -> None:
    result = decoded(kind, text)
    assert result == value
    assert result.__class__ is value.__class__


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", "2"),
        ("boolean", '"true"'),
        ("int", "2147483648"),
        ("int", "true"),
        ("int", "1.5"),
        ("int", '"5"'),
        ("long", "9223372036854775808"),
        ("long", "1e400"),
        ("double", "true"),
        ("double", "9007199254740993"),
        ("double", '"nan"'),
        ("float", "1e39"),
        ("float", "[1]"),
    ],
)
def test_a_number_that_its_column_does_not_hold_exactly_is_a_mismatch(kind: str, text: str) -> None:
    assert refusal(kind, text) == "type_mismatch"


def test_a_double_beyond_the_largest_is_no_infinity() -> None:
    assert refusal("double", "1e400") == "type_mismatch"


@pytest.mark.parametrize("text", ["-0.0", "-0"])
def test_a_negative_zero_keeps_its_sign(text: str) -> None:
    assert math.copysign(1, decoded("double", text)) == -1


def test_nan_is_a_double_like_others() -> None:
    assert math.isnan(decoded("double", '"NaN"'))
    assert math.isnan(decoded("float", '"NaN"'))


# decimals, by decimal.handling.mode


@pytest.mark.parametrize(
    ("mode", "text", "value"),
    [
        ("precise", '"AOjUpQ//"', "9999999999.99"),
        ("precise", '"/w=="', "-0.01"),
        ("precise", '"AA"', "0.00"),
        ("precise", '{"scale": 1, "value": "Dw=="}', "1.50"),
        ("precise", '{"scale": -2, "value": "AQ=="}', "100.00"),
        ("precise", "12", "12.00"),
        ("string", '"9999999999.99"', "9999999999.99"),
        ("string", '"-1.5"', "-1.50"),
        ("string", '"1E+3"', "1000.00"),
        ("string", '"-0.00"', "0.00"),
        ("double", "9999999999.99", "9999999999.99"),
        ("double", "1.1", "1.10"),
        ("double", "1E+3", "1000.00"),
        ("double", '"12.5"', "12.50"),
    ],
)
def test_a_decimal_is_exact_in_every_mode(mode: Any, text: str, value: str) -> None:
    result = decoded("decimal(12,2)", text, replace(SETTINGS, decimal=mode))
    assert str(result) == value


def test_a_decimal_of_38_digits_is_exact_as_a_json_number_too() -> None:
    digits = "12345678901234567890.123456789012345678"
    assert str(decoded("decimal(38,18)", digits, replace(SETTINGS, decimal="double"))) == digits
    assert str(decoded("decimal(38,18)", f'"{digits}"', replace(SETTINGS, decimal="string"))) == digits
    assert str(decoded("decimal(38,18)", '"CUmw9vACMxPESZBQ3jjzTg=="')) == digits


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("precise", '"AOjUpRAA"'),  # 10000000000.00
        ("precise", '"not base64!"'),
        ("precise", '""'),
        ("precise", '{"scale": 3, "value": "AQ=="}'),
        ("precise", '{"scale": true, "value": "AQ=="}'),
        ("precise", "true"),
        ("string", '"1.234"'),
        ("string", '"1_000"'),
        ("string", '"ten"'),
        ("double", "1.234"),
        ("double", "1e30"),
        ("double", "true"),
    ],
)
def test_a_decimal_that_does_not_fit_is_never_rounded(mode: Any, text: str) -> None:
    assert refusal("decimal(12,2)", text, replace(SETTINGS, decimal=mode)) == "type_mismatch"


@pytest.mark.parametrize("mode", ["string", "double"])
@pytest.mark.parametrize("word", ["NAN", "NaN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY", "Infinity", "-Infinity"])
def test_nan_and_infinity_in_a_decimal_are_null_or_a_dead_letter(mode: Any, word: str) -> None:
    settings = replace(SETTINGS, decimal=mode)
    assert refusal("decimal(12,2)", f'"{word}"', settings) == "out_of_range"
    assert decoded("decimal(12,2)", f'"{word}"', replace(settings, out_of_range="null")) is None


def test_a_variable_scale_decimal_becomes_its_exact_text_where_the_table_says_string() -> None:
    from firn.changes.decode.types import Encoding

    column = Column("x", parse("string"), source=Encoding("decimal_variable"))
    image = b'{"x": {"scale": 9, "value": "XODppWAV/sWq36MorjmBFQ=="}}'
    assert RowCodec([column], [column], SETTINGS).decode(image).values == ["123456789012345678901234567890.123456789"]
    assert RowCodec([column], [column], SETTINGS).decode(b'{"x": {"scale": 20, "value": "AQ=="}}').values == [
        "0.00000000000000000001"
    ]


# dates and times, by time.precision.mode


def timed(kind: str, precision: int | None, mode: Any, text: str, **more: Any) -> Any:
    from firn.changes.decode.codec import declared_column

    settings = replace(SETTINGS, time=mode, **more)
    column = declared_column("x", parse(kind), precision, settings)
    return RowCodec([column], None, settings).decode(f'{{"x": {text}}}'.encode()).values[0]


@pytest.mark.parametrize(
    ("mode", "precision", "text"),
    [
        ("adaptive", 3, "1709251199123"),
        ("adaptive", 6, "1709251199123000"),
        ("adaptive", None, "1709251199123000"),
        ("adaptive", 9, "1709251199123000000"),
        ("adaptive_time_microseconds", 3, "1709251199123"),
        ("connect", 6, "1709251199123"),
        ("isostring", 6, '"2024-02-29T23:59:59.123Z"'),
        ("isostring", 6, '"2024-02-29T23:59:59.123"'),
        ("isostring", 6, '"2024-02-29T23:59:59.123000000Z"'),
        ("microseconds", 3, "1709251199123000"),
        ("nanoseconds", 3, "1709251199123000000"),
    ],
)
def test_a_timestamp_is_the_same_instant_in_every_mode(mode: str, precision: int | None, text: str) -> None:
    assert timed("timestamp", precision, mode, text) == 1709251199123000


@pytest.mark.parametrize(
    ("mode", "precision", "text"),
    [
        ("adaptive", 0, "86399000"),
        ("adaptive", 6, "86399000000"),
        ("adaptive", 7, "86399000000000"),
        ("adaptive_time_microseconds", 0, "86399000000"),
        ("connect", 6, "86399000"),
        ("isostring", 0, '"23:59:59Z"'),
        ("microseconds", 0, "86399000000"),
        ("nanoseconds", 0, "86399000000000"),
    ],
)
def test_a_time_is_the_same_text_in_every_mode(mode: str, precision: int, text: str) -> None:
    assert timed("time", precision, mode, text) == "23:59:59.000000"


@pytest.mark.parametrize(
    ("mode", "text"), [("adaptive", "19782"), ("connect", "19782"), ("isostring", '"2024-02-29Z"')]
)
def test_a_date_is_the_same_day_in_every_mode(mode: str, text: str) -> None:
    assert timed("date", None, mode, text) == 19782


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2024-02-29T18:14:59.999999Z", 1709230499999999),
        ("2024-02-29T23:59:59.999999+05:45", 1709230499999999),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("0001-01-01T00:00:00Z", -62135596800000000),
        ("9999-12-31T23:59:59.999999Z", 253402300799999999),
        ("2024-01-01T00:00:00.000000000Z", 1704067200000000),
        ("2024-01-01T00:00:00.1Z", 1704067200100000),
        ("2024-01-01 00:00:00+00", 1704067200000000),
        ("2024-01-01T00:00Z", 1704067200000000),
    ],
)
def test_a_zoned_timestamp_is_an_instant(text: str, micros: int) -> None:
    assert decoded("timestamptz", f'"{text}"') == micros


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamptz", '"infinity"'),
        ("timestamptz", '"-infinity"'),
        ("timestamptz", '"+292278994-08-16T23:00:00Z"'),
        ("timestamptz", '"-0043-03-15T12:00:00Z"'),
        ("timestamptz", '"0000-03-15T12:00:00Z"'),
        ("timestamptz", '"10000-01-01T00:00:00Z"'),
        ("timestamptz", '"0044-03-15T12:00:00Z BC"'),
        ("timestamptz", '"0001-01-01T00:00:00+01:00"'),
        ("timestamp", "9223372036825200000"),
        ("timestamp", "-9223372036832400000"),
        ("timestamp", "253402300800000000"),
        ("date", "-2147472691"),
        ("date", "-2147472692"),
        ("date", "2932897"),
        ("date", "-719163"),
        ("date", '"-0043-03-15Z"'),
    ],
)
def test_a_date_outside_the_years_1_to_9999_is_null_or_a_dead_letter_and_never_another_date(
    kind: str, text: str
) -> None:
    assert refusal(kind, text) == "out_of_range"
    assert decoded(kind, text, replace(SETTINGS, out_of_range="null")) is None


@pytest.mark.parametrize(("text", "day"), [("-719162", -719162), ("2932896", 2932896), ("-141427", -141427)])
def test_the_first_and_last_day_and_a_day_of_the_skipped_ten_are_kept(text: str, day: int) -> None:
    assert decoded("date", text) == day


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamp", '"2024-02-30T00:00:00"'),
        ("timestamp", '"2024-02-29T00:00:00+01:00"'),
        ("timestamp", '"2024-02-29T00:00:00.1234567"'),
        ("timestamp", '"2024-02-29"'),
        ("timestamp", '"20240229T000000"'),
        ("timestamp", '"yesterday"'),
        ("timestamp", "1.5"),
        ("timestamp", "true"),
        ("date", '"2024-02-30"'),
        ("date", '"2024-060"'),
        ("time", '"25 o\'clock"'),
    ],
)
def test_a_time_that_is_none_is_a_mismatch(kind: str, text: str) -> None:
    assert refusal(kind, text) == "type_mismatch"


def test_digits_below_the_microsecond_are_never_cut_off() -> None:
    with pytest.raises(EventError, match="below the microsecond"):
        timed("timestamp", 9, "adaptive", "1709251199123000001")
    assert timed("time", 9, "adaptive", "86399000000001") == "23:59:59.000000001"
    assert timed("time", 9, "isostring", '"23:59:59.000000001Z"') == "23:59:59.000000001"


@pytest.mark.parametrize(
    ("micros", "text"),
    [("86400000000", "24:00:00.000000"), ("-1000000", "-00:00:01.000000"), ("3020399000000", "838:59:59.000000")],
)
def test_times_of_postgresql_and_mysql_beyond_a_day_are_kept(micros: str, text: str) -> None:
    assert timed("time", 6, "adaptive", micros) == text


# bytes and intervals


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("bytes", '"AP/+ENA="'),
        ("base64", '"AP/+ENA"'),
        ("base64-url-safe", '"AP_-ENA"'),
        ("base64-url-safe", '"AP_-ENA="'),
        ("hex", '"00fffe10d0"'),
        ("hex", '"00FFFE10D0"'),
    ],
)
def test_bytes_are_the_same_in_every_mode(mode: Any, text: str) -> None:
    assert decoded("binary", text, replace(SETTINGS, binary=mode)) == b"\x00\xff\xfe\x10\xd0"
    assert decoded("fixed[5]", text, replace(SETTINGS, binary=mode)) == b"\x00\xff\xfe\x10\xd0"
    for other in ("fixed[4]", "fixed[6]"):
        assert refusal(other, text, replace(SETTINGS, binary=mode)) == "type_mismatch"


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("bytes", '"A"'),
        ("bytes", '"AP_-"'),
        ("base64-url-safe", '"AP/+"'),
        ("hex", '"0"'),
        ("hex", '"00 ff"'),
        ("hex", "1"),
    ],
)
def test_bytes_in_another_encoding_are_a_mismatch(mode: Any, text: str) -> None:
    assert refusal("binary", text, replace(SETTINGS, binary=mode)) == "type_mismatch"
    assert refusal("fixed[1]", text, replace(SETTINGS, binary=mode)) == "type_mismatch"


def test_an_interval_is_its_microseconds_or_its_text() -> None:
    assert decoded("long", "37091106789000", replace(SETTINGS, interval="numeric")) == 37091106789000
    text = '"P1Y2M3DT4H5M6.789S"'
    assert decoded("string", text, replace(SETTINGS, interval="string")) == "P1Y2M3DT4H5M6.789S"


# text


def test_text_keeps_blanks_controls_and_all_scripts() -> None:
    text = 'ch        \n\t\x01 Grüße – 漢字 😀 \u202e \\ " '
    assert decoded("string", json.dumps(text)) == text
    assert decoded("string", json.dumps(text, ensure_ascii=False)) == text


@pytest.mark.parametrize("text", ["1.1", "true", '{"a":  1e400}', "[1, 2.50]", "12345678901234567890123"])
def test_without_schema_a_text_column_keeps_the_json_text_of_what_is_no_string(text: str) -> None:
    assert RowCodec([Column("x", parse("string"))], None, SETTINGS).decode(f'{{"x": {text}}}'.encode()).values == [text]


@pytest.mark.parametrize(("text", "undeclared"), [("1.10", "1.1"), ("1E2", "100"), ("-0", "0"), ("1e22", "1e+22")])
def test_a_declared_text_column_keeps_the_digits_of_a_number_and_another_has_those_of_a_double(
    text: str, undeclared: str
) -> None:
    image = f'{{"x": {text}}}'.encode()
    declared = declared_column("x", parse("string"), None, SETTINGS)
    assert RowCodec([declared], None, SETTINGS).decode(image).values == [text]
    assert RowCodec([Column("x", parse("string"))], None, SETTINGS).decode(image).values == [undeclared]


def test_a_number_beyond_a_double_is_no_text_of_an_undeclared_column_either() -> None:
    with pytest.raises(EventError, match="column x: the number does not fit double"):
        RowCodec([Column("x", parse("string"))], None, SETTINGS).decode(b'{"x": 1e400}')


def test_a_uuid_is_canonical_text_and_nothing_else() -> None:
    assert decoded("uuid", '"6B1F0E7C-5a5d-4c1e-9a53-000000000001"') == "6b1f0e7c-5a5d-4c1e-9a53-000000000001"
    assert refusal("uuid", '"6b1f0e7c5a5d4c1e9a53000000000001"') == "type_mismatch"


def test_a_list_takes_only_arrays() -> None:
    assert refusal("list<int>", "1") == "type_mismatch"
    assert refusal("list<int>", "[1, true]") == "type_mismatch"


def test_out_of_range_inside_an_array_is_a_null_element() -> None:
    settings = replace(SETTINGS, out_of_range="null")
    codec = RowCodec([Column("x", parse("list<date>"))], None, settings)
    assert codec.decode(b'{"x": [19723, -2147472691]}').values == [[19723, None]]


def test_out_of_range_in_a_map_is_a_null_value_and_no_map_has_a_null_key() -> None:
    settings = replace(SETTINGS, out_of_range="null")
    codec = RowCodec([Column("x", parse("map<int, date>")), Column("y", parse("map<date, int>"))], None, settings)
    image = b'{"x": [[1, 19723], [2, -2147472691]], "y": [[19723, 1], [-2147472691, 2]]}'
    assert codec.decode(image).values == [[(1, 19723), (2, None)], None]


# maps


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("map<string, int>", '{"b": 1, "a": null}', [("b", 1), ("a", None)]),
        ("map<string, int>", "{}", []),
        ("map<string, int>", "[]", []),
        ("map<string, int>", "[[1.50, 1]]", [("1.50", 1)]),
        ("map<string, int>", '[["b", 1], ["a", null]]', [("b", 1), ("a", None)]),
        ("map<string, int>", '{"a": 1, "b": 2, "a": 3}', [("a", 3), ("b", 2)]),
        ("map<string, int>", '[["a", 1], ["b", 2], ["a", 3]]', [("b", 2), ("a", 3)]),
        ("map<long, decimal(5,2)>", '[[9007199254740993, "ASw="]]', [(9007199254740993, Decimal("3.00"))]),
        ("map<long, string>", '{"9007199254740993": "x", "-1": ""}', [(9007199254740993, "x"), (-1, "")]),
        ("map<boolean, string>", '{"true": "x"}', [(True, "x")]),
        ("map<boolean, string>", '[[false, "x"]]', [(False, "x")]),
        ("map<decimal(5,2), int>", '{"1.50": 1}', [(Decimal("1.50"), 1)]),
        ("map<date, list<date>>", '{"1970-01-02": [1, null]}', [(1, [1, None])]),
        ("map<date, int>", "[[1, 2]]", [(1, 2)]),
        ("map<string, map<string, double>>", '{"a": {"b": 0.1}, "c": null}', [("a", [("b", 0.1)]), ("c", None)]),
        ("map<string, struct<a: int, b: fixed[1]>>", '{"a": {"b": "/w=="}}', [("a", {"a": None, "b": b"\xff"})]),
        ("map<uuid, binary>", '{"6B1F0E7C-5A5D-4C1E-9A53-000000000001": ""}',
         [("6b1f0e7c-5a5d-4c1e-9a53-000000000001", b"")]),
    ],
)  # fmt: skip
def test_a_map_is_an_object_or_pairs_and_of_a_key_the_last_counts(kind: str, text: str, value: Any) -> None:
    assert decoded(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("map<string, int>", "1"),
        ("map<string, int>", '"a"'),
        ("map<string, int>", '["a", 1]'),
        ("map<string, int>", '[["a", 1, 2]]'),
        ("map<string, int>", '[["a"]]'),
        ("map<string, int>", "[[null, 1]]"),
        ("map<string, int>", "[null]"),
        ("map<string, int>", '{"a": "x"}'),
        ("map<int, int>", '{"a": 1}'),
        ("map<int, int>", '{"1.5": 1}'),
        ("map<int, int>", '{"": 1}'),
        ("map<int, int>", '{"2147483648": 1}'),
        ("map<boolean, int>", '{"yes": 1}'),
        ("map<fixed[2], int>", '{"AA==": 1}'),
    ],
)
def test_what_is_no_map_or_does_not_fit_it_is_a_mismatch(kind: str, text: str) -> None:
    assert refusal(kind, text) == "type_mismatch"


def test_a_time_is_one_key_of_a_map_whichever_way_it_is_written() -> None:
    codec = RowCodec([declared_column("x", parse("map<time, int>"), None, SETTINGS)], None, SETTINGS)
    noon = [[("12:00:00.000000", 2)]]
    assert codec.decode(b'{"x": [["12:00", 1], ["12:00:00", 2]]}').values == noon
    assert codec.decode(b'{"x": {"12:00": 1, "12:00:00": 2}}').values == noon
    with pytest.raises(EventError, match="column x: "):
        codec.decode(b'{"x": {"noon": 1}}')


def test_a_map_is_read_as_the_inline_schema_says_its_keys_and_values_are() -> None:
    stamp = {"type": "int64", "name": "io.debezium.time.Timestamp", "optional": True}
    field = {"type": "map", "field": "x", "optional": True, "keys": {"type": "int32"}, "values": stamp}
    sent = columns_of(json.dumps({"type": "struct", "fields": [field]}).encode(), flat=True)
    codec = RowCodec([Column("x", parse("map<int, timestamp>"))], sent, SETTINGS)
    assert codec.decode(b'{"x": [[1, 5], [2, null]]}').values == [[(1, 5_000), (2, None)]]
    assert sent[0].type == parse("string")
    assert RowCodec(sent, sent, SETTINGS).decode(b'{"x": [[1, 5]]}').values == ["[[1, 5]]"]
