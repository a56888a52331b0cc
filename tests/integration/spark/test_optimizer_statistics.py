"""Statistics for optimizers: counted as asked, once a snapshot, gone with their snapshots."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firn.config.maintenance import Expiry, Statistics
from firn.config.names import TableName
from firn.log import published_configs, table_health
from firn_spark import maintenance_job
from firn_spark.maintenance import optimizer_statistics
from firn_spark.maintenance.expiry import expire
from firn_spark.maintenance.optimizer_statistics import Computed, compute
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import CommitUnknown
from tests.integration.spark.committing import Died, unknown
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_orphans import all_files, folder, looked, make_old
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
NAME = TableName.parse("lake.t")
RULE = "key: [id], columns: {id: long, v: string}, partition_by: ['bucket(2, id)']"
WANTED = Statistics(("v", "id"), partitions=True)


def load(lake: Lake) -> Table:
    found = Tables(lake.spark).load(NAME)
    assert found is not None
    return found


def landed(lake: Lake, first: int) -> None:
    lake.land([event("c", 100 * first + n, {"id": 10 * first + n, "v": f"v{n % 3}"}) for n in range(10)])


def told(lake: Lake) -> dict[int, tuple[int, ...]]:
    """The files of statistics: snapshot -> how many distinct values, by the fields' ids."""
    files = lake.catalog.load_table(NAME.identifier).metadata.statistics
    blobs = {one.snapshot_id: sorted(one.blob_metadata, key=lambda blob: blob.fields) for one in files}
    return {of: tuple(int((blob.properties or {})["ndv"]) for blob in each) for of, each in blobs.items()}


def described(lake: Lake) -> list[int]:
    return [one.snapshot_id for one in lake.catalog.load_table(NAME.identifier).metadata.partition_statistics]


def test_they_are_counted_once_a_snapshot_and_replace_what_says_no_more(lake: Make) -> None:
    one = lake(config(RULE))
    landed(one, 1)
    first = compute(one.spark, load(one), Statistics(("v", "id", "nowhere"), partitions=True))
    assert (first.columns, first.left, first.partitions, first.replaced) == (("v", "id"), ("nowhere",), True, 0)
    assert told(one) == {first.snapshot: (10, 3)}
    assert described(one) == [first.snapshot]
    files = all_files(folder(one))
    assert compute(one.spark, load(one), WANTED) == Computed(first.snapshot, ("v", "id"), (), True)
    assert all_files(folder(one)) == files, "nothing is computed twice"

    landed(one, 2)
    second = compute(one.spark, load(one), WANTED)
    assert (second.replaced, told(one)) == (2, {second.snapshot: (20, 3)})
    assert described(one) == [second.snapshot]
    landed(one, 3)
    third = compute(one.spark, load(one), Statistics(("v",)))
    assert (third.replaced, set(told(one))) == (0, {second.snapshot, third.snapshot}), "the older one says more"
    assert described(one) == [second.snapshot]
    assert sorted(one.by_key("lake.t", "id")) == list(range(10, 40))


@long_only
def test_orphans_leave_them_and_expiry_takes_them(lake: Make) -> None:
    one = lake(config(RULE))
    landed(one, 1)
    old = compute(one.spark, load(one), WANTED).snapshot
    for n in range(2, 24):
        one.land([event("c", 100 * n, {"id": 10 * n, "v": "x"})])
    assert compute(one.spark, load(one), Statistics(("id",))).snapshot != old
    before = {name for name in all_files(folder(one)) if name.endswith(".stats") or "partition-stats" in name}
    assert len(before) == 3
    make_old(folder(one))
    assert looked(one).files == 0
    assert before <= all_files(folder(one))
    assert expire(one.spark, load(one), Expiry(0, 20, 20), datetime.now(UTC) + timedelta(days=9)).snapshots > 0
    assert old not in {*told(one), *described(one)}
    assert len(before & all_files(folder(one))) == 1


