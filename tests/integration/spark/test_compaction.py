"""Files rewritten by the large compaction: rows, positions, progress and facts stay as they were."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.table.snapshots import Operation
from pyspark.sql import SparkSession

from firn.config.maintenance import Care, Compaction
from firn.config.names import TableName
from firn.log import published_configs, table_health
from firn.maintenance import compaction_trigger as turns
from firn.maintenance import manifest_planner
from firn_spark.maintenance import compaction, inline_compaction, listing
from firn_spark.maintenance.compaction import Budget, Compacted
from firn_spark.maintenance.health import measure
from firn_spark.not_eligible import Unfit
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table, Tables
from tests.integration.snapshots import epochs_of
from tests.integration.spark.committing import Died, Loss, files_of, unknown
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_small_files import all_rows, changes, folded, id_and_v, shape
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits give no care by themselves."""
    monkeypatch.setattr(turns, "EVERY", 10**9)


def load(lake: Lake, name: str = "lake.t") -> Table:
    found = Tables(lake.spark).load(TableName.parse(name))
    assert found is not None
    return found


ANYTHING = Budget(10**9)


def compact(
    lake: Lake,
    policy: Compaction = Compaction(),  # noqa: B008
    table: str = "lake.t",
    budget: Budget = ANYTHING,
    **how: Any,
) -> Compacted:
    return compaction.compact(lake.spark, load(lake, table), "spec", Care(policy), budget, **how)


def land(lake: Lake, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        lake.land(changes(n))


def both(lake: Lake, table: str = "lake.t") -> tuple[list[str], list[str]]:
    """The rows as PyIceberg and as Spark read them."""
    rows = lake.spark.table(f"firn.{table}").collect()
    return all_rows(lake, table), sorted(repr(row) for row in rows)


def newest(lake: Lake) -> Any:
    snapshot = lake.catalog.load_table(("lake", "t")).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary


@few_cases(1)
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("key: [id]", marks=long_only),
        "key: [id], write: copy-on-write",
        "key: [id], columns: {v: string}, partition_by: ['bucket(2, id)']",
        "mode: append",
    ],
)
def test_files_become_few_and_nothing_else_changes(lake: Make, rule: str) -> None:
    one = lake(config(rule))
    land(one, 4)
    more = [(100 + n, "uv"[n % 2]) for n in range(20)]
    for part in range(5):  # four rows into each partition, whatever it is
        one.land([event("c", 10_000 + n, {"id": n, "v": v}) for n, v in more[4 * part : 4 * part + 4]])
    before = both(one)
    done = compact(one, Compaction(sort_by=("v",)) if "append" in rule else Compaction())
    assert done.groups >= 1
    assert done.lost == 0
    assert done.into < done.files
    assert both(one) == before
    partitions = 1 if "partition_by" not in rule else 2
    assert shape(one) == (partitions, 0)
    said = newest(one)
    assert said.operation is Operation.REPLACE
    assert not any(name.startswith("firn.epoch") for name in said.additional_properties)
    assert epochs_of(one.catalog.load_table(("lake", "t")), "spec") == list(range(1, 10))
    assert compact(one) == Compacted(), "what was just rewritten is worth no other rewrite"
    if "append" not in rule:
        assert id_and_v(one) == folded(4) + more
        assert audited(one).differences == []
        # What is deleted stays deleted, and what is stale stays stale: the positions are those of the rows.
        one.land([event("u", 115, {"id": 1, "v": "late"}), event("u", 129, {"id": 3, "v": "late"})])
        assert id_and_v(one) == folded(4) + more


@long_only
def test_facts_are_written_anew_and_still_count(lake: Make) -> None:
    one = lake(config())
    land(one, 8)
    facts = both(one, "lake.t__deletes")
    done = compact(one, Compaction(sort_by=("v",)), "lake.t__deletes")
    assert (done.files, done.into) == (6, 1)
    assert both(one, "lake.t__deletes") == facts
    one.land([event("u", 111, {"id": 1, "v": "late"}), event("c", 900, {"id": 90, "v": "new"})])
    assert [n for n, _ in id_and_v(one) if n in (1, 90)] == [90]


