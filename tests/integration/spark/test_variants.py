"""Columns that firn.yaml declares as variants: from a stream to a table of format 3, in both homes of the engine."""

from collections.abc import Callable
from typing import Any

import pytest

from firn.log import published_configs
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event, letters, with_schema
from tests.soak import few_cases

pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]


def rule(columns: str, more: str = "") -> str:
    return config(f"key: [id], format: 3, columns: {{{columns}}}{more}")


def told(one: Lake, name: str = "doc") -> dict[int, str | None]:
    """The column by key, alike to Spark, firn_lake, its SQL and its fresh reads."""
    spark = one.spark.table("firn.lake.t").selectExpr("id", f"to_json({name}) AS v", f"{name} IS NULL AS none")
    by_spark = {row["id"]: None if row["none"] else row["v"] for row in spark.collect()}
    read = Reader(one.catalog, lambda: one.store)
    found = [
        {row["id"]: row["v"] for row in read.sql(f"SELECT id, {name} AS v FROM lake.t", fresh=fresh).pylist()}
        for fresh in (False, True)
    ]
    found.append({row["id"]: row[name] for row in read.table("lake.t").read(columns=["id", name]).pylist()})
    assert found == [by_spark] * 3
    return by_spark


@few_cases(1)
@HOMES
@pytest.mark.parametrize("write", ["", ", write: copy-on-write"])
def test_json_in_any_form_is_one_variant_through_updates_and_compaction(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str, write: str
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    one = lake(rule("id: long, v: string, doc: variant", write))
    one.land(
        [
            event("c", 10, {"id": 1, "v": "a", "doc": '{"b": [1, null, 1.50], "a": "ü"}'}),
            event("c", 11, {"id": 2, "v": "a", "doc": {"a": "ü", "b": [1.0, None, 1.5]}}),
            event("c", 12, {"id": 3, "v": "a", "doc": None}),
            event("c", 13, {"id": 4, "v": "a", "doc": "null"}),
            event("c", 14, {"id": 5, "v": "a", "doc": '"text"'}),
            event("c", 15, {"id": 6, "v": "a", "doc": "123456789012345678901234567890.5"}),
            event("c", 16, {"id": 7, "v": "a", "doc": '{"a": '}),
            event("c", 17, {"id": 8, "v": "a", "doc": "1e400"}),
            event("c", 18, {"id": 9, "v": "a", "doc": "no json"}),
        ]
    )
    one.spark.sql("REFRESH TABLE firn.lake.t")
    same = '{"a":"ü","b":[1,null,1.5]}'
    rows: dict[int, Any] = {
        1: same, 2: same, 3: None, 4: "null", 5: '"text"', 6: "123456789012345678901234567890.5",
    }  # fmt: skip
    assert told(one) == rows
    assert one.spark.table("firn.lake.t").schema["doc"].dataType.simpleString() == "variant"
    assert sorted(letter.reason for letter in letters(one)) == ["type_mismatch"] * 3
    changes = [
        event("u", 100, {"id": 1, "v": "new", "doc": GONE}),
        event("u", 101, {"id": 20, "v": "new", "doc": GONE}, {"id": 2}),
        event("u", 102, {"id": 4, "v": "new", "doc": {"z": 1}}),
        event("d", 103, None, {"id": 5}),
        event("u", 104, {"id": 6, "v": "new", "doc": None}),
        event("c", 105, {"id": 10, "v": "new", "doc": [True]}),
    ]
    one.land([*changes, *changes[:2]])
    rows |= {4: '{"z":1}', 6: None, 10: "[true]", 20: rows.pop(2)}
    del rows[5]
    one.spark.sql("REFRESH TABLE firn.lake.t")
    assert told(one) == rows
    one.spark.sql("CALL firn.system.rewrite_data_files(table => 'lake.t', options => map('rewrite-all', 'true'))")
    one.spark.sql('UPDATE firn.lake.t SET doc = parse_json(\'{"by": "another"}\') WHERE id = 10')
    one.land([event("u", 200, {"id": 10, "v": "newer", "doc": GONE}), event("u", 201, {"id": 1, "v": "w", "doc": "7"})])
    one.spark.sql("REFRESH TABLE firn.lake.t")
    assert told(one) == rows | {10: '{"by":"another"}', 1: "7"}


JSON = {"type": "string", "name": "io.debezium.data.Json"}


@HOMES
def test_a_column_comes_later_and_none_becomes_a_variant(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = lake(rule("doc: variant"))
    one.land([with_schema(event("c", 10, {"id": 1, "other": "{}"}), id="int64", other=JSON)])
    one.land([with_schema(event("c", 20, {"id": 2, "doc": "{}"}), id="int64", doc=JSON)])
    one.spark.sql("REFRESH TABLE firn.lake.t")
    assert told(one) == {1: None, 2: "{}"}
    one.config = published_configs.publish(one.store, rule("other: variant"))
    one.post([with_schema(event("u", 30, {"id": 1, "other": "[]", "doc": "[]"}), id="int64", other=JSON, doc=JSON)])
    assert one.commit(one.seal()) != 0
    why = "column other is string in the table and a variant in firn.yaml"
    assert why in str(one.lines)
    with pytest.raises(NotFresh, match=why):
        told(one)
    rows = Reader(one.catalog, lambda: one.store).table("lake.t").read(columns=["id", "doc"]).pylist()
    assert {row["id"]: row["doc"] for row in rows} == {1: None, 2: "{}"}


def test_a_table_of_another_keeps_its_variants(lake: Make) -> None:
    one = lake(config("key: [id]"))
    one.catalog.create_namespace_if_not_exists("lake")
    one.spark.sql("CREATE TABLE firn.lake.t (id BIGINT, v STRING, own VARIANT, l ARRAY<VARIANT>) USING iceberg "
                  "TBLPROPERTIES ('format-version' = '3')")  # fmt: skip
    one.spark.sql("INSERT INTO firn.lake.t SELECT 1, 'a', to_variant_object(named_struct('d', date'2024-02-29')), "
                  "array(parse_json('[1]'), null)")  # fmt: skip
    one.land([event("u", 10, {"id": 1, "v": "b"}), event("c", 11, {"id": 2, "v": "c"})])
    one.spark.sql("REFRESH TABLE firn.lake.t")
    rows = {
        row["id"]: row
        for row in one.spark.sql("SELECT *, schema_of_variant(own) AS s, to_json(l) AS j FROM firn.lake.t").collect()
    }
    assert (rows[1]["v"], rows[1]["s"], rows[1]["j"]) == ("b", "OBJECT<d: DATE>", "[[1],null]")
    assert rows[2]["own"] is None
    assert told(one, "own")[1] == '{"d":"2024-02-29"}'
