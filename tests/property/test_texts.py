"""A column ends with the same type and the same text, however its changes were split over epochs."""

import base64
import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.inference import seen_in
from firn.changes.decode.nanoseconds import fine
from firn.changes.decode.texts import retyped, text_of, text_of_double
from firn.changes.decode.types import INFERRED, Column, Type, parse, storable
from firn.errors import EventError
from firn.tables.planning import plan_columns
from tests.soak import times

SETTINGS = DecodeSettings()
Field = dict[str, Any]
Event = tuple[Field | None, str]  # how the schema has the column v, None without; the JSON of its value


def plain(kind: str) -> Field:
    return {"type": kind, "optional": True}


def named(kind: str, name: str, **parameters: str) -> Field:
    return plain(kind) | {"name": name} | ({"parameters": parameters} if parameters else {})


def decimal_of(precision: int, scale: int) -> st.SearchStrategy[Event]:
    said = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    field = named("bytes", "org.apache.kafka.connect.data.Decimal", **said)
    most = 10**precision - 1
    unscaled = st.integers(-most, most) | st.sampled_from([0, 10 ** min(scale, precision - 1), -10, 10])
    return st.tuples(st.just(field), unscaled.map(base64_of))


def base64_of(unscaled: int) -> str:
    return json.dumps(base64.b64encode(unscaled.to_bytes(24, "big", signed=True)).decode())