@long_only
def test_held_columns_stay_held(lake: Make) -> None:
    """An older full change may still fill a column that a newer one left out, and only that."""
    one = lake(config())
    for n in range(6):
        one.land([event("c", 100 + n, {"id": n, "v": "first", "doc": f"d{n}"})])
    one.land([event("u", 300 + n, {"id": n, "v": "newer", "doc": GONE}) for n in range(6)])
    before = both(one)
    assert compact(one).files == 7
    assert both(one) == before
    one.land([event("u", 200, {"id": 3, "v": "between", "doc": "filled"})])
    found = one.by_key("lake.t", "id")
    assert (found[3]["v"], found[3]["doc"], found[2]["doc"]) == ("newer", "filled", "d2")


@long_only
def test_files_of_an_older_schema_get_the_columns_of_now(lake: Make) -> None:
    one = lake(config("key: [u], columns: {u: uuid, n: int}"))
    keys = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(6)]
    for n in range(3):
        one.land([event("c", 10 + n, {"u": keys[n], "n": n, "old": f"o{n}"})])
    wider = "key: [u], columns: {u: uuid, n: long, at: timestamptz, amount: double}"
    one.config = published_configs.publish(one.store, config(wider))
    for n in range(3, 6):
        row = {"u": keys[n], "n": 2**40 + n, "at": f"2026-11-21T10:00:0{n}Z", "amount": n + 0.5}
        one.land([event("c", 20 + n, row)])
    before = both(one)
    assert (compact(one).files, shape(one)) == (6, (1, 0))
    assert both(one) == before
    found = {str(row["u"]): row for row in one.rows("lake.t")}
    assert [found[key]["n"] for key in keys] == [0, 1, 2, *(2**40 + n for n in range(3, 6))]
    assert [found[key]["old"] for key in keys] == ["o0", "o1", "o2", None, None, None]


@long_only
def test_files_of_an_older_partition_spec_are_written_anew_for_their_deletes_only(lake: Make) -> None:
    one = lake(config("key: [id], columns: {v: string}"))
    one.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(10)])
    for n in range(5):
        one.land([event("c", 50 + n, {"id": 50 + n, "v": "small"})])
    load(one).java.updateSpec().addField("v").commit()
    one.land([event("c", 100, {"id": 100, "v": "new"}), event("d", 101, None, before={"id": 3})])
    before = both(one)
    done = compact(one)
    assert both(one) == before
    # Of six old files five are only small; the deleted row is a tenth of the first one's.
    assert (done.groups, done.files, done.into) == (1, 1, 1)
    assert shape(one) == (7, 0)
    specs = sorted(file.spec_id for file in _data_files(one))
    assert specs == [0] * 6 + [1]


def _data_files(lake: Lake) -> list[Any]:
    table = lake.catalog.load_table(("lake", "t"))
    return [task.file for task in table.scan().plan_files()]


@long_only
def test_deletes_of_files_that_stay_stay_and_name_only_those(lake: Make) -> None:
    """One file of deletes names rows of a file that is rewritten, and of one that is not."""
    one = lake(config())
    one.land([event("c", 1_000 + n, {"id": n, "v": "x" * 50}) for n in range(200)])
    one.land([event("c", 2_000 + n, {"id": 1_000 + n, "v": "y"}) for n in range(10)])
    one.land([event("d", 3_000 + n, None, before={"id": n}) for n in (0, 1_000, 1_001, 1_002)])
    before = both(one)
    table = load(one)
    found = listing.listing(one.spark, table)
    few = next(file for file in found.files if file.rows == 10)
    told = tuple(replace(file, deleted=3 if file is few else 1) for file in found.files)
    done = compact(one, found=replace(found, files=told))
    assert (done.files, done.into, done.delete_files, done.delete_into) == (1, 1, 1, 1)
    assert both(one) == before
    assert shape(one) == (2, 1)
    after = listing.listing(one.spark, load(one))
    # Of the file that is left alone one row is gone; the new file is younger than the deletes.
    assert {file.rows: file.deleted for file in after.files} == {200: 1, 7: 0}
    assert compact(one) == Compacted()


