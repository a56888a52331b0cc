"""The backlog's state and the gate that ingest keeps by it."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from obstore.store import MemoryStore

from firn.config.model import BacklogLimit, Config, StreamConfig
from firn.ingest.accept import accept
from firn.log import backlog, backlog_gate, cuts, epochs, holds, layout
from firn.log.backlog_gate import Gate, judged, refusal
from firn.log.holds import Quarantine
from firn.log.published_configs import publish
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


RATE = 100_000
PACED = "streams: {shop: {rate: 100KB/s, tables: {'*': {to: 'x.{table}', mode: append}}}}"
PART = b'{"op":"c","before":null,"after":{"text":"%s"},"source":{"table":"t"}}' % (b"x" * 9_930)


def test_a_process_takes_the_bytes_of_its_streams_rate_within_a_tenth() -> None:
    clock = [0.0]
    gate = Gate(FaultyStore(), clock=lambda: clock[0])
    taken = dict.fromkeys(("a", "b"), 0)
    while clock[0] < 30:
        for stream in taken:
            taken[stream] += 0 if gate.pace(stream, RATE, 7_000) else 7_000
        assert gate.pace("free", None, 10**9) == 0
        clock[0] += 0.01
    assert all(0.9 * 30 * RATE <= one <= 1.1 * 30 * RATE for one in taken.values()), taken
    clock[0] += 1
    assert gate.pace("a", RATE, 50 * RATE) == 0, "it may be larger than the bucket"
    assert 45 <= gate.pace("a", RATE, 1) <= 51
    assert gate.pace("a", 2 * RATE, 1) == 0, "another rate counts at once"


def test_all_processes_together_come_to_the_streams_rate(now: datetime) -> None:
    """Each of four instances would take the rate; what dispatch counts shuts the gate until the mean is right."""
    store, minutes = MemoryStore(), 40
    config = publish(store, PACED)
    clock, taken = [0.0], 0
    gates = [Gate(store, clock=lambda: clock[0]) for _ in range(4)]
    for second in range(minutes * 60):
        clock[0] = float(second)
        when = now + timedelta(seconds=second)
        if second % 60 == 0:
            found = epochs.candidates(store, "shop", when, above=cuts.newest(store, "shop"))
            if found.batches:
                epochs.seal(store, "shop", found, now=when, config=config.sha, nonce="x")
            backlog.tell(store, config.streams["shop"], when)
        if second % 20:
            continue
        for gate in gates:  # twenty seconds' bytes of each at once
            if gate.shut("shop", when) is None and not gate.pace("shop", RATE, 20 * RATE):
                accept(store, config, "shop", b"[" + b",".join([PART] * 200) + b"]", now=when)
                taken += 200 * len(PART)
    mean = taken / (minutes * 60)
    # The credit of three minutes, and what comes before dispatch knows.
    assert 0.9 * RATE <= mean <= 1.3 * RATE, mean
    state = backlog_gate.read(store, "shop")
    assert state is not None
    assert (state.rate, state.over) == (RATE, False)


def test_a_stream_above_its_rate_says_how_long(now: datetime) -> None:
    state = replace(judged("shop", 0, 0, 0, None, BacklogLimit(), now), rate=RATE, debt=30.0 * RATE)
    store = FaultyStore()
    put(store, layout.state_path("shop"), backlog_gate.encode(state))
    found = Gate(store).shut("shop", now + timedelta(seconds=10))
    assert found is not None
    error = refusal(found, now + timedelta(seconds=10))
    assert (error.status, error.code, error.retry_after) == (429, "rate_exceeded", 20)
    assert "streams.shop.rate in firn.yaml" in str(error)
    assert Gate(store).shut("shop", now + timedelta(seconds=31)) is None, "it opens by itself"


def test_nothing_is_stored_of_bytes_without_a_rate(now: datetime) -> None:
    store = MemoryStore()
    config = publish(store, PACED.replace("rate: 100KB/s, ", ""))
    accept(store, config, "shop", PART, now=now)
    found = epochs.candidates(store, "shop", now)
    assert [meta.json for meta in found.metas] == [0]
    assert b"json" not in epochs.encode(found.batches)