def single(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def number(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        value = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return json.dumps(value)


def values(field: Field | None, value: st.SearchStrategy[Any], write: Callable[[Any], str] = json.dumps) -> Any:
    return st.tuples(st.just(field), value.map(write))


INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
SINGLES = st.floats(width=32) | st.sampled_from([0.1, 0.3, 16777216.0, 3.4028234663852886e38, 1e-45, -0.0])
DOUBLES = st.floats() | st.sampled_from([1.0, 1.5, 1e16, 1e21, 1e22, 1.5e-7, 1e-6, -0.0, 5e-324, 123456789012.25])
UUIDS = st.uuids().map(str) | st.uuids().map(lambda one: str(one).upper())
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999) | st.sampled_from([0, -1, 2**62])
BYTES = st.binary(max_size=6).map(lambda one: base64.b64encode(one).decode())
ZONED = st.sampled_from(["2024-01-01T10:00:00.5Z", "0385-07-25T01:00:00+05:30"])


def listed(field: Field, value: st.SearchStrategy[str]) -> Any:
    """Arrays of values of this field, given as JSON; a null among them now and then."""
    items = st.lists(value | st.just("null"), max_size=3).map(lambda some: f"[{','.join(some)}]")
    return st.tuples(st.just({"type": "array", "items": field, "optional": True}), items)


EVENTS: st.SearchStrategy[Event] = st.one_of(
    values(plain("boolean"), st.booleans()),
    values(plain("int32"), INTS),
    values(plain("int64"), LONGS),
    values(plain("float"), SINGLES, number),
    values(plain("double"), DOUBLES, number),
    values(plain("string"), st.text(max_size=4) | st.sampled_from(["NaN", "1", "[1]"])),
    values(plain("bytes"), BYTES),
    values(named("string", "io.debezium.data.Uuid"), UUIDS),
    values(named("int32", "io.debezium.time.Date"), st.integers(-719_162, 2_932_896) | st.just(10**7)),
    values(named("int64", "io.debezium.time.MicroTimestamp"), MICROS),
    values(
        named("int64", "io.debezium.time.NanoTimestamp"), LONGS | st.sampled_from([2**63, -1, 1_700_000_000_123_000])
    ),
    listed(named("int64", "io.debezium.time.NanoTimestamp"), LONGS.map(json.dumps)),
    values(named("string", "io.debezium.time.ZonedTimestamp"), ZONED),
    values(named("int64", "io.debezium.time.MicroTime"), st.integers(0, 86_400_000_000)),
    values(named("int32", "io.debezium.time.Year"), st.integers(1901, 2155)),
    values(named("string", "io.debezium.data.Enum", allowed="a,b"), st.sampled_from(["a", "b", "a,b"])),
    values(named("string", "io.debezium.data.Json"), st.just('{"a": 1.0}')),
    values(named("bytes", "io.debezium.data.Bits", length="9"), BYTES),
    values(named("struct", "io.debezium.data.VariableScaleDecimal"), st.just({"scale": 2, "value": "AZo="})),
    decimal_of(10, 2),
    decimal_of(12, 9),
    decimal_of(38, 0),
    decimal_of(38, 20),
    decimal_of(50, 3),
    listed(plain("int32"), INTS.map(json.dumps)),
    listed(plain("float"), SINGLES.map(number)),
    listed(plain("double"), DOUBLES.map(number)),
    listed(plain("string"), st.text(max_size=3).map(json.dumps)),
    listed(named("string", "io.debezium.data.Uuid"), UUIDS.map(json.dumps)),
    listed({"type": "array", "items": plain("int64"), "optional": True}, st.lists(LONGS, max_size=2).map(json.dumps)),
    values(None, st.booleans() | INTS | LONGS | st.integers(-(10**20), 10**39) | st.text(max_size=3)),
    values(None, DOUBLES | st.sampled_from(["NaN", "Infinity", "-Infinity", 2**53, 1]), number),
    values(None, st.sampled_from(["1.50", "1E2", "-0", "1e400", "0.1234567890123456789", "[1, 2.0]", '{"a":1}']), str),
    values(plain("int32"), st.none()),
)


def schema_of(field: Field | None) -> tuple[Column, ...] | None:
    if field is None:
        return None
    row = {"type": "struct", "field": "after", "fields": [field | {"field": "v"}]}
    return fine(columns_of(json.dumps({"type": "struct", "fields": [row]}).encode()))


def image(event: Event) -> bytes:
    return f'{{"v": {event[1]}}}'.encode()


def landed(epochs: Sequence[Sequence[Event]]) -> tuple[str | None, list[Any]]:
    """The type of the column, and the value of each event or the code that it was refused with."""
    existing: tuple[Column, ...] = ()
    stored: list[Any] = []
    for epoch in epochs:
        seen = [found for event in epoch if (found := schema_of(event[0])) is not None]
        seen += [seen_in([image(event) for event in epoch if event[0] is None])]
        plan = plan_columns(existing, (), seen)
        before = {column.name: storable(column.type) for column in existing}
        for column in (*plan.widened, *plan.retyped):
            change = retyped(before[column.name], column.type)
            stored = [one if one is None or isinstance(one, EventError) else change(one) for one in stored]
        stored += [decoded(event, plan.columns) for event in epoch]
        inferred = plan.inferred.get("v", "")
        existing = tuple(replace(column, type=INFERRED.get(inferred, column.type)) for column in plan.columns)
    return (str(storable(existing[0].type)) if existing else None), list(map(shown, stored))


def decoded(event: Event, columns: Sequence[Column]) -> Any:
    try:
        found = RowCodec(columns, schema_of(event[0]), SETTINGS).decode(image(event)).values
    except EventError as error:
        return error
    return rounded(found[0], columns[0].type) if found else None


def rounded(value: Any, kind: Type) -> Any:
    """As Arrow stores it."""
    if kind.element is not None and isinstance(value, list):
        return [rounded(item, kind.element) for item in value]
    return single(value) if kind.name == "float" and isinstance(value, float) else value


def shown(one: Any) -> Any:
    if isinstance(one, EventError):
        return one.code
    return repr(one).replace("-0.0", "0.0") if isinstance(one, float | list) else one  # NaN is not itself


@settings(max_examples=times(150, 20_000, 400))
@given(st.lists(EVENTS, min_size=1, max_size=5), st.sets(st.integers(1, 4)))
@example([(plain("float"), "0.1"), (plain("double"), "0.3"), (plain("string"), '"x"')], {1, 2})
@example([(None, "1"), (None, "1.50"), (None, '"x"')], {1, 2})
@example([(None, '"NaN"'), (plain("float"), "0.1"), (plain("int32"), "1")], {1, 2})
def test_a_column_has_one_type_and_one_text_however_it_is_split(events: list[Event], ends: set[int]) -> None:
    bounds = [0, *sorted(end for end in ends if end < len(events)), len(events)]
    assert landed([events[a:b] for a, b in pairwise(bounds)]) == landed([events])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_is_the_double(value: float) -> None:
    assert float(text_of_double(value)) == value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("double", 1.0, "1"),
        ("double", -0.0, "0"),
        ("double", 1e21, "1e+21"),
        ("double", 1e20, "1" + "0" * 20),
        ("double", 1.5e-7, "1.5e-7"),
        ("double", 1e-6, "0.000001"),
        ("double", math.nan, "NaN"),
        ("double", -math.inf, "-Infinity"),
        ("double", 5e-324, "5e-324"),
        ("float", single(0.1), "0.1"),
        ("float", 16777216.0, "16777216"),
        ("float", single(3.4028235e38), "3.4028235e+38"),
        ("float", single(1e-45), "1e-45"),
        ("float", math.inf, "Infinity"),
        ("decimal(10,2)", Decimal("4.10"), "4.1"),
        ("decimal(10,2)", Decimal("100.00"), "100"),
        ("decimal(38,0)", Decimal("1" + "0" * 37), "1" + "0" * 37),
        ("decimal(12,9)", Decimal("0.000000001"), "0.000000001"),
        ("long", 9007199254740993, "9007199254740993"),
        ("boolean", True, "true"),
        ("binary", b"\0\1\2", "AAEC"),
        ("fixed[3]", b"\0\1\2", "AAEC"),
        ("map<int, list<date>>", [(2, [19000, None]), (1, None)], '{"2":"[\\"2022-01-08\\",null]","1":null}'),
        ("date", 19000, "2022-01-08"),
        ("date", -719162, "0001-01-01"),
        ("timestamp", 1_700_000_000_120_000, "2023-11-14T22:13:20.120000"),
        ("timestamptz", -50_000_000_000_000_123, "0385-07-25T07:06:39.999877Z"),
        ("timestamp_ns", 1_700_000_000_120_000_000, "2023-11-14T22:13:20.120000"),
        ("timestamp_ns", -1, "1969-12-31T23:59:59.999999999"),
        ("timestamptz_ns", -(2**63), "1677-09-21T00:12:43.145224192Z"),
        ("timestamptz_ns", 2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
        ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("list<int>", [1, None, 3], '["1",null,"3"]'),
        ("list<string>", ['é"', None], '["é\\"",null]'),
        ("list<list<int>>", [[1], []], '["[\\"1\\"]","[]"]'),
    ],
)
def test_each_type_has_its_text(kind: str, value: Any, text: str) -> None:
    assert text_of(parse(kind))(value) == text
