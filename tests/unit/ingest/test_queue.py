"""Each queue message is staged once, however it is delivered, and wherever a delivery dies."""

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from firn.changes.envelopes.limits import EventLimits
from firn.config.model import Config
from firn.errors import FirnError, RequestError, StorageUnavailable, UnknownOutcome
from firn.ingest.queue import PATIENCE, Message, Taken, is_void, take
from firn.log import epochs, layout
from firn.log.batches import read_meta
from firn.log.dead_letters.letters import read_dead
from firn.log.store import Store, get, paths
from tests.unit.log.interrupted_store import Died, InterruptedStore, When
from tests.unit.log.storage_faults import LOST, Fault, FaultyStore

Event = Callable[..., dict[str, Any]]
Send = Callable[..., Taken]
NAMES = ("a", "b", "c", "d", "e")
LATER = PATIENCE + timedelta(seconds=1)


@pytest.fixture
def message(event: Event) -> Callable[..., Message]:
    """The message with that name: its one event has the name's number as id."""
    return lambda name, **how: Message(name, json.dumps(event(NAMES.index(name) + 1, **how)).encode())


@pytest.fixture
def send(config: Config, now: datetime, message: Callable[..., Message]) -> Send:
    """Delivers messages by name, `after` the start."""

    def deliver(store: Store, names: str, after: timedelta = timedelta(0)) -> Taken:
        return take(store, config, "shop", [message(name) for name in names], now=now + after)

    return deliver


def landed(store: Store) -> Counter[str]:
    """How often each message is in the staged batches, by name. Each batch is in one epoch, as sealing sees it."""
    found: Counter[str] = Counter()
    for path in paths(store, "staged/shop"):
        data = get(store, path)
        assert data is not None
        for row in pq.read_table(io.BytesIO(data)).to_pylist():
            found[NAMES[json.loads(row["after"])["id"] - 1]] += 1
    return found


def test_a_message_that_comes_again_is_left_out(send: Send) -> None:
    store = FaultyStore()
    first = send(store, "abc")
    again = send(store, "cab", after=LATER)
    assert first.batch is not None
    assert (first.batch.accepted, first.duplicates, first.again) == (3, [], [])
    assert (again.batch, again.duplicates, again.again) == (None, [0, 1, 2], [])
    assert landed(store) == Counter("abc")
    assert len(paths(store, "staged")) == 1


def test_a_batch_is_staged_after_the_receipts_of_its_messages(send: Send) -> None:
    store = FaultyStore()
    send(store, "abc")
    assert [path.partition("/")[0] for path in store.puts] == ["receipts"] * 3 + ["staged"]


def test_messages_regrouped_with_new_ones_are_told_apart(send: Send) -> None:
    store = FaultyStore()
    send(store, "ab")
    mixed = send(store, "bcd", after=LATER)
    assert mixed.batch is not None
    assert (mixed.batch.accepted, mixed.duplicates, mixed.again) == (2, [0], [])
    assert landed(store) == Counter("abcd")


def test_a_message_twice_in_one_delivery_is_staged_once(send: Send) -> None:
    store = FaultyStore()
    done = send(store, "aba")
    assert done.batch is not None
    assert (done.batch.accepted, done.duplicates) == (2, [2])
    assert landed(store) == Counter("ab")


def test_a_message_without_an_id_is_staged_each_time(config: Config, now: datetime, message: Any) -> None:
    store = FaultyStore()
    nameless = [message("a")._replace(id=None), message("b")]
    for _ in range(2):
        take(store, config, "shop", nameless, now=now)
    assert landed(store) == Counter("aab")


def test_ids_of_different_streams_do_not_meet(config: Config, now: datetime, message: Any) -> None:
    store = FaultyStore()
    two = Config(**{**vars(config), "streams": {"shop": config.streams["shop"], "other": config.streams["shop"]}})
    for stream in two.streams:
        assert take(store, two, stream, [message("a")], now=now).batch is not None


def test_an_unknown_stream_claims_nothing(config: Config, now: datetime, message: Any) -> None:
    store = FaultyStore()
    with pytest.raises(RequestError) as caught:
        take(store, config, "nobody", [message("a")], now=now)
    assert (caught.value.status, store.puts) == (404, [])


def test_an_id_that_comes_with_another_body_is_a_dead_letter_once(config: Config, now: datetime, message: Any) -> None:
    store = FaultyStore()
    take(store, config, "shop", [message("a")], now=now)
    other = message("b")._replace(id="a")
    done = take(store, config, "shop", [other, message("c")], now=now + LATER)
    assert done.batch is not None
    assert (done.batch.accepted, done.batch.rejected, done.duplicates) == (1, 1, [])
    (letter,) = read_dead(store, layout.batch_dead_path(done.batch.batch_id))
    assert (letter.reason, letter.original, letter.index) == ("message_conflict", other.body, 0)
    assert "id a came before with another body" in letter.message
    again = take(store, config, "shop", [other, message("a")], now=now + 2 * LATER)
    assert (again.batch, again.duplicates) == (None, [0, 1])
    assert landed(store) == Counter("ac")


