"""What ingest takes of a row with a schema the job takes, and nothing else; by whichever way it was found out."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.codec import RowCodec
from firn.changes.decode.conformance import Conformance
from firn.changes.decode.row_decoder import AppendDecoder, Decoding
from firn.changes.decode.row_schema import RowSchema, checker
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import Column, parse
from firn.config.reader import parse as read_config
from firn.errors import EventError
from tests.soak import times

SETTINGS = DecodeSettings()
TYPES: list[dict[str, Any]] = [
    {"type": "string"}, {"type": "int32"}, {"type": "int64"}, {"type": "float32"}, {"type": "float64"},
    {"type": "bool"}, {"type": "timestamp"}, {"type": "timestamp", "unit": "second"},
    {"type": "timestamp", "unit": "millisecond"}, {"type": "timestamp", "unit": "microsecond"},
    {"type": "timestamp", "unit": "nanosecond"}, {"type": "binary"}, {"type": "json"},
    {"type": "decimal", "precision": 6, "scale": 2}, {"type": "decimal(38,0)"}, {"type": "decimal(3,3)"},
    {"type": "date"}, {"type": "time"}, {"type": "uuid"}, {"type": "list", "items": {"type": "int64"}},
    {"type": "list", "items": {"type": "json"}}, {"type": "list", "items": {"type": "timestamp"}},
    {"type": "struct", "fields": [{"name": "a", "type": "int32", "required": True},
                                  {"name": "b", "type": "decimal(4,1)"},
                                  {"name": "c", "type": "string", "default": "x"}]},
    {"type": "struct", "fields": [{"name": "a", "type": "float64"}, {"name": "b", "type": "list", "items": "string"}]},
]  # fmt: skip
# JSON texts of every kind, many of them at an edge of some type.
TEXTS = [
    "null", "true", "false", "0", "-0", "1", "-1", "7.0", "7.5", "0.1", "1e2", "1e400", "-1e400", "1e-400", "3.4e38",
    "3.5e38", "2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740993", "9007199254740992",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" + "0" * 37,
    "1" + "0" * 38, "1" * 400, "9999.99", "10000", "9999.999", "0.001", "0.0001", "1.50", "-9999.99", '"9999.99"',
    '"1e3"', '"NaN"', '"Infinity"', '"-Infinity"', '"nan"', '"5"', '""', '"x"', '"\\ud83d\\ude00"', '"\\ud800"',
    '"\\u0000"', '"é"', '"__debezium_unavailable_value"', '["__debezium_unavailable_value"]', '"aGk="', '"aGk"',
    '"aG k="', '"aGk=\\n"', '"_-8="', '"a"', '"===="', '"aGk=aGk="', '"2026-01-31T23:59:59Z"',
    '"2026-02-31T23:59:59Z"', '"2026-01-31 23:59:59.123456Z"', '"2026-01-31T23:59:59.1234567Z"',
    '"2026-01-31T23:59:60Z"', '"2026-01-31T24:00:00Z"', '"2026-01-31t23:59:59z"', '"2026-01-31T23:59:59"',
    '"2026-01-31"', '"2026-01-31T23:59:59+05:30"', '"2026-01-31T23:59:59+24:00"', '"2026-01-31T23:59:59+99:99"',
    '"2026-01-31T23:59:59+0530"', '"0001-01-01T00:00:00+05:00"', '"9999-12-31T23:59:59-05:00"',
    '"0001-01-01T00:00:00Z"', '"0000-01-01T00:00:00Z"', '"10000-01-01T00:00:00Z"', '"2024-02-29T00:00:00Z"',
    '"2023-02-29T00:00:00Z"', '"2026-01-31T23:59:59Z\\n"', '"infinity"',
    '"2026-01-31T23:59:59Z\\n2026-01-31T23:59:59Z"', '"２026-01-31T23:59:59Z"', '"2026-01-31T23:59Z"', '"2023-02-29"',
    '"2024-02-29"', '"0000-01-01"', '"9999-12-31"', '"2026-1-1"', '"23:59:59"', '"24:00:00"', '"25:00:00"',
    '"23:60:00"', '"23:59:59.1234567"', '"23:59:59.123456"', '"7:00:00"', '"0b0f6f6e-93f5-4a8e-8a5e-1e2f3a4b5c6d"',
    '"0B0F6F6E-93F5-4A8E-8A5E-1E2F3A4B5C6D"', '"0b0f6f6e93f54a8e8a5e1e2f3a4b5c6d"',
    '"{0b0f6f6e-93f5-4a8e-8a5e-1e2f3a4b5c6d}"', "253402300799", "253402300800", "-62135596800", "-62135596801",
    "253402300799999", "253402300800000", "1760000000000000000", "1760000000000000001", "[]", "[1, null]", '[1, "x"]',
    "[[1]]", '["2026-01-31T23:59:59Z"]', "{}", '{"a": 1}', '{"a": null}', '{"a": 1, "b": 1.5, "c": "y"}',
    '{"a": 1, "b": 1.55}', '{"a": 1, "z": 2}', '{"a": "1"}', '{"a": 2.5, "b": ["x", null]}', '{"b": 5}',
    '{"a": 1, "a": "x"}', '{"a": 1, "c": null}', "[" * 60 + "]" * 60, '{"a": ' * 30 + "1" + "}" * 30,
]  # fmt: skip


def schema_of(*fields: dict[str, Any], unknown: str = "keep") -> RowSchema:
    text = json.dumps({"fields": list(fields)})
    config = read_config(
        "streams: {w: {envelope: rows, tables: {t: "
        f"{{to: w.t, mode: append, unknown: {unknown}, schema: {text}}}}}}}}}"
    )
    schema = config.streams["w"].tables[0].schema
    assert schema is not None
    return schema


def job(schema: RowSchema) -> AppendDecoder:
    """What the commit job decides by, for a table that the schema has made."""
    return AppendDecoder(Decoding(schema.columns(), (), schema.settings(SETTINGS), closed=schema.others(())))


def judged_by_job(decoder: AppendDecoder, row: bytes) -> str | None:
    change: dict[str, Any] = dict.fromkeys(
        ("epoch", "batch", "index", "ts", "pos", "ord", "fault", "fault_text", "tx_order", "occurrence", "origin",
         "key", "before", "schema_id")
    )  # fmt: skip
    change |= {"op": "c", "table": "t", "connector": "rows", "flat": False, "after": row.decode()}
    [decoded] = decoder.rows(change)
    code: str | None = decoded[8]
    return code


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: "-".join(str(one) for one in kind.values())[:40])
@pytest.mark.parametrize("unknown", ["keep", "reject"])
def test_ingest_and_job_say_the_same_of_every_value(kind: dict[str, Any], unknown: str) -> None:
    for more in ({}, {"required": True}):
        schema = schema_of({"name": "id", "type": "int64"}, {"name": "x", **kind, **more}, unknown=unknown)
        check, codec, decoder = Conformance(schema, SETTINGS, frozenset()), checker(schema, SETTINGS, ()), job(schema)
        rows = [b'{"id": 1}', b'{"id": 1, "y": 2}', *(f'{{"id": 1, "x": {text}}}'.encode() for text in TEXTS)]
        found = check.misfits(rows)
        for place, row in enumerate(rows):
            try:
                codec.decode(row)
                exactly = None
            except EventError as error:
                exactly = error.code
            assert (found[place].code if place in found else None) == exactly, row[:200]
            assert (check.misfits([row]) == {}) == (exactly is None), row[:200]
            assert judged_by_job(decoder, row) == exactly, row[:200]
            if check.fits(row, 1):
                assert exactly is None, row[:200]


ROWS = st.lists(
    st.dictionaries(st.sampled_from(["id", "x", "y"]), st.sampled_from(TEXTS), max_size=3), min_size=1, max_size=6
)


@settings(max_examples=times(10, 5_000, 20), deadline=None)
@given(
    rows=ROWS,
    kind=st.sampled_from(TYPES),
    other=st.sampled_from(TYPES),
    required=st.booleans(),
    unknown=st.sampled_from(["keep", "drop", "reject"]),
)
def test_many_rows_are_judged_as_each_alone(
    rows: list[dict[str, str]], kind: dict[str, Any], other: dict[str, Any], required: bool, unknown: str
) -> None:
    schema = schema_of({"name": "x", **kind, "required": required}, {"name": "id", **other}, unknown=unknown)
    check, codec = Conformance(schema, SETTINGS, frozenset()), checker(schema, SETTINGS, ())
    texts = [("{" + ", ".join(f'"{name}": {text}' for name, text in row.items()) + "}").encode() for row in rows]
    expected: dict[int, str] = {}
    for place, text in enumerate(texts):
        try:
            codec.decode(text)
        except EventError as error:
            expected[place] = error.code
    assert {place: error.code for place, error in check.misfits(texts).items()} == expected
    if check.fits(b"\n".join(texts), len(texts)):
        assert not expected


WIDER = [("int32", "long"), ("int32", "double"), ("int32", "decimal(12,2)"), ("float32", "double"), ("int64", "string"),
         ("bool", "string"), ("decimal(6,2)", "decimal(12,4)"), ("date", "string")]  # fmt: skip


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_a_wider_column_takes_what_the_schema_takes_and_nothing_else(narrow: str, wide: str) -> None:
    schema = schema_of({"name": "x", "type": narrow})
    [column] = schema.columns()
    wider = RowCodec([widened(column, wide)], None, schema.settings(SETTINGS))
    own = checker(schema, SETTINGS, ())
    for text in TEXTS:
        image = f'{{"x": {text}}}'.encode()
        codes = []
        for codec in (own, wider):
            try:
                codec.decode(image)
                codes.append("")
            except EventError as error:
                codes.append(error.code)
        assert codes[0] == codes[1], text


def widened(column: Column, wide: str) -> Column:
    return Column(column.name, parse(wide), source=column.source, rule=column.rule)
