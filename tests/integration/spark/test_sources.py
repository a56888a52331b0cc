"""Tables for Spark programs: the same rows and the same changes as firn_lake tells, and what the plan says is read."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyiceberg.types import LongType
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.maintenance import compaction_trigger
from firn_lake.changes.cursor import Cursor
from firn_lake.lake import Lake as Reader
from firn_lake.lake_table import LakeTable
from firn_spark import sources
from firn_spark.driver import small_files
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_changes import history, merge
from tests.integration.spark.test_commit import config, event
from tests.soak import long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
ADOPTED = "lake.t"


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)
    monkeypatch.setattr(small_files, "_AT_LEAST", 2)


def table_of(lake: Lake) -> LakeTable:
    return Reader(lake.catalog).table("lake.t")


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def in_spark(rows: DataFrame) -> Counter[str]:
    return counted(rows.toArrow().to_pylist())


def files_read(rows: DataFrame, count: int) -> int:
    """How many data files Spark reads for so many rows, as the plan's own figures say."""
    assert len(rows.collect()) == count
    scan = rows._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(scan.metrics().apply("resultDataFiles").value())


def same_changes(lake: Lake, from_: Any, to: Any = None, **how: Any) -> Counter[str]:
    """What both tell between two moments, compared."""
    wanted = counted(table_of(lake).changes(from_, to, **how).pylist())
    with sources.changes(lake.spark, "lake.t", from_, to, **how) as rows:
        found = in_spark(rows)
    assert found == wanted, (from_, to, how)
    return found


@long_only
def test_rows_at_any_moment_are_those_that_firn_lake_reads(lake: Make) -> None:
    one = lake(config())
    history(one, seed=3, epochs=3)
    table = table_of(one)
    snapshots = table.snapshots()
    loaded = one.catalog.load_table("lake.t")
    loaded.manage_snapshots().create_tag(snapshots[1].id, "kept").create_branch(snapshots[0].id, "side").commit()
    with loaded.update_schema() as update:
        update.rename_column("v", "renamed")
    for as_of in (None, snapshots[0].id, snapshots[1].time, "kept", "side"):
        wanted = table.read(as_of=as_of)
        found = sources.batch(one.spark, "lake.t", as_of)
        assert found.columns == wanted.schema.names, as_of
        assert in_spark(found) == counted(wanted.pylist()), as_of
    assert sources.batch(one.spark, "lake.t", "kept", ["v"], where="id < 10").columns == ["v"]
    with pytest.raises(sources.NoSuchMoment, match=r"it has: kept, main, side\)"):
        sources.batch(one.spark, "lake.t", "never")
    with pytest.raises(sources.NoSuchMoment, match="had no snapshot at 2020"):
        sources.batch(one.spark, "lake.t", "2020-01-01")
    with pytest.raises(sources.NoSuchColumn, match="it has id, v, "):
        sources.batch(one.spark, "lake.t", "kept", ["renamed"])
    with pytest.raises(sources.NoSuchTable, match=r"lake\.none"):
        sources.batch(one.spark, "lake.none")


def test_changes_are_those_that_firn_lake_tells(lake: Make) -> None:
    one = lake(config())
    history(one, seed=4, epochs=4)
    ids = [snapshot.id for snapshot in table_of(one).snapshots()]
    for from_, to in ((None, None), (ids[-1], ids[0]), (ids[2], ids[2])):
        same_changes(one, from_, to)
    assert len(same_changes(one, ids[1], None, steps=True)) > 0
    assert same_changes(one, ids[0], None, columns=["v"])


@long_only
def test_changes_where_files_are_written_anew(lake: Make) -> None:
    one = lake(config("key: [id], write: copy-on-write"))
    history(one, seed=20, epochs=2)
    first = table_of(one).snapshots()[0].id
    assert len(same_changes(one, first)) > 0


