import json
from typing import Any

import pytest

from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.inference import seen_in
from firn.changes.decode.types import storable
from firn.errors import EventError


def envelope(*fields: dict[str, Any]) -> bytes:
    row = {"type": "struct", "optional": True, "fields": list(fields)}
    op = {"type": "string", "optional": False, "field": "op"}
    return json.dumps(
        {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}, op]}
    ).encode()


def one(**field: Any) -> tuple[str, str]:
    (column,) = columns_of(envelope({"field": "x", "optional": True, **field}))
    assert column.source is not None
    return str(column.type), column.source.kind


@pytest.mark.parametrize(
    ("connect", "iceberg"),
    [("int8", "int"), ("int16", "int"), ("int32", "int"), ("int64", "long"), ("float", "float"), ("double", "double"),
     ("boolean", "boolean"), ("string", "string"), ("bytes", "binary"), ("struct", "string"), ("map", "string")],
)  # fmt: skip
def test_a_plain_connect_type_becomes_its_iceberg_type(connect: str, iceberg: str) -> None:
    assert one(type=connect)[0] == iceberg


@pytest.mark.parametrize(
    ("name", "connect", "iceberg", "encoding"),
    [
        ("io.debezium.time.Date", "int32", "date", "date_days"),
        ("io.debezium.time.IsoDate", "string", "date", "date_text"),
        ("org.apache.kafka.connect.data.Date", "int32", "date", "date_days"),
        ("io.debezium.time.Time", "int32", "string", "time_ms"),
        ("io.debezium.time.MicroTime", "int64", "string", "time_us"),
        ("io.debezium.time.NanoTime", "int64", "string", "time_ns"),
        ("io.debezium.time.IsoTime", "string", "string", "time_text"),
        ("io.debezium.time.ZonedTime", "string", "string", "string"),
        ("org.apache.kafka.connect.data.Time", "int32", "string", "time_ms"),
        ("io.debezium.time.Timestamp", "int64", "timestamp", "timestamp_ms"),
        ("io.debezium.time.MicroTimestamp", "int64", "timestamp", "timestamp_us"),
        ("io.debezium.time.NanoTimestamp", "int64", "timestamp", "timestamp_ns"),
        ("io.debezium.time.IsoTimestamp", "string", "timestamp", "timestamp_text"),
        ("org.apache.kafka.connect.data.Timestamp", "int64", "timestamp", "timestamp_ms"),
        ("io.debezium.time.ZonedTimestamp", "string", "timestamptz", "timestamp_text"),
        ("io.debezium.time.Year", "int32", "int", "integer"),
        ("io.debezium.time.MicroDuration", "int64", "long", "integer"),
        ("io.debezium.time.Interval", "string", "string", "string"),
        ("io.debezium.data.VariableScaleDecimal", "struct", "string", "decimal_variable"),
        ("io.debezium.data.Uuid", "string", "uuid", "uuid"),
        ("io.debezium.data.Json", "string", "string", "json"),
        ("io.debezium.data.Enum", "string", "string", "string"),
        ("io.debezium.data.Bits", "bytes", "binary", "bits"),
        ("io.debezium.data.geometry.Point", "struct", "string", "geometry"),
        ("com.example.Unheard", "int64", "long", "integer"),
    ],
)
def test_a_semantic_name_decides_type_and_encoding(name: str, connect: str, iceberg: str, encoding: str) -> None:
    assert one(type=connect, name=name) == (iceberg, encoding)


@pytest.mark.parametrize(
    ("parameters", "iceberg"),
    [
        ({"scale": "2", "connect.decimal.precision": "12"}, "decimal(12,2)"),
        ({"scale": "2"}, "decimal(38,2)"),  # money
        ({"scale": "5", "connect.decimal.precision": "3"}, "decimal(5,5)"),
        ({"scale": "2046", "connect.decimal.precision": "5"}, "decimal(7,0)"),  # numeric(5,-2), misread by Debezium
        ({"scale": "-2", "connect.decimal.precision": "5"}, "decimal(7,0)"),
        ({"scale": "40", "connect.decimal.precision": "50"}, "string"),
        ({"scale": "2", "connect.decimal.precision": "39"}, "string"),
    ],
)
def test_a_decimal_keeps_its_precision_or_becomes_text(parameters: dict[str, str], iceberg: str) -> None:
    name = "org.apache.kafka.connect.data.Decimal"
    assert one(type="bytes", name=name, parameters=parameters)[0] == iceberg


