"""How long a reader stays, how long it waits, and what it says of its source."""

from datetime import datetime, timedelta

import msgspec
import obstore.store
import pytest

from firn.config.model import BacklogLimit
from firn.config.reader import parse
from firn.errors import ConfigError, TransientError
from firn.log import backlog_gate, layout, published_configs, pulls
from firn.log.backlog_gate import Gate, judged
from firn.log.published_configs import CurrentConfig
from firn.log.store import put
from firn.sources.database_port import OpenTransaction, SourceBusy, SourceStopped
from firn.sources.poller import DECODING_SHARE, SHORTEST_WAIT, Poller, read_status
from firn.sources.pull import PullTask
from tests.unit.sources import wal
from tests.unit.sources.test_pull import CONFIG, START, inserts, staged
from tests.unit.sources.wal import ITEMS, Wal


class Time:
    """A clock that goes on when somebody sleeps, and a little with each look; `decoding`: what a peek takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []
        self.then: list = []

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        if self.then:
            self.then.pop(0)()


class SlowWal(Wal):
    """A database that takes a while to decode."""

    time: Time
    takes = 0.0

    def peek(self, upto: int, publication: str):
        self.time.seconds += self.takes
        yield from super().peek(upto, publication)

    def oldest_transaction(self):
        return OpenTransaction(700.0, "process 7 of app (batch), idle in transaction")


def poller(time: Time, log: SlowWal, store, left: float = 600.0, config=None) -> Poller:
    log.time = time
    source = CONFIG.sources["shop"]
    task = PullTask(store, source, time.now, 1 << 20, clock=time.clock)
    end = time.seconds + left
    return Poller(
        task, config or (lambda: CONFIG), Gate(store, clock=time.clock), time.sleep, lambda: end - time.seconds
    )


def test_it_stays_until_nothing_comes_and_says_how_the_source_is() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()
    inserts(log, 1, 3)
    time.then = [lambda: None] * 10 + [lambda: inserts(log, 10, 2)]
    done = poller(time, log, store).run(lambda: log)
    assert (done.plans, done.changes, done.batches, done.ended) == (2, 5, 2, "")
    assert 60 <= time.seconds < 65  # 50 s after the last change
    assert set(time.slept) == {SHORTEST_WAIT}
    status = read_status(store, "shop", "shop")
    assert status is not None
    assert (status.plan, status.lag, status.wal_status, status.stopped) == (2, 0, "reserved", "")
    assert (status.oldest, status.oldest_seconds) == ("process 7 of app (batch), idle in transaction", 700.0)
    assert datetime.fromisoformat(status.read_all) > START + timedelta(seconds=40)


def test_it_waits_twice_as_long_as_the_database_decoded_and_stays_in_touch_meanwhile() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()
    log.takes = 50.0
    inserts(log, 1, 1)
    looks = []
    look = log.look
    log.look = lambda: looks.append(time.seconds) or look()
    poller(time, log, store, left=200.0).run(lambda: log)
    assert time.slept[:2] == [60.0, DECODING_SHARE * 50.0 - 60.0]
    assert 110.0 in looks


def test_it_goes_before_its_time_is_up() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()
    time.then = [lambda: inserts(log, len(time.slept), 1) for _ in range(100)]
    done = poller(time, log, store, left=10.0).run(lambda: log)
    assert 8 < done.plans <= 11
    assert time.seconds <= 10.0


def test_while_the_backlog_is_full_nothing_is_read() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()
    inserts(log, 1, 3)

    def fill(size: int) -> None:
        state = judged("shop", 1, 1, size, time.now(), BacklogLimit(bytes=100), time.now())
        put(store, layout.state_path("shop"), backlog_gate.encode(state))

    fill(1000)
    time.then = [lambda: None, lambda: None, lambda: fill(10)]
    said = []
    time.then[1] = lambda: said.append(read_status(store, "shop", "shop").waits)
    done = poller(time, log, store).run(lambda: log)
    assert "backlog is full" in said[0]
    assert log.peeked > 0
    assert done.changes == 3


def test_another_reader_a_stopped_source_and_a_broken_connection() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()

    def raising(error: Exception):
        def connect():
            raise error

        return connect

    assert poller(time, log, store).run(raising(SourceBusy("taken"))).ended == "taken"
    assert read_status(store, "shop", "shop") is None
    done = poller(time, log, store).run(raising(SourceStopped("look there")))
    assert done.ended == "look there"
    assert read_status(store, "shop", "shop").stopped == "look there"
    done = poller(time, log, store).run(raising(ConfigError("the password is wrong")))
    assert read_status(store, "shop", "shop").stopped == done.ended == "the password is wrong"
    with pytest.raises(TransientError):
        poller(time, log, store).run(raising(TransientError("away")))
    assert read_status(store, "shop", "shop").waits == "away"
    assert read_status(store, "shop", "other") is None


def test_a_reader_whose_source_was_changed_makes_room_for_the_next() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()
    other = parse(CONFIG.text.replace("slot: firn_shop", "slot: firn_2"))
    configs = iter([CONFIG, CONFIG, CONFIG])
    done = poller(time, log, store, config=lambda: next(configs, other)).run(lambda: log)
    assert "something else" in done.ended
    assert time.seconds < 10


def test_what_cannot_be_read_of_a_state_is_nothing() -> None:
    store = obstore.store.MemoryStore()
    put(store, layout.pull_state_path("shop", "shop"), b"{")
    assert read_status(store, "shop", "shop") is None
    assert pulls.newest(store, "shop", "shop") is None


def test_what_is_committed_after_a_publish_is_read_by_its_publication_though_connecting_took_long() -> None:
    time, log, store = Time(), SlowWal(), obstore.store.MemoryStore()
    log.tables[99] = msgspec.structs.replace(ITEMS, oid=99, table="more")
    log.published = {"firn": {ITEMS.oid}, "wide": {ITEMS.oid, 99}}
    more = "{public.more: {to: shop.more, key: [id]}, public.items: "
    published_configs.publish(store, CONFIG.text.replace("{public.items: ", more))
    current = CurrentConfig(store, clock=time.clock)

    def read(connect) -> None:
        source = current().sources["shop"]
        task = PullTask(store, source, time.now, 1 << 20, clock=time.clock)
        end = time.seconds + 600
        Poller(task, current, Gate(store, clock=time.clock), time.sleep, lambda: end - time.seconds).run(connect)

    def slow():
        text = published_configs.current(store).text.replace("publication: firn", "publication: wide")
        published_configs.publish(store, text)
        time.seconds += 3  # `firn publish` has returned
        log.commit(wal.insert(99, (b"7", b"after")))
        inserts(log, 1, 1)
        return log

    log.time = time
    read(slow)
    read(lambda: log)
    assert sorted(row["table"] for _, rows in staged(store) for row in rows) == ["public.items", "public.more"]