def test_two_bodies_under_one_id_in_one_delivery_are_one_row_and_one_dead_letter(
    config: Config, now: datetime, message: Any
) -> None:
    store = FaultyStore()
    done = take(store, config, "shop", [message("a"), message("b")._replace(id="a")], now=now)
    assert done.batch is not None
    assert (done.batch.accepted, done.batch.rejected) == (1, 1)


def test_an_unreadable_message_is_dead_lettered_once(config: Config, now: datetime) -> None:
    store = FaultyStore()
    bad = [Message("x", b"\xff nonsense")]
    done = take(store, config, "shop", bad, now=now)
    assert done.batch is not None
    assert done.batch.rejected == 1
    assert take(store, config, "shop", bad, now=now + LATER).duplicates == [0]
    assert len(paths(store, "dead")) == 1


def test_messages_of_a_delivery_that_may_still_be_at_work_come_again(send: Send) -> None:
    store = MemoryStore()
    with pytest.raises(Died):
        send(InterruptedStore(store, at=4), "abc")  # three receipts, no batch
    early = send(store, "abcd", after=PATIENCE - timedelta(seconds=1))
    assert early.batch is not None
    assert (early.batch.accepted, early.again) == (1, [0, 1, 2])
    late = send(store, "abc", after=PATIENCE)
    assert late.batch is not None
    assert (late.batch.accepted, late.again) == (3, [])
    assert landed(store) == Counter("abcd")


def test_a_dead_delivery_is_not_waited_for_when_its_clock_was_an_hour_ahead(send: Send) -> None:
    store = MemoryStore()
    with pytest.raises(Died):
        send(InterruptedStore(store, at=2), "a", after=timedelta(hours=1))
    assert send(store, "a").again == []
    assert landed(store) == Counter("a")


def test_a_delivery_that_was_taken_for_dead_stages_nothing_and_its_messages_come_again(send: Send) -> None:
    store = MemoryStore()
    other: list[Taken] = []
    paused = InterruptedStore(store, at=4, act=lambda: other.append(send(store, "cd", after=LATER)))
    done = send(paused, "abc")
    assert (done.batch, done.again) == (None, [0, 1, 2])
    assert other[0].batch is not None
    assert other[0].batch.accepted == 2
    assert landed(store) == Counter("cd")
    (void,) = [path for path in paths(store, "staged") if other[0].batch.batch_id not in path]
    meta = read_meta(store, void)
    assert meta is not None
    assert is_void(meta)
    healed = send(store, "abc", after=2 * LATER)
    assert healed.duplicates == [2]
    assert landed(store) == Counter("abcd")


def test_void_batches_are_sealed_as_empty_ones(send: Send, now: datetime) -> None:
    store = MemoryStore()
    with pytest.raises(Died):
        send(InterruptedStore(store, at=2), "a")
    send(store, "a", after=LATER)
    found = epochs.candidates(store, "shop", now + LATER)
    assert [batch.events for batch in found.batches] == [0, 1]
    assert [meta.tables for meta in found.metas] == [{}, {"public.orders": 1}]


def calls_of(send: Send, names: str) -> int:
    """How many I/O calls a delivery makes."""
    counting = InterruptedStore(MemoryStore())
    send(counting, names)
    return counting.calls


@pytest.mark.parametrize("when", get_args(When))
@pytest.mark.parametrize("died_before", [False, True])
def test_wherever_a_delivery_dies_each_message_lands_once(send: Send, when: When, died_before: bool) -> None:
    at = clean = 0
    while not clean:
        at += 1
        store = MemoryStore()
        if died_before:  # what the delivery meets are the receipts of another one that died
            with pytest.raises(Died):
                send(InterruptedStore(store, at=3), "ab", after=-LATER)
        try:
            send(InterruptedStore(store, at, when), "abcd")
            clean = at
        except Died:
            pass
        before = landed(store)
        assert set(before.values()) <= {1}, f"died {when} call {at}"
        settle(send, store, ("ca", "de", "b"))
        assert landed(store) == Counter("abcde"), f"died {when} call {at}"
    assert clean == at >= 6, "four receipts and a batch at the least were interrupted"


