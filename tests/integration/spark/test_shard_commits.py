"""Tables of several shards, committed by real jobs: at each cut every shard is what `fold` places there."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import firn_lake.lake
from firn.changes.merge.fold import fold
from firn.changes.placement.shard_decision import placed
from firn.log import cuts
from firn_spark.tables import fence
from tests.integration.spark.committing import Died
from tests.integration.spark.dying_jobs import delivered, let_go
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_specification import change, history
from tests.soak import LONG, SEED, long_only

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  spec:
    job: {lanes: 2}
    tables:
      app.t:
        to: '{shard}.orders'
        key: [id]
        columns: {id: long, w: string, v: string, n: long}
        shard: SHARD
"""
TENANTS = "{by: tenant(w), tenants: [a, b]}"


def lake_of(spark: SparkSession, folder: Path, shard: str = TENANTS, lanes: int = 2) -> Lake:
    return Lake(spark, folder, CONFIG.replace("SHARD", shard).replace("lanes: 2", f"lanes: {lanes}"))


def rows_at(lake: Lake) -> dict[str, dict[int, tuple[Any, Any]]]:
    """What the newest cut names."""
    cut = cuts.last(lake.store, lake.stream)
    assert cut is not None
    found = {}
    for name, snapshot in cut.tables.items():
        table = lake.catalog.load_table(tuple(name.split(".")))
        rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        found[name.split(".")[0]] = {row["id"]: (row["w"], row["v"]) for row in rows}
        assert len(found[name.split(".")[0]]) == len(rows)
    return found


