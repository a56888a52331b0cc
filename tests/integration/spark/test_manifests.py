"""Manifests rewritten: fewer, and by partition; rows, row ids, progress and what changed stay as they were."""

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Operation

from firn.config.file_writing import MANIFEST
from firn.config.maintenance import Care, Compaction
from firn.config.names import TableName
from firn.maintenance import compaction_trigger, manifest_planner
from firn_spark.maintenance import compaction, inline_compaction, manifests
from firn_spark.maintenance.compaction import Budget
from firn_spark.maintenance.health import versions
from firn_spark.maintenance.manifests import Rewritten
from firn_spark.tables.alterations import upgrade
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import CommitUnknown
from tests.integration.snapshots import epochs_of
from tests.integration.spark.committing import Died, files_of, unknown
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_small_files import all_rows, changes, folded, id_and_v
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
NAME = TableName.parse("lake.t")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three small manifests are many, and commits give no care by themselves."""
    monkeypatch.setattr(manifest_planner, "MANY", 3)
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)


def load(lake: Lake) -> Table:
    found = Tables(lake.spark).load(NAME)
    assert found is not None
    return found


def rewrite(lake: Lake) -> Rewritten:
    return manifests.rewrite(lake.spark, Tables(lake.spark), load(lake))


def listed(lake: Lake, content: ManifestContent = ManifestContent.DATA) -> list[ManifestFile]:
    """The manifests of the newest snapshot as PyIceberg sees them."""
    table = lake.catalog.load_table(NAME.identifier)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [one for one in snapshot.manifests(table.io) if one.content == content]


def counts(lake: Lake) -> tuple[int, int]:
    """(manifests of data files, of files of deletes)"""
    return len(listed(lake)), len(listed(lake, ManifestContent.DELETES))


def lineage(lake: Lake) -> list[Any]:
    """The rows with their ids, as Spark reads them (format 3)."""
    rows = lake.spark.table("firn.lake.t").select("id", "v", "_row_id", "_last_updated_sequence_number")
    return sorted(map(tuple, rows.collect()), key=repr)  # a table that was just upgraded has no ids yet


FORMS = {
    "plain": "",
    "lineage": ", format: 3",
    "partitioned": ", columns: {v: string}, partition_by: ['bucket(2, id)']",
}


@few_cases(1)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_small_manifests_become_few_and_nothing_else_changes(lake: Make, form: str) -> None:
    one = lake(config(f"key: [id]{form}"))
    for n in range(6):
        one.land(changes(n))
    before, ids = all_rows(one), lineage(one) if "format" in form else None
    data, deletes = counts(one)
    assert data > 3
    assert deletes > 3
    assert versions(one.spark, load(one)).rewrite_manifests == data + deletes
    done = rewrite(one)
    assert (done.manifests, done.into) == (data + deletes, 2)
    assert counts(one) == (1, 1)
    assert all_rows(one) == before
    assert ids == (lineage(one) if "format" in form else None)
    assert rewrite(one) == Rewritten(), "what was just rewritten is worth no other rewrite"
    assert versions(one.spark, load(one)).rewrite_manifests == 0
    table = one.catalog.load_table(NAME.identifier)
    said = table.current_snapshot()
    assert said is not None
    assert said.summary is not None
    assert (said.summary.operation, said.summary.additional_properties["firn.format"]) == (Operation.REPLACE, "1")
    assert epochs_of(table, "spec") == list(range(1, 7))
    for n in range(6, 8):  # commits go on, and find their rows
        one.land(changes(n))
    assert id_and_v(one) == folded(8)
    assert audited(one).differences == []


@long_only
def test_a_partition_is_in_few_manifests_and_planning_reads_only_those(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit has files of all partitions."""
    monkeypatch.setattr(manifest_planner, "SMALL", 0.0)
    monkeypatch.setattr(manifest_planner, "DEEP", 5)
    one = lake(config("mode: append, columns: {id: long, v: string}, partition_by: [v]"))
    for n in range(6):
        one.land([event("c", 100 * n + m, {"id": 10 * n + m, "v": f"v{m}"}) for m in range(8)])
    table = load(one)
    size = max(one.manifest_length for one in listed(one))
    table = Tables(one.spark).set_properties(table, {MANIFEST: str(size)})
    before = all_rows(one)
    assert _of_partition(one, "v3") == 6
    done = rewrite(one)
    assert done.manifests == 6
    assert done.into > 1
    assert _of_partition(one, "v3") <= 2
    assert all_rows(one) == before
    assert rewrite(one) == Rewritten()


def _of_partition(lake: Lake, value: str) -> int:
    """Manifests that a query of one partition reads."""
    found = (one.partitions or [] for one in listed(lake))
    low = value.encode()
    return sum(bool(one) and (one[0].lower_bound or b"") <= low <= (one[0].upper_bound or b"") for one in found)


