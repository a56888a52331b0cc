"""Small files made into fewer between epochs: rows, positions, progress and facts stay as they were."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.errors import StorageUnavailable, UnknownOutcome
from firn.log import published_configs
from firn.maintenance import compaction_trigger
from firn_spark.driver import small_files
from firn_spark.tables import fence, objects
from firn_spark.tables.evolve import Tables
from tests.integration.snapshots import epochs_of
from tests.integration.spark.committing import Died, Loss, files_of
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import config, event
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth commit, and three files are many."""
    monkeypatch.setattr(compaction_trigger, "EVERY", 4)
    monkeypatch.setattr(compaction_trigger, "own_number", lambda _: 2)
    monkeypatch.setattr(small_files, "_AT_LEAST", 3)


def shape(lake: Lake, table: str = "lake.t") -> tuple[int, int]:
    """(data files, files of deletes) of the newest snapshot."""
    snapshot = lake.catalog.load_table(TableName.parse(table).identifier).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    return int(said["total-data-files"] or 0), int(said["total-delete-files"] or 0)


def merges(lake: Lake) -> dict[str, dict[str, Any]]:
    """What the last job said of its care, by table."""
    return {line["table"]: line for line in lake.lines if "compacted" in str(line.get("status"))}


def changes(n: int) -> list[dict[str, Any]]:
    """A new row, an update of an older one and, from the third on, a delete."""
    lsn = 100 + 10 * n
    told = [event("c", lsn, {"id": n, "v": f"v{n}"}), event("u", lsn + 1, {"id": n // 2, "v": f"u{n}"})]
    return told + ([event("d", lsn + 2, None, before={"id": n - 2})] if n > 1 else [])


def folded(count: int) -> list[tuple[int, str]]:
    """The rows after so many epochs, in the order of their ids."""
    rows = {}
    for n in range(count):
        rows |= {n: f"v{n}"}
        rows |= {n // 2: f"u{n}"}
        rows.pop(n - 2, None)
    return sorted(rows.items())


def epochs(lake: Lake, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Commits `changes`. -> what the jobs said of their care."""
    said: list[dict[str, Any]] = []
    for n in range(first, first + count):
        lake.land(changes(n))
        said += merges(lake).values()
    return said


def id_and_v(lake: Lake) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in lake.rows("lake.t"))


def all_rows(lake: Lake, table: str = "lake.t") -> list[str]:
    return sorted(map(repr, lake.rows(table)))


def test_files_become_few_and_nothing_else_changes(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    epochs(one, 4)
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)
    epochs(one, 1, first=4)
    before, facts = all_rows(one), all_rows(one, "lake.t__deletes")
    assert shape(one) == (5, 4)
    monkeypatch.setattr(compaction_trigger, "EVERY", 5)
    monkeypatch.setattr(compaction_trigger, "own_number", lambda _: 2)
    one.land([event("u", 101, {"id": 0, "v": "u0"})])  # stale: no row changes
    said = merges(one)
    assert said["lake.t"] | {"files": 5, "into": 1, "delete_files": 4, "delete_into": 0} == said["lake.t"]
    assert said["lake.t__deletes"]["into"] == 1
    assert shape(one) == (1, 0)
    assert shape(one, "lake.t__deletes") == (1, 0)
    assert all_rows(one) == before
    assert all_rows(one, "lake.t__deletes") == facts
    assert one.spark.table("firn.lake.t").count() == len(before)
    table = one.catalog.load_table(("lake", "t"))
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary.operation is Operation.REPLACE
    assert not any(name.startswith("firn.epoch") for name in newest.summary.additional_properties)
    assert audited(one).differences == []
    # The progress is found below it, and what is remembered still counts: the deleted stays deleted.
    assert epochs_of(table, "spec")[-1] == 6
    one.land([event("u", 110 + 5, {"id": 1, "v": "late"}), event("c", 400, {"id": 9, "v": "new"})])
    assert [row["id"] for row in one.rows("lake.t") if row["id"] in (1, 9)] == [9]


@long_only
def test_large_tables_keep_their_large_files_and_get_one_file_of_deletes(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lake(config())
    one.land([event("c", 10 + n, {"id": n, "v": f"row {n} " * 20}) for n in range(2_000)])
    monkeypatch.setattr(small_files, "SMALL_BYTES", 10_000)
    said = []
    for n in range(5):
        one.land([event("d", 9_000 + n, None, before={"id": 100 * n}), event("u", 9_500 + n, {"id": n + 1, "v": "x"})])
        said += [line for table, line in merges(one).items() if table == "lake.t"]
    assert [(line["into"], line["delete_into"]) for line in said] == [(1, 1)]
    assert shape(one)[1] <= 2
    found = one.by_key("lake.t", "id")
    assert sorted(found) == sorted(set(range(2_000)) - {0, 100, 200, 300, 400})
    assert [found[n]["v"] for n in range(1, 7)] == ["x"] * 5 + ["row 6 " * 20]


@few_cases(1)
@pytest.mark.parametrize(
    "rule",
    [
        "key: [id], columns: {v: string}, partition_by: [bucket(2, id)]",
        "mode: append",
    ],
)
def test_every_kind_of_table_is_cared_for(lake: Make, rule: str) -> None:
    """Whatever the files are divided by, the rows are those of a lake without care."""
    one = lake(config(rule))
    said = [line for line in epochs(one, 6) if line["table"] == "lake.t"]
    assert any(line["status"] == "compacted" for line in said), said
    if rule == "mode: append":
        assert len(one.rows("lake.t")) == len([event for n in range(6) for event in changes(n)])
    else:
        assert id_and_v(one) == folded(6)


@long_only
def test_files_of_an_older_schema_are_read_by_the_ids_of_their_columns(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "_AT_LEAST", 2)
    one = lake(config("key: [u], columns: {u: uuid, n: int}"))
    keys = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(9)]
    for n in range(2):
        one.land([event("c", 10 + n, {"u": keys[n], "n": n, "old": f"o{n}"})])
    wider = "key: [u], columns: {u: uuid, n: long, at: timestamptz, amount: double}"
    one.config = published_configs.publish(one.store, config(wider))
    for n in range(2, 6):
        row = {"u": keys[n], "n": 2**40 + n, "at": f"2026-11-21T10:00:0{n}Z", "amount": n + 0.5}
        one.land([event("c", 20 + n, row)])
        if n == 4:
            assert merges(one)["lake.t"]["status"] == "compacted", one.lines
            assert shape(one)[0] < 5
    found = {str(row["u"]): row for row in one.rows("lake.t")}
    assert [found[key]["n"] for key in keys[:6]] == [0, 1, *(2**40 + n for n in range(2, 6))]
    assert [found[key]["old"] for key in keys[:6]] == ["o0", "o1", None, None, None, None]
    assert [found[key]["amount"] for key in keys[2:6]] == [2.5, 3.5, 4.5, 5.5]
    assert one.spark.table("firn.lake.t").where("amount > 3").count() == 3


def test_a_merge_that_a_commit_overtakes_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job deletes from the files that are being merged: the merge is refused, and no deleted row comes back."""
    one, other = Lake(spark, tmp_path, config()), Lake(spark, tmp_path, config())
    epochs(one, 4)
    other.now = one.now
    real = small_files.fence.commit
    once = threading.Event()

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        if "Rewrite" in update.getClass().getSimpleName() and not once.is_set():
            once.set()
            other.land([event("d", 900, None, before={"id": 3}), event("d", 901, None, before={"id": 2})])
        real(spark, table, update, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    epochs(one, 1, first=4)
    assert once.is_set()
    assert merges(one)["lake.t"]["status"] == "not compacted"
    assert [row["id"] for row in one.rows("lake.t")] == [4]
    there, on_disk = files_of(one.catalog.load_table(("lake", "t")))
    assert there >= on_disk, "files of the refused merge were left"
    one.now = other.now
    one.land([event("c", 1_000 + n, {"id": n, "v": "more"}) for n in (50, 51)])
    assert [n for n, _ in id_and_v(one)] == [4, 50, 51]


@long_only
def test_a_commit_that_a_merge_overtakes_looks_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that a job looked up are merged before it commits: it starts over, and the rows are right."""
    one = Lake(spark, tmp_path, config())
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)
    epochs(one, 5)
    real = fence.commit
    merged: list[Any] = []

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        if str(table.name) == "lake.t" and not merged:
            merged.append(None)
            found = Tables(one.spark).load(table.name)
            assert found is not None
            merged.append(small_files.merge(one.spark, found, "spec"))
        real(spark, table, update, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    one.land([event("d", 900, None, before={"id": 3}), event("u", 901, {"id": 4, "v": "again"})])
    assert merged[1] is not None
    assert [(row["id"], row["v"]) for row in one.rows("lake.t")] == [(4, "again")]


@long_only
def test_answers_lost_at_the_merge_lose_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before and after the merge's commit, its answer lost, or late: each epoch's rows are there."""
    one = Lake(spark, tmp_path, config())
    loss = Loss(fence.commit, random.Random(7), most_seconds=0.3)
    real = fence.commit

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        # py4j's proxy of the update tells its class; Unsure has the update's own attributes.
        (loss if "Rewrite" in update.getClass().getSimpleName() else real)(spark, table, update, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    monkeypatch.setattr(compaction_trigger, "EVERY", 2)
    monkeypatch.setattr(compaction_trigger, "own_number", lambda _: 1)
    expected: dict[int, str] = {}
    for n in range(14):
        one.post(
            [event("c", 100 + 10 * n, {"id": n, "v": f"v{n}"}), event("d", 101 + 10 * n, None, before={"id": n - 3})]
        )
        expected[n] = f"v{n}"
        expected.pop(n - 3, None)
        epoch = one.seal()
        try:
            assert one.commit(epoch) == 0, one.lines
        except Died:
            assert one.commit(epoch) == 0, one.lines
        assert {row["id"]: row["v"] for row in one.rows("lake.t")} == expected
    for slow in loss.slow:
        slow.join()
    assert {row["id"]: row["v"] for row in one.rows("lake.t")} == expected
    assert len(loss.happened) >= 3, loss.happened
    table = one.catalog.load_table(("lake", "t"))
    referred, there = files_of(table)
    assert {name for name in referred if name.endswith(".parquet")} <= there
    assert epochs_of(table, "spec") == list(range(1, 15))


@few_cases(1)
@pytest.mark.parametrize("error", [StorageUnavailable("away"), UnknownOutcome("no answer"), Died("killed")])
@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_file_that_could_not_be_written_is_written_again_by_the_next_try(
    lake: Make, monkeypatch: pytest.MonkeyPatch, error: BaseException, written: bool
) -> None:
    """The commit's own data files: killed before and after they are stored, or the answer lost."""
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    real, fails = objects.Objects.write, [True]

    def write(self: Any, location: str, data: Any) -> None:
        if not fails or "__deletes" in location:
            return real(self, location, data)
        fails.pop()
        if written:
            real(self, location, data)
        raise error

    monkeypatch.setattr(objects.Objects, "write", write)
    one.post([event("u", 20, {"id": 1, "v": "b"}), event("c", 21, {"id": 2, "v": "c"})])
    epoch = one.seal()
    try:
        code = one.commit(epoch)
    except Died:
        code = 1
    if code:
        assert [row["v"] for row in one.rows("lake.t")] == ["a"]
        assert one.commit(epoch) == 0, one.lines
    assert sorted((row["id"], row["v"]) for row in one.rows("lake.t")) == [(1, "b"), (2, "c")]
    assert epochs_of(one.catalog.load_table(("lake", "t")), "spec") == [1, 2]
