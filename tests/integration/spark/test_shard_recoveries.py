"""Tables of several shards of which a job left some ahead when it died, and what came in between: other settings,
epochs that are skipped, another log, another stream, a long hold."""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from pyspark.sql import SparkSession

from firn.commit import range_parts
from firn.log import cuts, holds, layout, published_configs
from firn.quarantine import rules
from firn_spark.tables import fence
from tests.integration.spark.committing import Died
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_shard_commits import CONFIG, TENANTS, lake_of, rows_at

pytestmark = pytest.mark.spark
REST: Final = "rest.orders"


def row(lsn: int, key: int, w: str | None, v: str = "v", op: str = "u") -> dict[str, Any]:
    return event(op, lsn, {"id": key, "w": w, "v": v})


def truncate(lsn: int) -> dict[str, Any]:
    return event("t", lsn, None)


def left_ahead(lake: Lake, events: Sequence[dict[str, Any]], commits: int = 1, first: int = 0) -> int:
    """A job commits so many shards and dies. -> its last epoch."""
    real, left = fence.commit, [commits]

    def dying(*args: Any) -> None:
        if not left[0]:
            raise Died
        left[0] -= 1
        real(*args)

    lake.post(list(events))
    last = lake.seal()
    with pytest.MonkeyPatch.context() as patch, suppress(Died):
        patch.setattr(fence, "commit", dying)
        lake.commit(first or last, last)
        pytest.fail("the job did not die")
    return last


def published(lake: Lake, config: str) -> None:
    lake.config = published_configs.publish(lake.store, config)


def held(lake: Lake, last: int) -> None:
    """As if the last epoch had failed three times."""
    cut = cuts.last(lake.store, lake.stream)
    stand = rules.standing(REST, cut.n if cut else 0, cut, holds.read_all(lake.store, lake.stream))
    now = layout.instant(lake.now)
    holds.hold(lake.store, rules.failed_table(lake.stream, REST, "terminal", "a test", stand, last, last, now))


def resumed(lake: Lake, how: Literal["retry", "skip"]) -> None:
    found = holds.read_all(lake.store, lake.stream).tables[REST].quarantine
    holds.lift(lake.store, found, how, layout.instant(lake.now))


def test_what_other_settings_leave_out_is_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a"), row(101, 1, "b")])
    last = left_ahead(lake, [row(200, 0, "b", "read", "r"), row(201, 5, "a", "read", "r"), row(202, 1, "b", "w1")])
    published(lake, CONFIG.replace("SHARD", TENANTS) + "        snapshot_reads: ignore\n")
    lake.post([row(300, 7, None)])
    assert lake.commit(last, lake.seal()) == 0, lake.lines
    assert rows_at(lake) == {"a": {0: ("a", "v")}, "b": {1: ("b", "w1")}, "rest": {7: (None, "v")}}


def test_what_is_skipped_is_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a"), row(101, 1, "b"), row(102, 2, "a")])
    last = left_ahead(lake, [row(200, 0, "b", "w0"), row(201, 5, "a"), row(202, 2, "a", "w2")])
    held(lake, last)
    assert lake.commit(last) == 0, lake.lines
    resumed(lake, "skip")
    lake.land([row(300, 7, None), row(301, 2, "a", "w3")])
    assert rows_at(lake) == {"a": {0: ("a", "v"), 2: ("a", "w3")}, "b": {1: ("b", "v")}, "rest": {7: (None, "v")}}


