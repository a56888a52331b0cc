"""A plan that is finished hours after it was made is sealed by then: the listings of normal rounds begin after it."""

import random
from collections import Counter
from datetime import datetime, timedelta

import obstore.store
import pytest

from firn.dispatch.dispatcher import Terms, dispatch
from firn.errors import TransientError
from firn.ingest import accept
from firn.log import epochs, published_configs, pulls
from firn.sources import late_plan
from firn.sources.pull import PullTask, pull
from tests.soak import times
from tests.unit.sources.test_pull import CONFIG, START, Killed, KillingStore, inserts, staged
from tests.unit.sources.wal import Wal

OTHER = b"""{"op": "c", "before": null, "after": {"id": 9}, "source": {
    "connector": "postgresql", "schema": "public", "table": "items", "ts_ms": 1, "lsn": 9}}"""


class Hours:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=7)
        return self.now

    def later(self, **much) -> None:
        self.now += timedelta(**much)


def task_of(store, clock) -> PullTask:
    return PullTask(store, CONFIG.sources["shop"], clock, 1 << 20, part_bytes=2000)


def posted(store, clock) -> None:
    """A batch of the stream that came by another way."""
    accept.accept(store, CONFIG, "shop", OTHER, now=clock())


def scheduled(store, clock) -> None:
    """A normal round of dispatch."""
    dispatch(store, "shop", None, now=clock(), terms=Terms("c"))


def held(store) -> Counter:
    """How many epochs hold each batch."""
    found = (epochs.read(store, "shop", n) for n in epochs.numbers(store, "shop"))
    return Counter(batch.id for epoch in found for batch in epoch.batches)


def dying_at(name: str):
    def step(now: str) -> None:
        if now == name:
            raise Killed

    return step


@pytest.mark.parametrize("died", ["after pulls", "after staged", "before epochs", "after epochs"])
def test_a_plan_that_is_finished_hours_late_is_sealed_by_the_normal_schedule(died: str) -> None:
    log, store, clock = Wal(), obstore.store.MemoryStore(), Hours()
    inserts(log, 1, 60, size=100)
    first = "after pulls" if "epochs" in died else died
    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, dying_at(first)), clock), CONFIG, log)
    for _ in range(5):
        clock.later(hours=1)
        posted(store, clock)
        clock.later(minutes=5)
        scheduled(store, clock)
    if first != died:
        with pytest.raises(Killed):
            pull(task_of(KillingStore(store, dying_at(died)), clock), CONFIG, log)
        clock.later(hours=3)
        posted(store, clock)
        scheduled(store, clock)
    pull(task_of(store, clock), CONFIG, log)
    clock.later(minutes=5)
    scheduled(store, clock)
    assert held(store) == Counter(batch for batch, _ in staged(store))
    assert sum(len(rows) for _, rows in staged(store)) == 60 + 5 + (first != died)
    assert log.confirmed == log.end


def test_a_plan_that_is_finished_in_time_is_left_to_dispatch() -> None:
    log, store, clock = Wal(), obstore.store.MemoryStore(), Hours()
    inserts(log, 1, 60, size=100)
    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, dying_at("after pulls")), clock), CONFIG, log)
    clock.later(minutes=5)
    pull(task_of(store, clock), CONFIG, log)
    assert epochs.numbers(store, "shop") == []
    scheduled(store, clock)
    assert held(store) == Counter(batch for batch, _ in staged(store))


def test_a_late_plan_is_sealed_under_no_older_configuration() -> None:
    log, store, clock = Wal(), obstore.store.MemoryStore(), Hours()
    inserts(log, 1, 60, size=100)
    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, dying_at("after pulls")), clock), CONFIG, log)
    clock.later(hours=5)
    text = CONFIG.text + "# and more\n"

    def publishing(now: str) -> None:
        if now == "after staged":
            published_configs.publish(store, text)

    with pytest.raises(TransientError, match="newer configuration"):
        pull(task_of(KillingStore(store, publishing), clock), CONFIG, log)
    new = published_configs.current(store)
    assert new.text == text
    assert pull(task_of(store, clock), CONFIG, log).plan == 0, "nor is anything read under it"
    assert epochs.numbers(store, "shop") == []
    pull(task_of(store, clock), new, log)
    assert held(store) == Counter(batch for batch, _ in staged(store))
    assert {epochs.read(store, "shop", n).config for n in epochs.numbers(store, "shop")} == {new.sha}


def test_a_late_plan_is_sealed_whole_beside_a_sealer_that_takes_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    log, store, clock = Wal(), obstore.store.MemoryStore(), Hours()
    inserts(log, 1, 60, size=100)
    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, dying_at("after pulls")), clock), CONFIG, log)
    clock.later(hours=5)
    posted(store, clock)
    scheduled(store, clock)
    clock.later(hours=5)
    seal, twins = epochs.seal, []

    def second(store, stream, found, **more):
        if len(twins) < 3:
            twins.append(1)
            posted(store, clock)
            fresh = epochs.candidates(store, stream, clock())
            assert seal(store, stream, fresh, **{**more, "nonce": "twin"}) is not None
        return seal(store, stream, found, **more)

    monkeypatch.setattr(late_plan.epochs, "seal", second)
    pull(task_of(store, clock), CONFIG, log)
    assert len(twins) == 3
    assert held(store) == Counter(batch for batch, _ in staged(store))
    plan = pulls.newest(store, "shop", "shop").plan
    own = {pulls.batch_of(plan, part) for part in range(pulls.done_of(store, plan.path).parts)}
    holding = [n for n in epochs.numbers(store, "shop") if own & {b.id for b in epochs.read(store, "shop", n).batches}]
    assert len(holding) == 1


@pytest.mark.parametrize("seed", range(times(3, 100)))
def test_whatever_dies_and_however_long_each_batch_is_in_one_epoch(seed: int) -> None:
    """Hours pass where something dies, other batches are staged and sealed; only normal rounds of dispatch look."""
    draw = random.Random(seed)
    log, inner, clock = Wal(), obstore.store.MemoryStore(), Hours()
    kills = 12

    def step(_: str) -> None:
        nonlocal kills
        if kills and draw.random() < 0.15:
            kills -= 1
            raise Killed

    store = KillingStore(inner, step)
    log.step = step
    rows = 0
    for _ in range(25):
        if draw.random() < 0.6:
            count = draw.choice([1, 3, 40])
            inserts(log, rows, count, size=draw.choice([5, 200]))
            rows += count
        try:
            pull(task_of(store, clock), CONFIG, log)
        except Killed:
            clock.later(hours=draw.choice([0, 0, 2, 30]))
            if draw.random() < 0.3:
                log.crash()
        if draw.random() < 0.4:
            posted(inner, clock)
        clock.later(minutes=draw.choice([0, 1, 50]))
        scheduled(inner, clock)
        log.persisted = draw.choice([log.persisted, log.confirmed])
    kills = 0
    while pull(task_of(inner, clock), CONFIG, log).plan:
        pass
    clock.later(minutes=2)
    scheduled(inner, clock)
    found = staged(inner)
    assert held(inner) == Counter(batch for batch, _ in found)
    assert sum("tx_order" in row for _, batch in found for row in batch) == rows
