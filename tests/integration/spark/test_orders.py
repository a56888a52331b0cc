"""Tables of sources with orders of their own kinds, whichever way a range is committed."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firn.config.names import TableName
from firn.tables.table_state import BY_NUMBER, FLOOR
from firn_lake.lake import Lake as Reader
from firn_spark.maintenance.delete_memory_expiry import GRACE, forget
from firn_spark.merge.facts_table import KEEP
from firn_spark.tables.evolve import Table, Tables
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event, letters
from tests.soak import long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
HEAD = "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n"
DOCUMENTS = HEAD + "    tables:\n      shop.o: {to: lake.t, key: [_id]}\n"
COUNTED = HEAD + "    order_by: version\n    tables:\n      t: {to: lake.t, key: [id]}\n"
TIMED = HEAD + "    order_by: at\n    tables:\n      t: {to: lake.t, key: [id], columns: {at: timestamptz}}\n"
FACTS = TableName("lake", "t__deletes")


@pytest.fixture(params=["0", ""], ids=["slices", "driver"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, lake: Make) -> Make:
    """Lakes whose ranges are Spark's, and lakes whose small ranges are the driver's."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", request.param)
    return lake


def document(op: str, after: Any, time: int, place: int, before: Any = None, **more: Any) -> dict[str, Any]:
    source = {"connector": "mongodb", "db": "shop", "collection": "o", "ts_ms": time, "ord": place, **more}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": time}


def own(op: str, after: Any = None, before: Any = None) -> dict[str, Any]:
    source = {"connector": "custom", "table": "t", "ts_ms": 1}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


def flat(lsn: int, op: str = "u", **row: Any) -> dict[str, Any]:
    told = {"__op": op, "__table": "t", "__schema": "app", "__lsn": lsn, "__source_ts_ms": 1_700_000_900_000}
    return {**row, **told}


def facts_of(one: Lake) -> Table:
    found = Tables(one.spark).load(FACTS)
    assert found is not None
    return found


def test_the_last_change_of_a_mongodb_transaction_wins(either: Make) -> None:
    one = either(DOCUMENTS)

    def of(op: str, after: Any, number: int, before: Any = None) -> dict[str, Any]:
        made = document(op, after, 1_700_000_000_000, 1, before, lsid="x", txnNumber=1)
        return made | {"transaction": {"id": "x:1", "total_order": number, "data_collection_order": number}}

    events = [of("u", {"_id": n, "v": v}, 2 * n + k) for n in range(8) for k, v in enumerate(("first", "second"), 1)]
    one.land([of("d", None, 101, {"_id": 9}), *reversed(events), of("c", {"_id": 9, "v": "gone"}, 100)])
    one.land(events[:1])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "_id").items()} == dict.fromkeys(range(8), "second")


def test_a_failover_to_a_slower_clock_loses_no_mongodb_change(either: Make) -> None:
    one = either(DOCUMENTS)
    for version, name in (("3.3.0.Final", "cluster"), ("3.4.0.Final", "wall")):
        for n, wall in enumerate((1_700_000_010_500, 1_700_000_009_000)):
            time = wall if name == "wall" else 1_700_000_010_000
            one.land([document("u", {"_id": name, "v": n}, time, 3 + n, wallTime=wall, version=version)])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "_id").items()} == {"cluster": 1, "wall": 1}


@long_only
def test_a_change_with_an_lsn_alone_counts_after_those_that_told_their_commit(either: Make) -> None:
    one = either(config(stream="    envelope: auto\n"))
    one.land([event("c", 1_000, {"id": n, "v": "full"}) for n in (1, 2, 3)])
    one.post([flat(2_000, id=1, v="flat"), flat(900, id=2, v="late"), flat(2_001, "d", id=3)])
    fresh = Reader(one.catalog, lambda: one.store).table("lake.t").read(["id", "v"], fresh=True).pylist()
    assert one.commit(one.seal()) == 0
    assert {row["id"]: row["v"] for row in fresh} == {1: "flat", 2: "full"}, "a fresh read has it before the commit"
    one.land([event("u", 3_000, {"id": 1, "v": "full again"}, commit=2_500), flat(1_500, id=3, v="late")])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {1: "full again", 2: "full"}
    assert not letters(one)


def test_of_the_first_range_too_whose_changes_partly_tell_their_commits(either: Make) -> None:
    one = either(config(stream="    envelope: auto\n"))
    one.land([flat(500, id=2, v="flat")])
    one.land([event("c", 1_000, {"id": 1, "v": "full"}), flat(2_000, id=1, v="flat"), flat(600, id=2, v="newer")])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {1: "flat", 2: "newer"}


