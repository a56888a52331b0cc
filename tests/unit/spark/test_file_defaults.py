"""What rows of a file have of a column that it lacks, and new rows of one that nobody tells (Iceberg's defaults)."""

from typing import Any

import pyarrow as pa
import pytest

from firn_spark.files import values

MOMENT = "2024-02-29T01:02:03.123456"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("boolean", False), ("int", -5), ("long", 2**40), ("float", 0.5), ("double", 0.5), ("decimal(9,2)", "1.50"),
        ("date", "2024-02-29"), ("time", "01:02:03.000004"), ("timestamp", MOMENT), ("timestamptz", MOMENT + "+00:00"),
        ("timestamp_ns", MOMENT + "789"), ("timestamptz_ns", MOMENT + "789+00:00"), ("string", ""),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"), ("fixed[2]", "01ff"), ("binary", "01ff00"),
    ],
)  # fmt: skip
def test_each_type_has_its_default(kind: str, told: Any) -> None:
    field = values.file_field(described(kind) | {"initial-default": told})
    found = values.lacking(3, field)
    assert (found.type, found.null_count) == (field.type, 0)
    assert found[0] == found[1] == found[2]
    assert written(found) == told
    assert values.untold(3, field).null_count == 3, "the other default is for new rows"


def described(kind: str) -> dict[str, Any]:
    return {"id": 4, "name": "x", "required": False, "type": kind}


def written(column: pa.ChunkedArray) -> Any:
    """As Iceberg's JSON has it."""
    if pa.types.is_timestamp(column.type):
        text = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())[0].as_py().replace(" ", "T")
        return text + ("+00:00" if column.type.tz else "")
    value = column[0].as_py()
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, bool | int | float) else str(value)


def test_parts_of_a_struct_have_theirs_but_not_where_it_is_null() -> None:
    part = described("int") | {"id": 5, "name": "a"}
    field = values.file_field(described("int") | {"type": {"type": "struct", "fields": [part]}})
    more = described("string") | {"id": 6, "name": "b", "initial-default": "usual", "required": True}
    now = values.file_field(described("int") | {"type": {"type": "struct", "fields": [part, more]}})
    rows = pa.table([pa.array([{"a": 1}, None, {"a": None}], field.type)], schema=pa.schema([field]))
    assert values.now(rows, "x", now).to_pylist() == [{"a": 1, "b": "usual"}, None, {"a": None, "b": "usual"}]


def test_rows_that_are_told_keep_what_they_have() -> None:
    field = values.file_field(described("int") | {"write-default": 9})
    told = pa.chunked_array([pa.array([1, None, 3], pa.int32())])
    assert values.or_untold(told, pa.array([True, True, False]), field).to_pylist() == [1, None, 9]


@pytest.mark.parametrize(("kind", "told"), [("int", "many"), ("date", "2024-02-30"), ("uuid", 5), ("binary", "0")])
def test_a_default_that_is_none_of_its_type_is_an_error_that_names_the_column(kind: str, told: Any) -> None:
    field = values.file_field(described(kind) | {"initial-default": told})
    with pytest.raises(pa.ArrowInvalid, match="the default of x is not known here"):
        values.lacking(1, field)
