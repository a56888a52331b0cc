"""Tables in Iceberg's format 3: created and upgraded by firn.yaml, with one deletion vector a data file, and rows that
keep their ids when they are written again."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.config.maintenance import Care
from firn.config.names import TableName
from firn.errors import TerminalError
from firn.log import published_configs
from firn_lake.audit.vector_check import doubled_vectors, vector_differences
from firn_spark.driver import small_files
from firn_spark.maintenance.compaction import Budget, compact
from firn_spark.merge import mirror_commit
from firn_spark.not_eligible import Unfit
from firn_spark.tables import fence, planned_files
from firn_spark.tables.alterations import upgrade
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import CommitUnknown, LostRace
from firn_spark.tables.removals import Removal, removal_of
from tests.integration.spark.committing import Died
from tests.integration.spark.homes import HOMES, commit_in, planned_again, row
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_rebuild import rebuilt
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark
RULE = "key: [id], columns: {id: long, v: string, w: string}"
THREE = f"{RULE}, format: 3"
Make = Callable[[str], Lake]


def loaded(one: Lake) -> Table:
    found = Tables(one.spark).load(TableName.parse("lake.t"))
    assert found is not None
    return found


def vectors(one: Lake) -> Counter[str]:
    """How many live deletion vectors each data file has; "" for files of deletes that are none."""
    files = one.spark.table("firn.lake.t.delete_files").select("file_format", "referenced_data_file").collect()
    return Counter(each[1] if each[0] == "PUFFIN" else "" for each in files)


def by_both(one: Lake) -> dict[int, tuple[Any, Any]]:
    """The rows by key, as Spark and PyIceberg read them alike."""
    names = ("id", "v", "w")
    spark = one.spark.table("firn.lake.t").select(*names).toArrow().to_pylist()
    found = {each["id"]: (each["v"], each["w"]) for each in spark}
    assert len(found) == len(spark)
    mine = sorted(one.rows("lake.t"), key=lambda each: each["id"])
    assert [(each["id"], (each["v"], each["w"])) for each in mine] == sorted(found.items())
    return found


def lineage(one: Lake) -> dict[int, tuple[int, int]]:
    rows = one.spark.table("firn.lake.t").select("id", "_row_id", "_last_updated_sequence_number").collect()
    return {each[0]: (each[1], each[2]) for each in rows}


@HOMES
def test_a_data_file_has_one_vector_whatever_leaves_it(lake: Make, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    again = planned_again(monkeypatch)
    one = lake(config(f"{THREE}, partition_by: ['bucket(2, id)']"))
    one.land([event("c", 10 + n, row(n)) for n in range(20)])
    one.land([event("d", 100, None, row(3)), event("u", 101, row(4, v="new", w=GONE)), event("c", 102, row(30))])
    first = vectors(one)
    one.land([event("d", 200 + n, None, row(n)) for n in (5, 6, 7, 8)])
    assert one.line("lake.t")["way"]["lookup"] == home
    found = vectors(one)
    assert found.keys() >= first.keys()
    assert "" not in found
    assert set(found.values()) == {1}
    assert loaded(one).state.version == 3
    assert again == []
    expected = {n: (f"v{n}", f"w{n}") for n in (*range(20), 30) if n not in (3, 5, 6, 7, 8)} | {4: ("new", "w4")}
    assert by_both(one) == expected


@HOMES
def test_a_table_is_upgraded_in_the_middle_of_its_stream_and_loses_nothing(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """What came before, what comes with the upgrade, and what after, each doubled, and late."""
    commit_in(home, monkeypatch, events=3, one_task=3)
    one = lake(config(RULE))
    before = [event("c", 10 + n, row(n)) for n in range(12)] + [event("d", 50, None, row(1))]
    during = [event("u", 60, row(2, v="during", w=GONE)), event("d", 61, None, row(3)), event("c", 62, row(20))]
    after = [event("u", 70, row(2, v="after")), event("c", 71, row(3)), event("d", 72, None, row(4))]
    one.land(before)
    one.land([event("d", 51, None, row(5)), *before])
    assert vectors(one) == {"": 1}
    republished(one, THREE)
    one.land([*during, *before[:6]])
    table = loaded(one)
    assert table.state.version == 3
    one.land([*reversed(after), *during, *before])
    one.land([*before, *during, *after])
    expected = {n: (f"v{n}", f"w{n}") for n in (*range(12), 20) if n not in (1, 4, 5)} | {2: ("after", "w2")}
    assert by_both(one) == expected
    assert set(vectors(one).values()) == {1}
    summary = one.snapshots("lake.t")[-1]
    counts = [int(summary[name]) for name in ("total-records", "total-position-deletes")]
    assert counts[0] - counts[1] == len(expected), "each row that is gone is counted once"
    assert len({number for number, _ in lineage(one).values()}) == len(expected)


def republished(one: Lake, rule: str) -> None:
    one.config = published_configs.publish(one.store, config(rule))


@few_cases(1)
@pytest.mark.parametrize("when", [pytest.param("before", marks=long_only), "after", "its answer is lost"])
def test_a_job_that_dies_at_the_upgrade_is_taken_up_where_it_was(
    lake: Make, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    one = lake(config(RULE))
    one.land([event("c", 10 + n, row(n)) for n in range(6)])
    one.land([event("d", 50, None, row(1))])
    republished(one, THREE)
    real = fence.alter

    def alter(*given: Any) -> None:
        if when != "before":
            real(*given)
        raise CommitUnknown("lost") if when == "its answer is lost" else Died(when)

    one.post([event("d", 60, None, row(2)), event("c", 61, row(9))])
    epoch = one.seal()
    with monkeypatch.context() as once:
        once.setattr(fence, "alter", alter)
        if when == "its answer is lost":
            assert one.commit(epoch) == 0, one.lines
        else:
            with pytest.raises(Died):
                one.commit(epoch)
    assert one.commit(epoch) == 0, one.lines
    assert sorted(by_both(one)) == [0, 3, 4, 5, 9]
    assert (loaded(one).state.version, set(vectors(one).values())) == (3, {1})


def test_position_deletes_that_were_planned_before_an_upgrade_do_not_come_after_it(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lake(config(RULE))
    one.land([event("c", 10 + n, row(n)) for n in range(6)])
    real, tries = fence.commit, []

    def commit(spark: Any, table: Any, *rest: Any) -> None:
        if str(table.name) == "lake.t":
            tries.append(table.state.version)
            if len(tries) == 1:
                upgrade(spark, Tables(spark), loaded(one), 3)
        real(spark, table, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    one.land([event("d", 60, None, row(2))])
    assert tries == [2, 3]
    assert sorted(by_both(one)) == [0, 1, 3, 4, 5]
    assert set(vectors(one)) != {""}
    assert set(vectors(one).values()) == {1}


@long_only
def test_there_is_no_way_back_and_the_error_says_what_to_write(lake: Make) -> None:
    one = lake(config(THREE))
    one.land([event("c", 10, row(1))])
    republished(one, f"{RULE}, format: 2")
    one.post([event("c", 11, row(2))])
    assert one.commit(one.seal()) != 0
    assert "firn.yaml asks for format: 2; no table goes back" in one.line("lake.t")["error"]
    assert by_both(one) == {1: ("v1", "w1")}


@long_only
def test_a_table_keeps_its_format_where_the_rule_says_nothing(lake: Make) -> None:
    one = lake(config(THREE))
    one.land([event("c", 10, row(1))])
    republished(one, RULE)
    one.land([event("d", 11, None, row(1)), event("c", 12, row(2))])
    assert (loaded(one).state.version, set(vectors(one).values())) == (3, {1})


def placed(one: Lake, table: Table) -> tuple[str, Removal]:
    """The path of a data file, and the removal of its first row."""
    path = str(table.java.newScan().planFiles().iterator().next().file().location())
    return path, removal_of(one.spark, table, {path: pa.array([0], pa.int64())})


def land(one: Lake, table: Table, path: str, removal: Removal) -> None:
    written = mirror_commit.Written([], removal, {path: pa.array([0], pa.int64())})
    mirror_commit.land(one.spark, table, written, table.state.snapshot_id, {}, "spec")


@long_only
def test_a_second_vector_beside_a_live_one_is_never_committed(lake: Make) -> None:
    one = lake(config(THREE))
    one.land([event("c", 10 + n, row(n)) for n in range(6)])
    one.land([event("d", 100, None, row(3))])
    table, twin = loaded(one), loaded(one)
    path, removal = placed(one, table)
    assert (len(removal.replaced), len(removal.vectors[path])) == (1, 1)
    with pytest.raises(TerminalError, match="has a deletion vector already"):
        land(one, table, path, Removal(removal.added, (), removal.vectors, frozenset()))
    _, other = placed(one, twin)
    land(one, table, path, removal)
    with pytest.raises(LostRace, match=r"conflicting delete files|concurrently added DV"):  # it knew of the same vector
        land(one, twin, path, other)
    assert set(vectors(one).values()) == {1}
    assert len(by_both(one)) == 4


@long_only
def test_a_vector_of_a_data_file_that_a_merge_removed_meanwhile_is_never_committed(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are its rows counted: a vector that names no data file stays for nothing."""
    monkeypatch.setattr(small_files, "_AT_LEAST", 2)
    one = lake(config(THREE))
    for n in range(2):
        one.land([event("c", 10 + 3 * n + k, row(3 * n + k)) for k in range(3)])
    one.land([event("d", 100, None, row(1))])
    table, rows = loaded(one), by_both(one)
    path, removal = placed(one, table)
    puffin = {str(each.location()) for each in removal.added}
    assert small_files.merge(one.spark, loaded(one), "spec") is not None
    with pytest.raises(LostRace, match="missing data files"):
        land(one, table, path, removal)
    assert (by_both(one), vectors(one)) == (rows, Counter())
    assert not [each for each in puffin if Path(each.removeprefix("file:")).exists()]
    summary = one.snapshots("lake.t")[-1]
    assert (int(summary["total-records"]), int(summary["total-position-deletes"])) == (5, 0)


