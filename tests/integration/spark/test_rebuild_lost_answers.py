"""A rebuild in place whose swaps go unanswered, and the rebuild of an append table."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn_spark.branch import InPlace
from tests.integration.spark.committing import LosesSwaps
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_rebuild import rebuilt, rows
from tests.soak import long_only

pytestmark = pytest.mark.spark


# The swaps of a rebuild in place: its branch begins, and is published.
@pytest.mark.parametrize(
    "fates",
    [["lost", "lost"], ["never", "late", "fine", "never", "late", "fine"]],
    ids=["applied", "not applied, then late"],
)
@long_only
def test_a_swap_without_an_answer_is_made_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fates: list[str]
) -> None:
    lake = Lake(spark, tmp_path, config("key: [id]"))
    lake.land([event("c", 10 + i, {"id": i, "v": f"long {i}", "w": "w", "n": i}) for i in range(3)])
    lake.land([event("d", 30, None, {"id": 2}), event("c", 40, {"id": 9, "v": GONE, "w": "moved", "n": 4}, commit=39)])
    live, before = rows(lake, "lake.t"), lake.catalog.load_table(("lake", "t")).metadata
    swaps = LosesSwaps(InPlace._swap, list(fates))
    monkeypatch.setattr(InPlace, "_swap", lambda *given: swaps(*given))
    code, result = rebuilt(lake, in_place=True)
    assert (code, result["status"], result["tag"]) == (0, "done", "before-rebuild-1"), result
    assert (swaps.fates, swaps.pending) == ([], None)
    after = lake.catalog.load_table(("lake", "t"))
    assert rows(lake, "lake.t") == live
    assert set(after.metadata.refs) == {"main", "before-rebuild-1"}
    assert after.metadata.refs["before-rebuild-1"].snapshot_id == before.current_snapshot_id
    log = [entry.snapshot_id for entry in after.metadata.snapshot_log]
    assert log[-2:] == [before.current_snapshot_id, after.metadata.current_snapshot_id], "readers saw one change"
    facts = TableName.parse(after.properties["firn.deletes"])
    assert sorted(lake.catalog.list_tables("lake")) == [("lake", "t"), facts.identifier], "the old facts are gone"
    # What it remembers is read: a change that is older than its key's delete, and the first half of a move.
    lake.land([event("u", 20, {"id": 2, "v": "late", "w": "", "n": 0}), event("d", 40, None, {"id": 1}, commit=39)])
    assert [row[:2] for row in rows(lake, "lake.t")] == [(0, "long 0"), (9, "long 1")]


@long_only
def test_an_append_table_is_rebuilt_with_each_change_once(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("mode: append"))
    copied = event("c", 10, {"id": 1, "v": "same"})
    first = [copied, copied, event("c", 11, {"id": 1, "v": "other"}), event("d", 12, None, {"id": 1, "v": "other"})]
    lake.land(first)
    lake.land([copied, event("u", 20, {"id": 2, "v": "x", "n": 1.5}, {"id": 1, "v": "same"}), event("t", 21)])

    def told(table: str, snapshot: int | None = None) -> list[str]:
        loaded = lake.catalog.load_table(TableName.parse(table).identifier)
        return sorted(map(repr, loaded.scan(snapshot_id=snapshot).to_arrow().to_pylist()))

    live = told("lake.t")
    code, result = rebuilt(lake, run="check", check=True)
    assert (code, result["status"], result["rows"]) == (0, "done", len(live)), result
    code, result = rebuilt(lake, run="into", into=TableName("lake", "again"))
    assert (code, told("lake.again")) == (0, live), result
    before = lake.catalog.load_table(("lake", "t")).metadata.current_snapshot_id
    lake.spark.sql("DELETE FROM firn.lake.t WHERE id = 2")  # by hand: what a rebuild is to fix
    assert rebuilt(lake, run="differs", check=True)[1]["only_rebuilt"] == 1
    code, result = rebuilt(lake, run="fix", in_place=True)
    assert (code, result["status"], told("lake.t")) == (0, "done", live), result
    assert told("lake.t", before) == live
    lake.land([*first, event("c", 30, {"id": 3, "v": "new"})])
    assert lake.line("lake.t")["merged"] == 1, "what is in the rebuilt table is known by its identity"