def test_a_row_whose_shard_changes_leaves_one_table_and_enters_the_other(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    lake.land([event("c", 100 + n, {"id": n, "w": "ab"[n % 2] if n < 4 else None, "v": f"v{n}"}) for n in range(5)])
    assert rows_at(lake) == {
        "a": {0: ("a", "v0"), 2: ("a", "v2")}, "b": {1: ("b", "v1"), 3: ("b", "v3")}, "rest": {4: (None, "v4")}
    }  # fmt: skip
    lake.land([
        event("u", 200, {"id": 0, "w": "b", "v": "w0"}), event("u", 201, {"id": 1, "w": "zz", "v": "w1"}),
        event("d", 202, None, {"id": 2, "w": "a", "v": "v2"}), event("u", 203, {"id": 4, "w": "a", "v": "w4"}),
    ])  # fmt: skip
    assert rows_at(lake) == {
        "a": {4: ("a", "w4")}, "b": {0: ("b", "w0"), 3: ("b", "v3")}, "rest": {1: ("zz", "w1")}
    }  # fmt: skip
    line = lake.line("rest.orders")
    assert (line["events"], line["merged"], line.get("dead", 0)) == (4, 4, 0)
    assert line["way"]["by"] == "columns"
    # A late change of the deleted one, and a doubled one.
    lake.land([event("u", 150, {"id": 2, "w": "b", "v": "late"}), event("u", 200, {"id": 0, "w": "b", "v": "w0"})])
    assert rows_at(lake) == {
        "a": {4: ("a", "w4")}, "b": {0: ("b", "w0"), 3: ("b", "v3")}, "rest": {1: ("zz", "w1")}
    }  # fmt: skip


def test_snapshots_of_shards_go_with_those_of_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    for n in range(9):
        lake.land([event("u", 100 + n, {"id": n % 3, "w": "ab"[n // 3 % 2], "v": f"v{n}"})])
    before = rows_at(lake)
    gone = let_go(lake)
    assert gone["rest.orders"].kept == 1
    for name in ("a.orders", "b.orders"):
        assert gone[name].snapshots > 3
        table, kept = lake.catalog.load_table(tuple(name.split("."))), gone[name].plan.kept
        assert {one.snapshot_id for one in table.snapshots()} == kept.keys()
    assert rows_at(lake) == before
    lake.land([event("u", 200, {"id": 0, "w": "a", "v": "w"})])
    assert rows_at(lake)["a"][0] == ("a", "w")


KINDS = [
    "{by: tenant(w), tenants: [a, b]}",
    "{by: hash(w), count: 3}",
    "{by: range(w), at: [a, b, c]}",
    "{by: geographic(w), to: {a: one, b: one, c: two}, else: other}",
]
PLACES = ("a", "b", "c", "z", None, "B")


def told(seed: int, count: int, keys: int) -> list[dict[str, Any]]:
    """A random history whose `w` are few values, some of which no shard lists."""
    found = history(seed, count, keys, truncates=0.1)
    for one in found:
        if one["after"] is not None and str(one["after"]["w"]).startswith("w"):
            one["after"]["w"] = PLACES[hash((seed, one["source"]["lsn"])) % len(PLACES)]
    return found


def expected(lake: Lake, events: Sequence[dict[str, Any]]) -> dict[str, dict[int, Any]]:
    shards = lake.config.streams[lake.stream].tables[0].shard
    assert shards is not None
    return {
        name: {key[0]: row.values for key, row in rows.items()}
        for name, rows in placed(shards.map, fold({}, map(change, events)).rows).items()
    }


def at_the_cut(lake: Lake) -> dict[str, dict[int, Any]]:
    """All shards as the newest cut names them; one that it does not name has no rows."""
    rule = lake.config.streams[lake.stream].tables[0]
    cut = cuts.last(lake.store, lake.stream)
    assert rule.shard is not None
    assert cut is not None
    found: dict[str, dict[int, Any]] = {}
    for name, place in rule.shard.tables.items():
        rows = []
        if str(place) in cut.tables:
            table = lake.catalog.load_table(place.identifier)
            rows = table.scan(snapshot_id=cut.tables[str(place)]).to_arrow().to_pylist()
        found[name] = {row["id"]: {of: row.get(of) for of in ("id", "v", "w", "n")} for row in rows}
        assert len(found[name]) == len(rows), name
    union = sorted((row for rows in found.values() for row in rows.values()), key=lambda row: row["id"])
    assert [{of: row.get(of) for of in ("id", "v", "w", "n")} for row in as_one(lake)] == union
    return found


def as_one(lake: Lake) -> list[dict[str, Any]]:
    """All shards as firn_lake reads them."""
    whole = firn_lake.lake.Lake(lake.catalog, lambda: lake.store)
    return whole.sql(f"SELECT * FROM {lake.stream}.orders ORDER BY id").pylist()


@long_only  # test_changing_shards.py does the same under maps that change
@pytest.mark.parametrize("seed", range(SEED, SEED + (24 if LONG else 2)))
def test_every_cut_is_what_fold_places_whoever_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    lake = lake_of(spark, tmp_path, KINDS[seed % len(KINDS)], 1 + seed % 3)

    def check(done: list[dict[str, Any]]) -> None:
        assert at_the_cut(lake) == expected(lake, done), seed

    print(seed, delivered(lake, told(seed, 300 if LONG else 90, 8), dice, monkeypatch, 20, check))


@long_only
def test_columns_follow_in_all_shards_though_jobs_die(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path, CONFIG.replace("SHARD", TENANTS).replace(", v: string, n: long", ""))
    lsn, rows = 100, dict[int, dict[str, Any]]()

    def changed(**values: Any) -> list[dict[str, Any]]:
        """Half of the rows go to another place or stay, and one more comes."""
        nonlocal lsn
        found = []
        for key in [*rows, len(rows)]:
            lsn += 1
            if key in rows and (key + lsn // 5) % 2:
                continue
            rows[key] = {"id": key, "w": "abz"[(key + lsn // 10) % 3], "x": None, "y": None} | values
            found.append(event("u", lsn, rows[key]))
        return found

    for _ in range(4):
        lake.land(changed(x=1))
    real = fence.commit
    # Another type that rewrites files, a new column, a promotion; jobs die at each of the commits in turn.
    for values in ({"x": "text"}, {"y": 7}, {"y": 2**40}, {"y": 1.5}, {}):
        lake.post(changed(**values))
        last, calls, at = lake.seal(), Counter[str](), 1 + lsn % 4

        def dying(*args: Any, calls: Counter[str] = calls, at: int = at) -> None:
            calls["commits"] += 1
            if calls["commits"] == at:
                raise Died
            real(*args)

        with monkeypatch.context() as patch, suppress(Died):
            patch.setattr(fence, "commit", dying)
            lake.commit(last)
        lake.post(changed(**values))
        assert lake.commit(last, lake.seal()) == 0, lake.lines
        cut = cuts.last(lake.store, lake.stream)
        assert cut is not None
        found = {}
        for name in ("a", "b", "rest"):
            table = lake.catalog.load_table((name, "orders"))
            for row in table.scan(snapshot_id=cut.tables[f"{name}.orders"]).to_arrow().to_pylist():
                assert found.setdefault(row["id"], name) == name
                assert name == {"z": "rest"}.get(row["w"], row["w"])
                wanted = rows[row["id"]]
                assert (row["w"], str(row["x"]), row.get("y")) == (wanted["w"], str(wanted["x"]), wanted["y"])
        assert found.keys() == rows.keys()
        assert [(row["id"], row["w"], str(row["x"]), row.get("y")) for row in as_one(lake)] == [
            (key, row["w"], str(row["x"]), row["y"]) for key, row in sorted(rows.items())
        ]


def test_what_is_no_shard_and_what_is_too_large_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(spark, tmp_path)
    lake.catalog.create_namespace("a")
    lake.spark.sql("CREATE TABLE firn.a.orders (id bigint) USING iceberg")
    row = [event("c", 101, {"id": 1, "w": "a", "v": "v"})]
    lake.post(row)
    assert lake.commit(lake.seal()) == 1
    assert "a.orders is there already, and no shard" in lake.line("rest.orders")["error"]
    lake.spark.sql("DROP TABLE firn.a.orders")
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    assert lake.commit(1) == 1
    assert "which one process commits" in lake.line("rest.orders")["error"]
    monkeypatch.delenv("FIRN_DRIVER_EVENTS")
    assert lake.commit(1) == 0
    assert rows_at(lake) == {"a": {1: ("a", "v")}, "rest": {}}
    # One that was set back, or gone, is not taken for what it was.
    lake.spark.sql("DROP TABLE firn.a.orders")
    lake.post([event("c", 102, {"id": 2, "w": "a", "v": "v"})])
    assert lake.commit(lake.seal()) == 1
    assert (
        "a.orders is at epoch 0, and rest.orders, whose shard it is, has it at 1" in lake.line("rest.orders")["error"]
    )