@long_only
def test_an_audit_finds_a_second_vector_that_another_writer_added_and_care_leaves_the_table_alone(lake: Make) -> None:
    one = lake(config(THREE))
    one.land([event("c", 10 + n, row(n)) for n in range(6)])
    one.land([event("d", 100, None, row(3))])
    table = loaded(one)
    path, removal = placed(one, table)
    iceberg = one.catalog.load_table(("lake", "t"))
    assert vector_differences({"lake.t": iceberg}) == []
    update = table.java.newRowDelta().validateFromSnapshot(table.state.snapshot_id)
    update.addDeletes(removal.added[0]).commit()
    iceberg.refresh()
    assert doubled_vectors(iceberg) == {path: 2}
    (told,) = vector_differences({"lake.t": iceberg})
    assert (told.code, told.table, told.objects) == ("doubled_vectors", "lake.t", (path,))
    assert "firn rebuild lake.t --in-place" in told.advice
    with pytest.raises(Unfit, match=f"two deletion vectors of one data file, {path}"):
        compact(one.spark, loaded(one), "spec", Care(), Budget(10**9))
    code, line = rebuilt(one, in_place=True)
    assert code == 0, line
    assert len(by_both(one)) == 5
    assert doubled_vectors(one.catalog.load_table(("lake", "t"))) == {}


