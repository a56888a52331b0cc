"""Columns of nanoseconds: what each way of writing them becomes, what does not fit, and which tables have such."""

import json
from dataclasses import replace
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings, RowCodec, declared_column
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.nanoseconds import TIMESTAMP_NS
from firn.changes.decode.types import LONG, STRING, TIMESTAMP, Column, parse, promotable, widen
from firn.config.reader import parse as config_of
from firn.errors import ConfigError, EventError, TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.iceberg_format import NANOSECONDS
from firn.tables.routing import Target
from firn.tables.table_plan import Planned, planned
from firn.tables.table_state import TableState

FIRST, LAST = -(2**63), 2**63 - 1
STRICT = DecodeSettings(out_of_range="dead_letter")


def decoded(kind: str, value: str, settings: DecodeSettings = STRICT, precision: int | None = None) -> Any:
    column = declared_column("x", parse(kind), precision, settings)
    return RowCodec([column], None, settings).decode(f'{{"x": {value}}}'.encode()).values[0]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1969-12-31T23:59:59.999999999", -1),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01 00:00:00.1", 100_000_000),
        ("2023-11-14T22:13:20.123456789", 1_700_000_000_123_456_789),
        ("1677-09-21T00:12:43.145224192", FIRST),
        ("2262-04-11T23:47:16.854775807", LAST),
    ],
)
def test_text_of_up_to_nine_digits_is_its_nanoseconds(text: str, count: int) -> None:
    assert decoded("timestamp_ns", f'"{text}"') == count
    assert decoded("timestamptz_ns", f'"{text}Z"') == count
    assert decoded("list<timestamp_ns>", f'["{text}", null]') == [count, None]
    assert decoded("map<string, timestamp_ns>", f'{{"a": "{text}"}}') == [("a", count)]
    assert decoded("struct<a: timestamp_ns>", f'{{"a": "{text}"}}') == {"a": count}


def test_an_offset_is_taken_off_to_the_nanosecond() -> None:
    assert decoded("timestamptz_ns", '"1970-01-01T01:00:00.000000001+01:00"') == 1


@pytest.mark.parametrize(
    ("mode", "precision", "number", "count"),
    [
        ("adaptive", None, 5, 5),
        ("adaptive", 7, 5, 5),
        ("adaptive", 6, 5, 5_000),
        ("microseconds", None, -5, -5_000),
        ("connect", None, 5, 5_000_000),
        ("nanoseconds", None, FIRST, FIRST),
    ],
)
def test_a_number_counts_what_the_connectors_mode_says(mode: Any, precision: int, number: int, count: int) -> None:
    assert decoded("timestamp_ns", str(number), replace(STRICT, time=mode), precision) == count


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ('"1677-09-21T00:12:43.145224191"', "out_of_range"),
        ('"2262-04-11T23:47:16.854775808"', "out_of_range"),
        ('"0001-01-01T00:00:00"', "out_of_range"),
        ('"infinity"', "out_of_range"),
        (str(LAST + 1), "out_of_range"),
        ('"2023-11-14T22:13:20.1234567890"', "type_mismatch"),
        ('"2023-02-30T00:00:00"', "type_mismatch"),
        ('"2023-11-14T22:13:20.123456789+01:00"', "type_mismatch"),
        ("1.5", "type_mismatch"),
        ("true", "type_mismatch"),
    ],
)
def test_what_nanoseconds_do_not_hold_is_a_dead_letter(value: str, code: str) -> None:
    with pytest.raises(EventError) as raised:
        decoded("timestamp_ns", value)
    assert raised.value.code == code
    if code == "out_of_range":
        assert decoded("timestamp_ns", value, DecodeSettings()) is None


def test_more_than_nine_digits_are_said_to_be_too_many() -> None:
    for kind in ("timestamp", "timestamp_ns"):
        with pytest.raises(EventError, match="more than 9 digits after the second"):
            decoded(kind, '"2023-11-14T22:13:20.1234567890"')


def test_no_type_holds_micro_and_nanoseconds_and_neither_becomes_the_other() -> None:
    assert widen(TIMESTAMP, TIMESTAMP_NS) == STRING
    assert not promotable(TIMESTAMP, TIMESTAMP_NS)
    assert not promotable(TIMESTAMP_NS, TIMESTAMP)


def facts(name: str = "NanoTimestamp") -> TableFacts:
    row = [
        {"type": "int64", "field": "id"},
        {"type": "int64", "name": f"io.debezium.time.{name}", "field": "at", "optional": True},
        {"type": "array", "field": "some", "optional": True,
         "items": {"type": "int64", "name": f"io.debezium.time.{name}"}},
    ]  # fmt: skip
    envelope = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": row}]}
    columns = columns_of(json.dumps(envelope).encode())
    return TableFacts(schemas={"s": columns}, seen=[columns])


