"""The codec's two ways, the compiled and the exact, agree; and no image makes it fail but with an EventError."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firn.changes.decode.codec import Decoded, DecodeSettings, RowCodec
from firn.changes.decode.types import Column, Type, decimal, list_of, map_of, parse
from firn.errors import EventError

SCALARS = st.sampled_from(
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
        "fixed[3]",
    ]
).map(parse) | st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda p: p[1] <= p[0]).map(
    lambda p: decimal(*p)
)
KEYS = SCALARS.filter(lambda kind: kind.name not in ("float", "double"))
MAPS = st.tuples(KEYS, SCALARS).map(lambda entry: map_of(*entry))
TYPES = SCALARS | SCALARS.map(list_of) | MAPS | MAPS.map(list_of)

WORDS = st.sampled_from(
    ["", "NaN", "NAN", "Infinity", "-Infinity", "POSITIVE_INFINITY", "AOjUpQ//", "AQ==", "00ff", "1.10", "-0", "1e5",
     "2024-02-29", "2024-02-29Z", "2024-02-29T23:59:59.999999Z", "2024-02-29T23:59:59.9999999+05:45", "infinity",
     "2024-02-29T23:59:59.123456789", "1677-09-21T00:12:43.145224191Z", "2262-04-11T23:47:16.854775807",
     "23:59:59Z", "6b1f0e7c-5a5d-4c1e-9a53-000000000001", "__debezium_unavailable_value", "\x00", "Größe 日本語 😀"]
)  # fmt: skip
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**40), 10**40)
ATOMS = st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=8)
VARIABLE = st.fixed_dictionaries({"scale": st.integers(-5, 5), "value": WORDS})
JSON = st.recursive(
    ATOMS | VARIABLE, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=2)
)
SETTINGS = st.builds(
    DecodeSettings,
    decimal=st.sampled_from(["precise", "string", "double"]),
    time=st.sampled_from(
        ["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"]
    ),
    binary=st.sampled_from(["bytes", "base64", "base64-url-safe", "hex"]),
    out_of_range=st.sampled_from(["null", "dead_letter"]),
)


def outcome(decode: Any, image: bytes) -> str:
    try:
        found: Decoded = decode(image)
    except EventError as error:
        return f"{error.code}: {error}"
    return repr(found)


@given(TYPES, JSON, SETTINGS)
def test_the_compiled_way_says_what_the_exact_way_says(kind: Type, value: Any, settings: DecodeSettings) -> None:
    codec = RowCodec([Column("x", kind)], None, settings)
    image = json.dumps({"x": value}).encode()
    assert outcome(codec.decode, image) == outcome(codec._decode_exactly, image)


@given(SCALARS, st.text('0123456789+-.eE"{}[],:tfn \\u', max_size=12), SETTINGS)
def test_whatever_the_image_holds_only_an_event_error_comes_out(
    kind: Type, text: str, settings: DecodeSettings
) -> None:
    outcome(RowCodec([Column("x", kind)], None, settings).decode, f'{{"x": {text}}}'.encode())


@given(decimal_type=st.just(decimal(38, 10)), digits=st.decimals(allow_nan=False, allow_infinity=False, places=10))
def test_a_decimal_that_is_taken_is_equal_to_what_was_sent(decimal_type: Type, digits: Any) -> None:
    codec = RowCodec([Column("x", decimal_type)], None, DecodeSettings(decimal="string"))
    try:
        (value,) = codec.decode(json.dumps({"x": str(digits)}).encode()).values
    except EventError as error:
        assert error.code == "type_mismatch"  # noqa: PT017
        return
    assert value == digits
    assert value.as_tuple().exponent == -10