def test_an_array_takes_its_items_type_and_nests() -> None:
    date = {"type": "int32", "name": "io.debezium.time.Date", "optional": True}
    assert one(type="array", items=date)[0] == "list<date>"
    assert one(type="array", items={"type": "array", "items": {"type": "int64"}})[0] == "list<list<long>>"


def test_a_field_that_is_not_optional_is_a_required_column() -> None:
    schema = envelope(
        {"field": "id", "type": "int32", "optional": False}, {"field": "v", "type": "int32", "optional": True}
    )
    assert [(c.name, c.required) for c in columns_of(schema)] == [("id", True), ("v", False)]


def test_a_flattened_schema_leaves_its_metadata_out() -> None:
    names = ["id", "__op", "__deleted", "__table", "__lsn", "__source_ts_ms", "__ts_ms", "__txId", "__mine"]
    fields = [{"field": name, "type": "string"} for name in names]
    schema = json.dumps({"type": "struct", "fields": fields}).encode()
    assert [c.name for c in columns_of(schema, flat=True)] == ["id", "__mine"]


def test_a_schema_without_a_row_has_no_columns() -> None:
    after = {"type": "string", "optional": True, "name": "io.debezium.data.Json", "field": "after"}
    assert columns_of(json.dumps({"type": "struct", "fields": [after]}).encode()) == ()


@pytest.mark.parametrize("schema", [b"", b"{", b"[]", b'{"fields": 1}', b'{"type": "struct", "fields": [1]}', b"\xff"])
def test_an_unreadable_schema_is_a_dead_letter(schema: bytes) -> None:
    with pytest.raises(EventError, match="inline schema") as caught:
        columns_of(schema)
    assert caught.value.code == "bad_schema"


def inferred(*images: str) -> dict[str, str]:
    return {c.name: str(storable(c.type)) for c in seen_in([image.encode() for image in images])}


def test_without_schema_the_json_value_tells_the_type() -> None:
    image = '{"b": true, "i": 1, "f": 1.5, "s": "x", "o": {"a": 1}, "l": [1], "n": null}'
    assert inferred(image) == {"b": "boolean", "i": "long", "f": "double", "s": "string", "o": "string", "l": "string"}


def test_without_schema_columns_come_in_order_of_appearance_and_nulls_tell_nothing() -> None:
    assert inferred('{"a": null, "b": 1}', '{"c": 1, "a": "x"}') == {"b": "long", "c": "long", "a": "string"}


def test_without_schema_a_mixture_becomes_text() -> None:
    assert inferred('{"x": 1}', '{"x": "1"}') == {"x": "string"}
    assert inferred('{"x": true}', '{"x": 1}') == {"x": "string"}


def test_without_schema_whole_numbers_among_fractions_are_doubles_while_that_is_exact() -> None:
    assert inferred('{"x": 1}', '{"x": 1.5}') == {"x": "double"}
    assert inferred('{"x": 9007199254740993}', '{"x": 1.5}') == {"x": "string"}


def test_without_schema_nan_and_infinity_do_not_make_a_number_text() -> None:
    assert inferred('{"x": "NaN"}', '{"x": 1.5}', '{"x": "-Infinity"}') == {"x": "double"}
    assert inferred('{"x": "NaN"}') == {"x": "string"}


def test_without_schema_integers_beyond_64_bits_are_decimals_and_beyond_38_digits_text() -> None:
    assert inferred('{"x": 18446744073709551616}', '{"x": 1}') == {"x": "decimal(38,0)"}
    assert inferred('{"x": ' + "9" * 39 + "}") == {"x": "string"}


def test_without_schema_an_unreadable_image_is_passed_over() -> None:
    assert inferred("{", "[1]", '"{\\"a\\": 1}"', '{"b": 1e400}') == {"a": "long", "b": "double"}
