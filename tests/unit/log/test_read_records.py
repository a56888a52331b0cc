"""Records of reads: few, equal ones of an hour are one, and summed up once."""

from datetime import UTC, datetime, timedelta

import obstore.store
import pytest

from firn.log import read_records, tiering_state
from firn.log.read_records import EVERYTHING, MOST_PARTITIONS
from firn.log.store import Store, paths, put
from firn.log.tiering_state import TierState

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def store() -> Store:
    found: Store = obstore.store.MemoryStore()
    return found


def record(store: Store, partitions: list[str], when: datetime) -> None:
    read_records.record(store, "shop.orders", "shop/orders", partitions, when)


def test_equal_reads_of_an_hour_are_one_record(store: Store) -> None:
    for minute in range(0, 30, 5):
        record(store, ["day=1", "day=2"], NOW + timedelta(minutes=minute - 30))
    record(store, ["day=2"], NOW)
    assert len(paths(store, "reads")) == 2


def test_records_are_summed_up_once_their_hour_is_over(store: Store) -> None:
    record(store, ["day=1"], NOW - timedelta(hours=30))
    record(store, ["day=2"], NOW - timedelta(hours=4))
    record(store, ["day=3"], NOW - timedelta(minutes=30))
    found, after = read_records.settled(store, "shop/orders", "", NOW)
    assert [one.partitions for one in found] == [("day=1",), ("day=2",)]
    assert found[1].at == datetime(2026, 3, 1, 8, tzinfo=UTC)
    # A reader's put that came late, into an hour that was not over, is not missed.
    record(store, ["a"], NOW - timedelta(minutes=40))
    later, _ = read_records.settled(store, "shop/orders", after, NOW + timedelta(hours=3))
    assert {one.partitions for one in later} == {("a",), ("day=3",)}
    assert read_records.settled(store, "shop/orders", after, NOW) == ([], after)


def test_many_partitions_are_the_whole_table(store: Store) -> None:
    record(store, [f"id={n}" for n in range(MOST_PARTITIONS + 1)], NOW)
    record(store, ["day=1", EVERYTHING], NOW)
    (one,), _ = read_records.settled(store, "shop/orders", "", NOW + timedelta(days=1))
    assert one.partitions == (EVERYTHING,)


def test_what_is_no_record_is_passed_over(store: Store) -> None:
    put(store, "reads/shop/orders/2026/02/01/00-abc.json", b"{")
    assert read_records.settled(store, "shop/orders", "", NOW) == ([], "reads/shop/orders/2026/02/01/00-abc.json")


def test_a_table_of_another_name_is_another_one(store: Store) -> None:
    record(store, ["day=1"], NOW - timedelta(days=1))
    assert read_records.settled(store, "shop/order", "", NOW) == ([], "")


def test_what_is_known_of_tiers_comes_back(store: Store) -> None:
    state = TierState("shop.orders", snapshot=7, tagged={"s3://a/b": "STANDARD_IA"}, cold={"day=1": (1, 5)})
    tiering_state.write(store, state, "shop/orders")
    assert tiering_state.read(store, "shop.orders", "shop/orders") == state
    assert tiering_state.read(store, "shop.other", "shop/other") == TierState("shop.other")


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"table": "shop.orders", "format": 99}'])
def test_what_can_not_be_read_is_as_if_nothing_was_known(store: Store, data: bytes) -> None:
    put(store, "tier/shop/orders.json", data)
    assert tiering_state.read(store, "shop.orders", "shop/orders") == TierState("shop.orders")