def test_what_a_removal_does_not_take_is_named() -> None:
    there = DeleteFile("a.puffin", 40, "f.parquet", 4)
    Removal(vectors={"f.parquet": [there]}, taken=frozenset({there})).check(None)
    with pytest.raises(TerminalError, match=r"f\.parquet has a deletion vector already, in a\.puffin"):
        Removal(vectors={"f.parquet": [there]}).check(None)
    with pytest.raises(TerminalError, match=r"looked up in snapshot 7, .* up to 8"):
        Removal(vectors={"f.parquet": []}, snapshot=7).check(8)


def small_ones(one: Lake, count: int) -> dict[int, tuple[int, int]]:
    """A table of so many data files, of which three lost rows by a commit each; which row is which in it."""
    for n in range(count):
        one.land([event("c", 100 + 10 * n + k, row(10 * n + k)) for k in range(4)])
    for some in ((0,), (11, 12), (20,)):
        one.land([event("d", 1_000 + k, None, row(k)) for k in some])
    found = lineage(one)
    assert len({number for number, _ in found.values()}) == len(found) == 4 * count - 4
    assert {sequence for _, sequence in found.values()} == set(range(1, count + 1))
    return found


@long_only
@pytest.mark.parametrize("way", ["small files", "compaction"])
def test_rows_that_are_written_again_keep_their_ids_and_their_vectors_go(
    lake: Make, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(small_files, "_AT_LEAST", 3)
    one = lake(config(THREE))
    count = 3 if way == "small files" else 6
    which, rows = small_ones(one, count), by_both(one)
    assert len(vectors(one)) == 3
    for last in (False, True):  # ids that are written in files now
        if way == "small files":
            assert small_files.merge(one.spark, loaded(one), "spec") is not None
        else:
            done = compact(one.spark, loaded(one), "spec", Care(), Budget(10**9))
            assert (done.groups, done.into, done.lost) == (1, 1, 0)
        assert (lineage(one), by_both(one), vectors(one)) == (which, rows, Counter())
        for n in range(0 if last else count):
            one.land([event("c", 3_000 + n, row(100 + n))])
        which, rows = lineage(one), by_both(one)


@long_only
@HOMES
def test_copy_on_write_keeps_the_ids_of_rows_that_stay(lake: Make, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    one = lake(config(THREE))
    for first in (0, 10, 20):
        one.land([event("c", 10 + first + n, row(first + n)) for n in range(3)])
    for n in (0, 10, 20):
        one.land([event("d", 90 + n, None, row(n))])
    assert len(vectors(one)) == 3
    republished(one, f"{THREE}, write: copy-on-write")
    before = lineage(one)
    one.land([event("u", 200, row(1, v="new")), event("d", 201, None, row(11)), event("u", 202, row(21, v="new"))])
    found = lineage(one)
    assert {n: found[n] for n in (2, 12, 22)} == {n: before[n] for n in (2, 12, 22)}
    assert found[1][1] == found[21][1] == 7
    assert len({number for number, _ in found.values()}) == len(found) == 5
    assert not vectors(one)
    assert by_both(one)[1] == ("new", "w1")


@long_only
def test_vectors_are_written_in_partitions_that_json_has_no_number_for(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of data files that are kept from the look-up, and of such as Iceberg is asked for again."""
    monkeypatch.setattr(planned_files, "_MOST", 2)
    again = planned_again(monkeypatch)
    rule = "key: [id], columns: {id: long, d: double, f: float}, partition_by: [d, f], format: 3"
    one = lake(config(rule))
    numbers = ["NaN", "Infinity", "-Infinity", -0.0, 1e300, 0.1]
    rows: list[dict[str, Any]] = [{"id": n, "d": number, "f": 0.1} for n, number in enumerate(2 * numbers)]
    one.land([event("c", 10 + each["id"], each) for each in rows])
    one.land([event("d", 100 + n, None, {"id": n}) for n in range(len(numbers))])
    assert sorted(each["id"] for each in one.rows("lake.t")) == list(range(len(numbers), 2 * len(numbers)))
    assert one.spark.table("firn.lake.t").count() == len(numbers)
    assert len(again) == len(numbers) - 2
    assert set(vectors(one).values()) == {1}
