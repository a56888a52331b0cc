"""Variants as JSON and back, and what bytes of a stranger can't do."""

import json
import random
import struct
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.changes.decode import variant_text
from firn.changes.decode.variant_bytes import variant_of
from firn.changes.decode.variant_text import BadVariant, Names, json_of, members_of

NONE = b"\x01\x00\x00"
DAYS = (date(2024, 2, 29) - date(1970, 1, 1)).days


def back(text: str) -> str:
    metadata, value = variant_of(text)
    return json_of(Names(metadata), value)


def digits(text: str) -> object:
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**37), 10**37) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(max_size=4).filter(str.isprintable), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_json_comes_back_with_the_same_values_and_only_once_changed(told: object) -> None:
    found = back(json.dumps(told))
    assert digits(found) == digits(json.dumps(told))
    assert back(found) == found
    assert variant_of(found) == variant_of(json.dumps(told, ensure_ascii=False, indent=1))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"b": 1, "a": 2, "b": 3}', '{"a":2,"b":3}'),
        ("1.0", "1"),
        ("1e0", "1"),
        ("-0.0", "0"),
        ("1.50", "1.5"),
        ("1e10", "10000000000"),
        ("9223372036854775808", "9223372036854775808"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ("0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
        ("1e300", "1e+300"),
        ("5e-324", "5e-324"),
        ('"\\u00fc\\/"', '"ü/"'),
        ('{"é": {"": []}}', '{"é":{"":[]}}'),
        (json.dumps(list(range(300)), separators=(",", ":")),) * 2,
        (json.dumps({f"k{n:03d}": "x" * n for n in range(300)}, separators=(",", ":")),) * 2,
    ],
)
def test_what_a_text_becomes(written: str, text: str) -> None:
    assert back(written) == text


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("{'a': 1}", "it is not JSON"),
        ("1 2", "it is not JSON"),
        ("NaN", "NaN and infinities are not JSON"),
        ("[-Infinity]", "NaN and infinities are not JSON"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("1e400", "more digits than a decimal or a double holds"),
        ("123456789012345678901234567890123456789", "more digits"),
        ("1" * 5000, "more digits"),
        ("0.1234567890123456789012345678901234567891", "more digits"),
        ("1e999999999999999999", "more digits"),
        ("[" * 501 + "]" * 501, "nested more than 500 deep"),
        ("[" * 100_000, "nested more than 500 deep"),
        (json.dumps(["x" * 2**20] * 17), "more than 16,777,216 bytes"),
    ],
)
def test_what_is_refused(written: str, why: str) -> None:
    with pytest.raises(BadVariant, match=why):
        variant_of(written)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x00", "null"),
        (b"\x04", "true"),
        (b"\x08", "false"),
        (b"\x18" + struct.pack("<q", -(2**63)), str(-(2**63))),
        (b"\x1c" + struct.pack("<d", float("nan")), '"NaN"'),
        (b"\x1c" + struct.pack("<d", float("-inf")), '"-Infinity"'),
        (b"\x38" + struct.pack("<f", 0.1), "0.1"),
        (b"\x20\x02" + struct.pack("<i", -150), "-1.5"),
        (b"\x24\x00" + struct.pack("<q", 100), "100"),
        (b"\x28\x26" + (1).to_bytes(16, "little"), "0." + "0" * 37 + "1"),
        (b"\x2c" + struct.pack("<i", DAYS), '"2024-02-29"'),
        (b"\x2c" + struct.pack("<i", -800_000), '"-0221-09-04"'),
        (b"\x2c" + struct.pack("<i", 3_000_000), '"+10183-09-21"'),
        (b"\x30" + struct.pack("<q", -1), '"1969-12-31T23:59:59.999999Z"'),
        (b"\x34" + struct.pack("<q", 2**63 - 1), '"+294247-01-10T04:00:54.775807"'),
        (b"\x48" + struct.pack("<q", 1), '"1970-01-01T00:00:00.000000001Z"'),
        (b"\x4c" + struct.pack("<q", -1), '"1969-12-31T23:59:59.999999999"'),
        (b"\x44" + struct.pack("<q", 86_399_999_999), '"23:59:59.999999"'),
        (b"\x3c\x02\x00\x00\x00\x00\xff", '"AP8="'),
        (b"\x40\x02\x00\x00\x00\xc3\xbc", '"ü"'),
        (b"\x50" + bytes(range(16)), '"00010203-0405-0607-0809-0a0b0c0d0e0f"'),
    ],
)
def test_each_type_has_a_text(value: bytes, text: str) -> None:
    assert json_of(Names(NONE), value) == text
    json.loads(text)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (b"", "version 0"),
        (b"\x02\x00\x00", "version 2"),
        (b"\x01", "cut off"),
        (b"\x01\x00", "cut off"),
        (b"\xc1\xff\xff\xff\xff", "cut off"),
        (b"\x01\x01\x00\x05a", "outside of its metadata"),
        (b"\x01\x02\x00\x01\x00a", "outside of its metadata"),
        (b"\x01\x01\x00\x01\xff", "not UTF-8"),
    ],
)
def test_names_of_a_stranger(metadata: bytes, why: str) -> None:
    with pytest.raises(BadVariant, match=why):
        Names(metadata)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "cut off"),
        (b"\x18\x00", "cut off"),
        (b"\x54", "type 21"),
        (b"\x09a", "cut off"),
        (b"\x05\xff", "not UTF-8"),
        (b"\x20\x27\x00\x00\x00\x00", "39 digits after the point"),
        (b"\x44" + struct.pack("<q", -1), "beyond 24 hours"),
        (b"\x40\xff\xff\xff\xff", "cut off"),
        (b"\x03\x05\x00", "cut off, or its parts"),
        (b"\x13\xff\xff\xff\xff", "cut off, or its parts"),
        (b"\x03\x01\x09\x01\x00", "outside of it"),
        (b"\x02\x01\x00\x00\x01\x00", "not in its metadata"),
        (b"\x02\x02\x00\x00\x00\x00\x01\x00", "not in its metadata"),
    ],
)
def test_bytes_of_a_stranger(value: bytes, why: str) -> None:
    with pytest.raises(BadVariant, match=why):
        json_of(Names(NONE), value)


