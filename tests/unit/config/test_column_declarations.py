"""`columns:` with defaults: what firn.yaml may say of one, and what it is told instead."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from firn.changes.decode.types import Column, parse
from firn.config.model import ColumnDeclaration
from firn.config.reader import parse as parse_config
from firn.dispatch.schema_ranges import versions
from firn.errors import ConfigError, TerminalError
from firn.tables.planning import plan_columns, without_defaults


def columns(text: str, more: str = ", format: 3, key: [id]") -> dict[str, ColumnDeclaration]:
    config = parse_config(f"streams: {{shop: {{tables: {{a.b: {{to: shop.b{more}, columns: {{{text}}}}}}}}}}}")
    return dict(config.streams["shop"].tables[0].columns)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-5", -5), ("boolean", "True", True), ("double", "1", 1.0), ("decimal(9,2)", "1.5", Decimal("1.50")),
        ("string", "no", "no"), ("string", "''", ""), ("string", "'null'", "null"), ("date", "1970-01-02", 1),
        ("timestamp(3)", "'1970-01-01T00:00:00.000001'", 1), ("timestamptz", "'1970-01-01T01:00:00+01:00'", 0),
        ("time", "'01:02:03'", "01:02:03.000000"), ("unsigned long", "18446744073709551615", Decimal(2**64 - 1)),
        ("bit(2)", "'Aw=='", b"\x03"), ("fixed[2]", "'AP8='", b"\0\xff"), ("binary", "''", b""),
        ("wkb", "'0101000020E61000000000000000000000000000000000F03F'",
         bytes.fromhex("01010000000000000000000000000000000000f03f")),
    ],
)  # fmt: skip
def test_a_default_is_a_value_of_the_stored_type(kind: str, text: str, value: Any) -> None:
    found = columns(f"c: {{type: '{kind}', default: {text}}}, d: {{type: long}}")
    assert found["c"].default == value
    assert type(found["c"].default) is type(value)
    assert found["d"] == ColumnDeclaration(parse("long"))


_LONG = "a" * 1_000


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        ("c: {type: int, default: x}", ", format: 3", "c.default: is not of the column's type: not an integer"),
        ("c: {type: int, default: 2147483648}", ", format: 3", "does not fit int"),
        ("c: {type: date, default: 2024-02-30}", ", format: 3", "is not of the column's type"),
        ("c: {type: double, default: NaN}", ", format: 3", "'NaN', which Iceberg's metadata can't hold; leave it out"),
        ("c: {type: float, default: 1e39}", ", format: 3", "does not fit float"),
        ("c: {type: int, default: null}", ", format: 3", "is null, which a column without a default has anyway"),
        ("c: {type: int, default: [1]}", ", format: 3", "is not one value; write one of the type int"),
        ("c: {type: 'list<int>', default: [1]}", ", format: 3", "which has parts or no type in Iceberg; leave it out"),
        ("c: {type: 'decimal(50,2)', default: 1}", ", format: 3", "which has parts or no type in Iceberg"),
        (f"c: {{type: string, default: {_LONG}}}", ", format: 3", "is longer than 1,000 bytes"),
        ("c: {type: wkb, default: AQ==}", ", format: 3", "is not of the column's type"),
        ("c: {default: 1}", ", format: 3", "c.type: is missing; write a type"),
        ("c: {type: int, defualt: 1}", ", format: 3", "default"),
        ("c: {type: bigint, default: 1}", ", format: 3", "write long"),
        ("c: {type: int, default: 1}", "", "write format: 3 in the table's rule"),
        ("c: {type: int, default: 1}", ", format: 2", "write format: 3 in the table's rule"),
        ("c: {type: int, default: 1}", ", format: 3, key: [c]", "is of the key"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_told_by_its_place_and_what_to_write(text: str, more: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        columns(text, more)
    assert why in str(refused.value)
    assert "streams.shop.tables.a.b.columns.c" in str(refused.value)


def declared(kind: str, default: Any) -> Column:
    return Column("c", parse(kind), default=default)


@pytest.mark.parametrize(
    ("there", "kind", "default", "found"),
    [
        ("int", "int", 5, 5), ("long", "int", 5, 5), ("decimal(9,2)", "int", 5, Decimal("5.00")),
        ("string", "int", 5, "5"), ("string", "date", date(2024, 2, 29).toordinal() - 719_163, "2024-02-29"),
        ("double", "int", 5, 5.0),
    ],
)  # fmt: skip
def test_the_default_is_one_of_the_type_that_the_table_has(there: str, kind: str, default: Any, found: Any) -> None:
    plan = plan_columns([Column("c", parse(there))], [declared(kind, default)], [])
    assert [(one.name, one.default, type(one.default)) for one in plan.defaulted] == [("c", found, type(found))]
    assert plan.columns[0].default == found


def test_a_default_that_the_tables_column_can_not_have_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(TerminalError, match=r"the column c is int in the table, .* declare the column as int"):
        plan_columns([Column("c", parse("int"))], [declared("string", "x")], [], fixed=frozenset({"c"}))


def test_nothing_is_due_where_the_table_has_the_default_already() -> None:
    plan = plan_columns([Column("c", parse("int"), default=5)], [declared("int", 5)], [])
    assert (plan.defaulted, plan.added) == ((), ())


def test_a_float_is_one_with_what_the_table_says_of_it() -> None:
    kept = Column("c", parse("float"), default=0.12345679)
    assert plan_columns([kept], [declared("float", 0.1234567890123)], []).defaulted == ()
    assert plan_columns([kept], [declared("float", 0.125)], []).defaulted != ()


def test_a_column_that_gets_another_type_gets_its_default_again() -> None:
    plan = plan_columns([Column("c", parse("float"), default=0.5)], [declared("double", 0.5)], [])
    assert [one.name for one in plan.retyped] == [one.name for one in plan.defaulted] == ["c"]


def test_a_key_that_events_name_has_no_default_either() -> None:
    plan = without_defaults(plan_columns([], [declared("int", 5)], []), {"c"})
    assert [one.default for one in (*plan.columns, *plan.added)] == [None, None]
    assert without_defaults(plan_columns([Column("c", parse("int"))], [declared("int", 5)], []), {"c"}).defaulted == ()


def test_a_range_ends_where_another_default_is_declared() -> None:
    texts = ("c: int", "c: {type: int, default: 1}", "c: {type: int, default: 2}", "c: {type: int, default: 1}, d: int")
    rules = [
        f"streams: {{shop: {{tables: {{a.b: {{to: shop.b, format: 3, columns: {{{text}}}}}}}}}}}" for text in texts
    ]
    found = [versions(parse_config(rule).streams["shop"]) for rule in rules]
    assert found[0] == {}
    assert found[1] == found[3] != found[2]
