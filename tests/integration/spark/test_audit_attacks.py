"""Damage of every kind at once, beside thousands of rows that are right: `firn audit` names each row that was touched,
and no other. Mirror and append tables of two source tables each, whose stream was sent again under a raised
generation, in repeats."""

from collections.abc import Iterable
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.log import published_configs
from firn_lake.audit.row_audit import Depth
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_audit_rows import TWO, of, rows_of
from tests.integration.spark.test_commit import event
from tests.soak import long_only

pytestmark = pytest.mark.spark

DEEP = Depth(deep=True)
RAISED = TWO.replace("    tables:", "    generation: 1\n    tables:")


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Lake:
    """Keys 0 to 999, even ones of app.a and odd ones of app.b: 100 to 119 are changed later, 150 to 159 deleted, and
    those below 100 come again as reads of a new source. 2,000 rows of app.x and app.y, 500 of them sent twice."""
    lake = Lake(spark, tmp_path, TWO)
    first = [of("ab"[n % 2], event("c", 1_000 + n, {"id": n, "v": f"first {n}"})) for n in range(1_000)]
    lake.land([*first, *(of("xy"[n % 2], event("c", 5_000 + n, {"id": n, "v": f"{n}"})) for n in range(1_000))])
    lake.config = published_configs.publish(lake.store, RAISED)
    again = [of("ab"[n % 2], event("r", 10 + n, {"id": n, "v": f"again {n}"})) for n in range(100)]
    later = [of("ab"[n % 2], event("u", 2_000 + n, {"id": n, "v": f"later {n}"})) for n in range(100, 120)]
    gone = [of("ab"[n % 2], event("d", 2_000 + n, None, {"id": n})) for n in range(150, 160)]
    more = [of("xy"[n % 2], event("c", 7_000 + n, {"id": n, "v": f"{n}"})) for n in range(1_000)]
    lake.post([*later, *gone, *more[:500]])
    lake.land([*again, *later[::-1], *more])
    for depth in (Depth(), DEEP):
        found = audited(lake, depth)
        assert found.balanced, found.differences
        assert [(one.table, one.found) for one in found.rows] == [("lake.log", 2_000), ("lake.t", 990)]
    return lake


def of_first(lake: Lake, table: str, ids: Iterable[int]) -> DataFrame:
    """Rows as the first snapshot has them."""
    first = lake.catalog.load_table(("lake", table)).metadata.snapshots[0].snapshot_id
    rows = lake.spark.read.option("snapshot-id", first).table(f"firn.lake.{table}")
    return rows.where(rows["id"].isin(list(ids)))


def of_now(lake: Lake, table: str, ids: Iterable[int]) -> DataFrame:
    rows = lake.spark.table(f"firn.lake.{table}")
    return rows.where(rows["id"].isin(list(ids)))


def by_hand(lake: Lake, table: str, *, add: list[DataFrame], remove: list[int], alter: list[int]) -> None:
    rows = reduce(DataFrame.unionByName, add).localCheckpoint()
    lake.spark.sql(f"DELETE FROM firn.lake.{table} WHERE id IN ({', '.join(map(str, remove))})")
    lake.spark.sql(f"UPDATE firn.lake.{table} SET v = 'wrong' WHERE id IN ({', '.join(map(str, alter))})")
    rows.writeTo(f"firn.lake.{table}").append()


def told(lake: Lake, table: str, depth: Depth) -> set[tuple[str, str]]:
    found = rows_of(audited(lake, depth), table)
    assert found.expected == found.found + found.missing + found.differs
    assert len(found.samples) == found.missing + found.surplus + found.differs
    return {(one.what, ", ".join(one.row)) for one in found.samples}


def test_each_damaged_row_of_a_mirror_table_is_named_and_no_other(made: Lake) -> None:
    stale, older_generation = [100, 101], [20, 21]
    by_hand(
        made, "t", remove=[12, 13, *stale, *older_generation], alter=[10, 11, 110],
        add=[
            of_now(made, "t", [14, 115]),  # doubled
            of_now(made, "t", [16]).withColumn("id", f.col("id") + 1_000),  # made by no change
            of_first(made, "t", [150]),  # came back
            of_first(made, "t", [*stale, *older_generation]),
        ],
    )  # fmt: skip
    missing = {("missing", str(n)) for n in (12, 13, *stale, *older_generation)}
    surplus = {("surplus", str(n)) for n in (14, 115, 1_016, 150)}
    assert told(made, "lake.t", Depth()) == missing | surplus
    assert told(made, "lake.t", DEEP) == missing | surplus | {("differs", str(n)) for n in (10, 11, 110)}


@long_only
def test_each_damaged_row_of_an_append_table_is_named_and_no_other(made: Lake) -> None:
    names = {(row["id"], row["_firn_id"]) for row in made.rows("lake.log") if row["id"] in (1, 2, 3, 4)}
    of_id = {n: {name for one, name in names if one == n} for n in (1, 2, 3, 4)}
    assert {len(some) for some in of_id.values()} == {2}, "of each id two changes"
    by_hand(
        made, "log", remove=[1, 2], alter=[3],
        add=[of_now(made, "log", [4]), of_now(made, "log", [5]).withColumn("_firn_id", f.lit("nobody's")).limit(1)],
    )  # fmt: skip
    wrong = {("missing", name) for name in of_id[1] | of_id[2]} | {("surplus", name) for name in of_id[4]}
    wrong |= {("surplus", "nobody's")}
    assert told(made, "lake.log", Depth()) == wrong
    assert told(made, "lake.log", DEEP) == wrong | {("differs", name) for name in of_id[3]}


def test_a_table_that_is_that_of_an_older_generation_is_wrong_in_each_row_that_changed(made: Lake) -> None:
    older = of_first(made, "t", range(1_000)).localCheckpoint()
    made.spark.sql("DELETE FROM firn.lake.t WHERE true")
    older.writeTo("firn.lake.t").append()
    found = audited(made, Depth())
    rows = rows_of(found)
    assert all(one.code.startswith("rows_") for one in found.differences), "the counts balance"
    assert (rows.missing, rows.surplus, rows.found) == (120, 10, 870)
