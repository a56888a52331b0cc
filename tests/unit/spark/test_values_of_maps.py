"""Maps and bytes of one length: written to files, read from them, and made comparable with what was decoded."""

import io
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.iceberg_fields import column_of, typed_json, widened_json
from firn.changes.decode.types import parse
from firn.errors import TerminalError
from firn_lake.fresh import plain_values
from firn_spark.files import values
from firn_spark.tables.retype import converted
from firn_sql.source_types import arrow_type

_ID = "6b1f0e7c-5a5d-4c1e-9a53-000000000001"
CASES: dict[str, list[Any]] = {
    "fixed[3]": [b"abc", None],
    "list<fixed[2]>": [[b"ab", None], [], None],
    "struct<a: fixed[1], b: map<string, int>>": [{"a": b"a", "b": []}, {"a": None, "b": None}, None],
    "map<string, int>": [[("b", 1), ("a", None)], [], None],
    "map<long, timestamp>": [[(-1, 5), (2, None)], None],
    "map<uuid, map<date, decimal(9,2)>>": [[(_ID, [(3, Decimal("1.00"))]), (_ID.replace("1", "2"), None)], None],
    "list<map<uuid, date>>": [[[(_ID, 3)], None], None],
    "map<fixed[1], struct<a: uuid, b: list<timestamptz>>>": [[(b"a", {"a": _ID, "b": [7, None]}), (b"b", None)], None],
}


@pytest.mark.parametrize("text", CASES)
def test_they_are_in_a_file_and_in_arrow_what_they_were(text: str) -> None:
    told, kind = CASES[text], parse(text)
    said = {"id": 1, "name": "x", "required": False, "type": typed_json(kind, count(2))}
    column = column_of(said)
    assert column is not None
    assert column.type == kind
    field = values.file_field(said)
    array = values.written(told, kind, field)
    file = io.BytesIO()
    pq.write_table(pa.table([array], schema=pa.schema([field])), file, store_schema=False)
    rows = pq.read_table(file)
    assert values.read(rows["x"], kind) == told
    assert values.now(rows, "x", field).type == field.type
    decoded = values.typed(told, kind)
    assert (decoded.type, values.decoded(decoded, kind)) == (arrow_type(kind), told)
    assert plain_values.plain(array, kind) == told
    again = plain_values.typed(told, kind, field.type)
    assert (again.type, plain_values.plain(again, kind)) == (field.type, told)


def test_a_map_whose_values_get_a_wider_type_keeps_its_ids() -> None:
    before = typed_json(parse("map<string, list<int>>"), count(2))
    after = widened_json(before, parse("map<string, list<long>>"), count(90))
    assert after == before | {"value": before["value"] | {"element": "long"}}


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "key-id": 2, "key": "double", "value-id": 3, "value": "int", "value-required": False},
        {"type": "map", "key-id": 2, "key": "string", "value-id": 3, "value": "int", "value-required": True},
        {"type": "map", "key-id": 2, "key": "string", "value-id": 3, "value": "time", "value-required": False},
        "fixed[65536]",
        {"type": "list", "element-id": 2, "element": "variant", "element-required": False},
    ],
)
def test_other_tables_may_have_what_firn_does_not_write(kind: Any) -> None:
    assert column_of({"id": 1, "name": "x", "required": False, "type": kind}) is None


NOWHERE: Any = None  # no function is registered


def test_maps_in_lists_get_wider_values_and_what_spark_can_not_do_says_so() -> None:
    """A function of ours would have to be told the type of its maps, which Spark has no such word for."""
    old = parse("list<map<string, int>>")
    wider = converted(NOWHERE, "x", old, parse("list<map<string, double>>"))
    assert wider == "transform(x, x -> transform_values(x, (k, x) -> CAST(x AS DOUBLE)))"
    for new in ("list<map<string, string>>", "struct<a: list<map<string, string>>>"):
        there = parse(str(old) if new.startswith("list") else f"struct<a: {old}>")
        with pytest.raises(TerminalError, match="can't become one of map<string, string>"):
            converted(NOWHERE, "x", there, parse(new))


def test_a_new_part_of_a_struct_may_be_a_map_of_odd_names() -> None:
    new = parse("struct<a: int, b: map<date, struct<c d: int>>>")
    assert "CAST(NULL AS map<date, struct<`c d`: int>>)" in converted(NOWHERE, "x", parse("struct<a: int>"), new)