def plan_of(rule: str, state: TableState | None = None, name: str = "NanoTimestamp") -> Planned:
    config = config_of(
        "warehouse: file:///w\ncatalog: {type: sql}\nstreams:\n  s:\n    tables:\n"
        f"      app.t: {{to: lake.t, key: [id]{rule}}}\n"
    )
    stream = config.streams["s"]
    target = Target(stream.target("app.t"), stream.tables[0], ("app.t",), (facts(name),))
    return planned(target, stream, state)


def table(version: int, at: str, properties: dict[str, str]) -> TableState:
    fields = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    fields.append({"id": 2, "name": "at", "required": False, "type": at})
    return TableState("", {"firn.key": '["id"]', "firn.mode": "mirror"} | properties, tuple(fields), None, (),
                      version=version)  # fmt: skip


def types_of(plan: Planned) -> dict[str, str]:
    return {column.name: str(column.type) for column in plan.columns.columns}


def test_a_schemas_nanoseconds_are_kept_by_tables_that_are_made_in_format_3() -> None:
    assert types_of(plan_of(", format: 3")) == {"id": "long", "at": "timestamp_ns", "some": "list<timestamp_ns>"}
    assert types_of(plan_of("")) == {"id": "long", "at": "timestamp", "some": "list<timestamp>"}
    assert types_of(plan_of(", format: 3", name="MicroTimestamp"))["at"] == "timestamp"
    made = table(3, "timestamp_ns", {NANOSECONDS: "true"})
    assert types_of(plan_of(", format: 3", made))["at"] == "timestamp_ns"
    # One that was upgraded goes on as it is.
    assert types_of(plan_of(", format: 3", table(3, "timestamp", {})))["at"] == "timestamp"


def test_microseconds_and_nanoseconds_of_one_column_are_text_in_whichever_order_they_come() -> None:
    for first, then in (("timestamp", "NanoTimestamp"), ("timestamp_ns", "MicroTimestamp")):
        made = table(3, first, {NANOSECONDS: "true"})
        assert types_of(plan_of(", format: 3", made, then))["at"] == "string"


@pytest.mark.parametrize(("there", "declared"), [("timestamp", "timestamp_ns"), ("timestamp_ns", "timestamp")])
def test_a_declaration_that_would_change_the_fineness_of_a_column_is_refused(there: str, declared: str) -> None:
    with pytest.raises(TerminalError, match=f"at is {there} in the table, and firn.yaml declares {declared}"):
        plan_of(f", format: 3, columns: {{at: {declared}}}", table(3, there, {}))


@pytest.mark.parametrize("kind", ["timestamp_ns", "timestamptz_ns", "list<timestamp_ns>", "map<int, timestamptz_ns>"])
def test_nanoseconds_are_declared_in_tables_of_format_3_alone(kind: str) -> None:
    for version in ("", ", format: 2"):
        with pytest.raises(ConfigError) as raised:
            plan_of(f"{version}, columns: {{at: '{kind}'}}")
        assert "'at'" in str(raised.value)
        assert "nanoseconds need Iceberg's format 3; write format: 3 beside columns:" in str(raised.value)
    assert types_of(plan_of(f", format: 3, columns: {{at: '{kind}'}}"))["at"] == kind


def test_a_schema_has_them_too() -> None:
    said = "mode: append, schema: {fields: [{name: at, type: timestamp_ns, unit: ns}]}}\n"
    text = "warehouse: file:///w\ncatalog: {type: sql}\nstreams:\n  s:\n    envelope: rows\n    tables:\n"
    text += "      t: {to: l.t, "
    with pytest.raises(ConfigError, match="write format: 3 beside schema:"):
        config_of(text + said)
    schema = config_of(text + "format: 3, " + said).streams["s"].tables[0].schema
    assert schema is not None
    codec = RowCodec(schema.columns(), None, schema.settings(STRICT))
    assert codec.decode(b'{"at": 7}').values == codec.decode(b'{"at": "1970-01-01T00:00:00.000000007Z"}').values == [7]


def test_a_long_keeps_the_count_where_a_table_has_no_nanoseconds() -> None:
    columns = facts().schemas["s"]
    assert RowCodec([Column("at", LONG)], columns, STRICT).decode(b'{"at": 123456789}').values == [123_456_789]
    text = RowCodec([Column("at", STRING, source=columns[1].source)], columns, STRICT)
    assert text.decode(b'{"at": 123456789}').values == ["1970-01-01T00:00:00.123456789"]


def test_a_table_is_partitioned_by_hours_and_days_of_nanoseconds_and_not_by_each() -> None:
    columns = ", format: 3, columns: {at: timestamp_ns}"
    for by in ("hour(at)", "day(at)", "month(at)", "year(at)", "bucket(4, at)"):
        plan_of(f"{columns}, partition_by: ['{by}']")
    with pytest.raises(ConfigError, match=r"at is timestamp_ns, .*write hour\(at\) or day\(at\)"):
        plan_of(f"{columns}, partition_by: [at]")
