"""What other tools get wrong, each by its name: a few changes of a key in every order and every split over epochs.

The first part lands all of it in one table in three epochs: each key takes the changes of its story in another order.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import cuts, published_configs
from firn_spark.maintenance.delete_memory_expiry import GRACE, forget
from firn_spark.tables import retype
from firn_spark.tables.evolve import Tables
from tests.integration.spark.committing import Died
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event, letters, with_schema
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]
Events = list[dict[str, Any]]

EPOCHS = 3
ONE_MS = 1_700_000_000_000


def reinserted(base: int, key: int) -> Events:
    """A delete directly followed by the insert of the same key."""
    return [
        event("c", base, {"id": key, "v": "old", "n": 1}),
        event("d", base + 1, None, {"id": key, "v": None, "n": 0}),
        event("c", base + 2, {"id": key, "v": "new", "n": 2}),
    ]


def in_one_millisecond(base: int, key: int) -> Events:
    """Insert, delete, insert, delete, insert: of one transaction, so that nothing but the LSN tells their order."""
    told = [
        event("c", base + 1, {"id": key, "v": "first", "n": 1}, commit=base),
        event("d", base + 2, None, {"id": key, "v": None, "n": 0}, commit=base),
        event("c", base + 3, {"id": key, "v": "last", "n": 3}, commit=base),
    ]
    for one in told:
        one["ts_ms"] = one["source"]["ts_ms"] = ONE_MS
    return told


def deleted_for_good(base: int, key: int) -> Events:
    """The last word is a delete, however early it came."""
    return [
        event("c", base, {"id": key, "v": "x", "n": 1}),
        event("u", base + 1, {"id": key, "v": GONE, "n": 2}),
        event("d", base + 2, None, {"id": key, "v": None, "n": 0}),
    ]


def toast(base: int, key: int) -> Events:
    """Two updates that leave a long value out."""
    return [
        event("c", base, {"id": key, "v": "kept", "n": 1}),
        event("u", base + 1, {"id": key, "v": GONE, "n": 2}),
        event("u", base + 2, {"id": key, "v": GONE, "n": 3}),
    ]


def toast_changed(base: int, key: int) -> Events:
    """A newer value between two updates that leave it out."""
    return [
        event("u", base, {"id": key, "v": GONE, "n": 1}),
        event("u", base + 1, {"id": key, "v": "changed", "n": 2}),
        event("u", base + 2, {"id": key, "v": GONE, "n": 3}),
    ]


def moved(base: int, key: int) -> Events:
    """A primary key change, its halves apart: the new row's long value is the old row's."""
    return [
        event("c", base, {"id": key, "v": "long", "n": 1}),
        event("d", base + 5, None, {"id": key, "v": None, "n": 0}, commit=base + 3),
        event("c", base + 5, {"id": key + 1, "v": GONE, "n": 2}, commit=base + 3),
    ]


def moved_on(base: int, key: int) -> Events:
    """The same, and the new row is updated without the long value."""
    return [*moved(base, key), event("u", base + 9, {"id": key + 1, "v": GONE, "n": 3})]


Row = tuple[int, str | None, int]  # which key of the story (0 or 1), v, n


@dataclass(frozen=True)
class Story:
    """A history of a key, and the rows that it leaves."""

    told: Callable[[int, int], Events]
    rows: list[Row]
    keys: list[int] = field(default_factory=list)


def stories() -> dict[str, Story]:
    return {
        "a delete directly followed by the re-insert of its key": Story(reinserted, [(0, "new", 2)]),
        "insert, delete, insert in one millisecond": Story(in_one_millisecond, [(0, "last", 3)]),
        "a delete as the last word": Story(deleted_for_good, []),
        "TOAST kept across epochs": Story(toast, [(0, "kept", 3)]),
        "TOAST changed in between": Story(toast_changed, [(0, "changed", 3)]),
        "a key change split across requests and epochs": Story(moved, [(1, "long", 2)]),
        "a key change split, and an update after it": Story(moved_on, [(1, "long", 3)]),
    }


def splits(count: int) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Each way to spread `count` changes over the epochs, and in an epoch forwards or backwards."""
    yield from product(product(range(EPOCHS), repeat=count), (False, True))


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, dict[str, Story]]:
    """All stories in all splits, in three epochs and many requests each."""
    told = stories()
    sent: list[Events] = [[] for _ in range(EPOCHS)]
    key = 0
    for story in told.values():
        for split, backwards in splits(len(story.told(0, 0))):
            key += 2
            story.keys.append(key)
            events = list(zip(split, story.told(10 * key, key), strict=True))
            for epoch, one in reversed(events) if backwards else events:
                sent[epoch].append(one)
    lake = Lake(spark, tmp_path_factory.mktemp("stories"), config())
    for events in sent:
        lake.land(events, at_once=37)
    return lake, told


