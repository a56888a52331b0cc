"""A table again from the staged log: into a new one, in place, as a check; after a crash, and under another key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import layout, published_configs
from firn.log.dead_letters.letters import read_dead
from firn.log.store import get, paths
from firn.quarantine.lifting import resume
from firn_spark import rebuild
from firn_spark.branch import InPlace
from firn_spark.committer import Committer
from firn_spark.rebuild import Request
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables
from firn_spark.tables.fence import LostRace
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.soak import long_only

pytestmark = pytest.mark.spark
NAME = TableName("lake", "t")
WANTED = ("id", "v", "w", "n", "_firn_pos")


def history() -> list[list[dict[str, Any]]]:
    """Five epochs: a delete, unavailable values, a moved key in two halves, late changes, a broken one, a re-insert."""
    return [
        [event("c", 10 + i, {"id": i, "v": f"long {i}", "w": "w", "n": i}) for i in range(1, 6)],
        [event("u", 30, {"id": 1, "v": GONE, "w": "x", "n": 30}), event("d", 31, None, {"id": 2, "v": None, "n": 0})],
        [
            event("c", 41, {"id": 9, "v": GONE, "w": "moved", "n": 41}, commit=40),
            event("c", 42, {"id": 8, "v": "broken", "w": "", "n": "no number"}),
        ],
        [
            event("d", 41, None, {"id": 3, "v": None, "n": 0}, commit=40),
            event("u", 20, {"id": 1, "v": "late", "w": "y", "n": 20}),
            event("u", 21, {"id": 2, "v": "too late", "w": "y", "n": 20}),
        ],
        [event("c", 50, {"id": 2, "v": "again", "w": "w", "n": 50})],
    ]


def landed(spark: SparkSession, folder: Path) -> Lake:
    lake = Lake(spark, folder, config("key: [id], columns: {n: int}"))
    for events in history():
        lake.land(events)
    return lake


def rebuilt(lake: Lake, run: str = "r1", **how: Any) -> tuple[int, dict[str, Any]]:
    """Runs a rebuild in ranges of one epoch. -> its exit code, its result."""
    said: list[dict[str, Any]] = []
    request = Request(run, NAME, **how)
    code = rebuild.run(
        request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=said.append, size=1
    )
    stored = json.loads(get(lake.store, layout.rebuild_path(run)) or b"{}")
    assert stored == said[-1]
    lake.lines = said
    return code, stored


def rows(lake: Lake, table: str, snapshot: int | None = None) -> list[tuple[Any, ...]]:
    loaded = lake.catalog.load_table(TableName.parse(table).identifier)
    found = loaded.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return sorted(tuple(row.get(name) for name in WANTED) for row in found)


def letters(lake: Lake) -> int:
    return sum(len(read_dead(lake.store, path)) for path in paths(lake.store, layout.dead_prefix("spec")))


def test_a_rebuild_into_a_new_table_equals_the_old_one_row_for_row(spark: SparkSession, tmp_path: Path) -> None:
    lake = landed(spark, tmp_path)
    before, live = letters(lake), rows(lake, "lake.t")
    assert len(live) == 5
    code, result = rebuilt(lake, into=TableName("lake", "again"))
    assert (code, result["status"], result["epochs"], result["rows"]) == (0, "done", {"spec": 5}, 5), result["error"]
    assert rows(lake, "lake.again") == live
    assert letters(lake) == before, "its dead letters are there already"
    assert [line["epoch"] for line in lake.lines[:-1]] == [1, 2, 3, 4, 5]
    code, result = rebuilt(lake, run="r2", into=TableName("lake", "early"), to="2")
    assert (code, result["epochs"]) == (0, {"spec": 2})
    second = lake.catalog.load_table(("lake", "t")).metadata.snapshots[1].snapshot_id
    assert rows(lake, "lake.early") == rows(lake, "lake.t", second), "--to gives the table as it was at that cut"
    assert rebuilt(lake, run="r3", into=TableName("lake", "t"))[1]["error"].startswith("CannotRebuild: lake.t exists")


@long_only
def test_a_rebuild_that_died_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = landed(spark, tmp_path)
    once: Callable[..., Any] = Committer._once
    left = [2]

    def dies(self: Committer, *given: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return once(self, *given)

    monkeypatch.setattr(Committer, "_once", dies)
    with pytest.raises(KeyboardInterrupt):
        rebuilt(lake, in_place=True)
    assert not letters(lake) - 1
    monkeypatch.setattr(Committer, "_once", once)
    before = rows(lake, "lake.t")
    code, result = rebuilt(lake, run="r2", in_place=True)
    assert (code, result["epochs"]) == (0, {"spec": 5})
    assert [line["epoch"] for line in lake.lines[:-1]] == [3, 4, 5]
    assert rows(lake, "lake.t") == before


@long_only
def test_a_rebuild_in_place_is_one_change_and_what_was_before_stays_readable(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = landed(spark, tmp_path)
    live, before = rows(lake, "lake.t"), lake.catalog.load_table(("lake", "t"))
    damaged = before.metadata.current_snapshot_id
    lake.spark.sql("DELETE FROM firn.lake.t WHERE id = 4")  # by hand: what a rebuild is to fix
    code, result = rebuilt(lake, check=True)
    assert (code, result["status"], result["only_live"], result["only_rebuilt"]) == (1, "differs", 0, 1), result.get(
        "error"
    )
    assert lake.catalog.list_tables("lake") == [("lake", "t"), ("lake", "t__deletes")]
    publish, sealed = InPlace.publish, []
    paused: list[Any] = []

    def after_another_commit(self: InPlace, *given: Any) -> None:
        if not sealed:
            lake.post([event("c", 55, {"id": 6, "v": "meanwhile", "w": "w", "n": 55})])
            sealed.append(lake.seal())
            assert lake.commit(sealed[0]) == 0
        paused.append(Tables(lake.spark).load(NAME))
        publish(self, *given)

    monkeypatch.setattr(InPlace, "publish", after_another_commit)
    code, result = rebuilt(lake, run="r2", in_place=True)
    live = sorted([*live, next(row for row in rows(lake, "lake.t") if row[0] == 6)])
    broken = lake.catalog.load_table(("lake", "t")).metadata.refs["before-rebuild-1"].snapshot_id
    with pytest.raises(LostRace):  # a job that looked just before, and only now leaves its mark
        fence.commit(lake.spark, paused[-1], paused[-1].java.newAppend(), (), {"firn.epoch.spec": "9"}, "spec")
    assert (code, result["status"], result["tag"]) == (0, "done", "before-rebuild-1")
    assert rows(lake, "lake.t") == live
    after = lake.catalog.load_table(("lake", "t"))
    log = [entry.snapshot_id for entry in after.metadata.snapshot_log]
    assert log[-2:] == [broken, after.metadata.current_snapshot_id], "readers saw one change"
    assert set(after.metadata.refs) == {"main", "before-rebuild-1"}
    assert len(rows(lake, "lake.t", after.metadata.refs["before-rebuild-1"].snapshot_id)) == 5
    assert rows(lake, "lake.t", damaged) == [row for row in live if row[0] != 6]
    assert rebuilt(lake, run="r3", in_place=True, number=1)[1]["status"] == "done"
    assert lake.catalog.load_table(("lake", "t")).metadata.current_snapshot_id == after.metadata.current_snapshot_id

    # Late, and before the move that took this row's value along: the rebuilt table remembers both.
    late = event("u", 22, {"id": 3, "v": "before the move", "w": "", "n": 1})
    lake.land([event("u", 60, {"id": 5, "v": GONE, "w": "new", "n": 60}), late])
    told = {5: (5, "long 5", "new", 60), 9: (9, "before the move", "moved", 41)}
    assert [row[:4] for row in rows(lake, "lake.t")] == [told.get(row[0], row[:4]) for row in live]
    assert rebuilt(lake, run="r4", check=True)[1]["status"] == "done"


def test_a_changed_key_is_rebuilt_in_place(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10 + i, {"id": i, "v": "abc"[i % 3], "n": i}) for i in range(6)])
    lake.config = published_configs.publish(lake.store, config("key: [v]"))
    lake.post([event("c", 30, {"id": 7, "v": "a", "n": 30})])
    lake.commit(lake.seal())
    assert len(lake.rows("lake.t")) == 6, "nothing is applied under another key"
    code, result = rebuilt(lake, in_place=True)
    assert (code, result["epochs"]) == (0, {"spec": 1})
    assert {(row["v"], row["id"]) for row in lake.rows("lake.t")} == {("a", 3), ("b", 4), ("c", 5)}
    resume(lake.store, "spec", "lake.t", None, "retry", lake.now)
    lake.land([event("d", 40, None, {"id": 0, "v": "b", "n": 0})])
    assert {(row["v"], row["id"]) for row in lake.rows("lake.t")} == {("a", 7), ("c", 5)}
    assert json.loads(lake.catalog.load_table(("lake", "t")).properties["firn.key"]) == ["v"]


@long_only
def test_a_log_that_does_not_reach_back_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    lake = landed(spark, tmp_path)
    lake.store.delete(layout.epoch_path("spec", 1))
    code, result = rebuilt(lake, in_place=True)
    assert code == 1
    assert "epochs 1 are not in storage" in result["error"]
    code, result = rebuilt(lake, run="r2", into=TableName("lake", "rest"), partial=True)
    assert (code, {row[0] for row in rows(lake, "lake.rest")}) == (0, {1, 2, 9})
