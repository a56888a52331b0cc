"""The default of a column (Iceberg's `write-default`) stands where a change does not name it, and only there."""

from decimal import Decimal
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.column_defaults import write_default
from firn.changes.decode.image_columns import ImageColumns
from firn.changes.decode.types import INT, LONG, STRING, Column, Encoding, parse
from firn.errors import TerminalError
from firn.tables.planning import plan_columns, without_defaults

COLUMNS = (Column("id", LONG), Column("x", INT, default=5), Column("y", STRING, default="usual"))
CODEC = RowCodec(COLUMNS, None, DecodeSettings())


@pytest.mark.parametrize(
    ("kind", "told", "value"),
    [
        ("boolean", False, False), ("int", -5, -5), ("long", 2**40, 2**40), ("float", 0.5, 0.5), ("double", 1, 1.0),
        ("decimal(9,2)", "1.50", Decimal("1.50")), ("date", "1970-01-03", 2),
        ("timestamp", "1970-01-01T00:00:01.000002", 1_000_002),
        ("timestamptz", "1970-01-01T00:00:01.000002+00:00", 1_000_002), ("string", "", ""),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("binary", "00ff", b"\0\xff"), ("fixed[2]", "00FF", b"\0\xff"),
    ],
)  # fmt: skip
def test_it_is_read_as_iceberg_writes_it(kind: str, told: Any, value: Any) -> None:
    found = write_default({"name": "x", "write-default": told}, parse(kind))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "told"),
    [("date", "12024-01-01"), ("int", "5"), ("fixed[2]", "00"), ("list<int>", [])],
)
def test_one_that_no_row_could_have_is_an_error_that_names_the_column(kind: Any, told: Any) -> None:
    with pytest.raises(TerminalError, match="the column x has a write-default that Firn can't write"):
        write_default({"name": "x", "write-default": told}, parse(kind))


@pytest.mark.parametrize(
    ("image", "values"),
    [
        (b'{"id": 1}', [1, 5, "usual"]),
        (b'{"id": 1, "x": null}', [1, None, "usual"]),
        (b'{"id": 1, "x": 6, "y": ""}', [1, 6, ""]),
        (b'{"id": 1, "y": "__debezium_unavailable_value"}', [1, 5, None]),
        (b'"{\\"id\\": 1}"', [1, 5, "usual"]),
    ],
)
def test_null_and_unavailable_are_no_absence(image: bytes, values: list[Any]) -> None:
    assert CODEC.decode(image).values == values
    if image[:1] == b"{":
        found, odd = ImageColumns(CODEC).decode([image.decode()])
        assert odd or [found[i][0] for i in range(3)] == values


def test_what_an_inline_schema_does_not_name_is_absent_whatever_the_image_holds() -> None:
    source = [Column("id", LONG, source=Encoding("integer"))]
    assert RowCodec(COLUMNS, source, DecodeSettings()).decode(b'{"id": 1, "x": 9}').values == [1, 5, "usual"]


def test_no_default_stands_in_for_a_key_and_a_column_of_another_type_has_none() -> None:
    plan = plan_columns(COLUMNS, (), [[Column("x", LONG), Column("y", STRING)]])
    assert [column.default for column in plan.columns] == [None, 5, "usual"]
    assert [column.default for column in without_defaults(plan, ("x",)).columns] == [None, None, "usual"]
    plan = plan_columns(COLUMNS, (), [[Column("x", STRING)]])
    assert [(column.name, column.default) for column in plan.retyped] == [("x", None)]