@few_cases(1)
@pytest.mark.parametrize("name", stories())
def test_in_every_order_and_every_split_over_epochs(landed: tuple[Lake, dict[str, Story]], name: str) -> None:
    lake, told = landed
    found = {id: (row["v"], row["n"]) for id, row in lake.by_key("lake.t", "id").items()}
    assert len(found) == len(lake.rows("lake.t"))
    story = told[name]
    ways = [*splits(len(story.told(0, 0)))]
    wrong = {}
    for way, key in zip(ways, story.keys, strict=True):
        rows = [(which, *found[key + which]) for which in (0, 1) if key + which in found]
        if rows != story.rows:
            wrong[way] = rows
    assert wrong == {}, f"{len(wrong)} of {len(ways)} ways; right is {story.rows}"


def test_each_epoch_is_in_one_snapshot(landed: tuple[Lake, dict[str, Story]]) -> None:
    lake, _ = landed
    said = [one["firn.epoch.spec"] for one in lake.snapshots("lake.t") if "firn.epoch.spec" in one]
    assert said == ["1", "2", "3"]


def emitted(one: dict[str, Any], ns: int) -> dict[str, Any]:
    """The event as Debezium emitted it at this time."""
    return one | {"ts_ns": ns}


def test_identical_rows_of_one_copy_delivered_twice_are_as_many_as_were_copied(lake: Make) -> None:
    one = lake(config(""))
    copied = [emitted(event("c", 10, {"a": 1, "b": "same"}, commit=5), ns) for ns in (100, 101, 102)]
    one.land([*copied, *copied])
    assert len(one.rows("lake.t")) == 3
    one.land(copied)
    one.land(copied[::-1])
    assert len(one.rows("lake.t")) == 3


def test_identical_rows_of_one_copy_are_told_apart_by_their_transaction_in_any_split(lake: Make) -> None:
    one = lake(config(""))
    copied = [
        event("c", 10, {"a": 1}, commit=5)
        | {"transaction": {"id": "7:10", "total_order": n, "data_collection_order": n}}
        for n in (1, 2, 3)
    ]
    one.land([copied[2], copied[0], copied[0]])
    one.land([copied[1], copied[2]])
    assert len(one.rows("lake.t")) == 3


@few_cases(1)
# What Debezium 3.6 did: killed within a transaction, it leaves out what it handed over and numbers the rest from 1.
# Inserts of PostgreSQL with numbers: docs/adr/0064-places-of-their-own.md proves that no rule can tell them apart.
@pytest.mark.parametrize(
    ("connector", "op", "numbered", "rows"),
    [
        ("postgresql", "c", False, 4),
        ("postgresql", "u", True, 4),
        ("mysql", "c", True, 4),
        ("postgresql", "c", True, 6),
    ],
)
def test_a_change_that_a_restarted_debezium_sends_again_is_one_row(
    lake: Make, connector: str, op: str, numbered: bool, rows: int
) -> None:
    one = lake(config(""))

    def sent(first: int) -> list[dict[str, Any]]:
        changes = [event(op, lsn, {"a": lsn}, commit=5) for lsn in (10, 20, 30, 40)][first:]
        for change in changes if connector == "mysql" else ():
            place = {"connector": "mysql", "file": "binlog.000005", "pos": 4, "row": change["after"]["a"]}
            change["source"] |= {"db": change["source"]["schema"], **place}
        place = lambda n: {"transaction": {"id": "7:10", "total_order": n, "data_collection_order": n}}  # noqa: E731
        return [change | (place(n) if numbered else {}) for n, change in enumerate(changes, 1)]

    one.land(sent(0))
    one.land(sent(2))
    assert len(one.rows("lake.t")) == rows