def test_who_dies_while_it_takes_back_is_made_good_by_the_same_range(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a"), row(101, 1, "b")])
    last = left_ahead(lake, [row(200, 0, "b", "w0"), row(201, 5, "a")])
    held(lake, last)
    assert lake.commit(last) == 0, lake.lines
    resumed(lake, "skip")
    last = left_ahead(lake, [row(300, 1, "a", "w1")])
    assert lake.commit(last) == 0, lake.lines
    assert rows_at(lake) == {"a": {0: ("a", "v"), 1: ("a", "w1")}, "b": {}, "rest": {}}


def test_a_log_that_is_begun_anew_counts_on_above_all_shards(spark: SparkSession, tmp_path: Path) -> None:
    config = CONFIG.replace("SHARD", TENANTS) + "      app.u: {to: lake.u, key: [id]}\n"
    lake = Lake(spark, tmp_path, config)
    lake.land([row(100, 0, "a"), row(101, 1, "b")])
    lake.land([event("c", 150, {"id": 1}, table="u")])
    lake.post([row(200, 0, "b", "lost")])
    lake.seal()
    assert left_ahead(lake, [row(201, 5, "a", "lost")], first=3) == 4
    shutil.rmtree(tmp_path / "staging")
    lake.deployment = "anew"
    published(lake, config)
    for key in (6, 7, 8):
        lake.post([row(300 + key, key, "a", "new")])
        last = lake.seal()
        before = cuts.last(lake.store, lake.stream)
        lake.commit(1 + (before.n if before else last - 1), last)
    lake.post([row(400, 9, "b", "new")])
    last, before = lake.seal(), cuts.last(lake.store, lake.stream)
    assert lake.commit(1 + (before.n if before else last - 1), last) == 0, lake.lines
    assert rows_at(lake)["a"] == {0: ("a", "v"), **dict.fromkeys((6, 7, 8), ("a", "new"))}
    assert rows_at(lake)["b"] == {1: ("b", "v"), 9: ("b", "new")}


def test_a_stream_of_another_name_goes_on_from_where_the_shards_are(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a"), row(101, 1, "b")])
    lake.land([row(110, 2, "a")])
    left_ahead(lake, [row(120, 0, "b", "half"), row(121, 5, "a", "half")])
    lake.stream = "other"
    published(lake, CONFIG.replace("SHARD", TENANTS).replace("spec:", "other:"))
    lake.land([row(200, 1, "a", "w1"), row(201, 3, None)])
    assert rows_at(lake) == {
        "a": {0: ("a", "v"), 1: ("a", "w1"), 2: ("a", "v")}, "b": {}, "rest": {3: (None, "v")}
    }  # fmt: skip
    lake.land([row(210, 2, "b", "w2")])
    assert rows_at(lake)["b"] == {2: ("b", "w2")}


def one_process_read(lake: Lake) -> bool:
    """Whether no part of a range was too large for it."""
    return all(line.get("way", {}).get("read") is None for line in lake.lines)


def test_a_table_that_was_held_for_long_gets_what_it_lacks_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_parts, "MOST_EVENTS", 5)
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "8")
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a")])
    # Parts of three and three: what is brought from the first epoch on must not end between them.
    first = 0
    for n in range(3):
        lake.post([row(110 + 10 * n + i, i, "ab"[(i + n) % 2], f"v{n}") for i in range(2 if n else 1)])
        first = first or lake.seal()
        if n:
            lake.seal()
    last = left_ahead(lake, [row(200, 8, "a", "x"), row(201, 9, "b", "x")], first=first)
    held(lake, last)
    for n in range(4):
        lake.post([row(300 + 10 * n + i, i, "ab"[(i + n) % 2], f"w{n}") for i in range(3)])
        last = lake.seal()
    assert lake.commit(first, last) == 0, lake.lines
    resumed(lake, "retry")
    lake.land([row(400, 7, None)])
    assert rows_at(lake) == {
        "a": {1: ("a", "w3"), 8: ("a", "x")}, "b": {0: ("b", "w3"), 2: ("b", "w3"), 9: ("b", "x")},
        "rest": {7: (None, "v")},
    }  # fmt: skip
    assert one_process_read(lake)


