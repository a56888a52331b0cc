"""Tables of several shards whose maps change while their stream runs, committed by real jobs that die before and after
each commit: at each cut every shard of the version that its epochs name is what `fold` places there."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import fold
from firn.changes.placement.map_changes import merge, move, split, split_values
from firn.changes.placement.shard_decision import placed
from firn.changes.placement.shard_map import Home, ShardMap
from firn.commit import range_parts
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.log import cuts, epochs, published_configs, shard_maps
from firn.maintenance import expiry as expiry_rules
from firn.tables.shard_names import SHARDS_MAP
from firn_cli.main import main
from firn_lake.lake import Lake as Reader
from firn_spark.driver import shard_passages
from firn_spark.driver.shard_passages import RowMover
from firn_spark.maintenance.expiry import expire_all
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables
from tests.integration.spark.committing import Died
from tests.integration.spark.dying_jobs import FEW, delivered, let_go
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_shard_commits import CONFIG, KINDS, TENANTS, lake_of, told
from tests.integration.spark.test_shard_recoveries import held, resumed
from tests.integration.spark.test_specification import change
from tests.property.random_shards import next_map
from tests.soak import LONG, SEED, long_only

pytestmark = pytest.mark.spark
REST = "rest.orders"


def newest(lake: Lake, number: int | None = None) -> MapVersion:
    """A version of the map, the newest one if none is named."""
    rule = lake.config.streams[lake.stream].tables[0]
    assert rule.shard is not None
    found = shard_maps.newest(lake.store, lake.config.streams[lake.stream]).get(rule.to, 1)
    return shard_maps.read(lake.store, lake.stream, rule.to, rule.shard, number or found)


def change_map(lake: Lake, how: Callable[[ShardMap], ShardMap]) -> MapVersion:
    """Makes the next version."""
    before = newest(lake)
    made = before.next(how(before.map), "2026-11-21T00:00:00.000Z", "a test")
    assert shard_maps.put(lake.store, lake.stream, lake.config.streams[lake.stream].tables[0].to, made)
    return made


def at_the_cut(lake: Lake) -> tuple[int, dict[str, dict[int, Any]]]:
    """The version that the newest cut is under, by the epochs that it covers, and all its shards as it names them."""
    cut, rest = cuts.last(lake.store, lake.stream), lake.config.streams[lake.stream].tables[0].to
    assert cut is not None
    sealed = epochs.read_range(lake.store, lake.stream, 1, cut.n)
    version = max([1, *(one.shards.get(rest, 1) for one in sealed)])
    found: dict[str, dict[int, Any]] = {}
    places = {home.table: name for name, home in newest(lake, version).map.homes.items()}
    assert cut.tables.keys() <= places.keys(), "a cut names tables that are shards under its map, and no others"
    for place, name in places.items():
        rows = []
        if place in cut.tables:
            table = lake.catalog.load_table(tuple(place.split(".")))
            rows = table.scan(snapshot_id=cut.tables[place]).to_arrow().to_pylist()
        found[name] = {row["id"]: {of: row.get(of) for of in ("id", "v", "w", "n")} for row in rows}
        assert len(found[name]) == len(rows), name
    return version, found


def expected(lake: Lake, version: int, events: Sequence[dict[str, Any]]) -> dict[str, dict[int, Any]]:
    by_fold = placed(newest(lake, version).map, fold({}, map(change, events)).rows)
    return {name: {key[0]: row.values for key, row in rows.items()} for name, rows in by_fold.items()}


def check(lake: Lake, events: Sequence[dict[str, Any]]) -> int:
    """-> the version of the cut."""
    version, found = at_the_cut(lake)
    assert found == expected(lake, version, events)
    cut = cuts.last(lake.store, lake.stream)
    assert cut is not None
    if (at := cut.tables.get(REST)) is not None:
        whole = Reader(lake.catalog, lambda: lake.store).table(f"{lake.stream}.orders").read(as_of=at).pylist()
        rows = {row["id"]: {of: row.get(of) for of in ("id", "v", "w", "n")} for row in whole}
        assert rows == {key: row for some in found.values() for key, row in some.items()}, "as one they are the same"
        assert len(rows) == len(whole)
    return version


def random_change(lake: Lake, dice: random.Random, events: Sequence[dict[str, Any]]) -> bool:
    """Another map, if the dice find one that makes sense; the rest stays where it is. -> whether they did."""
    before = newest(lake)
    for _ in range(5):
        after = next_map(dice, before.map, fold({}, map(change, events)).rows)
        if after is not before.map and after.homes[after.rest] == before.map.homes[before.map.rest]:
            change_map(lake, lambda _, after=after: after)  # type: ignore[misc]
            return True
    return False


@long_only  # with homes that take turns: test_shards_in_homes.py
@pytest.mark.parametrize("seed", range(SEED, SEED + 24))
def test_every_cut_is_what_fold_places_under_its_map_whoever_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(range_parts, "MOST_ONE_BY_ONE", 20)
    dice = random.Random(f"maps {seed}")
    lake = lake_of(spark, tmp_path, KINDS[seed % len(KINDS)])
    events = told(seed, 300 if LONG else 40, 8)

    def another_map() -> bool:
        return dice.random() < 0.5 and random_change(lake, dice, events)

    print(seed, delivered(lake, events, dice, monkeypatch, 15, partial(check, lake), another_map))


MOVES: Sequence[Callable[[ShardMap], ShardMap]] = (
    lambda now: split_values(now, "rest", "c", Home("c.orders"), ["c", "z"]),
    lambda now: move(now, "a", Home("elsewhere.orders")),
    lambda now: merge(now, ["b"], "a"),
    lambda now: split_values(now, "a", "b", Home("b.orders"), ["b"]),  # where it lay before
    lambda now: move(merge(now, ["c"], "rest"), "b", Home("c.orders")),  # where another one lay
    lambda now: move(now, "a", Home("a.orders")),
)


def test_a_job_that_dies_at_any_commit_under_a_new_map_is_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(spark, tmp_path, TENANTS)
    events = told(7, 200 if LONG else 60, 9)
    lake.land(done := events[:20])
    real, deaths = fence.commit, 0
    for number, how in enumerate(MOVES):
        change_map(lake, how)
        for at in (0.5, 1, 1.5, 2, 2.5, 3) if LONG else (1 + number / 2 % 2,):  # a half: before it, else after it
            lake.post(part := events[len(done) : len(done) + 4])
            done += part
            cut, left = cuts.newest(lake.store, lake.stream), [at]

            def dying(*args: Any, left: list[float] = left) -> None:
                left[0] -= 1
                if left[0] == -0.5:
                    raise Died
                real(*args)
                if left[0] == 0:
                    raise Died

            last = lake.seal()
            with monkeypatch.context() as patch:
                patch.setattr(fence, "commit", dying)
                try:
                    lake.commit(cut + 1, last)
                except Died:
                    deaths += 1
            if deaths % 2:  # by a longer range
                lake.post(part := events[len(done) : len(done) + 1])
                done += part
                last = lake.seal()
            assert lake.commit(cut + 1, last) == 0, lake.lines
            assert check(lake, done) == newest(lake).number
    assert deaths > len(MOVES) / 2


def test_rows_that_pass_in_many_files_are_made_good_whenever_a_job_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they are written, once they are, and once the first shard has them, which the next job must not repeat."""
    monkeypatch.setattr(shard_passages, "_ROWS", 40)
    monkeypatch.setattr(shard_passages, "_BATCH", 16)
    lake = lake_of(spark, tmp_path, "{by: hash(id), count: 1}")
    done = [row(100 + n, n, "abz"[n % 3], f"v{n}") for n in range(300)]
    lake.land(done)
    write, read, commit = shard_passages.write_rows, RowMover.read, fence.commit
    lsn = 1_000
    hows: Sequence[Callable[[ShardMap], ShardMap]] = (
        lambda now: split(now, "s0", "s1", Home("s1.orders")),
        lambda now: move(now, "s0", Home("big.orders")),
        lambda now: merge(now, ["s1"], "s0"),
    )
    for number, how in enumerate(hows):
        change_map(lake, how)
        lake.post(part := [row(lsn + n, 7 * n, "b", f"w{lsn}") for n in range(4)])
        done += part
        lsn += 10
        cut, last = cuts.newest(lake.store, lake.stream), lake.seal()
        left = Counter(write=2, commit=2)

        def dying(name: str, real: Callable[..., Any], left: Counter[str] = left) -> Callable[..., Any]:
            def called(*arguments: Any) -> Any:
                left[name] -= 1
                if left[name] <= 0:
                    raise Died
                return real(*arguments)

            return called

        def dead(*arguments: Any) -> None:
            read(*arguments)
            raise Died

        for module, name, fault in (
            (shard_passages, "write_rows", dying("write", write)),
            (RowMover, "read", dead),
            (fence, "commit", dying("commit", commit)),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, fault)
                with pytest.raises(Died):
                    lake.commit(cut + 1, last)
            assert cuts.newest(lake.store, lake.stream) == cut
        # What it knew is left out now: all of the shard that is ahead comes anew, by the same map.
        if number == 1:
            held(lake, last)
            assert lake.commit(cut + 1, last) == 0, lake.lines
            resumed(lake, "skip")
            done = done[: -len(part)]
        lake.post(part := [row(lsn + n, 11 * n, None, f"x{lsn}") for n in range(4)])
        done += part
        lsn += 10
        assert lake.commit(cuts.newest(lake.store, lake.stream) + 1, lake.seal()) == 0, lake.lines
        assert check(lake, done) == newest(lake).number
    files = lake.catalog.load_table(("big", "orders")).inspect.data_files()
    assert len(files) > 3