@few_cases(1)
@pytest.mark.parametrize("fate", ["died before", "died after", "lost"])
def test_whoever_dies_or_is_not_answered_leaves_a_table_that_reads_as_before(
    lake: Make, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    one = lake(config("key: [id], columns: {id: long, v: string}"))
    landed(one, 1)
    real = optimizer_statistics.run

    def run(commit: Callable[[], Any]) -> Any:
        if fate != "died before":
            real(commit)
        raise Died(fate) if "died" in fate else unknown(one.spark)

    monkeypatch.setattr(optimizer_statistics, "run", run)
    with pytest.raises(CommitUnknown if fate == "lost" else Died):
        compute(one.spark, load(one), Statistics(("v",)))
    monkeypatch.setattr(optimizer_statistics, "run", real)
    assert sorted(one.by_key("lake.t", "id")) == list(range(10, 20))
    assert compute(one.spark, load(one), Statistics(("v",))).columns == ("v",)
    assert list(told(one).values()) == [(3,)]
    landed(one, 4)


@long_only
def test_whoever_dies_while_older_ones_go_leaves_those_or_none_and_the_next_one_goes_on(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lake(config("key: [id], columns: {id: long, v: string}"))
    landed(one, 1)
    older = compute(one.spark, load(one), Statistics(("v",))).snapshot
    real = optimizer_statistics.run
    for n, fate in enumerate(("died before", "lost", "died after"), 2):
        landed(one, n)
        calls: list[str] = []

        def run(commit: Callable[[], Any], fate: str = fate, calls: list[str] = calls) -> Any:
            calls.append(fate)
            found = real(commit) if len(calls) == 1 or fate != "died before" else None
            if len(calls) == 2:
                raise Died(fate) if "died" in fate else unknown(one.spark)
            return found

        monkeypatch.setattr(optimizer_statistics, "run", run)
        with pytest.raises(CommitUnknown if fate == "lost" else Died):
            compute(one.spark, load(one), Statistics(("v",)))
        monkeypatch.setattr(optimizer_statistics, "run", real)
        newest = load(one).state.snapshot_id
        assert newest in told(one), "they were there before the older ones went"
        assert (older in told(one)) == (fate == "died before")
        assert compute(one.spark, load(one), Statistics(("v",))).snapshot == newest
    landed(one, 9)
    assert compute(one.spark, load(one), Statistics(("v",))).replaced >= 1
    assert sorted(one.by_key("lake.t", "id"))[:3] == [10, 11, 12]


def test_a_commit_while_values_are_read_is_not_disturbed(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of the snapshot that was read."""
    one = lake(config("key: [id], columns: {id: long, v: string}"))
    landed(one, 1)
    real, table, came = optimizer_statistics.run, load(one), list[None]()

    def run(commit: Callable[[], Any]) -> Any:
        if not came:
            came.append(landed(one, 2))
        return real(commit)

    monkeypatch.setattr(optimizer_statistics, "run", run)
    read = table.state.snapshot_id
    assert compute(one.spark, table, Statistics(("id",))).snapshot == read
    assert told(one) == {read: (10,)}
    assert sorted(one.by_key("lake.t", "id")) == list(range(10, 30))


def test_what_another_engine_computed_stays(lake: Make) -> None:
    """Before or after: by Iceberg's own action, as Spark's procedure calls it."""
    one = lake(config(RULE))
    actions = one.spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(one.spark._jsparkSession)

    def theirs() -> int:
        java = load(one).java
        names = one.spark.sparkContext._gateway.new_array(one.spark._jvm.java.lang.String, 2)
        names[0], names[1] = "id", "v"
        actions.computeTableStats(java).columns(names).execute()
        actions.computePartitionStats(java).execute()
        return int(java.currentSnapshot().snapshotId())

    landed(one, 1)
    before = theirs()
    landed(one, 2)
    table = load(one)
    landed(one, 3)
    after = theirs()
    mine = compute(one.spark, table, WANTED)
    assert (mine.replaced, set(told(one))) == (0, {before, mine.snapshot, after})
    assert set(described(one)) == {before, mine.snapshot, after}
    landed(one, 4)
    newest = compute(one.spark, load(one), WANTED)
    assert (newest.replaced, set(told(one))) == (2, {before, after, newest.snapshot})
    assert set(described(one)) == {before, after, newest.snapshot}
    assert compute(one.spark, table, WANTED).replaced == 0, "a job that is late takes nothing newer away"
    assert newest.snapshot in told(one)


def test_the_care_job_computes_what_firn_yaml_asks_for(lake: Make) -> None:
    one = lake(config(RULE).replace("streams:", "care: {statistics: {columns: [v], every: 1d}}\nstreams:", 1))
    landed(one, 1)
    lines: list[dict[str, Any]] = []
    request = maintenance_job.Request("r1", ("statistics",), (NAME,))

    def run() -> int:
        places = (one.staging, one.warehouse, one.catalog_uri)
        return maintenance_job.run(request, *places, spark=one.spark, log=lines.append)

    assert run() == 0, lines
    assert [(line["kind"], line["table"], line["columns"]) for line in lines] == [("statistics", "lake.t", ["v"])]
    assert list(told(one).values()) == [(3,)]
    assert table_health.read(one.store, "spec")["lake.t"].statistics_at is not None
    one.config = published_configs.publish(one.store, config(RULE))
    lines.clear()
    landed(one, 2)
    assert run() == 0
    assert lines == [], "nobody asks for them any more"
    assert len(told(one)) == 1