def test_a_backlog_of_wide_rows_is_committed_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both a thousandth: a process takes 128 MB.
    monkeypatch.setattr("firn_spark.driver.range.MOST_BYTES", 128 * 1024)
    monkeypatch.setattr(range_parts, "MOST_EVENTS", 100_000)
    monkeypatch.setattr(range_parts, "BYTES_OF_AN_EVENT", 1)
    dice, wide = random.Random(1), "0123456789abcdefghijklmnopqrstuvwxyz"
    lake = lake_of(spark, tmp_path)
    for n in range(5):
        lake.post([row(100 + n, n, "ab"[n % 2], "".join(dice.choices(wide, k=64_000)))])
        last = lake.seal()
    assert lake.commit(1, last) == 0, lake.lines
    assert {name: sorted(rows) for name, rows in rows_at(lake).items()} == {"a": [0, 2, 4], "b": [1, 3], "rest": []}
    assert one_process_read(lake)


@HOMES
def test_what_columns_do_not_decide_is_cut_from_a_large_part(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setattr(range_parts, "MOST_ONE_BY_ONE", 4)
    commit_in(home, monkeypatch)
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a"), row(101, 1, "b"), row(102, 2, None)])
    lake.post([row(110, 0, "b", "v1"), row(111, 3, "a", "v1")])
    first = lake.seal()
    # One is ahead of the part that would be cut by itself: that one goes as far.
    left_ahead(lake, [row(120, 1, "a", "v2"), row(121, 4, "b", "v2")], first=first)
    lake.post([truncate(130), row(131, 5, "a", "v3")])
    lake.seal()
    for n in range(3):
        lake.post([row(140 + 10 * n + i, i, "ab"[(i + n) % 2], f"w{n}") for i in range(2)])
        last = lake.seal()
    assert lake.commit(first, last) == 0, lake.lines
    assert rows_at(lake) == {"a": {0: ("a", "w2"), 5: ("a", "v3")}, "b": {1: ("b", "w2")}, "rest": {}}
    line = lake.line(REST)
    assert line["way"]["parts"] == 3  # before the truncate, that, and after it
    assert (line["events"], line["merged"], line["superseded"], line["ignored"]) == (12, 9, 2, 1)
    # A change that is older than the truncate is decided one by one, and what comes with it.
    lake.post([row(125, 0, "a", "late"), row(200, 6, "b")])
    first = lake.seal()
    lake.post([row(201, 7, None), row(202, 8, "a")])
    lake.seal()
    lake.post([row(203, 9, None)])
    assert lake.commit(first, lake.seal()) == 0, lake.lines
    assert lake.line(REST)["way"]["parts"] == 2
    found = rows_at(lake)
    assert (found["a"].keys(), found["b"].keys(), found["rest"].keys()) == ({0, 5, 8}, {1, 6}, {7, 9})
    assert found["a"][0] == ("a", "w2")


def test_a_narrower_range_goes_as_far_as_a_shard_is(spark: SparkSession, tmp_path: Path) -> None:
    # Of a range whose jobs are killed a narrower one is tried, again and again.
    lake = lake_of(spark, tmp_path)
    lake.land([row(100, 0, "a")])
    lake.post([row(200, 0, "b", "v2"), row(201, 1, "a", "v2")])
    first = lake.seal()
    lake.post([row(300, 1, "b", "v3")])
    lake.seal()
    last = left_ahead(lake, [row(400, 2, "a", "v4"), row(401, 0, "a", "v4")], first=first)
    lake.post([row(500, 3, None)])
    lake.seal()
    assert lake.commit(first) == 0, lake.lines
    cut = cuts.last(lake.store, lake.stream)
    assert cut is not None
    assert cut.n == last
    assert rows_at(lake) == {"a": {0: ("a", "v4"), 2: ("a", "v4")}, "b": {1: ("b", "v3")}, "rest": {}}
    assert lake.commit(last + 1) == 0
    assert rows_at(lake)["rest"] == {3: (None, "v")}
