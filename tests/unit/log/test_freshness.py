"""From acceptance to commit, by the storage's clock alone."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.config.model import Config
from firn.ingest.accept import accept
from firn.log import cuts, epochs, holds, layout
from firn.log.freshness import Commit, measured, percentile, read_commit, read_commits
from firn.log.holds import Quarantine
from firn.log.store import Store, open_store

T = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def commit(at: float, *arrivals: tuple[float, int], size: int = 0) -> Commit:
    return Commit(1, T + at * SECOND, tuple((T + when * SECOND, events) for when, events in arrivals), size)


def test_a_percentile_is_weighted_by_events() -> None:
    values = [(1.0, 98), (50.0, 1), (100.0, 1)]
    assert [percentile(values, share) for share in (0.5, 0.98, 0.99, 1.0)] == [1.0, 1.0, 50.0, 100.0]
    assert percentile([], 0.5) is None
    assert percentile([(3.0, 0)], 0.5) is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 20)), min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_that_of_the_events_one_by_one(values: list[tuple[float, int]], share: float) -> None:
    one_by_one = sorted(value for value, weight in values for _ in range(weight))
    found = percentile(values, share)
    assert found is not None
    assert sum(value <= found for value in one_by_one) >= share * len(one_by_one) - 1e-6
    assert sum(value < found for value in one_by_one) <= share * len(one_by_one) + 1e-6


def test_what_is_measured_of_several_commits() -> None:
    found = measured([commit(10, (0, 90), (8, 9), size=500), commit(30, (10, 1), size=500)])
    assert (found.commits, found.events, found.bytes) == (2, 100, 1000)
    assert (found.p50, found.p99) == (10.0, 10.0)
    assert (found.events_per_second, found.bytes_per_second) == (100 / 30, 1000 / 30)


def test_nothing_committed_is_nothing_measured() -> None:
    found = measured([])
    assert (found.commits, found.p50, found.p99, found.events_per_second) == (0, None, None, None)
    assert measured([commit(10)]).p50 is None


class Log:
    """A staging area of files whose objects are as old as a test says, whatever clock the functions had."""

    def __init__(self, folder: Path, config: Config, body: Callable[..., bytes]) -> None:
        self.folder, self.config, self.body = folder, config, body
        self.store: Store = open_store(f"file://{folder}")

    def at(self, path: str, second: float) -> None:
        when = (T + second * SECOND).timestamp()
        os.utime(self.folder / path, (when, when))

    def stage(self, second: float, events: int, clock: timedelta = timedelta(0)) -> str:
        batch = accept(self.store, self.config, "shop", self.body(events), now=T + second * SECOND + clock).batch_id
        self.at(layout.staged_path(batch), second)
        return batch

    def seal(self) -> epochs.Epoch:
        found = epochs.candidates(self.store, "shop", T, whole=True)
        epoch = epochs.seal(self.store, "shop", found, now=T, config="c", nonce=str(found.next_n))
        assert epoch is not None
        return epoch

    def cut(self, n: int, second: float) -> None:
        cuts.write(self.store, cuts.make("shop", n, layout.instant(T + timedelta(days=9)), {}))
        self.at(layout.cut_path("shop", n), second)

    def lags(self, since: float = 0, newest: int = 99) -> dict[int, tuple[float | None, int]]:
        found = read_commits(self.store, "shop", T + since * SECOND, newest)
        return {one.n: (one.lag(1.0), one.events) for one in found}


@pytest.fixture
def log(tmp_path: Path, config: Config, body: Callable[..., bytes]) -> Log:
    return Log(tmp_path, config, body)


def test_only_the_storages_clock_counts(log: Log) -> None:
    log.stage(0.5, 3, clock=timedelta(minutes=50))
    log.stage(2, 1, clock=-timedelta(minutes=50))
    log.seal()
    log.cut(1, 12.25)
    [found] = read_commits(log.store, "shop", T)
    assert (found.at, found.events) == (T + 12.25 * SECOND, 4)
    assert sorted(found.arrivals) == [(T + 0.5 * SECOND, 3), (T + 2 * SECOND, 1)]
    assert (found.lag(0.5), found.lag(0.01)) == (11.75, 10.25)
    assert found.bytes == sum(
        batch.bytes for epoch in epochs.read_range(log.store, "shop", 1, 1) for batch in epoch.batches
    )


def test_a_commit_is_the_first_cut_that_covers_an_epoch(log: Log) -> None:
    for n in range(1, 5):
        log.stage(n, 1)
        log.seal()
    log.cut(2, 10)
    log.cut(4, 20)
    assert log.lags() == {2: (9.0, 2), 4: (17.0, 2)}
    assert log.lags(since=15) == {4: (17.0, 2)}
    assert log.lags(newest=1) == {4: (17.0, 2)}


def test_a_cut_that_came_after_its_successors_committed_nothing_later(log: Log) -> None:
    for n in range(1, 3):
        log.stage(n, 1)
        log.seal()
    log.cut(2, 10)
    log.cut(1, 500)
    assert log.lags() == {1: (9.0, 1), 2: (8.0, 1)}


def test_quarantined_epochs_and_expired_objects_are_left_out(log: Log) -> None:
    gone = log.stage(1, 1)
    log.seal()
    log.stage(2, 1)
    log.seal()
    log.stage(3, 1)
    log.seal()
    (log.folder / layout.staged_path(gone)).unlink()
    holds.hold(log.store, Quarantine(1, "shop", 2, layout.instant(T), "killed", "bad", "fix it"))
    log.cut(3, 10)
    assert log.lags() == {3: (7.0, 1)}


def test_epochs_that_have_expired_below_the_oldest_cut_are_not_looked_for(log: Log) -> None:
    for _ in range(3):
        log.stage(1, 1)
        log.seal()
    for n in (1, 2):
        (log.folder / layout.epoch_path("shop", n)).unlink()
    log.cut(3, 10)
    fresh = Log(log.folder, log.config, log.body)
    assert fresh.lags() == {3: (9.0, 1)}


def test_a_cut_that_was_not_made_has_no_commit(log: Log) -> None:
    log.stage(1, 2)
    epoch = log.seal()
    assert read_commit(log.store, "shop", 1, [epoch]) is None
    log.cut(1, 4)
    found = read_commit(log.store, "shop", 1, [epoch])
    assert found is not None
    assert (found.lag(0.99), found.events) == (3.0, 2)
