"""What MySQL and MariaDB have and PostgreSQL has not: integers without a sign, bit strings in any binary mode, decimals
of 65 digits. Their other types are in tests/model/test_mariadb_corpus.py."""

import json
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.source_encodings import declared_column
from firn.changes.decode.types import Column, parse
from firn.errors import EventError


def codec(declared: str, settings: DecodeSettings, source: tuple[Column, ...] | None = None) -> RowCodec:
    return RowCodec([declared_column("x", *parse_declared(declared), settings)], source, settings)


def decoded(declared: str, value: Any, settings: DecodeSettings, source: tuple[Column, ...] | None = None) -> str:
    return str(codec(declared, settings, source).decode(json.dumps({"x": value}).encode()).values[0])


@pytest.mark.parametrize(
    ("sent", "held"),
    [
        (0, "0"),
        (5, "5"),
        (2**63 - 1, str(2**63 - 1)),
        (-(2**63), str(2**63)),
        (-1, str(2**64 - 1)),
        (2**63, str(2**63)),
    ],
)
def test_a_bigint_unsigned_sent_as_a_signed_integer_is_what_the_source_has(sent: int, held: str) -> None:
    assert decoded("unsigned long", sent, DecodeSettings()) == held
    schema = columns_of(_schema({"field": "x", "type": "int64", "optional": True}))
    assert decoded("unsigned long", sent, DecodeSettings(), schema) == held


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 1.5, True, "5"])
def test_what_is_no_integer_of_64_bits_is_refused(value: Any) -> None:
    with pytest.raises(EventError) as refused:
        decoded("unsigned long", value, DecodeSettings())
    assert refused.value.code == "type_mismatch"


def test_a_negative_decimal_of_no_digits_stays_negative() -> None:
    assert decoded("decimal(20,0)", -1, DecodeSettings()) == "-1"


def test_a_precise_bigint_unsigned_is_its_unscaled_value_whatever_the_mode_of_decimals() -> None:
    settings = DecodeSettings(decimal="string", unsigned="precise")
    assert decoded("unsigned long", "AP//////////", settings) == str(2**64 - 1)


@pytest.mark.parametrize(("target", "held"), [("string", str(2**64 - 2)), ("decimal(38,0)", str(2**64 - 2))])
def test_the_sources_own_type_in_an_inline_schema_tells_it_from_a_bigint(target: str, held: str) -> None:
    propagated = {"__debezium.source.column.type": "BIGINT UNSIGNED", "__debezium.source.column.length": "20"}
    source = columns_of(_schema({"field": "x", "type": "int64", "optional": True, "parameters": propagated}))
    assert str(source[0].type) == "decimal(20,0)"
    found = RowCodec([Column("x", parse(target))], source, DecodeSettings()).decode(b'{"x": -2}')
    assert str(found.values[0]) == held
    signed = {"__debezium.source.column.type": "BIGINT"}
    (plain,) = columns_of(_schema({"field": "x", "type": "int64", "parameters": signed}))
    assert str(plain.type) == "long"


@pytest.mark.parametrize("binary", ["bytes", "base64", "base64-url-safe", "hex"])
def test_a_bit_string_is_base64_in_every_binary_mode(binary: Any) -> None:
    settings = DecodeSettings(binary=binary)
    found = codec("bit(17)", settings).decode(b'{"x": "//8B"}').values
    assert found == [b"\xff\xff\x01"]


@pytest.mark.parametrize(
    ("mode", "sent"),
    [("precise", "BAnPoBwdLYQ7sLZqn3ogAAAB"), ("string", "98989898989898989898989898.989898989898989898989898989897")],
)
def test_a_decimal_of_more_digits_than_iceberg_has_is_its_text(mode: Any, sent: str) -> None:
    held = decoded("decimal(65,30)", sent, DecodeSettings(decimal=mode))
    whole, _, fraction = held.partition(".")
    assert (len(fraction), whole.isdigit()) == (30, True)
    assert mode == "precise" or held == sent


def _schema(*fields: dict[str, Any]) -> bytes:
    row = {"field": "after", "type": "struct", "fields": list(fields)}
    return json.dumps({"type": "struct", "fields": [row]}).encode()
