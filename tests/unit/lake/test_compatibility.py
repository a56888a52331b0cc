"""Whether rows fit a table: what is in the way, and what would have to be evolved."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as t
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from firn_lake.lake import Lake
from firn_lake.schemas.compatibility import reasons_against

TABLE = Schema(
    t.NestedField(1, "id", t.LongType(), required=True),
    t.NestedField(2, "count", t.IntegerType()),
    t.NestedField(3, "price", t.DecimalType(9, 2)),
    t.NestedField(4, "address", t.StructType(
        t.NestedField(5, "city", t.StringType()), t.NestedField(6, "zip", t.IntegerType(), True),
    )),
    t.NestedField(7, "items", t.ListType(8, t.IntegerType(), True)),
    t.NestedField(9, "by", t.MapType(10, t.StringType(), 11, t.DoubleType(), False)),
    t.NestedField(12, "_firn_pos", t.StringType()),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "reasons"),
    [
        ({"id": "long"}, []),
        ({"id": "int", "price": "decimal(7,2)", "by": "map<string,float>"}, []),
        (pa.schema([pa.field("id", pa.int8(), False), ("by", pa.map_(pa.string(), pa.float32()))]), []),
        (TABLE.select("id", "count", "address", "items"), []),
        ({"count": "int"}, ["id is required, and the rows do not have it"]),
        (pa.schema([("id", pa.int64())]), [
            "id is required, and may be null in the rows: say that it is not, or evolve(make_optional=['id'])",
        ]),
        ({"id": "long", "cuont": "int"}, [
            "there is no column cuont (do you mean count?); there are id, count, price, address, items, by. "
            "To have it: evolve(add={'cuont': 'int'})",
        ]),
        ({"id": "long", "count": "long"}, [
            "count is int in the table and long in the rows: cast the values, or evolve(widen={'count': 'long'})",
        ]),
        ({"id": "string"}, ["id is long in the table and string in the rows: cast the values"]),
        ({"id": "long", "price": "decimal(9,3)"}, [
            "price is decimal(9,2) in the table and decimal(9,3) in the rows: cast the values",
        ]),
        ({"id": "long", "address": "struct<city: string>"}, ["address.zip is required, and the rows do not have it"]),
        ({"id": "long", "address": "struct<city: long, zip: int>"}, [
            "address.city is string in the table and long in the rows: cast the values",
        ]),
        ({"id": "long", "items": "list<long>"}, [
            "items.element is int in the table and long in the rows: cast the values, or "
            "evolve(widen={'items.element': 'long'})",
        ]),
        ({"id": "long", "items": "string"}, [
            "items is list<int required> in the table and string in the rows: cast the values",
        ]),
        ({"id": "long", "_firn_pos": "string"}, [
            "_firn_pos is Firn's own column, which only its jobs write: leave it out",
        ]),
        ({"id": "text"}, ["'text' is not a type; write string; or fixed[length], struct<…>, map<…>"]),
        (pa.schema([("id", pa.duration("s"))]), [
            "id is duration[s], which Iceberg has no type for: cast it to int64, and say the unit in the column's name",
        ]),
    ],
)  # fmt: skip
def test_the_reasons_name_what_to_do(rows: "pa.Schema | Schema | Mapping[str, str]", reasons: list[str]) -> None:
    assert reasons_against(TABLE, rows) == reasons


@pytest.mark.parametrize(
    "wishes",
    [{"add": {"extra": "list<string>"}}, {"widen": {"count": "long"}}, {"make_optional": ["id"]}],
)
def test_what_it_says_to_evolve_is_enough(catalog: Catalog, wishes: dict[str, Any]) -> None:
    catalog.create_namespace_if_not_exists("shop")
    schema = Schema(t.NestedField(1, "id", t.LongType(), required=True), t.NestedField(2, "count", t.IntegerType()))
    catalog.create_table("shop.t", schema)
    table = Lake(catalog).table("t")
    rows = {
        "add": pa.schema([pa.field("id", pa.int64(), False), ("extra", pa.list_(pa.string()))]),
        "widen": pa.schema([pa.field("id", pa.int64(), False), ("count", pa.int64())]),
        "make_optional": pa.schema([("id", pa.int64())]),
    }[next(iter(wishes))]
    (reason,) = table.is_compatible(rows)
    assert "evolve(" in reason
    table.evolve(**wishes)
    assert table.is_compatible(rows) == []
    table.iceberg.append(rows.empty_table())


def test_the_sql_of_a_table_in_the_lake(catalog: Catalog, orders: Table) -> None:
    sql = Lake(catalog).table("orders").to_sql()
    assert sql.startswith("CREATE TABLE `shop`.`orders` (\n  `id` BIGINT,\n")
    assert "firn." not in sql