@few_cases(1)
@pytest.mark.parametrize("fate", ["died before", "died after", "lost", "never"])
def test_a_rewrite_that_is_killed_or_not_answered_leaves_a_whole_table(
    lake: Make, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    one = lake(config("mode: append"))
    for n in range(4):
        one.land(changes(n))
    before, real = all_rows(one), manifests.run

    def run(commit: Callable[[], int]) -> int:
        if fate in ("died after", "lost"):
            real(commit)
        raise Died(fate) if "died" in fate else unknown(one.spark)

    monkeypatch.setattr(manifests, "run", run)
    with pytest.raises(Died if "died" in fate else CommitUnknown):
        rewrite(one)
    monkeypatch.setattr(manifests, "run", real)
    happened = fate in ("died after", "lost")
    assert counts(one) == ((1 if happened else 4), 0)
    assert all_rows(one) == before
    assert rewrite(one).manifests == (0 if happened else 4)
    assert counts(one) == (1, 0)
    one.land(changes(4))
    assert epochs_of(one.catalog.load_table(NAME.identifier), "spec") == [1, 2, 3, 4, 5]


@few_cases(1)
@pytest.mark.parametrize("other", ["a commit", "a rewrite"])
def test_who_comes_between_loses_nothing(lake: Make, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """A commit of rows leaves the manifests there: both land. A twin took them: this one is refused, and cleans up."""
    one = lake(config("key: [id]"))
    for n in range(5):
        one.land(changes(n))
    real, began = manifests.run, list[str]()

    def run(commit: Callable[[], int]) -> int:
        if not began:
            began.append(other)
            if other == "a commit":
                one.land(changes(5))
            else:
                assert rewrite(one).into == 2
        return real(commit)

    monkeypatch.setattr(manifests, "run", run)
    done = rewrite(one)
    assert done.into == (2 if other == "a commit" else 0)
    assert id_and_v(one) == folded(6 if other == "a commit" else 5)
    assert counts(one) == ((2, 2) if other == "a commit" else (1, 1))
    referred, there = files_of(one.catalog.load_table(NAME.identifier))
    assert there <= referred
    assert rewrite(one) == Rewritten()


@few_cases(1)
@pytest.mark.parametrize("commits", [0, 1])
def test_a_table_that_is_upgraded_meanwhile_keeps_the_ids_of_its_rows(
    lake: Make, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """What Iceberg's action writes for format 2 names no ids of rows."""
    one = lake(config("mode: append"))
    for n in range(5):
        one.land(changes(n))
    real, seen = manifests.run, list[list[Any]]()

    def run(commit: Callable[[], int]) -> int:
        if not seen:
            tables = Tables(one.spark)
            upgrade(one.spark, tables, load(one), 3)
            for n in range(commits):
                one.land(changes(5 + n))
            seen.append(lineage(one))
        return real(commit)

    monkeypatch.setattr(manifests, "run", run)
    assert rewrite(one) == Rewritten()
    assert lineage(one) == seen[0]
    assert counts(one) == (5 + commits, 0)
    assert rewrite(one).manifests == 5 + commits, "the next one knows the format"
    assert lineage(one) == seen[0]


@long_only
def test_compaction_tells_of_manifests_and_counts_them(lake: Make) -> None:
    one = lake(config("mode: append"))
    for n in range(4):
        one.land(changes(n))
    budget, care = Budget(10**9), Care()
    dry = compaction.compact(one.spark, load(one), "spec", care, budget, dry_run=True)
    assert (dry.manifests, dry.groups, counts(one)) == (4, 0, (4, 0))
    off = compaction.compact(one.spark, load(one), "spec", Care(Compaction(on=False)), budget)
    assert (off.manifests, off.effect) == (0, False)
    done = compaction.compact(one.spark, load(one), "spec", care, budget)
    assert (done.manifests, done.manifest_into, done.manifest_bytes) == (4, 1, dry.manifest_bytes)
    assert done.effect


@long_only
def test_the_commit_job_rewrites_manifests_between_its_commits(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that always runs is never relieved by the scheduled one."""
    monkeypatch.setattr(compaction_trigger, "EVERY", 4)  # as the table is before a commit
    monkeypatch.setattr(compaction_trigger, "own_number", lambda _: 2)
    one = lake(config("mode: append"))
    for n in range(4):
        one.land(changes(n))
    assert counts(one) == (4, 0)
    one.land(changes(4))
    [line] = [line for line in one.lines if line.get("status") == "compacted" and "manifests" in line]
    assert (line["table"], line["manifests"], line["manifest_into"]) == ("lake.t", 5, 1)
    assert counts(one) == (1, 0)
    assert manifest_planner.DEEP * int(load(one).state.properties[MANIFEST]) <= inline_compaction.TURN_MANIFESTS