def nested(depth: int) -> bytes:
    value = b"\x00"
    for _ in range(depth):
        value = b"\x0f\x01" + (0).to_bytes(4, "little") + len(value).to_bytes(4, "little") + value
    return value


def test_depth_has_an_end() -> None:
    assert back("[" * 500 + "]" * 500) == "[" * 500 + "]" * 500
    assert json_of(Names(NONE), nested(1_000)) == "[" * 1_000 + "null" + "]" * 1_000
    with pytest.raises(BadVariant, match="nested more than 1000 deep"):
        json_of(Names(NONE), nested(1_001))


def test_parts_that_lie_over_one_another_are_not_told_again_and_again() -> None:
    """An array of two that are the same array of two that … : 2^60 values in some hundred bytes."""
    value = b"\x00"
    for _ in range(60):
        value = b"\x07\x02" + struct.pack("<HHH", 0, 0, len(value)) + value
    with pytest.raises(BadVariant, match="lie over one another"):
        json_of(Names(NONE), value)


def test_a_text_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_text, "MOST_TEXT", 10_000)
    metadata, value = variant_of(json.dumps([{"n" * 1_000: 1}] * 11))
    with pytest.raises(BadVariant, match="more than 10,000 characters"):
        json_of(Names(metadata), value)


def test_a_member_twice_is_refused() -> None:
    with pytest.raises(BadVariant, match="twice"):
        json_of(Names(b"\x01\x02\x00\x01\x02aa"), b"\x02\x02\x00\x01\x00\x01\x02\x00\x00")


def test_what_is_beside_shredded_members_is_an_object() -> None:
    metadata, value = variant_of('{"b": [1], "a": null}')
    assert members_of(Names(metadata), value) == {"a": "null", "b": "[1]"}
    with pytest.raises(BadVariant, match="no object"):
        members_of(Names(NONE), b"\x00")


def test_any_damage_is_an_error_or_another_text() -> None:
    metadata, value = variant_of('{"a": [1, "x", {"b": 1.5, "c": [true, null]}], "d": "' + "y" * 70 + '"}')
    draw = random.Random(7)
    for _ in range(3_000):
        damaged = [bytearray(metadata), bytearray(value)]
        for _ in range(draw.randint(1, 3)):
            part = draw.choice(damaged)
            part[draw.randrange(len(part))] = draw.randrange(256)
        del damaged[1][draw.randrange(len(value)) :: draw.choice((1, 10**6))]
        try:
            json.loads(json_of(Names(bytes(damaged[0])), bytes(damaged[1])))
        except BadVariant:
            continue
