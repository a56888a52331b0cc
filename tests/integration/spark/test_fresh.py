"""Fresh reads: the rows that the next commit will make, at any moment, of any history."""

import random
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import fold
from firn.errors import ConfigError
from firn.log import published_configs
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake as Reader
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_specification import change, history
from tests.soak import LONG

pytestmark = pytest.mark.spark
NAMES = ("id", "v", "w", "n")
TABLES = ["key: [id]", *(["key: [id], write: copy-on-write, partition_by: ['bucket(3, id)']"] if LONG else [])]


def by_id(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def reader(lake: Lake) -> Reader:
    return Reader(lake.catalog, lambda: lake.store)


def fresh(lake: Lake, filter: str | None = None) -> Mapping[int, Mapping[str, Any]]:
    """The fresh rows by key, by way of SQL while no commit has made the table."""
    where = "" if filter is None else f" WHERE {filter}"
    found = reader(lake).sql(f"SELECT id, v, w, n FROM lake.t{where}", fresh=True).pylist()
    assert len({row["id"] for row in found}) == len(found)
    if lake.catalog.table_exists(("lake", "t")):
        read = reader(lake).table("lake.t").read(NAMES, filter, fresh=True).pylist()
        assert by_id(read) == by_id(found)
    return {row["id"]: row for row in found}


@pytest.mark.parametrize(
    ("seed", "events", "keys", "count"),
    [(4, 120, 6, 4), (3, 600, 60, 6), (6, 300, 6, 12)] if LONG else [(4, 60, 6, 2)],
)
@pytest.mark.parametrize("table", TABLES)
def test_what_was_posted_is_there_before_and_after_it_is_sealed_and_committed(
    spark: SparkSession, tmp_path: Path, seed: int, events: int, keys: int, count: int, table: str
) -> None:
    """Shuffled and doubled: late halves of moves, values that come late, deletes before their rows, truncates."""
    posted = history(seed, events, keys)
    dice = random.Random(seed)
    delivered = posted + dice.choices(posted, k=events // 3)
    dice.shuffle(delivered)
    lake = Lake(spark, tmp_path, config(table))
    size = -(-len(delivered) // count)
    for first in range(0, len(delivered), size):
        for at in range(first, min(first + size, len(delivered)), size // 3 + 1):
            lake.post(delivered[at : min(at + size // 3 + 1, first + size)])
            told = [change(one) for one in delivered[: min(at + size // 3 + 1, first + size)]]
            expected = {key[0]: row.values for key, row in fold({}, told).rows.items()}
            assert fresh(lake) == expected
            one = dice.randrange(keys)
            assert fresh(lake, f"id = {one}") == {key: row for key, row in expected.items() if key == one}
            assert fresh(lake, "n > 150") == {key: row for key, row in expected.items() if row["n"] > 150}
        sealed = lake.seal()
        assert fresh(lake) == expected
        assert lake.commit(sealed) == 0
        assert fresh(lake) == expected
        found = {row["id"]: {name: row[name] for name in NAMES} for row in lake.rows("lake.t")}
        assert found == expected


def test_new_and_wider_columns_and_rows_of_other_shapes_are_there_at_once(spark: SparkSession, tmp_path: Path) -> None:
    columns = "columns: {day: date, at: timestamptz, price: 'decimal(9,2)'}"
    lake = Lake(spark, tmp_path, config(f"key: [id], {columns}", "    debezium: {decimal.handling.mode: string}\n"))
    first = {"id": 1, "day": 20_000, "at": "2026-11-22T10:00:00Z", "price": "12.50", "n": 1, "tags": ["a"]}
    lake.land([event("c", 100, first), event("c", 101, {**first, "id": 2})])
    wider = {**first, "id": 3, "n": 2**40, "extra": "new", "price": None}
    lake.post([event("c", 102, wider), event("u", 103, {**first, "price": "99.99"}), event("d", 104, None, {"id": 2})])
    found = reader(lake).table("lake.t").read(fresh=True)
    before = {row["id"]: row for row in found.pylist()}
    assert set(before) == {1, 3}
    assert (before[1]["price"], before[1]["extra"]) == (Decimal("99.99"), None)
    assert (before[3]["n"], before[3]["extra"], before[3]["day"]) == (2**40, "new", date(2024, 10, 4))
    assert reader(lake).table("lake.t").read(["id"], "extra = 'new'", fresh=True).pylist() == [{"id": 3}]
    assert lake.commit(lake.seal()) == 0
    after = reader(lake).table("lake.t").read()
    assert {row["id"]: row for row in after.pylist()} == before
    assert {f.name: f.type for f in found.schema} == {f.name: f.type for f in after.schema}


def test_rows_of_uuid_keys_are_there_before_the_commit_too(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("key: [id, n], columns: {id: uuid, n: long}"))
    one, two = (f"0a0b0c0d-0000-0000-0000-00000000000{n}" for n in "12")
    lake.land([event("c", 100, {"id": one, "n": 1, "v": "a"}), event("c", 101, {"id": two, "n": 1, "v": "b"})])
    lake.post([event("u", 102, {"id": one, "n": 1, "v": "c"})])
    found = reader(lake).table("lake.t").read(["id", "v"], fresh=True).pylist()
    assert {str(row["id"]): row["v"] for row in found} == {one: "c", two: "b"}


def test_rows_whose_keys_are_lists_are_there_before_the_commit_too(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("key: [id, n], columns: {id: list<long>, n: long}"))
    lake.land([event("c", 100 + n, {"id": [n, n], "n": 1, "v": "a"}) for n in range(4)])
    lake.post([event("u", 110, {"id": [1, 1], "n": 1, "v": "b"}), event("d", 111, None, {"id": [2, 2], "n": 1})])
    found = reader(lake).table("lake.t").read(["id", "v"], fresh=True).pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [([0, 0], "a"), ([1, 1], "b"), ([3, 3], "a")]


def test_a_null_in_a_column_that_had_none_is_there_before_the_commit_too(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land([event("c", 100, {"id": 1, "v": "a"})])
    assert not reader(lake).table("lake.t").read(fresh=True).schema.field("id").nullable
    lake.post([event("c", 101, {"id": None, "v": "b"}), event("d", 102, None, {"id": 1})])
    found = reader(lake).table("lake.t").read(fresh=True)
    assert found.pylist() == [{"id": None, "v": "b"}]
    assert lake.commit(lake.seal()) == 0
    after = reader(lake).table("lake.t").read()
    assert (after.pylist(), after.schema) == (found.pylist(), found.schema)


def test_a_late_change_beside_a_new_column_finds_the_rows_that_deletes_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its row is looked up in a snapshot whose schema lacks the column."""
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land([event("c", 100, {"id": 1, "v": "long"})])
    lake.land([event("d", 110, None, {"id": 1}), event("c", 110, {"id": 2, "v": GONE})])
    lake.post([event("u", 105, {"id": 1, "v": GONE, "extra": 1})])
    found = reader(lake).table("lake.t").read(fresh=True).pylist()
    assert found == [{"id": 2, "v": "long", "extra": None}]
    assert lake.commit(lake.seal()) == 0
    assert reader(lake).table("lake.t").read().pylist() == found


def test_an_append_table_has_each_waiting_event_once(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("mode: append"))
    some = [event("c", 100 + i, {"id": i, "n": i}) for i in range(5)]
    lake.land(some[:3])
    lake.post(some[2:])
    lake.post(some[4:])
    found = reader(lake).table("lake.t").read(fresh=True, metadata=True)
    assert sorted(row["id"] for row in found.pylist()) == [0, 1, 2, 3, 4]
    before = found.pylist()
    assert reader(lake).sql("SELECT count(*) AS n FROM lake.t WHERE id >= 3", fresh=True).pylist() == [{"n": 2}]
    assert lake.commit(lake.seal()) == 0
    after = reader(lake).table("lake.t").read(fresh=True, metadata=True).pylist()
    assert by_id(lake.rows("lake.t")) == by_id(before) == by_id(after)


def test_what_can_not_be_shown_says_why(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land([event("c", 100, {"id": 1, "n": 1})])
    lake.post([event("c", 101, {"id": 2, "n": "text"})])
    with pytest.raises(NotFresh, match=r"another type: n \(string\).*firn flush"):
        reader(lake).table("lake.t").read(fresh=True)
    with pytest.raises(NotFresh, match="fresh is now"):
        reader(lake).sql("SELECT 1 FROM lake.t", "main", fresh=True)
    with pytest.raises(ConfigError, match="opened by its catalog alone"):
        Reader(lake.catalog).sql("SELECT 1 FROM lake.t", fresh=True)


def test_a_column_that_the_source_renamed_is_one_column_before_the_commit_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land([event("c", 100, {"id": 1, "v": "old"}), event("c", 101, {"id": 2, "v": "kept"})])
    lake.config = published_configs.publish(lake.store, config("key: [id], renames: {label: v}"))
    lake.post([event("u", 102, {"id": 1, "label": "new"}), event("c", 99, {"id": 3, "v": "late"})])
    found = by_id(reader(lake).table("lake.t").read(fresh=True).pylist())
    assert found == [{"id": 1, "label": "new"}, {"id": 2, "label": "kept"}, {"id": 3, "label": "late"}]
    assert lake.commit(lake.seal()) == 0
    assert by_id(reader(lake).table("lake.t").read().pylist()) == found
