"""Append tables of several streams and source tables, in Spark's way and the driver's: each change is one row, and what
differs in stream, source table, op or content is never taken for one."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge import decoded_rows
from firn.log import published_configs
from firn.log.store import open_store
from firn.tables.table_state import FIRST_IDENTITY
from firn_lake.lake import Lake as Reader
from firn_spark import table_commit
from firn_spark.branch import InPlace
from firn_spark.slices import slice_engine
from firn_spark.tables import fence
from tests.appending import CONFIG, STREAMS, Sent, requests, rows_of, source, specified, ticking
from tests.integration.spark.committing import Died
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_rebuild import rebuilt
from tests.soak import long_only, seeds

pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]
Streams = dict[str, Lake]
WHOLE = f"warehouse: file:///x\ncatalog: {{type: sql}}\n{CONFIG}"


@pytest.fixture(params=["", pytest.param("0", marks=long_only)], ids=["driver", "slices"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the job commits."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", request.param)
    monkeypatch.setattr(slice_engine, "EVENTS", 7)
    return str(request.param)


@pytest.fixture
def streams(way: str, spark: SparkSession, tmp_path: Path) -> Streams:
    """The streams of tests.appending."""
    return {stream: Lake(spark, tmp_path, WHOLE, stream) for stream in STREAMS}


def fresh(streams: Streams) -> list[dict[str, Any]]:
    """The table's rows with all that waits."""
    lake = streams["a"]
    where = Reader(lake.catalog, lambda: lake.store).table("lake.log")
    return where.read(fresh=True, metadata=True).pylist()


@long_only  # tests/model/test_appending.py has the same histories
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_two_streams_into_one_append_table_shuffled_doubled_split_truncated_and_killed_equal_the_specification(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice, clock = random.Random(seed), ticking()
    sources = [
        source(stream, dice, clock, numbered=dice.random() < 0.5, restarts=dice.random() < 0.5) for stream in STREAMS
    ]
    sent = requests(sources, dice, most=8)
    streams = {stream: Lake(spark, tmp_path, WHOLE, stream) for stream in STREAMS}
    for part in parts(sent, 4):
        for stream, some in part:
            streams[stream].post([one.event for one in some])
        for stream in {stream for stream, _ in part}:
            monkeypatch.setenv("FIRN_DRIVER_EVENTS", dice.choice(["", "0"]))
            monkeypatch.setattr(slice_engine, "EVENTS", dice.choice([3, 200_000]))
            sealed = streams[stream].seal()
            if dice.random() < 0.3:
                with dying(monkeypatch, before=dice.random() < 0.5), pytest.raises(Died):
                    streams[stream].commit(sealed)
            assert streams[stream].commit(sealed) == 0, streams[stream].lines
    found = streams["a"].rows("lake.log")
    assert rows_of(found) == specified(sent)
    assert len({row["_firn_id"] for row in found}) == len(found)


@HOMES
def test_a_change_that_comes_twice_in_one_range_is_one_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=7)
    lake = Lake(spark, tmp_path, config("mode: append, partition_by: ['bucket(2, id)']"))
    told = [event("c", 10 + n, {"id": n % 4, "v": str(n)}) for n in range(40)]
    bad = event("c", 99, None)
    lake.land([*told[:30], bad, *told[:9]], at_once=20)
    lake.land([*told[20:], *told[35:]], at_once=20)
    assert sorted(int(row["v"]) for row in lake.rows("lake.t")) == list(range(40))
    line = lake.line("lake.t")
    assert (line["way"]["lookup"], line["merged"], line["superseded"]) == (home, 10, 15)
    assert home == "driver" or line["way"]["slices"] > 1


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, *, before: bool) -> Iterator[None]:
    """The job is killed at its commit: before it, or when it has landed."""
    real = fence.commit

    def commit(*given: Any) -> None:
        if not before:
            real(*given)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(fence, "commit", commit)
        yield


