"""The backlog's state and the gate that ingest keeps by it."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from obstore.store import MemoryStore

from firn.config.model import BacklogLimit, Config, StreamConfig
from firn.ingest.accept import accept
from firn.log import backlog, backlog_gate, cuts, epochs, holds, layout
from firn.log.backlog_gate import Gate, judged, refusal
from firn.log.holds import Quarantine
from firn.log.store import modified, put
from tests.unit.log.storage_faults import FaultyStore

MINUTE = timedelta(minutes=1)
LIMIT = BacklogLimit(bytes=1_000, events=10, age_seconds=60)


@pytest.mark.parametrize(
    ("size", "events", "age", "over"),
    [(1_000, 10, 60, False), (1_001, 0, 0, True), (0, 11, 0, True), (0, 0, 61, True)],
)
def test_a_stream_is_shut_once_one_of_its_limits_is_passed(
    now: datetime, size: int, events: int, age: int, over: bool
) -> None:
    assert judged("shop", 1, events, size, now - timedelta(seconds=age), LIMIT, now).over is over


def test_a_limit_that_is_not_set_is_never_passed(now: datetime) -> None:
    assert not judged("shop", 1, 10**9, 1, now - timedelta(days=9), BacklogLimit(), now).over


def shut(store: FaultyStore | MemoryStore, when: datetime, stream: str = "shop") -> None:
    put(store, layout.state_path(stream), backlog_gate.encode(judged(stream, 3, 11, 5_000_000, when, LIMIT, when)))


def test_the_gate_is_shut_for_the_stream_whose_state_says_so(now: datetime) -> None:
    store = FaultyStore()
    shut(store, now)
    gate = Gate(store)
    assert gate.shut("shop", now + MINUTE)
    assert gate.shut("other", now) is None


def test_the_state_is_looked_at_once_in_five_seconds(now: datetime) -> None:
    store, clock = FaultyStore(), [100.0]
    gate = Gate(store, clock=lambda: clock[0])
    assert gate.shut("shop", now) is None
    shut(store, now)
    for _ in range(50):
        assert gate.shut("shop", now) is None
    assert store.reads == 1
    clock[0] += 5
    assert gate.shut("shop", now)
    assert store.reads == 2


def test_a_state_that_nobody_writes_any_more_shuts_nothing(now: datetime) -> None:
    """The dispatcher is dead: nobody knows the backlog, and the source shall not wait for ever."""
    store = FaultyStore()
    shut(store, now)
    gate = Gate(store, seconds=0)
    assert gate.shut("shop", now + backlog_gate.STALE)
    assert gate.shut("shop", now + backlog_gate.STALE + MINUTE) is None
    assert gate.shut("shop", now - backlog_gate.STALE - MINUTE) is None


@pytest.mark.parametrize("text", [b"", b"{}", b"no json", json.dumps({"format": 2, "over": True}).encode()])
def test_a_state_that_cannot_be_read_shuts_nothing(now: datetime, text: bytes) -> None:
    store = FaultyStore()
    put(store, layout.state_path("shop"), text)
    assert Gate(store).shut("shop", now) is None


def test_a_state_of_a_newer_format_shuts_nothing(now: datetime) -> None:
    store = FaultyStore()
    shut(store, now)
    there = json.loads(bytes(store.get(layout.state_path("shop")).bytes()))
    put(store, layout.state_path("shop"), json.dumps(there | {"format": 2}).encode())
    assert Gate(store).shut("shop", now) is None


def test_while_storage_is_away_the_gate_is_open_and_asks_no_more_often(now: datetime) -> None:
    store = FaultyStore()
    shut(store, now)
    store.away = True
    gate = Gate(store, clock=lambda: 0.0)
    assert gate.shut("shop", now) is None
    store.away = False
    assert gate.shut("shop", now) is None
    assert store.reads == 0


def test_the_refusal_says_what_waits_what_the_limit_is_and_what_to_do(now: datetime) -> None:
    told = refusal(judged("shop", 3, 11, 5_000_000, now - 2 * MINUTE, LIMIT, now), now)
    assert (told.status, told.code, told.retry_after) == (429, "backlog_full", 30)
    for part in ("5.0 MB staged (limit 0.0 MB)", "11 events (limit 10)", "120 s (limit 60 s)", "firn status"):
        assert part in str(told)


# What dispatch sees.


@pytest.fixture
def shop(config: Config) -> StreamConfig:
    return config.streams["shop"]


def stage(store: FaultyStore, config: Config, body: bytes, when: datetime) -> str:
    return accept(store, config, "shop", body, now=when).batch_id


def seal(store: FaultyStore, when: datetime) -> None:
    found = epochs.candidates(store, "shop", when)
    assert epochs.seal(store, "shop", found, now=when, config="c", nonce=str(when))


def test_the_backlog_is_what_is_staged_and_what_no_cut_covers(
    now: datetime, config: Config, shop: StreamConfig, body: Callable[..., bytes]
) -> None:
    store = FaultyStore()
    ids = []
    for n in range(3):
        ids.append(stage(store, config, body(n + 1), now + n * MINUTE))
        if n < 2:
            seal(store, now + n * MINUTE)
    cuts.write(store, cuts.make("shop", 1, "t", {}))
    found = backlog.look(store, "shop", now + 3 * MINUTE)
    assert [batch.id for batch in found.batches] == ids[1:]
    told = backlog.tell(store, shop, now + 3 * MINUTE)
    assert told is not None
    assert (told.batches, told.events, told.over) == (2, 5, False)
    assert told.bytes == sum(batch.bytes for batch in found.batches)
    since = modified(store, layout.staged_path(ids[1]))
    assert since is not None
    assert told.oldest == layout.instant(since), "by the storage's clock"
    assert backlog_gate.read(store, "shop") == told


def test_batches_without_a_change_are_no_backlog_that_is_old(
    now: datetime, config: Config, shop: StreamConfig, event: Callable[..., dict[str, object]]
) -> None:
    store = FaultyStore()
    stage(store, config, json.dumps(event(1, table="filtered")).encode(), now)
    told = backlog.tell(store, shop, now)
    assert told is not None
    assert (told.batches, told.events, told.oldest) == (1, 0, None)


def test_the_oldest_change_of_each_table_is_known(
    now: datetime, config: Config, event: Callable[..., dict[str, object]]
) -> None:
    store = FaultyStore()
    order = stage(store, config, json.dumps(event(1)).encode(), now)
    seal(store, now)
    customer = stage(store, config, json.dumps(event(2, table="customers")).encode(), now + MINUTE)
    stage(store, config, json.dumps([event(3), event(4, table="customers")]).encode(), now + 2 * MINUTE)
    first_of = backlog.look(store, "shop", now + 3 * MINUTE).first_of
    assert {table: batch.id for table, batch in first_of.items()} == {
        "public.orders": order, "public.customers": customer,
    }  # fmt: skip


def test_a_quarantined_epoch_shuts_nobody_out(now: datetime, config: Config, body: Callable[..., bytes]) -> None:
    store = FaultyStore()
    batch = stage(store, config, body(), now)
    seal(store, now)
    holds.hold(store, Quarantine(1, "shop", 1, layout.instant(now), "killed", "bad", "fix it"))
    assert backlog.look(store, "shop", now).batches == []
    assert [one.id for one in backlog.look(store, "shop", now, held=True).batches] == [batch]


def test_a_state_that_cannot_be_written_fails_nobody(now: datetime, shop: StreamConfig) -> None:
    store = FaultyStore()
    store.away = True
    assert backlog.tell(store, shop, now) is None
    backlog.reopen(store, shop, now)


def test_after_a_cut_only_a_shut_stream_is_told_again(
    now: datetime, config: Config, shop: StreamConfig, body: Callable[..., bytes]
) -> None:
    store = FaultyStore()
    backlog.reopen(store, shop, now)
    assert backlog_gate.read(store, "shop") is None
    shut(store, now)
    backlog.reopen(store, shop, now + MINUTE)
    told = backlog_gate.read(store, "shop")
    assert told is not None
    assert (told.over, told.batches) == (False, 0)