@long_only
def test_rows_are_laid_out_as_the_configuration_says(lake: Make) -> None:
    one = lake(config("key: [id], columns: {a: long, b: long}"))
    dice = random.Random(5)
    for n in range(6):
        one.land([event("c", 100 * n + i, {"id": 100 * n + i, "a": dice.randrange(64), "b": dice.randrange(64)})
                  for i in range(64)])  # fmt: skip
    before = both(one)
    assert compact(one).into == 1
    assert [row["id"] for row in one.rows("lake.t")] == sorted(row["id"] for row in one.rows("lake.t"))
    size = _data_files(one)[0].file_size_in_bytes
    four = Compaction(target_bytes=size // 4, sort_by=("b",))
    found = listing.listing(one.spark, load(one))
    # A file that is far too large for the target is left alone, unless rows of it go.
    assert compact(one, four) == Compacted()
    worth = replace(found, files=tuple(replace(file, deleted=40) for file in found.files))
    assert compact(one, four, found=worth).into >= 3
    assert _spans(one, "b") < 2 * 64
    cut = replace(four, sort_by=(), zorder_by=("a", "b"))
    found = listing.listing(one.spark, load(one))
    worth = replace(found, files=tuple(replace(file, deleted=file.rows // 9) for file in found.files))
    assert compact(one, cut, found=worth).into >= 3
    # On the curve each file is about a quarter of the square: half of each side, where a sort by b has all of a.
    files = len(_data_files(one))
    assert _spans(one, "a") < 0.8 * files * 64
    assert _spans(one, "b") < 0.8 * files * 64
    assert both(one) == before
    with pytest.raises(Unfit, match="orders it by nowhere"):
        compact(one, Compaction(sort_by=("nowhere",)))


def _spans(lake: Lake, column: str) -> int:
    """The sum over the data files of how far the values of a column lie apart."""
    files = lake.spark.table("firn.lake.t").selectExpr(column, "_file").groupBy("_file")
    return int(sum(row[1] for row in files.agg({column: "max"}).collect())) - int(
        sum(row[1] for row in files.agg({column: "min"}).collect())
    )


def test_a_row_that_is_deleted_while_its_file_is_written_anew_stays_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is not failed by the rewrite, which loses what it wrote and does it once more in halves."""
    one, other = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    land(one, 6)
    other.now = one.now
    real = compaction.write_rows
    raced: list[int] = []

    def write(*args: Any) -> list[Any]:
        files = real(*args)
        if not raced:
            raced.append(len(files))
            other.land([event("d", 900, None, before={"id": 5}), event("u", 901, {"id": 4, "v": "raced"})])
        return files

    monkeypatch.setattr(compaction, "write_rows", write)
    done = compact(one)
    assert raced == [1]
    assert (done.lost, done.groups, done.left) == (1, 2, 0)
    assert id_and_v(one) == [(2, "u5"), (4, "raced")]
    table = one.catalog.load_table(("lake", "t"))
    referred, there = files_of(table)
    assert there <= referred, "files of the lost try were left"
    assert epochs_of(table, "spec") == list(range(1, 8))
    assert compact(one).lost == 0
    assert id_and_v(one) == [(2, "u5"), (4, "raced")]


@long_only
def test_deletes_that_come_between_the_last_look_and_the_commit_refuse_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's own validation, as the commit's base moves: every time, until the rewrite gives up."""
    one, other = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    one.land([event("c", 10 + n, {"id": n, "v": "a"}) for n in range(20)])
    one.land([event("d", 100, None, before={"id": 0}), event("d", 101, None, before={"id": 1})])
    other.now = one.now
    real = fence.commit
    ids = iter(range(2, 20))

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        if "Rewrite" in update.getClass().getSimpleName():
            n = next(ids)
            other.land([event("d", 200 + n, None, before={"id": n})])
        real(spark, table, update, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    done = compact(one)
    monkeypatch.setattr(fence, "commit", real)
    assert done.groups == 0
    assert done.lost == 1
    assert done.left > 0
    assert sorted(one.by_key("lake.t", "id")) == sorted(set(range(20)) - {0, 1} - set(range(2, next(ids))))
    referred, there = files_of(one.catalog.load_table(("lake", "t")))
    assert there <= referred


@long_only
def test_a_commit_that_deletes_from_other_files_only_does_not_undo_a_rewrite(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg alone would refuse it: the deletes are in the same partition."""
    one, other = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    one.land([event("c", 1_000 + n, {"id": n, "v": "x"}) for n in range(50)])
    one.land([event("c", 2_000 + n, {"id": 100 + n, "v": "y"}) for n in range(10)])
    one.land([event("d", 3_000 + n, None, before={"id": 100 + n}) for n in range(4)])
    other.now = one.now
    found = listing.listing(one.spark, load(one))
    few = next(file for file in found.files if file.rows == 10)
    found = replace(found, files=tuple(replace(file, deleted=4 if file is few else 0) for file in found.files))
    real = compaction.write_rows

    def write(*args: Any) -> list[Any]:
        other.land([event("d", 4_000, None, before={"id": 7}), event("c", 4_001, {"id": 200, "v": "z"})])
        return real(*args)

    monkeypatch.setattr(compaction, "write_rows", write)
    done = compact(one, found=found)
    assert (done.groups, done.lost, done.files) == (1, 0, 1)
    assert sorted(one.by_key("lake.t", "id")) == sorted({*range(50), *range(104, 110), 200} - {7})
    assert epochs_of(one.catalog.load_table(("lake", "t")), "spec") == [1, 2, 3, 4]


@few_cases(1)
@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_columns_that_change_while_files_are_written_make_it_start_over(
    lake: Make, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    one = lake(config())
    land(one, 5)
    real = compaction.write_rows
    added: list[str] = []

    def write(spark: Any, table: Any, *rest: Any) -> list[Any]:
        files = real(spark, table, *rest) if written else []
        if not added:
            added.append("more")
            load(one).java.updateSchema().addColumn("more", table.java.schema().findType("v")).commit()
        return files or real(spark, table, *rest)

    monkeypatch.setattr(compaction, "write_rows", write)
    before = id_and_v(one)
    done = compact(one)
    assert (done.lost, done.groups, done.left) == (1, 2, 0)
    assert id_and_v(one) == before
    assert {row["more"] for row in one.rows("lake.t")} == {None}


@long_only
def test_an_answer_that_got_lost_ends_the_work_and_loses_nothing(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before and after the rewrite's commit, its answer lost, or late: the rows are those of before."""
    one = lake(config())
    land(one, 6)
    loss = Loss(fence.commit, random.Random(3), most_seconds=0.2)
    real = fence.commit
    monkeypatch.setattr(compaction.fence, "commit", loss)
    for n in range(6, 14):
        with suppress(Died, fence.CommitUnknown):
            compact(one)
        for slow in loss.slow:
            slow.join()
        assert id_and_v(one) == folded(n)
        monkeypatch.setattr(compaction.fence, "commit", real)
        one.land(changes(n))
        monkeypatch.setattr(compaction.fence, "commit", loss)
    assert len(loss.happened) >= 4, loss.happened
    table = one.catalog.load_table(("lake", "t"))
    referred, there = files_of(table)
    assert {name for name in referred if name.endswith(".parquet")} <= there
    assert id_and_v(one) == folded(14)
    assert epochs_of(table, "spec") == list(range(1, 15))


@few_cases(1)
@pytest.mark.parametrize("answered", ["killed", "unknown"])
def test_a_rewrite_that_was_not_committed_leaves_the_table_as_it_was(
    lake: Make, monkeypatch: pytest.MonkeyPatch, answered: str
) -> None:
    one = lake(config())
    land(one, 6)
    before, files = both(one), shape(one)
    _, there = files_of(one.catalog.load_table(("lake", "t")))

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        raise Died("killed") if answered == "killed" else fence.CommitUnknown("no answer")

    monkeypatch.setattr(compaction.fence, "commit", commit)
    with pytest.raises(Died if answered == "killed" else fence.CommitUnknown):
        compact(one)
    assert (both(one), shape(one)) == (before, files)
    _, after = files_of(one.catalog.load_table(("lake", "t")))
    assert after > there, "an outcome that is not known is never cleaned up after"


@long_only
def test_a_budget_is_kept_and_a_dry_run_says_what_would_be_done(lake: Make) -> None:
    one = lake(config("key: [id], columns: {v: string}, partition_by: ['bucket(2, id)']"))
    for n in range(6):
        one.land([event("c", 100 * n + i, {"id": 10 * n + i, "v": "v"}) for i in range(10)])
    before = shape(one)
    dry = compact(one, dry_run=True)
    assert (dry.groups, dry.files, dry.into, dry.left) == (2, 12, 2, 0)
    assert dry.bytes == measure(one.spark, load(one), Care(), NOW)[0].rewrite_bytes
    assert shape(one) == before
    assert compact(one, budget=Budget(10, fresh=False)) == Compacted(left=dry.bytes)
    done = compact(one, budget=Budget(10))
    assert (done.groups, done.files) == (1, 6)
    assert done.left == dry.bytes - done.bytes
    assert compact(one, Compaction(on=False)) == Compacted()


@long_only
def test_tables_that_firn_does_not_understand_are_left_alone(lake: Make) -> None:
    one = lake(config())
    land(one, 6)
    table = load(one, "lake.t__deletes")
    jvm: Any = one.spark._jvm
    ids = one.spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = 1
    equality = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.java.spec()).ofEqualityDeletes(ids)
    file = equality.withPath(f"{table.state.location}/data/x.parquet").withFormat("parquet")
    file = file.withFileSizeInBytes(10).withRecordCount(1).build()
    table.java.newRowDelta().addDeletes(file).commit()
    with pytest.raises(Unfit, match="not by position"):
        compact(one, table="lake.t__deletes")


@long_only
def test_many_small_manifests_become_few(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config("mode: append"))
    land(one, 4)
    before = both(one)
    assert compact(one) == Compacted()
    monkeypatch.setattr(manifest_planner, "MANY", 3)
    done = compact(one)
    assert (done.manifests, done.manifest_into, done.groups) == (4, 1, 0)
    assert both(one) == before
    assert newest(one).operation is Operation.REPLACE
    assert newest(one).additional_properties["firn.format"] == "1"
    assert epochs_of(one.catalog.load_table(("lake", "t")), "spec") == [1, 2, 3, 4]
    one.land(changes(4))


@long_only
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("key: [id]", marks=long_only),
        "key: [id], columns: {v: string}, partition_by: ['truncate(2, v)']",
    ],
)
def test_a_table_is_measured_alike_by_its_manifests_one_by_one_and_by_spark(
    lake: Make, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    one = lake(config(rule))
    land(one, 4)
    by_one, files = measure(one.spark, load(one), Care(), NOW)
    monkeypatch.setattr(listing, "ONE_BY_ONE", 0)
    by_spark, same = measure(one.spark, load(one), Care(), NOW)
    assert by_spark == by_one
    key = lambda file: file.path  # noqa: E731
    # The text that tells partitions apart is each way's own.
    for mine, theirs in ((files.files, same.files), (files.deletes, same.deletes)):
        assert [replace(file, partition="") for file in sorted(mine, key=key)] == [
            replace(file, partition="") for file in sorted(theirs, key=key)
        ]
        pairs = zip(sorted(mine, key=key), sorted(theirs, key=key), strict=True)
        apart = {(a.partition, b.partition) for a, b in pairs}
        assert len({a for a, _ in apart}) == len({b for _, b in apart}) == len(apart)
    counted = newest(one).additional_properties
    assert (by_one.files, by_one.rows) == (int(counted["total-data-files"]), int(counted["total-records"]))
    assert by_one.delete_files == int(counted["total-delete-files"])
    assert by_one.deleted == int(counted["total-position-deletes"])
    assert (by_one.bytes + by_one.delete_bytes, by_one.snapshots) == (int(counted["total-files-size"]), 4)
    table = one.catalog.load_table(("lake", "t"))
    first = table.metadata.snapshots[0].timestamp_ms / 1_000
    assert by_one.oldest == datetime.fromtimestamp(first, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert by_one.metadata_bytes == Path(table.metadata_location.removeprefix("file:")).stat().st_size
    names = [part.name for part in by_one.partitions]
    assert all(name.startswith("v_trunc=") for name in names) if "partition" in rule else names == [""]


@long_only
def test_a_turn_leaves_a_health_and_writes_anew_what_lost_many_rows(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit job's own care. Small files are the small merge's; a large one with deletes is this one's."""
    one = lake(config())
    one.land([event("c", 10 + n, {"id": n, "v": f"row {n} " * 9}) for n in range(1_000)])
    monkeypatch.setattr(inline_compaction, "SMALL_BYTES", 2_000)
    monkeypatch.setattr(turns, "EVERY", 1)
    one.land([event("d", 5_000 + n, None, before={"id": n}) for n in range(150)])
    said = [line for line in one.lines if line.get("status") == "compacted"]
    [line] = said
    assert (line["table"], line["files"], line["into"], line["delete_files"]) == ("lake.t", 1, 1, 1)
    assert shape(one) == (1, 0)
    assert sorted(one.by_key("lake.t", "id")) == list(range(150, 1_000))
    known = table_health.read(one.store, "spec")
    assert set(known) == {"lake.t", "lake.t__deletes"}
    found = known["lake.t"]
    assert (found.files, found.rows, found.deleted, found.rewrite_bytes) == (1, 850, 0, 0)
    assert found.compacted_bytes == line["bytes"]
    assert found.compacted_at is not None
    monkeypatch.setattr(turns, "EVERY", 10**9)
    one.land([event("c", 9_000, {"id": 9_000, "v": "no turn"})])
    assert table_health.read(one.store, "spec")["lake.t"] == found


@long_only
def test_a_turn_keeps_to_the_hours_budget(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    text = config().replace("streams:", "care: {compact: {budget: 1MB}}\nstreams:", 1)
    one = lake(text)
    one.land([event("c", 10 + n, {"id": n, "v": f"row {n} " * 9}) for n in range(1_000)])
    spent = table_health.Health("lake.t", "2026-11-22T00:00:00Z", compacted_bytes=10**6)
    recent = datetime.now(UTC).isoformat()
    table_health.write(one.store, "spec", [replace_health(spent, compacted_at=recent)])
    monkeypatch.setattr(inline_compaction, "SMALL_BYTES", 2_000)
    monkeypatch.setattr(turns, "EVERY", 1)
    one.land([event("d", 5_000 + n, None, before={"id": n}) for n in range(150)])
    assert not [line for line in one.lines if line.get("status") == "compacted"]
    found = table_health.read(one.store, "spec")["lake.t"]
    assert found.rewrite_bytes > 0
    assert found.compacted_bytes == 10**6


def replace_health(one: table_health.Health, **changed: Any) -> table_health.Health:
    from msgspec.structs import replace as changed_of

    return changed_of(one, **changed)


@long_only
def test_an_error_of_java_is_no_lost_race(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is neither refused nor unknown is said, and nothing is taken for done."""
    one = lake(config())
    land(one, 5)
    before = both(one)

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        raise unknown(spark)

    monkeypatch.setattr(compaction.fence, "commit", commit)
    with pytest.raises(Py4JJavaError):
        compact(one)
    assert both(one) == before