def parts(sent: list[tuple[str, list[Sent]]], most: int) -> Iterator[list[tuple[str, list[Sent]]]]:
    size = -(-len(sent) // most)
    return (sent[first : first + size] for first in range(0, len(sent), size))


def test_a_fresh_read_of_an_append_table_of_two_streams_is_what_their_commits_make(streams: Streams) -> None:
    numbered = {"transaction": {"id": "1", "total_order": 1, "data_collection_order": 1}}
    equal = [event("c", 10, {"v": "x"}), event("c", 10, {"v": "x"}, table="u"), event("c", 11, {"v": "y"}) | numbered]
    streams["a"].land(equal)
    for stream in STREAMS:
        streams[stream].post([*equal, event("t", 20), event("t", 20, table="u")])
    before = fresh(streams)
    for stream in STREAMS:
        assert streams[stream].commit(streams[stream].seal()) == 0
    names = lambda rows: sorted((row["_firn_id"], row["_firn_op"], row["v"] or "") for row in rows)  # noqa: E731
    assert names(before) == names(streams["a"].rows("lake.log"))
    assert rows_of(before) == Counter({("c", "x"): 4, ("c", "y"): 2, ("t", None): 4})


@pytest.mark.parametrize("op", ["r", "t"])
def test_equal_changes_of_two_source_tables_are_two_rows(lake: Make, way: str, op: str) -> None:
    one = lake(WHOLE.replace("  a:", "  spec:"))
    image = {"v": "x"} if op == "r" else None
    one.land([event(op, 10, image), event(op, 10, image, table="u"), event("c", 11, {"v": "y"})])
    one.land([event(op, 10, image, table="u"), event(op, 10, image)])
    assert rows_of(one.rows("lake.log"))[op, "x" if op == "r" else None] == 2


def test_different_snapshot_rows_that_were_read_at_one_time_are_as_many(lake: Make, way: str) -> None:
    one = lake(config(""))
    reads = [event("r", 10, {"a": n}) | {"ts_ns": 7_000_000} for n in (1, 2)]
    one.land(reads)
    one.land(reads[::-1])
    assert sorted(row["a"] for row in one.rows("lake.t")) == [1, 2]


def test_rows_of_a_copy_that_are_numbered_anew_after_a_restart_are_all_there(lake: Make, way: str) -> None:
    one = lake(config(""))

    def sent(rows: list[int]) -> list[dict[str, Any]]:
        place = lambda n: {"transaction": {"id": "7:10", "total_order": n, "data_collection_order": n}}  # noqa: E731
        return [event("c", 10, {"a": a}, commit=5) | place(n) for n, a in enumerate(rows, 1)]

    one.land(sent([1, 2, 3, 4]))
    one.land(sent([3, 4, 5, 6]))
    assert {row["a"] for row in one.rows("lake.t")} == {1, 2, 3, 4, 5, 6}


def test_an_append_table_from_before_takes_nothing_twice_and_from_then_on_no_two_changes_for_one(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = lambda n: {"transaction": {"id": "7:10", "total_order": n, "data_collection_order": n}}  # noqa: E731
    old = [event("c", 10, {"v": "x"}) | number(1), event("c", 11, {"v": "y"}), event("t", 12)]
    with monkeypatch.context() as then:
        then.setenv("FIRN_DRIVER_EVENTS", "")
        then.setattr(decoded_rows, "identity", lambda row, _: decoded_rows.first_identity(row))
        then.setattr(table_commit, "NO_FIRST_IDENTITY", {})
        streams["a"].land(old)
    properties = lambda: streams["a"].catalog.load_table(("lake", "log")).metadata.properties  # noqa: E731
    assert FIRST_IDENTITY not in properties()
    streams["a"].post(old)
    assert rows_of(fresh(streams)) == Counter([("c", "x"), ("c", "y"), ("t", None)])
    assert streams["a"].commit(streams["a"].seal()) == 0
    assert rows_of(streams["a"].rows("lake.log")) == Counter([("c", "x"), ("c", "y"), ("t", None)])
    assert json.loads(properties()[FIRST_IDENTITY]) == ["a"]

    streams["b"].post(old)
    copied = [event("c", 20, {"v": value}) | number(1) for value in "zw"]
    streams["a"].post([*copied, *old, event("t", 21), event("t", 21, table="u")])
    before = fresh(streams)
    for stream in STREAMS:
        assert streams[stream].commit(streams[stream].seal()) == 0
    expected = [("c", "x"), ("c", "y"), ("t", None)] * 2 + [("c", "z"), ("c", "w"), ("t", None), ("t", None)]
    assert rows_of(streams["a"].rows("lake.log")) == rows_of(before) == Counter(expected)
    assert json.loads(properties()[FIRST_IDENTITY]) == ["a"]


def test_a_rebuild_leaves_an_append_table_from_before_what_it_is_asked_by(
    lake: Make, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lake(config("mode: append"))
    old = [event("c", 10, {"v": "x"}), event("c", 11, {"v": "y"})]
    with monkeypatch.context() as then:
        then.setattr(decoded_rows, "identity", lambda row, _: decoded_rows.first_identity(row))
        then.setattr(table_commit, "NO_FIRST_IDENTITY", {})
        then.setenv("FIRN_DRIVER_EVENTS", "")
        one.land(old)
    with monkeypatch.context() as killed:
        killed.setattr(InPlace, "publish", died)
        with pytest.raises(Died):
            rebuilt(one, in_place=True)
    one.land(old)
    assert len(one.rows("lake.t")) == 2
    assert rebuilt(one, run="r2", in_place=True)[0] == 0
    one.land(old)
    assert len(one.rows("lake.t")) == 2


def died(*_: Any) -> None:
    raise Died


@HOMES
def test_rows_name_their_source_table_stream_and_transaction_where_the_rule_asks_for_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)

    def rules(metadata: str) -> str:
        tables = f"{{'app.*': {{to: lake.log, mode: append{metadata}}}}}"
        return f"warehouse: file:///x\ncatalog: {{type: sql}}\nstreams: {{spec: {{tables: {tables}}}}}\n"

    def fresh(lake: Lake) -> list[dict[str, Any]]:
        read = Reader(lake.catalog, lambda: open_store(lake.staging)).table("lake.log").read  # it knows no rules yet
        return sorted(read(fresh=True, metadata=True).pylist(), key=lambda row: row["id"])

    lake = Lake(spark, tmp_path, rules(""))
    lake.land([event("c", 10, {"id": 1}, table="a")])
    lake.config = published_configs.publish(lake.store, rules(", metadata: [source, stream, transaction]"))
    block = [{"transaction": {"id": f"7:{n}", "total_order": n}} if n else {} for n in range(6)]
    lake.post([event("c", 20 + n, {"id": 2 + n}, table="ab"[n % 2]) | block[n] for n in range(6)])
    before = fresh(lake)
    assert lake.commit(lake.seal()) == 0, lake.lines
    found = sorted(lake.rows("lake.log"), key=lambda row: row["id"])
    assert [(row["_firn_source"], row["_firn_stream"], row["_firn_transaction"]) for row in found] == [
        (None, None, None), *[(f"app.{'ab'[n % 2]}", "spec", f"7:{n}" if n else None) for n in range(6)]
    ]  # fmt: skip
    assert before == fresh(lake) == found
    lake.config = published_configs.publish(lake.store, rules(", metadata: [stream]"))
    lake.post([event("c", 40, {"id": 9}, table="a")])
    before = fresh(lake)
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert fresh(lake) == before
    assert [(row["_firn_source"], row["_firn_stream"]) for row in before if row["id"] == 9] == [(None, "spec")]