def row(lsn: int, key: int, w: str | None, v: str = "v", op: str = "u") -> dict[str, Any]:
    return event(op, lsn, {"id": key, "w": w, "v": v, "n": None})


def test_new_tenants_appear_by_themselves_though_jobs_die_and_names_are_hostile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(spark, tmp_path, "{by: tenant(w), most: 3}")
    lake.catalog.create_namespace("taken")
    lake.spark.sql("CREATE TABLE firn.taken.orders (id bigint) USING iceberg")
    hostile = ["Acme", "../x", "a" * 64, "", "taken", "rest", "a.b", "x\u0000"]
    done = [row(100 + n, n, w) for n, w in enumerate([*hostile, "acme", None])]
    real = fence.commit

    def dead(*_: Any) -> None:
        raise Died

    lake.post(done)
    last = lake.seal()
    with monkeypatch.context() as patch:
        patch.setattr(fence, "commit", dead)
        with pytest.raises(Died):
            lake.commit(last)
    assert newest(lake).map.shards == {"acme", "rest"}, "it is listed before any of it is committed"
    assert lake.commit(last) == 0, lake.lines
    assert (check(lake, done), newest(lake).number) == (1, 2)
    # Its rows go over with the next changes, whichever commit a job dies at.
    for at in (1, 2, 3):
        lake.post(part := [row(200 + at, 20 + at, ["acme", "b2", "c"][at - 1]), row(300 + at, 30 + at, f"d{at}")])
        done += part
        left = [at]

        def dying(*args: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise Died
            real(*args)

        last = lake.seal()
        with monkeypatch.context() as patch, suppress(Died):
            patch.setattr(fence, "commit", dying)
            lake.commit(last)
        assert lake.commit(last) == 0, lake.lines
        check(lake, done)
    lake.land(part := [row(400, 40, "zz"), row(401, 0, "b2")])
    done += part
    assert check(lake, done) == newest(lake).number
    assert newest(lake).map.shards == {"acme", "b2", "d1", "rest"}, "the others found no room"
    # Who is merged into the rest does not come back by its next row.
    change_map(lake, lambda now: merge(now, ["b2"], "rest"))
    for n in range(3):
        lake.land(part := [row(500 + n, 50 + n, "b2"), row(600 + n, 60 + n, "c")])
        done += part
        check(lake, done)
    assert newest(lake).map.shards == {"acme", "c", "d1", "rest"}, "there is room for another"
    change_map(lake, lambda now: merge(now, ["d1"], "rest"))
    monkeypatch.setattr("firn_spark.driver.shard_tenants.MOST_MOVED", 0)
    lake.land(part := [row(700, 70, "d2"), row(701, 71, "new")])
    assert check(lake, done + part) == newest(lake).number - 1
    assert newest(lake).map.shards == {"acme", "c", "new", "rest"}, "who has many rows in the rest is split off by hand"


def test_maps_are_listed_and_changed_by_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake_of(spark, tmp_path, "{by: range(n), at: ['10']}")
    said = {"staging": lake.staging, "warehouse": lake.warehouse, "catalog_uri": lake.catalog_uri}
    (tmp_path / "stack.json").write_text(json.dumps(said | {"url": "http://127.0.0.1:9"}))

    def firn(*arguments: str) -> Any:
        code = main(["shards", *arguments, "--dir", str(tmp_path), "--json"])
        out, err = capsys.readouterr()
        return json.loads(out) if code == 0 else err

    done = [event("c", 100 + n, {"id": n, "w": "w", "v": f"v{n}", "n": n}) for n in range(20)]
    lake.land(done)
    dry = firn("split", REST, "s1", "high", "--at", "15", "--dry-run")
    (moves,) = dry["moves"]
    assert (dry["version"], moves["source"], moves["target"], moves["rows"]) == (2, "s1", "high", 5)
    assert moves["bytes"] > 0
    assert newest(lake).number == 1
    for arguments, words in (
        (("split", REST, "s1", "high"), "say at which n s1 is split"),
        (("split", REST, "s7", "high", "--at", "15"), "there is no shard 's7'"),
        (("split", REST, "s1", "high", "--at", "x"), "'x' is no long; write whole numbers"),
        (("split", REST, "s1", "high", "--values", "x"), "write --at"),
        (("split", "s1.orders", "s1", "high", "--at", "15"), "there are: rest.orders"),
        (("move", REST, "rest", "x.y"), "has the name of the whole, and stays"),
        (("move", REST, "s1", "x"), "write namespace.table"),
        (("merge", REST, "rest", "--into", "s1"), "merge into it"),
    ):
        assert words in firn(*arguments)
    assert firn("split", REST, "s1", "high", "--at", "15")["version"] == 2
    assert firn("move", "spec.orders", "s0", "low.orders")["moves"][0]["rows"] == 10
    (told,) = firn("list")
    assert (told["version"], told["in_use"], told["why"]) == (3, 1, "move s0 to low.orders")
    lake.land(part := [event("c", 200, {"id": 50, "w": "w", "v": "v", "n": 11})])
    done += part
    assert check(lake, done) == 3
    (told,) = firn("list", REST)
    assert [(one["shard"], one["table"], one["values"], one["rows"]) for one in told["shards"]] == [
        ("high", "high.orders", "15 to", 5), ("s0", "low.orders", "to 10", 10), ("s1", "s1.orders", "10 to 15", 6),
        ("rest", "rest.orders", "all others", 0),
    ]  # fmt: skip
    assert main(["shards", "merge", REST, "high", "--into", "s0", "--dir", str(tmp_path)]) == 0
    assert "this is version 4" in capsys.readouterr().out
    assert main(["shards", "list", "--dir", str(tmp_path)]) == 0
    assert "its rows are under version 3" in capsys.readouterr().out
    lake.land(part := [event("d", 300, None, done[12]["after"])])
    assert check(lake, done + part) == 4
    # A staging area that is begun anew has no versions: the rest says under which it is.
    shutil.rmtree(tmp_path / "staging")
    lake.deployment = "anew"
    lake.config = published_configs.publish(lake.store, CONFIG.replace("SHARD", "{by: range(n), at: ['10']}"))
    for n in range(4):
        lake.post([event("c", 400 + n, {"id": 60 + n, "w": "w", "v": "v", "n": [3, 11, 17, 18][n]})])
        before, last = cuts.last(lake.store, lake.stream), lake.seal()
        assert lake.commit(1 + (before.n if before else last - 1), last) == 0, lake.lines
    cut = cuts.last(lake.store, lake.stream)
    assert cut is not None
    assert cut.tables.keys() == {"low.orders", "s1.orders", "rest.orders"}
    assert cut.progress.keys() == {REST}
    assert {one["id"] for one in lake.rows("low.orders")} == {*range(10), *range(15, 20), 60, 62, 63}
    assert {one["id"] for one in lake.rows("s1.orders")} == {10, 11, 13, 14, 50, 61}
    assert firn("list")[0]["in_use"] == 4
    assert firn("move", REST, "s1", "s2.orders")["version"] == 5


def test_shards_are_rebalanced_taken_back_and_former_ones_removed_by_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake_of(spark, tmp_path, "{by: range(n), at: ['10']}")
    said = {"staging": lake.staging, "warehouse": lake.warehouse, "catalog_uri": lake.catalog_uri}
    (tmp_path / "stack.json").write_text(json.dumps(said | {"url": "http://127.0.0.1:9"}))

    def firn(*arguments: str, as_json: bool = True) -> Any:
        code = main(["shards", *arguments, "--dir", str(tmp_path), *(["--json"] if as_json else [])])
        out, err = capsys.readouterr()
        return (json.loads(out) if as_json else out) if code == 0 else err

    done = [event("c", 100 + n, {"id": n, "w": "w", "v": f"v{n}", "n": n}) for n in range(40)]
    lake.land(done)
    assert "there is nothing to" not in firn("rebalance", REST)
    assert firn("rebalance", REST)["steps"] == []
    assert "the newest, already" in firn("undo", REST)
    told = firn("rebalance", REST, "--rows", "15", "--dry-run", as_json=False)
    assert "split s1: s2 from 25" in told
    assert "it would be version 2" in told
    told = firn("rebalance", REST, "--rows", "15")
    assert (told["version"], told["steps"], told["most"]) == (2, ["split s1: s2 from 25"], 15)
    assert [(one["source"], one["target"], one["rows"]) for one in told["moves"]] == [("s1", "s2", 15)]
    told = firn("undo", REST, "--dry-run", as_json=False)
    assert "takes back version 2: rebalance: split s1: s2 from 25" in told
    assert firn("undo", REST)["moves"] == []
    lake.land(part := [event("u", 200, {"id": 1, "w": "w", "v": "x", "n": 30})])
    done += part
    assert check(lake, done) == 3
    assert [one["shard"] for one in firn("list", REST)[0]["shards"]] == ["s0", "s1", "rest"]
    firn("rebalance", REST, "--rows", "15")
    lake.post(part := [event("u", 300, {"id": 2, "w": "w", "v": "x", "n": 2})])
    done += part
    last = lake.seal()
    assert f"epoch {last} is under version 4 of the map" in firn("undo", REST)
    assert lake.commit(last) == 0, lake.lines
    assert check(lake, done) == 4
    firn("move", REST, "s1", "big.orders")
    lake.land(part := [event("u", 400, {"id": 3, "w": "w", "v": "x", "n": 3})])
    done += part
    assert check(lake, done) == 5
    (told,) = firn("remove-former", REST)["former"]
    assert (told["table"], told["needed"] > 0) == ("s1.orders", True)
    assert lake.catalog.table_exists(("s1", "orders"))
    let_go(lake)
    assert "would be removed" in firn("remove-former", REST, "--dry-run", as_json=False)
    assert firn("remove-former", REST)["removed"] == ["s1.orders"]
    assert not lake.catalog.table_exists(("s1", "orders"))
    firn("move", REST, "s1", "s1.orders")
    lake.land(part := [event("u", 500, {"id": 4, "w": "w", "v": "x", "n": 30})])
    assert check(lake, done + part) == 6


def test_a_map_that_a_catalog_has_expired_is_read_from_the_log_and_told_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lake_of(spark, tmp_path)
    events = [event("u", 100 + n, {"id": n % 4, "w": "ab"[n % 2], "v": f"v{n}", "n": n}) for n in range(8)]
    lake.land(events[:4])
    change_map(lake, lambda now: move(now, "a", Home("apart.orders")))
    lake.land(events[4:5])
    lake.land(events[5:6])
    rest = lake.catalog.load_table(tuple(REST.split(".")))
    old = [one.snapshot_id for one in rest.snapshots() if one.snapshot_id != rest.metadata.current_snapshot_id]
    rest.maintenance.expire_snapshots().by_ids(old).commit()
    for n in (6, 7):
        lake.land(events[n : n + 1])
        assert check(lake, events[: n + 1]) == 2
    (told_by,) = (one for one in rest.refresh().snapshots() if SHARDS_MAP in one.summary.additional_properties)
    assert told_by.parent_snapshot_id not in old


def test_what_expiry_carries_on_is_never_where_shards_were_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job begins as another one, which lets old snapshots of the rest go, has looked at them."""
    lake = lake_of(spark, tmp_path)
    events = [event("u", 100 + n, {"id": n % 4, "w": [None, "a"][n % 2], "v": f"v{n}", "n": n}) for n in range(8)]
    lake.land(events[:5])
    change_map(lake, lambda now: move(now, "a", Home("apart.orders")))
    for n in (5, 6, 7):
        lake.land(events[n : n + 1])
    carry = fence.carry

    def late(*arguments: Any) -> None:
        events.append(event("u", 200, {"id": 0, "w": "a", "v": "moved", "n": 0}))
        lake.land(events[-1:])
        carry(*arguments)

    monkeypatch.setattr(expiry_rules, "FEWEST_SNAPSHOTS", 1)
    monkeypatch.setattr(expiry_rules, "LEAST", 1)
    monkeypatch.setattr(fence, "carry", late)
    rest = Tables(lake.spark).load(TableName.parse(REST))
    assert rest is not None
    with suppress(fence.LostRace):
        list(expire_all(lake.spark, lake.store, rest, FEW, datetime.now(UTC) + timedelta(days=1)))
    assert len(events) == 9
    assert check(lake, events) == 2
    events.append(event("u", 300, {"id": 1, "w": "b", "v": "then", "n": 1}))
    lake.land(events[-1:])
    assert check(lake, events) == 2
    table = lake.catalog.load_table(tuple(REST.split(".")))
    whole = Reader(lake.catalog, lambda: lake.store).table("spec.orders").read().pylist()
    assert {row["id"]: row["v"] for row in whole} == {0: "moved", 1: "then", 2: "v6", 3: "v7"}, table.history()