def test_changes_across_a_renamed_and_a_widened_column_in_both_directions(lake: Make) -> None:
    one = lake(config("key: [id], columns: {n: int}"))
    one.land([event("c", 1, {"id": 1, "n": 1, "v": "a"}), event("c", 2, {"id": 2, "n": 2, "v": "b"})])
    loaded = one.catalog.load_table("lake.t")
    with loaded.update_schema() as update:
        update.rename_column("v", "renamed")
    with loaded.update_schema() as update:
        update.update_column("n", field_type=LongType())
    one.land([event("u", 4, {"id": 1, "n": 1, "renamed": "x"}), event("d", 5, None, before={"id": 2})])
    first, last = (snapshot.id for snapshot in table_of(one).snapshots())
    assert len(same_changes(one, first)) == 2
    assert len(same_changes(one, last, first)) == 2


def test_without_a_key_equal_rows_are_counted(lake: Make) -> None:
    one = lake(config("mode: append"))
    for number in range(2):
        one.land([event("c", 10 * number + k + 1, {"id": k, "v": "same"}) for k in range(3)])
    first = table_of(one).snapshots()[0].id
    assert sum(same_changes(one, first).values()) == 3
    assert sum(same_changes(one, None, first).values()) == 3


@long_only
def test_what_was_appended_is_read_from_its_own_files(lake: Make) -> None:
    one = lake(config("mode: append"))
    for number in range(3):
        one.land([event("c", 10 * number + k + 1, {"id": 10 * number + k, "v": f"v{number}"}) for k in range(3)])
    assert merge(one)
    one.land([event("c", 90, {"id": 90, "v": "last"})])
    table = table_of(one)
    ids = [snapshot.id for snapshot in table.snapshots()]
    cursor = Cursor(str(table.iceberg.metadata.table_uuid), ids[1]).json()
    for from_ in (ids[1], cursor):
        found = sources.appended(one.spark, "lake.t", from_)
        assert found.select(f.input_file_name()).distinct().count() == 2
        assert sorted(row.id for row in found.collect()) == [20, 21, 22, 90]
    assert sources.appended(one.spark, "lake.t", None, ids[1]).count() == 6
    assert sources.appended(one.spark, "lake.t", ids[2], ids[3]).count() == 0, "a merge of small files appends nothing"
    assert [row.id for row in sources.appended(one.spark, "lake.t", ids[1], where="v = 'last'").collect()] == [90]
    with pytest.raises(sources.NoSuchMoment, match="another table"):
        sources.appended(one.spark, "lake.t", Cursor("other", ids[1]).json())


def test_appended_refuses_where_rows_were_changed(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    first = table_of(one).snapshots()[0].id
    one.land([event("u", 20, {"id": 1, "v": "b"})])
    with pytest.raises(sources.NotAppended, match=r"overwrite.*sources\.changes"):
        sources.appended(one.spark, "lake.t", first)


def test_the_plan_leaves_out_partitions_and_files(lake: Make) -> None:
    one = lake(config("key: [id], partition_by: [region]"))
    for number, region in enumerate(("eu", "us", "eu")):
        rows = [{"id": 10 * number + k, "region": region, "v": f"v{k}"} for k in range(3)]
        one.land([event("c", 10 * number + k + 1, row) for k, row in enumerate(rows)])
    everything = sources.batch(one.spark, "lake.t")
    assert files_read(everything, 9) == 3
    eu = sources.batch(one.spark, "lake.t", partitions={"region": "eu"})
    assert files_read(eu, 6) == 2
    assert sources.batch(one.spark, "lake.t", partitions={"region": ["eu", "us"]}).count() == 9
    few = sources.batch(one.spark, "lake.t", columns=["v"], where="id >= 20")
    assert files_read(few, 3) == 1
    plan = few._jdf.queryExecution().executedPlan().toString()
    assert "id >= 20" in plan, plan
    assert "region" not in plan.partition("BatchScan")[2].partition("filters=")[0], "only the columns that are needed"
    with pytest.raises(sources.NoSuchColumn, match="no column 'country'"):
        sources.batch(one.spark, "lake.t", partitions={"country": "de"})