@few_cases(1)
@pytest.mark.parametrize("driver", ["0", ""])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_value_older_than_the_log_moves_with_its_row_though_the_halves_come_apart(
    lake: Make, monkeypatch: pytest.MonkeyPatch, driver: str, loaded: bool
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", driver)
    one = lake(config())
    create, delete, again = moved(100, 1)
    one.land([event("c", 90, {"id": 5, "v": "other", "n": 5})] + ([] if loaded else [create]))
    if loaded:  # by another tool: without an order
        one.spark.sql("INSERT INTO firn.lake.t (id, v, n, _firn_pos, _firn_ts) VALUES (1, 'long', 1, null, null)")
    one.now += timedelta(days=20)  # the log is read back for 15
    one.land([delete])
    assert sorted(one.by_key("lake.t", "id")) == [5]
    # The row is in the snapshot before the delete: one that is older than others by now.
    one.land([event("u", 150, {"id": 5, "v": "newer", "n": 6})])
    one.land([again])
    rows = {key: (row["v"], row["n"]) for key, row in one.by_key("lake.t", "id").items()}
    assert rows == {2: ("long", 2), 5: ("newer", 6)}


def test_once_the_snapshot_before_the_delete_expired_the_value_is_unknown(lake: Make) -> None:
    one = lake(config())
    create, delete, again = moved(100, 1)
    one.land([create])
    one.now += timedelta(days=20)
    one.land([delete])
    table = Tables(one.spark).load(TableName.parse("lake.t"))
    assert table is not None
    table.java.expireSnapshots().retainLast(1).expireOlderThan(int(time.time() * 1000)).commit()
    one.land([again])
    assert {key: (row["v"], row["n"]) for key, row in one.by_key("lake.t", "id").items()} == {2: (None, 2)}


def test_a_first_epoch_of_only_deletes_is_remembered(lake: Make) -> None:
    one = lake(config())
    one.land([event("d", 20, None, {"id": 1, "v": None}), event("d", 21, None, {"id": 2, "v": None})])
    assert one.rows("lake.t") == []
    one.land([event("c", 10, {"id": 1, "v": "older"}), event("c", 30, {"id": 2, "v": "newer"})])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {2: "newer"}


@long_only
def test_a_first_epoch_of_only_a_truncate_is_remembered(lake: Make) -> None:
    one = lake(config())
    one.land([event("t", 50)])
    one.land([event("c", 40, {"id": 1, "v": "older"}), event("c", 60, {"id": 2, "v": "newer"})])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {2: "newer"}
    one.land([event("u", 45, {"id": 3, "v": "older still"}), event("d", 55, None, {"id": 2, "v": None})])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {2: "newer"}


def test_a_truncate_between_epochs_counts_for_rows_that_come_later(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"}), event("c", 60, {"id": 2, "v": "b"})])
    one.land([event("t", 50)])
    one.land([event("c", 20, {"id": 3, "v": "older"}), event("u", 30, {"id": 1, "v": "older"})])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {2: "b"}


@long_only
def test_of_two_changes_with_one_order_by_value_the_same_wins_in_both_orders(lake: Make) -> None:
    one = lake(config(stream="    order_by: version\n"))

    def told(table: str, v: str) -> dict[str, Any]:
        source = {"connector": "own", "schema": "app", "table": table}
        return {"op": "u", "before": None, "source": source, "after": {"id": 1, "v": v, "version": 10}}

    one.land([told("t", "a"), told("other", "b")])
    one.land([told("t", "b"), told("other", "a")])
    one.land([told("t", "a"), told("other", "a")])
    assert [row["v"] for row in one.rows("lake.t")] == [row["v"] for row in one.rows("lake.other")]


@long_only
def test_below_the_floor_an_absent_key_is_too_old_and_a_live_one_is_not(lake: Make) -> None:
    one = lake(config())
    one.land(
        [event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"}), event("u", 30, {"id": 2, "v": "c"})]
    )
    one.land([event("d", 20, None, {"id": 1, "v": None}), event("c", 40, {"id": 3, "v": "d"})])
    tables, now = Tables(one.spark), datetime.now(UTC) + timedelta(hours=1)
    for turn in range(2):
        facts = tables.load(TableName("lake", "t__deletes"))
        assert facts is not None
        done = forget(one.spark, tables, facts, now + turn * GRACE, keep=timedelta(0))
        assert (done.raised, done.files) == ((True, 0), (False, 1))[turn]
        assert len(one.rows("lake.t__deletes")) == 1 - turn
    late = [
        event("u", 15, {"id": 1, "v": "back from the dead"}),
        event("u", 16, {"id": 9, "v": "never seen"}),
        event("u", 17, {"id": 2, "v": "late"}),
        event("c", 35, {"id": 4, "v": "above the floor"}),
    ]
    one.land(late)
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {
        2: "c",
        3: "d",
        4: "above the floor",
    }
    assert sorted((letter.reason, json.loads(letter.original)["after"]["id"]) for letter in letters(one)) == [
        ("too_old", 1),
        ("too_old", 9),
    ]
    line = one.line("lake.t")
    assert line["events"] == line["merged"] + line["superseded"] + line["ignored"] + line["dead"]
    assert line["dead"] == 2


def test_a_new_snapshot_under_a_new_generation_beats_all_of_the_old_one(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 900, {"id": 1, "v": "old"}), event("c", 901, {"id": 2, "v": "old"})])
    one.land([event("d", 950, None, {"id": 3, "v": None})])
    one.config = published_configs.publish(one.store, config(stream="    generation: 1\n"))
    again = [event("r", 20, {"id": n, "v": "read again"}) for n in (1, 2, 3)]
    one.land([*again, event("u", 30, {"id": 2, "v": "streamed again"}, commit=0)])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {
        1: "read again",
        2: "streamed again",
        3: "read again",
    }


@long_only
def test_a_row_that_changes_its_partition_is_there_once(lake: Make) -> None:
    one = lake(config("key: [id], columns: {place: string}, partition_by: [place, bucket(4, id)]"))
    one.land([event("c", 10 + n, {"id": n, "place": "here", "v": f"v{n}"}) for n in range(6)])
    one.land([event("u", 30 + n, {"id": n, "place": "there", "v": GONE}) for n in range(3)])
    one.land([event("u", 20, {"id": 4, "place": None, "v": GONE}), event("d", 40, None, {"id": 5, "v": None})])
    one.land(
        [event("u", 41, {"id": 0, "place": "here", "v": GONE}), event("u", 15, {"id": 1, "place": "late", "v": "x"})]
    )
    rows = sorted((row["id"], row["place"], row["v"]) for row in one.rows("lake.t") if row["id"] != 4)
    # 1's late update is older than its row, and newer than the value that the row holds.
    assert rows == [(0, "here", "v0"), (1, "there", "x"), (2, "there", "v2"), (3, "here", "v3")]
    assert [(row["place"], row["v"]) for row in one.rows("lake.t") if row["id"] == 4] == [(None, "v4")]


def test_null_in_a_composite_key_is_deleted_and_comes_back_like_another(lake: Make) -> None:
    one = lake(config("key: [a, b]"))
    keys: list[tuple[int | None, int | None]] = [(1, None), (None, 2), (None, None), (1, 2)]
    one.land(
        [event("d", 50, None, {"a": 1, "b": 2, "v": None}), event("d", 51, None, {"a": None, "b": None, "v": None})]
    )
    one.land([event("c", 10 + n, {"a": a, "b": b, "v": f"v{n}"}) for n, (a, b) in enumerate(keys)])
    assert sorted(row["v"] for row in one.rows("lake.t")) == ["v0", "v1"]
    one.land([event("u", 60 + n, {"a": a, "b": b, "v": GONE if n < 2 else f"w{n}"}) for n, (a, b) in enumerate(keys)])
    assert sorted(row["v"] for row in one.rows("lake.t")) == ["v0", "v1", "w2", "w3"]
    one.land([event("d", 70 + n, None, {"a": a, "b": b, "v": None}) for n, (a, b) in enumerate(keys)])
    assert one.rows("lake.t") == []


def unscaled(value: int) -> str:
    """Kafka Connect's Decimal as Debezium writes it to JSON."""
    return base64.b64encode(value.to_bytes(17, "big", signed=True)).decode()


def decimal(scale: int) -> dict[str, Any]:
    """The Connect type of a decimal of 38 digits."""
    return {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": str(scale), "connect.decimal.precision": "38"},
    }


MOST = 10**38 - 1
LIMITS: dict[str, str | dict[str, Any]] = {
    "id": "int64",
    "v": "string",
    "whole": decimal(0),
    "parts": decimal(38),
    "day": {"type": "int32", "name": "io.debezium.time.Date"},
    "local": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "instant": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    "clock": {"type": "int64", "name": "io.debezium.time.MicroTime"},
    "f": "double",
}
LOW = {
    "whole": unscaled(-MOST),
    "parts": unscaled(-MOST),
    "day": -719_162,
    "local": -62_135_596_800_000_000,
    "instant": "0001-01-01T00:00:00Z",
    "clock": 0,
    "f": -1.7976931348623157e308,
}
HIGH = {
    "whole": unscaled(MOST),
    "parts": unscaled(MOST),
    "day": 2_932_896,
    "local": 253_402_300_799_999_999,
    "instant": "9999-12-31T23:59:59.999999Z",
    "clock": 86_400_000_000,
    "f": 1.7976931348623157e308,
}
AT_LOW = {
    "whole": Decimal(-MOST),
    "parts": Decimal(f"-0.{MOST}"),
    "day": date.min,
    "local": datetime.min,
    "instant": datetime.min.replace(tzinfo=UTC),
    "clock": "00:00:00.000000",
    "f": -1.7976931348623157e308,
}
AT_HIGH = {
    "whole": Decimal(MOST),
    "parts": Decimal(f"0.{MOST}"),
    "day": date.max,
    "local": datetime.max,
    "instant": datetime.max.replace(tzinfo=UTC),
    "clock": "24:00:00.000000",
    "f": 1.7976931348623157e308,
}


def limits(lake: Lake) -> dict[int, dict[str, Any]]:
    return {key: {n: row[n] for n in ("v", *AT_LOW)} for key, row in lake.by_key("lake.t", "id").items()}


def told(op: str, lsn: int, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> dict[str, Any]:
    return with_schema(event(op, lsn, after, before), **LIMITS)


@long_only
def test_decimals_and_times_at_their_limits_come_through_updates_held_values_and_key_changes(lake: Make) -> None:
    one = lake(config())
    one.land([told("c", 10, {"id": 1, "v": "low", **LOW}), told("c", 11, {"id": 2, "v": "high", **HIGH})])
    assert limits(one) == {1: {"v": "low", **AT_LOW}, 2: {"v": "high", **AT_HIGH}}
    one.land([told("u", 30, {"id": 1, "v": GONE, **LOW}), told("u", 31, {"id": 2, "v": GONE, **HIGH})])
    # Late full updates fill only what is held: the rest of the row is written again as it is in the table.
    one.land([told("u", 20, {"id": 1, "v": "late", **HIGH}), told("u", 21, {"id": 2, "v": "late", **LOW})])
    assert limits(one) == {1: {"v": "late", **AT_LOW}, 2: {"v": "late", **AT_HIGH}}
    # Key changes are folded on the driver, in order and out of order.
    one.land([told("d", 40, None, {"id": 1, "v": None}), told("c", 40, {"id": 3, "v": GONE, **LOW})])
    one.land([told("c", 41, {"id": 4, "v": GONE, **HIGH})])
    one.land([told("d", 41, None, {"id": 2, "v": None})])
    assert limits(one) == {3: {"v": "late", **AT_LOW}, 4: {"v": "late", **AT_HIGH}}


@long_only
def test_a_key_change_keeps_instants_whatever_the_time_zone_of_the_job(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lake(config("key: [id], columns: {at: timestamptz}"))
    first, second = "2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z"  # both are half past two in Berlin
    one.land([event("c", 10, {"id": 1, "v": "a", "at": first}), event("c", 11, {"id": 2, "v": "b", "at": second})])
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for n, at in ((1, first), (2, second)):
            gone = event("d", 20 + n, None, {"id": n, "v": None, "at": None})
            one.land([gone, event("c", 20 + n, {"id": n + 10, "v": GONE, "at": at})])
        one.land([event("u", 40, {"id": 12, "v": GONE, "at": GONE})])
        one.land([event("d", 50, None, {"id": 12, "v": None}), event("c", 50, {"id": 22, "v": GONE, "at": GONE})])
    finally:
        monkeypatch.undo()
        time.tzset()
    rows = {key: (row["v"], row["at"]) for key, row in one.by_key("lake.t", "id").items()}
    assert rows == {11: ("a", datetime.fromisoformat(first)), 22: ("b", datetime.fromisoformat(second))}


@long_only
@pytest.mark.parametrize("step", ["converted", "look_again"])
def test_a_job_that_died_while_a_column_got_a_type_is_followed_by_one_that_needs_another(
    lake: Make, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": 1, "n": 1}), event("u", 12, {"id": 1, "v": GONE, "n": 1})])
    one.land([event("d", 13, None, {"id": 9, "v": 1, "n": 9})])
    one.post([event("c", 20, {"id": 2, "v": 1.5, "n": 1.5})])
    one.seal()
    one.post([event("c", 30, {"id": 3, "v": "text", "n": "text"})])
    one.seal()
    died = 0

    def die(*arguments: Any) -> Any:
        nonlocal died
        died += 1
        if step == "converted" or died == 2:  # before the values are rewritten, or after that
            raise Died
        return real(*arguments)

    owner: Any = retype if step == "converted" else Tables
    real = getattr(owner, step)
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, die)
        with pytest.raises(Died):
            one.commit(3)
    assert one.commit(3, 4) == 0, [line.get("error") for line in one.lines]
    assert {key: row["n"] for key, row in one.by_key("lake.t", "id").items()} == {1: "1", 2: "1.5", 3: "text"}
    assert set(one.rows("lake.t")[0]) == {"id", "v", "n", "_firn_pos", "_firn_ts", "_firn_held"}
    # What the first row holds it still holds: a late value fills it.
    one.land([event("u", 11, {"id": 1, "v": "late", "n": 0})])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {1: "late", 2: "1.5", 3: "text"}


def test_beyond_their_limits_times_are_null_and_decimals_dead_letters(lake: Make) -> None:
    one = lake(config())
    over = {"day": 2_932_897, "local": 253_402_300_800_000_000, "instant": "0001-01-01T00:00:00+01:00"}
    one.land(
        [
            told("c", 10, {"id": 1, "v": "times", **HIGH, **over}),
            told("c", 11, {"id": 2, "v": "digits", **HIGH, "whole": unscaled(MOST + 1)}),
        ]
    )
    assert limits(one) == {1: {"v": "times", **AT_HIGH, **dict.fromkeys(over)}}
    assert [letter.reason for letter in letters(one)] == ["type_mismatch"]


def test_an_epoch_without_a_change_commits_nothing_and_makes_its_cut(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    one.land([{"op": "m", "source": event("c", 11)["source"], "message": {"prefix": "p", "content": ""}, "ts_ms": 1}])
    assert len(one.snapshots("lake.t")) == 1
    cut = cuts.read(one.store, "spec", 2)
    assert cut is not None
    assert cut.tables == {"lake.t": one.catalog.load_table(("lake", "t")).metadata.current_snapshot_id}
    one.land([event("u", 20, {"id": 1, "v": "b"})])
    assert [row["v"] for row in one.rows("lake.t")] == ["b"]
    assert [said["firn.epoch.spec"] for said in one.snapshots("lake.t")] == ["1", "3"]
