"""Columns that the source renamed: one column, however the changes and the configurations are split over epochs."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs
from firn_spark import rebuild
from firn_spark.driver import engine
from firn_spark.rebuild import Request
from firn_spark.tables import fence
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

BEFORE = [
    event("c", 10, {"id": 1, "v": "one", "n": 1}),
    event("c", 11, {"id": 2, "v": "two", "n": 2}),
    event("c", 12, {"id": 3, "v": "three", "n": 3}),
    event("c", 13, {"id": 4, "v": "four", "n": 4}),
    event("u", 14, {"id": 1, "v": GONE, "n": 5}),
]
AFTER = [
    event("u", 20, {"id": 2, "val": "zwei", "n": 6}),
    event("u", 21, {"id": 3, "val": GONE, "n": 7}),
    event("d", 22, None, {"id": 4}),
    event("u", 23, {"id": 5, "val": GONE, "n": 8}, {"id": 1, "val": GONE, "n": 5}),
    event("c", 24, {"id": 6, "val": "six", "n": 9.5}),
]
# Sent before the rename, arriving after it.
LATE = [event("c", 15, {"id": 7, "v": "seven", "n": 10}), event("u", 16, {"id": 3, "v": "drei", "n": 11})]
ROWS = {
    2: ("zwei", 6), 3: ("drei", 7), 5: ("one", 8), 6: ("six", 9.5), 7: ("seven", 10),
}  # fmt: skip
NEW = "renames: {val: v}"
PARTITIONED = "key: [id], partition_by: ['bucket(2, id)']"
WAYS = pytest.mark.parametrize("how", ["key: [id]", PARTITIONED], ids=["plain", "partitioned"])


def under(lake: Lake, how: str) -> None:
    lake.config = published_configs.publish(lake.store, config(how))


def rows(lake: Lake, table: str = "t") -> dict[Any, tuple[Any, Any]]:
    return {key: (row["val"], row["n"]) for key, row in lake.by_key(f"lake.{table}", "id").items()}


def fields(lake: Lake, table: str = "t") -> dict[str, int]:
    schema = lake.catalog.load_table(("lake", table)).schema()
    return {field.name: field.field_id for field in schema.fields if not field.name.startswith("_")}


@few_cases(1)
@WAYS
def test_one_column_before_and_after(spark: SparkSession, tmp_path: Path, how: str) -> None:
    lake = Lake(spark, tmp_path / "split", config(how))
    lake.land(BEFORE)
    was = fields(lake)
    first = lake.catalog.load_table(("lake", "t")).current_snapshot()
    under(lake, f"{how}, {NEW}")
    lake.land(AFTER)
    lake.land(LATE)
    now = fields(lake)
    assert set(now) == {"id", "val", "n"}
    assert now["val"] == was["v"]
    assert rows(lake) == ROWS
    table = lake.catalog.load_table(("lake", "t"))
    assert first is not None
    then = table.scan(snapshot_id=first.snapshot_id).to_arrow()
    assert sorted(then.column("v").to_pylist()) == ["four", "one", "three", "two"]
    assert "v" not in fields(lake, "t__deletes")

    # An epoch that was sealed before the rename was declared: the table remembers it.
    under(lake, how)
    lake.land([event("u", 30, {"id": 6, "v": "VI", "n": 12})])
    assert set(fields(lake)) == {"id", "val", "n"}
    assert rows(lake) == ROWS | {6: ("VI", 12)}


def test_a_job_that_dies_between_the_table_and_its_facts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land(BEFORE)
    lake.land([event("d", 15, None, {"id": 2}), event("c", 16, {"id": 2, "v": "two", "n": 2})])
    assert "v" in fields(lake, "t__deletes")
    under(lake, f"key: [id], {NEW}")
    lake.post(AFTER)
    n = lake.seal()
    done: list[TableName] = []

    def dies(spark: SparkSession, table: Any, both: Any, *told: Any) -> None:
        if done:
            raise RuntimeError("the job is gone")
        done.append(table.name)
        alter(spark, table, both, *told)

    alter = fence.alter
    with monkeypatch.context() as patch:
        patch.setattr(fence, "alter", dies)
        assert lake.commit(n) != 0
    assert ("val" in fields(lake), "v" in fields(lake, "t__deletes")) == (True, True)
    under(lake, "key: [id]")
    lake.post(LATE)
    lake.seal()
    assert lake.commit(n, n + 1) == 0
    assert rows(lake) == ROWS
    assert "v" not in fields(lake, "t__deletes")


def test_all_at_once_and_one_by_one_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    how = f"key: [id], {NEW}"
    at_once, backwards = Lake(spark, tmp_path / "a", config(how)), Lake(spark, tmp_path / "b", config(how))
    at_once.land([*BEFORE, *AFTER, *LATE])
    for one in (AFTER, LATE, BEFORE):
        backwards.land(one)
    assert rows(at_once) == rows(backwards) == ROWS
    assert set(fields(at_once)) == set(fields(backwards)) == {"id", "val", "n"}
    assert at_once.catalog.load_table(("lake", "t")).properties["firn.renames"] == '{"val": ["v"]}'


def test_a_row_that_was_removed_before_is_read_by_the_name_it_had(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path, config(PARTITIONED))
    lake.land([event("c", 10, {"id": 1, "v": "x", "n": 1}), event("c", 11, {"id": 2, "v": "y", "n": 2})])
    lake.land([event("d", 20, None, {"id": 1})])
    under(lake, f"{PARTITIONED}, {NEW}")
    # The staged log is gone, and the second half of a changed key comes: only the snapshot before the delete tells.
    monkeypatch.setattr(engine, "log_of", lambda *_: lambda _: ([], {}))
    lake.land([event("c", 20, {"id": 5, "val": GONE, "n": 3})])
    assert rows(lake) == {2: ("y", 2), 5: ("x", 3)}


@long_only
def test_a_rebuild_makes_one_column_of_two(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([*BEFORE, *AFTER, *LATE])  # nobody said that v became val: the table has both
    assert set(fields(lake)) == {"id", "n", "v", "val"}
    under(lake, f"key: [id], {NEW}")
    lake.land([event("u", 40, {"id": 6, "v": "VI", "n": 12})])
    assert set(fields(lake)) == {"id", "n", "v", "val"}
    assert rows(lake)[6] == ("VI", 12)
    request = Request("r1", TableName("lake", "t"), into=TableName("lake", "again"))
    assert rebuild.run(request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark) == 0
    assert set(fields(lake, "again")) == {"id", "n", "val"}
    assert rows(lake, "again") == ROWS | {6: ("VI", 12)}


@long_only
def test_a_check_before_the_next_commit_knows_both_names(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land(BEFORE)
    under(lake, f"key: [id], {NEW}")
    request = Request("r1", TableName("lake", "t"), check=True)
    assert rebuild.run(request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark) == 0


@long_only
def test_a_table_may_be_partitioned_by_a_renamed_column(spark: SparkSession, tmp_path: Path) -> None:
    old = "key: [id], partition_by: ['truncate(1, v)'], bloom: [v]"
    lake = Lake(spark, tmp_path, config(old))
    lake.land(BEFORE)
    under(lake, f"key: [id], partition_by: ['truncate(1, val)'], bloom: [val], {NEW}")
    lake.land(AFTER)
    under(lake, old)  # an epoch of before
    lake.land(LATE)
    assert rows(lake) == ROWS
    table = lake.catalog.load_table(("lake", "t"))
    (part,) = table.spec().fields
    assert (str(part.transform), table.schema().find_column_name(part.source_id)) == ("truncate[1]", "val")
    assert len(table.specs()) == 1


def test_a_renamed_key_is_refused_and_nothing_else_waits(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land(BEFORE)
    under(lake, "renames: {number: id}")
    lake.post([event("c", 40, {"number": 9, "v": "nine", "n": 1}), event("c", 41, {"id": 1}, table="other")])
    lake.commit(lake.seal())
    assert "renames names id, which is in the key [id]" in str(lake.line("lake.t"))
    assert {row["id"] for row in lake.rows("lake.other")} == {1}
    assert set(fields(lake)) == {"id", "v", "n"}