@long_only
def test_what_order_by_can_not_place_is_a_dead_letter(either: Make) -> None:
    one = either(COUNTED)
    one.land([own("c", {"id": 1, "version": 10}), own("c", {"id": 2, "version": 1}), own("c", {"id": 3, "version": 1})])
    record = {"destination": "p.t", "key": {"id": 1}, "value": own("d")}
    one.land([record, own("t"), own("d", None, {"id": 2, "version": 2})])
    one.land([{"destination": "p.t", "key": {"id": 3, "version": 2}, "value": own("d")}])
    assert [row["id"] for row in one.rows("lake.t")] == [1]
    assert [letter.reason for letter in letters(one)] == ["no_order"] * 2
    assert one.line("lake.t")["status"] == "committed"


def test_an_append_table_takes_what_order_by_can_not_place(either: Make) -> None:
    one = either(COUNTED.replace("key: [id]", "mode: append"))
    gone = {"destination": "p.t", "key": {"id": 1}, "value": own("d")}
    one.land([own("c", {"id": 1, "version": 10}), own("t"), gone])
    assert sorted(row["_firn_op"] for row in one.rows("lake.t")) == ["c", "d", "t"]
    assert not letters(one)


def test_a_time_far_ahead_never_freezes_its_row(either: Make) -> None:
    one = either(TIMED)
    ahead = (one.now + timedelta(days=2)).isoformat()
    one.land([own("c", {"id": 1, "at": one.now.isoformat(), "v": "a"})])
    one.land([own("u", {"id": 1, "at": ahead, "v": "a clock was wrong"})])
    one.land([own("u", {"id": 1, "at": one.now.isoformat(), "v": "b"})])
    assert [row["v"] for row in one.rows("lake.t")] == ["b"]
    assert [letter.reason for letter in letters(one)] == ["future_order"]


def test_a_new_row_is_never_too_old_by_a_counter_of_another(either: Make) -> None:
    one = either(COUNTED)
    one.land([own("c", {"id": 1, "version": 500}), own("c", {"id": 7, "version": 1})])
    one.land([own("d", None, {"id": 1, "version": 501})])
    late = datetime.now(UTC) + KEEP + timedelta(minutes=5)
    for now in (late, late + GRACE):
        assert not forget(one.spark, Tables(one.spark), facts_of(one), now).raised
    one.land([own("c", {"id": 2, "version": 1}), own("u", {"id": 1, "version": 9})])
    assert sorted(row["id"] for row in one.rows("lake.t")) == [2, 7], "and the delete is remembered"
    assert not letters(one)


def test_a_floor_that_was_raised_among_counters_counts_for_nothing(either: Make) -> None:
    one = either(COUNTED)
    one.land([own("c", {"id": 1, "version": 500})])
    one.land([own("d", None, {"id": 1, "version": 501})])
    # As an older version left it.
    floor = max(bytes(row["_firn_pos"]) for row in one.rows(str(FACTS))).hex()
    Tables(one.spark).set_properties(facts_of(one), {FLOOR: floor, BY_NUMBER: "false"})
    one.land([own("c", {"id": 2, "version": 1})])
    assert [row["id"] for row in one.rows("lake.t")] == [2]


def test_the_floor_of_times_is_by_value(either: Make) -> None:
    one = either(TIMED)
    one.land([own("c", {"id": 1, "at": "2026-11-20T10:00:00Z"}), own("c", {"id": 7, "at": "2026-11-20T11:00:00Z"})])
    one.land([own("d", None, {"id": 1, "at": "2026-11-20T12:00:00Z"})])
    late = datetime.now(UTC) + KEEP + timedelta(minutes=5)
    assert forget(one.spark, Tables(one.spark), facts_of(one), late).raised
    assert forget(one.spark, Tables(one.spark), facts_of(one), late + GRACE).facts == 1
    one.land([own("u", {"id": 1, "at": "2026-11-20T11:30:00Z"}), own("c", {"id": 2, "at": "2026-11-20T12:30:00Z"})])
    assert sorted(row["id"] for row in one.rows("lake.t")) == [2, 7]
    assert [letter.reason for letter in letters(one)] == ["too_old"]


def test_deletes_of_a_column_that_is_no_time_are_never_forgotten(lake: Make) -> None:
    one = lake(TIMED.replace(", columns: {at: timestamptz}", ""))
    one.land([own("c", {"id": 1, "at": "2026-11-20T10:00:00Z"})])
    one.land([own("d", None, {"id": 1, "at": "2026-11-20T12:00:00Z"})])
    assert facts_of(one).state.properties[BY_NUMBER] == "true"
    late = datetime.now(UTC) + KEEP + timedelta(minutes=5)
    assert not forget(one.spark, Tables(one.spark), facts_of(one), late).raised