@pytest.mark.parametrize("when", get_args(When))
@pytest.mark.parametrize("pause", [timedelta(0), LATER])
def test_twin_deliveries_stage_each_message_once(send: Send, when: When, pause: timedelta) -> None:
    """One stops at each of its calls, the other runs through; a short stop and one that looks like death."""
    for at in range(1, calls_of(send, "abcd") + 1):
        store = MemoryStore()
        paused = InterruptedStore(store, at, when, lambda store=store: send(store, "cab", after=pause))  # type: ignore[misc]
        send(paused, "abcd")
        assert set(landed(store).values()) <= {1}, f"paused {when} call {at}"
        settle(send, store, ("abcd", "e"))
        assert landed(store) == Counter("abcde"), f"paused {when} call {at}"


@pytest.mark.parametrize("fault", get_args(get_args(Fault)[0]))
@pytest.mark.parametrize("times", [1, 2, 3])
def test_failing_puts_cost_no_message_and_double_none(
    send: Send, monkeypatch: pytest.MonkeyPatch, fault: Fault, times: int
) -> None:
    monkeypatch.setattr("firn.log.store._PAUSES", (0.0, 0.0))
    for at in range(10):
        store = FaultyStore(*[None] * at, *[fault] * times)
        with suppress(StorageUnavailable, UnknownOutcome):
            send(store, "abcd")
        store.faults.clear()
        settle(send, store, ("ca", "db", "e"))
        assert landed(store) == Counter("abcde"), f"{times} puts from {at} on were {fault}"


class UnclearStore(FaultyStore):
    """The first object written below `folder` is there, and no answer about it ever comes."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder: str | None = folder
        self.unclear = ""

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        if path == self.unclear:
            raise LOST
        result = super().put(path, file, mode=mode)
        if self.folder and path.startswith(self.folder) and not self.unclear:
            self.unclear = path
            raise LOST
        return result


@pytest.mark.parametrize("folder", ["receipts", "staged"])
def test_a_claim_or_a_batch_whose_outcome_stays_unclear_costs_no_message(
    send: Send, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr("firn.log.store._PAUSES", (0.0, 0.0))
    store = UnclearStore(folder)
    with pytest.raises(UnknownOutcome):
        send(store, "abcd")
    assert bool(landed(store)) == (folder == "staged"), "a batch without the unclear message would lose it"
    store.folder, store.unclear = None, ""
    settle(send, store, ("ab", "cde"))
    assert landed(store) == Counter("abcde")


def test_while_storage_is_away_nothing_is_taken(send: Send) -> None:
    store = FaultyStore()
    store.away = True
    with pytest.raises(FirnError):
        send(store, "ab")
    store.away = False
    send(store, "ab", after=LATER)
    assert landed(store) == Counter("ab")


def settle(send: Send, store: Store, groups: Sequence[str]) -> None:
    """The queue brings the groups until none comes again, a visibility time-out apart."""
    waiting = list(groups)
    for round_ in range(1, 6):
        left = []
        for group in waiting:
            done = send(store, group, after=2 * round_ * LATER)
            left.append("".join(group[place] for place in done.again))
        waiting = [group for group in left if group]
        if not waiting:
            return
    pytest.fail(f"{waiting} comes again for ever")


LIMITS = EventLimits(events=20, alone=5)


def test_a_message_of_too_many_events_is_one_dead_letter_beside_the_good_ones(
    config: Config, now: datetime, message: Callable[..., Message]
) -> None:
    store = FaultyStore()
    large = Message("x", b"[" + b",".join([b"{}"] * 6) + b"]")
    done = take(store, config, "shop", [message("a"), large, message("b")], now=now, limits=LIMITS)
    assert done.batch is not None
    assert (done.batch.accepted, done.batch.rejected, done.again) == (2, 1, [])
    (path,) = paths(store, "dead/shop")
    (letter,) = read_dead(store, path)
    assert (letter.reason, letter.original) == ("too_many_events", large.body)
    assert landed(store) == {"a": 1, "b": 1}


def test_messages_that_are_too_many_together_come_again_and_are_staged_once(
    config: Config, now: datetime, message: Callable[..., Message]
) -> None:
    store = FaultyStore()
    full = [Message(f"x{n}", b"[" + b",".join([b"{}"] * 3) + b"]") for n in range(3)]
    left = [message("a"), *full, message("b")]
    deliveries = 0
    while left:
        done = take(store, config, "shop", left, now=now + timedelta(minutes=deliveries), limits=LIMITS)
        assert done.duplicates == []
        left = [left[place] for place in done.again]
        deliveries += 1
    assert deliveries == 3
    assert landed(store) == {"a": 1, "b": 1}
    assert sum(len(read_dead(store, path)) for path in paths(store, "dead/shop")) == 9
