"""Which generation a batch counts under, as the log says it."""

from collections.abc import Mapping
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.changes.redelivery import Early
from firn.config.model import Config
from firn.log import epochs, holds, layout, published_configs
from firn.log.batches import FORMAT
from firn.log.epochs import Epoch, EpochBatch
from firn.log.generations import Generations
from firn.log.holds import Quarantine
from firn.log.store import put

TEXT = "streams: {shop: {generation: %d, tables: {app.orders: {to: lake.orders, key: [id]}}}}"
NOW = "2026-03-20T00:00:00.000Z"


class Log:
    """Epochs of the stream `shop`, one a day in March 2026."""

    def __init__(self) -> None:
        self.store: Any = MemoryStore()

    def seal(self, n: int, generation: int, *batches: str, day: int = 0) -> Epoch:
        config = published_configs.publish(self.store, TEXT % generation)
        held = [EpochBatch(name, f"staged/{name}", 1, 1) for name in batches or (f"batch-{n}",)]
        at = f"2026-03-{day or n:02}T00:00:00.000Z"
        epoch = Epoch(FORMAT, "shop", n, "nonce", at, config.sha, held, {"app.orders": 1})
        put(self.store, layout.epoch_path("shop", n), epochs.encode(epoch))
        return epoch

    def hold(self, n: int, reason: Any, **more: Any) -> Quarantine:
        held = Quarantine(FORMAT, "shop", n, NOW, reason, "m", "a", epoch=n, last=n, **more)
        assert holds.hold(self.store, held)
        return held

    def look(self, last: int, generation: int, store: Any = None) -> Generations:
        config: Config = published_configs.publish(self.store, TEXT % generation)
        return Generations(store or self.store, config.streams["shop"], last)

    def told(self, last: int, generation: int = 2) -> dict[str, int]:
        sealed = epochs.read_many(self.store, "shop", range(1, last + 1))
        return self.look(last, generation).of(sealed)


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_batch_has_the_generation_that_its_epoch_was_sealed_under(log: Log) -> None:
    for n, generation in ((1, 0), (2, 0), (3, 1), (4, 2)):
        log.seal(n, generation)
    assert log.told(4) == {"batch-1": 0, "batch-2": 0, "batch-3": 1, "batch-4": 2}
    assert log.look(4, 2).of_batch("free", None) == 2


def test_a_batch_that_is_sealed_again_keeps_that_of_the_first_epoch_that_names_it(log: Log) -> None:
    log.seal(1, 0, "one", "two")
    log.hold(1, "killed")
    log.seal(2, 1, "one", "new")
    assert log.told(2) == {"one": 0, "two": 0, "new": 1}
    assert log.look(2, 1).of_batch("two", None) == 0


@pytest.mark.parametrize(
    ("lifted", "generations"), [("", [0, 1, 1, 1]), ("before", [0, 0, 0, 1]), ("after", [0, 1, 1, 1])]
)
def test_epochs_that_a_restored_source_held_count_under_what_let_them_go_on(
    log: Log, lifted: str, generations: list[int]
) -> None:
    for n, generation in ((1, 0), (2, 0), (3, 0), (4, 1)):
        log.seal(n, generation)
    held = log.hold(2, "source_restored", high="00", generation=0)
    when = {"before": "2026-03-03T12:00:00.000Z", "after": "2026-03-04T12:00:00.000Z"}
    if lifted:
        holds.lift(log.store, held, "retry", when[lifted])
    assert list(log.told(4).values()) == generations


def test_changes_are_looked_up_as_far_as_a_lower_generation_may_have_told_them(log: Log) -> None:
    for n in range(1, 6):
        log.seal(n, int(n > 3))
    found = log.look(5, 1)
    third = int(epochs.read(log.store, "shop", 3).time.timestamp() * 1000)  # type: ignore[union-attr]
    assert found.until({0, 1}) == third + 3_600_000, "clocks may be an hour apart"
    assert found.until({0}) is None

    def holding(oldest: int, *tables: str) -> list[int]:
        return [epoch.n for epoch in found.holding(Early(frozenset({b"x"}), frozenset(tables), oldest), {1})]

    assert holding(third, "app.orders") == [3]
    assert holding(third - 30 * 3_600_000, "app.orders") == [2, 3]
    assert holding(0, "app.orders") == [1, 2, 3]
    assert holding(0, "app.other") == []


def test_what_the_log_no_longer_holds_is_not_looked_up(log: Log) -> None:
    log.seal(1, 0)
    log.seal(2, 1, day=15)
    assert log.look(2, 1).until({1}) is not None
    log.seal(3, 1, day=20)
    assert log.look(3, 1).until({1}) is None
    log.store.delete(layout.epoch_path("shop", 1))
    assert Generations(MemoryStore(), log.look(3, 1)._settings, 3).until({1}) is None


class Counting:
    """Every call that reaches the store."""

    def __init__(self, calls: Mapping[str, int] = {}) -> None:
        self.calls = dict(calls)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: nothing has to be read")


def test_where_nothing_was_ever_raised_nothing_is_read(log: Log) -> None:
    sealed = [log.seal(1, 0)]
    found = log.look(1, 0, Counting())
    assert found.of(sealed) == {"batch-1": 0}
    assert (found.until({0}), found.of_batch("free", None)) == (None, 0)
