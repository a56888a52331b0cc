"""Columns of data files as the driver writes and reads them, in every type that a table may have. No JVM."""

import io
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.iceberg_fields import HELD_TYPE, typed_json
from firn.changes.decode.types import parse as kind_of
from firn_spark.files import values

ONE, TWO = "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-fffffffffffe"
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None],
    "int": [-(2**31), 2**31 - 1, None],
    "long": [-(2**63), 2**63 - 1, None],
    "float": [0.5, float("inf"), None],
    "double": [0.1, -0.0, None],
    "date": [-719_162, 2_932_896, 3_000_000, None],  # the year 1, 9999, and after what Python knows
    "timestamp": [-62_135_596_800_000_000, 300_000_000_000_000_000, None],
    "timestamptz": [-62_135_596_800_000_000, 300_000_000_000_000_000, None],
    "string": ["", "é", None],
    "binary": [b"", b"\0\xff", None],
    "uuid": [ONE, TWO, None],
    "decimal(9,2)": [Decimal("1.20"), Decimal("-9999999.99"), None],
    "decimal(18,0)": [Decimal(10**18 - 1), None],
    "decimal(38,10)": [Decimal("1E-10"), Decimal(10**27), None],
    "list<int>": [[1, None], [], None],
    "list<uuid>": [[ONE, None, TWO], [], None],
    "list<timestamptz>": [[300_000_000_000_000_000, None], None],
    "list<list<date>>": [[[1], None, [None, 3_000_000]], None],
}


def field_ids(kind: pa.DataType) -> set[bytes]:
    found = {kind.field(i) for i in range(kind.num_fields)}
    mine = {(one.metadata or {}).get(b"PARQUET:field_id") for one in found}
    return mine.union(*(field_ids(one.type) for one in found)) - {None}


@pytest.mark.parametrize("name", VALUES)
def test_what_is_written_is_read_again(name: str) -> None:
    kind = kind_of(name)
    field = values.file_field({"id": 7, "name": "a.b", "required": False, "type": typed_json(kind, count(100))})
    table = pa.table([values.written(VALUES[name], kind, field)], schema=pa.schema([field]))
    file = io.BytesIO()
    pq.write_table(table, file, store_schema=False, store_decimal_as_integer=True)
    found = pq.ParquetFile(file)
    assert found.schema_arrow.field(0).metadata[b"PARQUET:field_id"] == b"7"
    assert field_ids(found.schema_arrow.field(0).type) == {str(100 + i).encode() for i in range(name.count("list"))}
    assert values.read(found.read().column(0), kind) == VALUES[name]


def test_held_orders_are_a_map_with_ids() -> None:
    field = values.file_field(
        {"id": 7, "name": "_firn_held", "required": False, "type": typed_json(HELD_TYPE, count(8))}
    )
    held = [[(3, b"x"), (4, b"")], None]
    table = pa.table([values.written(held, HELD_TYPE, field)], schema=pa.schema([field]))
    file = io.BytesIO()
    pq.write_table(table, file, store_schema=False)
    assert values.read(pq.ParquetFile(file).read().column(0), HELD_TYPE) == held


@pytest.mark.parametrize(
    ("there", "now", "value"),
    [("int", "long", 5), ("float", "double", 0.5), ("decimal(9,2)", "decimal(20,2)", Decimal("1.20"))],
)
def test_a_file_from_before_a_promotion_is_read_in_the_new_type(there: str, now: str, value: Any) -> None:
    field = values.file_field({"id": 1, "name": "v", "required": False, "type": typed_json(kind_of(there), count(9))})
    column = pa.chunked_array([values.written([value, None], kind_of(there), field)])
    assert values.read(column, kind_of(now)) == [value, None]


def test_a_nested_column_is_read_as_the_table_has_it_now() -> None:
    def part(number: int, name: str, kind: Any, required: bool = False) -> dict[str, Any]:
        return {"id": number, "name": name, "type": kind, "required": required}

    def struct(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"type": "struct", "fields": list(parts)}

    inner = [part(12, "n", "int", True), part(13, "u", "uuid"), part(14, "t", "timestamp_ns")]
    before = values.file_field(
        part(1, "s", struct(part(10, "a", "string", True), part(11, "in", struct(*inner), True)))
    )
    inner[0] = part(12, "m", "long", True)
    later = values.file_field(
        part(
            1,
            "s",
            struct(
                part(11, "in", struct(*inner), True), part(20, "a", "fixed[2]", True), part(10, "b", "string", True)
            ),
        )
    )
    units = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16, None, None], pa.binary(16)))
    times = pa.array([1, None, None], pa.timestamp("ns"))
    inside = pa.StructArray.from_arrays(
        [pa.array([7, 8, 0], pa.int32()), units, times], fields=list(before.type[1].type)
    )
    whole = pa.StructArray.from_arrays(
        [pa.array(["x", "y", ""]), inside], fields=list(before.type), mask=pa.array([False, False, True])
    )
    found = values.now(pa.table([whole.slice(1)], schema=pa.schema([before])), "s", later)
    body = pa.BufferOutputStream()
    pq.write_table(pa.table([found], schema=pa.schema([later])), body, store_schema=False)
    [told, nothing] = pq.read_table(pa.BufferReader(body.getvalue()))["s"].to_pylist()
    assert nothing is None
    assert (told["b"], told["in"]["m"], told["in"]["u"], told["in"]["t"]) == ("y", 8, None, None)
    assert values.nothing(2, later).to_pylist() == [None, None]
