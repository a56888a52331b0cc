"""Columns of variants, which PyIceberg 0.12 does not know, as JSON: in Arrow, DuckDB, SQL, changes and time travel."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from firn.changes.decode.variant_bytes import variant_of
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import BadFilter
from firn_lake.schemas.evolution import EvolutionRefused
from firn_lake.writing.data_files import CannotWriteType
from firn_lake.writing.table_creation import CannotCreate
from tests.integration.spark.test_commit import config, event
from tests.unit.lake.test_fresh import Ground
from tests.unit.lake.variant_tables import BINARIES, add_file, group, make_table, numbered

FIELDS = [
    {"id": 2, "name": "v", "required": False, "type": "variant"},
    {"id": 3, "name": "s", "required": False, "type": {"type": "struct", "fields": [
        {"id": 6, "name": "x", "required": False, "type": "variant"},
        {"id": 7, "name": "y", "required": False, "type": "int"}]}},
    {"id": 4, "name": "l", "required": False, "type":
        {"type": "list", "element-id": 8, "element": "variant", "element-required": False}},
    {"id": 5, "name": "m", "required": False, "type":
        {"type": "map", "key-id": 9, "key": "string", "value-id": 10, "value": "variant", "value-required": False}},
]  # fmt: skip
SCHEMA = pa.schema([
    numbered("id", pa.int64(), 1),
    numbered("v", BINARIES, 2),
    numbered("s", pa.struct([numbered("x", BINARIES, 6), numbered("y", pa.int32(), 7)]), 3),
    numbered("l", pa.list_(numbered("element", BINARIES, 8)), 4),
    numbered("m", pa.map_(numbered("key", pa.string(), 9).with_nullable(False), numbered("value", BINARIES, 10)), 5),
])  # fmt: skip


def rows(told: dict[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": n, "v": group(one), "s": {"x": group(one), "y": n}, "l": [group(one), None],
                "m": [("k", group(one))],
            }
            for n, one in told.items()
        ],
        SCHEMA,
    )  # fmt: skip


@pytest.fixture
def table(catalog: Catalog) -> LakeTable:
    made = make_table(catalog, "own.t", FIELDS)
    add_file(made, rows({1: '{"b": [null, "ü"], "a": 1}', 2: '"text"', 3: None}))
    add_file(made, rows({4: "null", 5: "1.50"}))
    return made


def test_arrow_has_json(table: LakeTable) -> None:
    assert table.columns()["v"] == "variant"
    found = table.read().arrow().sort_by("id")
    assert found.schema.field("v").type == pa.json_()
    assert found["v"].to_pylist() == ['{"a":1,"b":[null,"ü"]}', '"text"', None, "null", "1.5"]
    assert found["s"].combine_chunks().field("x").to_pylist() == found["v"].to_pylist()
    assert table.read(columns=["m"], limit=1).count() == 1


def test_sql_looks_into_it(table: LakeTable, catalog: Catalog) -> None:
    def ask(sql: str) -> list[Any]:
        return [tuple(row.values()) for row in Lake(catalog).sql(sql).arrow().to_pylist()]

    assert ask("SELECT id, typeof(v) FROM own.t WHERE v->>'a' = '1'") == [(1, "JSON")]
    assert ask("SELECT id FROM own.t WHERE v = '1.5'") == [(5,)]
    assert ask("SELECT id FROM own.t WHERE v IS NULL") == [(3,)]
    assert ask("SELECT id FROM own.t WHERE v IS NOT NULL AND id > 3 ORDER BY id") == [(4,), (5,)]
    assert ask("SELECT s.x->'b'->>1, l[1]->>'a', m['k']->>'a', typeof(l) FROM own.t WHERE id = 1") == [
        ("ü", "1", "1", "VARCHAR[]")
    ]
    assert ask("SELECT json_type(v), count(*) FROM own.t GROUP BY ALL ORDER BY ALL")[-1] == (None, 1)


def test_a_filter_may_ask_for_null_and_no_more(table: LakeTable) -> None:
    assert [row["id"] for row in table.read(filter="v is null").pylist()] == [3]
    assert table.read(filter="s.x is not null and id < 3").count() == 2
    for one in ("v = '1.5'", "id = 1 or not (v > 'a')", "s.x in ('a', 'b')"):
        with pytest.raises(BadFilter, match="is a variant: a filter may say that it is null"):
            table.read(filter=one)


def test_changes_and_moments(table: LakeTable) -> None:
    first = table.snapshots()[0].id
    found = table.changes(first, columns=["id", "v", "l"]).pylist()
    assert sorted((one["_change"], one["id"], one["v"]) for one in found) == [
        ("insert", 4, "null"),
        ("insert", 5, "1.5"),
    ]
    assert table.read(as_of=first).count() == 3
    Lake(table.iceberg.catalog).table("own.t")
    change = table.changes(None, first, columns=["id", "v"]).pylist()[0]
    assert change["_before"] is None


def test_pandas_and_duckdb_have_it(table: LakeTable) -> None:
    assert table.read(columns=["id", "v"]).duckdb().filter("v->>'a' = '1'").fetchall() == [
        (1, '{"a":1,"b":[null,"ü"]}')
    ]


def test_a_column_that_came_later_and_one_that_went(catalog: Catalog) -> None:
    made = make_table(catalog, "own.u", [])
    add_file(made, pa.table([pa.array([1])], schema=pa.schema([numbered("id", pa.int64(), 1)])))
    made.evolve(add={"v": "variant"})
    assert made.read().pylist() == [{"id": 1, "v": None}]
    schema = pa.schema([numbered("id", pa.int64(), 1), numbered("v", BINARIES, 2)])
    add_file(made, pa.Table.from_pylist([{"id": 2, "v": group("[1]")}], schema))
    assert [row["v"] for row in made.read().pylist()] in ([None, "[1]"], ["[1]", None])
    made.evolve(drop=["v"])
    assert made.read().arrow().num_rows == 2


def test_no_other_type_becomes_a_variant_nor_a_variant_one(table: LakeTable) -> None:
    for column, kind in (("v", "string"), ("v", "binary"), ("s.y", "variant")):
        with pytest.raises(EvolutionRefused, match="can't be widened"):
            table.evolve(widen={column: kind})


def test_what_is_not_written_here(table: LakeTable, catalog: Catalog) -> None:
    before = table.snapshots()
    for write in (
        lambda: table.append([{"id": 9, "v": "{}"}]),
        lambda: table.overwrite([{"id": 9}], filter="id = 1"),
        lambda: table.upsert([{"id": 1}], key=["id"]),
    ):
        with pytest.raises(CannotWriteType, match=r"l\.element, m\.value, s\.x, v of the table is a variant"):
            write()
    assert table.snapshots() == before
    with pytest.raises(CannotCreate, match="no floats, variants"):
        Lake(catalog).create("own.k", table.iceberg.schema(), key=["v"])


def shredded(*fields: pa.Field) -> pa.DataType:
    parts = [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary()), *fields]
    return pa.struct(parts)


def part(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, pa.struct([pa.field("value", pa.binary()), pa.field("typed_value", kind)]), False)


LONG = pa.field("typed_value", pa.int64())


def read_of(catalog: Catalog, kind: pa.DataType, groups: list[Any]) -> list[Any]:
    made = make_table(catalog, "own.s", [FIELDS[0]])
    schema = pa.schema([numbered("id", pa.int64(), 1), numbered("v", kind, 2)])
    add_file(made, pa.Table.from_pylist([{"id": n, "v": one} for n, one in enumerate(groups)], schema))
    return [row["v"] for row in made.read().arrow().sort_by("id").to_pylist()]


META, _ = variant_of('{"a": 0, "b": 0, "c": 0}')


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.int8(), [-1], ["-1"]),
        (pa.int64(), [2**63 - 1], [str(2**63 - 1)]),
        (pa.float32(), [0.1], ["0.1"]),
        (pa.float64(), [float("nan"), 1e22], ['"NaN"', "10000000000000000000000"]),
        (pa.decimal128(38, 2), [Decimal("1.50")], ["1.5"]),
        (pa.date32(), [date(2024, 2, 29)], ['"2024-02-29"']),
        (pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, tzinfo=UTC)], ['"2024-02-29T00:00:00.000000Z"']),
        (pa.timestamp("us"), [datetime(2024, 2, 29)], ['"2024-02-29T00:00:00.000000"']),
        (pa.string(), ['"'], ['"\\""']),
        (pa.binary(), [b"\x00\xff"], ['"AP8="']),
        (pa.binary(16), [bytes(range(16))], ['"00010203-0405-0607-0809-0a0b0c0d0e0f"']),
    ],
)
def test_shredded_values(catalog: Catalog, kind: pa.DataType, values: list[Any], texts: list[str]) -> None:
    groups = [{"metadata": META, "value": None, "typed_value": one} for one in values]
    other = [{"metadata": META, "value": variant_of("[1]")[1], "typed_value": None}, None]
    missing = [{"metadata": META, "value": None, "typed_value": None}]
    found = read_of(catalog, shredded(pa.field("typed_value", kind)), [*groups, *other, *missing])
    assert found == [*texts, "[1]", None, "null"]


def test_shredded_objects_and_arrays(catalog: Catalog) -> None:
    items = pa.list_(part("element", pa.int64()).with_nullable(False))
    kind = shredded(pa.field("typed_value", pa.struct([part("a", pa.int64()), part("c", items)])))

    def typed(a: Any = None, c: Any = None, a_value: Any = None) -> dict[str, Any]:
        return {"a": {"value": a_value, "typed_value": a}, "c": {"value": None, "typed_value": c}}

    groups: list[Any] = [
        {
            "metadata": META,
            "value": None,
            "typed_value": typed(1, [{"value": None, "typed_value": 5}, {"value": b"\x00"}]),
        },
        {"metadata": META, "value": b"\x02\x01\x01\x00\x01\x04", "typed_value": typed(a_value=b"\x05x")},
        {"metadata": META, "value": None, "typed_value": typed()},
        {"metadata": META, "value": b"\x00", "typed_value": None},
        None,
        {"metadata": META, "value": None, "typed_value": typed(c=[])},
    ]
    assert read_of(catalog, kind, groups) == [
        '{"a":1,"c":[5,null]}',
        '{"a":"x","b":true}',
        "{}",
        "null",
        None,
        '{"c":[]}',
    ]


@pytest.mark.parametrize(
    ("kind", "told", "why"),
    [
        (BINARIES, {"metadata": b"", "value": b"\x00"}, "its metadata is of version 0"),
        (BINARIES, {"metadata": b"\x01\x00\x00", "value": b"\x18"}, "it is cut off"),
        (shredded(LONG), {"metadata": META, "value": b"\x00", "typed_value": 1}, "a shredded one"),
        (shredded(pa.field("typed_value", pa.time32("s"))), {"metadata": META, "typed_value": None}, "no type for"),
        (shredded(pa.field("typed_value", pa.struct([LONG]))), {"metadata": META, "typed_value": {}}, "not a group"),
    ],
)
def test_a_file_of_a_stranger_is_told_by_name(catalog: Catalog, kind: pa.DataType, told: Any, why: str) -> None:
    with pytest.raises(
        UnreadableFile, match=rf"own/s/data/.*parquet, which snapshot \d+ of own\.s needs.*column v has.*{why}"
    ):
        read_of(catalog, kind, [told])


def test_a_column_of_text_is_no_variant(catalog: Catalog) -> None:
    with pytest.raises(UnreadableFile, match="Cannot promote"):
        read_of(catalog, pa.string(), ["{}"])


def test_what_pyiceberg_does_not_know_stays_in_the_metadata(table: LakeTable) -> None:
    table.evolve(rename={"v": "w"})
    with table.iceberg.io.new_input(table.iceberg.metadata_location).open() as stream:
        stored = json.loads(stream.read())
    kinds = {field["name"]: field["type"] for field in stored["schemas"][-1]["fields"]}
    assert kinds["w"] == "variant"
    assert kinds["l"]["element"] == kinds["m"]["value"] == kinds["s"]["fields"][0]["type"] == "variant"


def test_variants_that_wait_are_read_with_those_that_are_there(tmp_path: Path) -> None:
    ground = Ground(tmp_path, config("key: [id], format: 3, columns: {id: long, v: variant}"))
    ground.post([event("c", 10, {"id": 1, "v": '{"b": 1.0, "a": 2}'}), event("c", 11, {"id": 2, "v": None})])
    lake = Lake(ground.catalog, lambda: ground.store)
    ask = "SELECT id, v, typeof(v) AS t FROM lake.t ORDER BY id"
    first = {"id": 1, "v": '{"a":2,"b":1}', "t": "JSON"}
    assert lake.sql(ask, fresh=True).pylist()[:1] == [first]
    assert lake.sql("SELECT id FROM lake.t WHERE v->>'b' = '1'", fresh=True).pylist() == [{"id": 1}]
