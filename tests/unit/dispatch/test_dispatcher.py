import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.config.epoch_limits import Caps
from firn.config.model import CommitPolicy
from firn.dispatch.dispatcher import Dispatched, Terms, dispatch
from firn.dispatch.retry_policy import MAX_PASSING
from firn.errors import StorageUnavailable, TransientError, UnknownOutcome
from firn.log import cuts, epochs, holds, layout, pause
from firn.log.store import Store
from firn.quarantine.rules import killing_epoch
from firn.runs.job_runs import Jobs
from tests.unit.dispatch.jobs_list import CONFIG, MINUTE, NOW, ListOfJobs, fail, run, stage
from tests.unit.log.storage_faults import FaultyStore


def test_what_is_staged_is_sealed_and_a_job_takes_it() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    stage(store)
    done = run(store, jobs)
    assert (done.sealed, done.batches, done.events, done.pending, done.run) == ((1,), 2, 2, (1, 1), "r1")


def test_changes_wait_for_the_streams_commit_interval_unless_they_are_many_or_flushed() -> None:
    def sealed(age: timedelta, policy: CommitPolicy, *, force: bool = False) -> tuple[int, ...]:
        store = MemoryStore()
        stage(store)
        now = NOW + age
        return dispatch(store, "shop", None, now=now, terms=Terms(CONFIG.sha, policy=policy), force=force).sealed

    five_minutes = CommitPolicy(every_seconds=300)
    assert sealed(timedelta(minutes=2), five_minutes) == ()
    assert sealed(timedelta(minutes=4), five_minutes) == (1,)  # at the next tick it would be too late
    assert sealed(timedelta(0), CommitPolicy(every_seconds=300, size_bytes=100)) == (1,)
    assert sealed(timedelta(0), five_minutes, force=True) == (1,)


def test_of_several_writers_one_epoch_is_sealed_at_a_time_and_a_flush_seals_all_there_is() -> None:
    """What waits for another's sake is in the next epoch, together with what has come by then."""

    def sealed(*, force: bool) -> tuple[MemoryStore, Dispatched]:
        store = MemoryStore()
        for _ in range(3):
            stage(store)
        return store, dispatch(
            store, "shop", None, now=NOW + MINUTE, terms=Terms(CONFIG.sha, per_writer=1), force=force
        )

    store, done = sealed(force=False)
    assert (done.sealed, done.batches) == ((1,), 1)
    again = dispatch(
        store, "shop", None, now=NOW + 2 * MINUTE, terms=Terms(CONFIG.sha, per_writer=1), overlap=epochs.RECENT
    )
    assert (again.sealed, again.batches) == ((2,), 1)
    assert sealed(force=True)[1].batches == 3


def test_a_heartbeat_holds_up_no_change_that_fills_its_writers_part() -> None:
    store = MemoryStore()
    stage(store, table="filtered")
    stage(store)
    done = dispatch(store, "shop", None, now=NOW + MINUTE, terms=Terms(CONFIG.sha, per_writer=1))
    assert (done.sealed, done.batches, done.events) == ((1,), 2, 1)


def test_what_waits_for_its_writers_sake_counts_for_the_size_at_which_a_stream_is_committed() -> None:
    store = MemoryStore()
    for _ in range(3):
        stage(store)
    size = sum(one.bytes for one in epochs.candidates(store, "shop", NOW).batches)
    terms = Terms(CONFIG.sha, CommitPolicy(every_seconds=3600, size_bytes=size), per_writer=1)
    assert dispatch(store, "shop", None, now=NOW, terms=terms).sealed == (1,)
    assert dispatch(store, "shop", None, now=NOW, terms=terms).sealed == ()


def beaten(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Whoever seals loses so many numbers to a job that takes one writer's part at a time."""
    seal, lost = epochs.seal, [0]

    def late(store: Store, stream: str, found: epochs.Candidates, **how: Any) -> epochs.Epoch | None:
        if lost[0] < times:
            lost[0] += 1
            seal(store, stream, epochs.candidates(store, stream, NOW, per_writer=1), **how)
        return seal(store, stream, found, **how)

    monkeypatch.setattr(epochs, "seal", late)


def test_a_flush_seals_all_there_is_beside_a_job_that_takes_number_after_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    for _ in range(20):
        stage(store)
    beaten(monkeypatch, 12)
    dispatch(store, "shop", None, now=NOW, terms=Terms(CONFIG.sha), force=True)
    assert epochs.candidates(store, "shop", NOW).batches == []


def test_a_flush_that_never_gets_a_number_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for _ in range(60):
        stage(store)
    beaten(monkeypatch, 1_000)
    with pytest.raises(TransientError, match="others took each number"):
        dispatch(store, "shop", None, now=NOW, terms=Terms(CONFIG.sha), force=True)
    dispatch(store, "shop", None, now=NOW, terms=Terms(CONFIG.sha))  # the next tick goes on


def test_with_nothing_staged_nothing_is_sealed_and_nothing_started() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    assert run(store, jobs) == Dispatched("shop")
    assert jobs.calls == 0


def test_while_a_run_is_active_epochs_are_sealed_and_no_second_run_starts() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    stage(store)
    done = run(store, jobs, NOW + MINUTE)
    assert (done.sealed, done.pending, done.run, done.waits_for) == ((2,), (1, 2), None, "r1")


def test_the_next_run_takes_all_epochs_beyond_the_newest_cut() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    for n in range(3):
        stage(store)
        run(store, jobs, NOW + n * MINUTE)
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 1, "t", {"shop.orders": 5}))
    done = run(store, jobs, NOW + 5 * MINUTE)
    assert (done.sealed, done.pending, done.run) == ((), (2, 3), "r2")


def test_a_committed_stream_is_left_alone() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 1, "t", {"shop.orders": 5}))
    assert run(store, jobs, NOW + MINUTE) == Dispatched("shop")


def test_a_killed_run_is_followed_by_another_attempt_of_its_epochs() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    jobs.end_all("FAILED")
    done = run(store, jobs, NOW + MINUTE)
    assert done.run == "r2"
    assert list(jobs.started) == [("shop", 1, 1, 1), ("shop", 1, 1, 2)]


def test_after_three_failed_attempts_no_new_run_starts_and_sealing_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    for n in range(3):  # the range grows with each attempt, and is still the same range
        stage(store)
        assert run(store, jobs, NOW + n * MINUTE).run
        fail(store, jobs)
    stage(store)
    done = run(store, jobs, NOW + 5 * MINUTE)
    assert (done.sealed, done.run, done.stuck) == ((4,), None, True)
    assert "firn flush shop" in caplog.text


def test_a_flush_tries_a_stuck_range_once_more() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    for n in range(3):
        run(store, jobs, NOW + n * MINUTE)
        fail(store, jobs)
    assert run(store, jobs, NOW + 5 * MINUTE, force=True).run == "r4"


def test_runs_that_never_began_are_followed_by_others_for_long() -> None:
    """No capacity, or too long in the queue: that tells nothing of what they were to commit."""
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    for n in range(MAX_PASSING):
        assert run(store, jobs, NOW + n * MINUTE).run == f"r{n + 1}"
        jobs.end_all("FAILED")
    assert run(store, jobs, NOW + 60 * MINUTE).stuck


def test_failures_of_an_earlier_range_do_not_count_against_the_next() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    for n in range(3):
        run(store, jobs, NOW + n * MINUTE)
        jobs.end_all("FAILED")
    cuts.write(store, cuts.make("shop", 1, "t", {}))
    stage(store)
    assert run(store, jobs, NOW + 5 * MINUTE).run == "r4"


def test_an_unclear_start_is_asked_again_with_the_same_range_and_attempt() -> None:
    store, jobs = MemoryStore(), ListOfJobs(UnknownOutcome("no answer"), UnknownOutcome("no answer"))
    stage(store)
    assert run(store, jobs).run == "r1"
    assert jobs.calls == 3
    assert len(jobs.started) == 1


def test_a_start_that_stays_unclear_is_found_by_the_next_dispatch() -> None:
    store, jobs = MemoryStore(), ListOfJobs(*[UnknownOutcome("no answer")] * 3)
    stage(store)
    with pytest.raises(UnknownOutcome):
        run(store, jobs)
    assert run(store, jobs, NOW + MINUTE).waits_for == "r1"


def test_twin_dispatchers_put_each_batch_in_one_epoch_and_start_one_run_a_range() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    for _ in range(20):
        stage(store)
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def twin() -> None:
        start.wait()
        try:
            run(store, jobs)
        except BaseException as error:  # noqa: BLE001 (a thread's failure has to reach the test)
            errors.append(error)

    threads = [threading.Thread(target=twin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    numbers = epochs.numbers(store, "shop")
    held = [batch.id for epoch in epochs.read_range(store, "shop", 1, numbers[-1]) for batch in epoch.batches]
    assert len(held) == len(set(held)) == 20
    assert len(jobs.started) == 1


def test_without_a_place_for_jobs_epochs_are_sealed_all_the_same() -> None:
    store = MemoryStore()
    stage(store)
    assert run(store, None).pending == (1, 1)


def test_heartbeats_alone_wait_a_quarter_of_an_hour_and_then_need_no_job() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store, table="filtered")
    assert run(store, jobs, NOW + MINUTE).sealed == ()
    assert run(store, jobs, NOW + 15 * MINUTE).sealed == (1,)
    assert jobs.calls == 0
    assert cuts.newest(store, "shop") == 1


def test_a_cut_without_a_job_shows_the_tables_of_the_cut_before() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 1, "t", {"shop.orders": 5}))
    stage(store, table="filtered")
    run(store, jobs, NOW + MINUTE, force=True)
    cut = cuts.read(store, "shop", 2)
    assert cut is not None
    assert cut.tables == {"shop.orders": 5}
    assert jobs.calls == 1


def test_empty_batches_go_with_the_first_that_holds_a_change() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store, table="filtered")
    stage(store)
    done = run(store, jobs)
    assert (done.sealed, done.batches, done.events) == ((1,), 2, 1)


def test_storage_that_goes_away_leaves_everything_for_the_next_dispatch() -> None:
    store, jobs = FaultyStore(), ListOfJobs()
    stage(store)
    store.away = True
    with pytest.raises(StorageUnavailable):
        run(store, jobs)
    store.away = False
    assert run(store, jobs).sealed == (1,)


def test_a_late_batch_is_sealed_by_the_daily_reconcile() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    stage(store, NOW - timedelta(days=2))
    assert run(store, jobs, NOW + MINUTE).sealed == ()
    assert run(store, jobs, NOW + MINUTE, reconcile=True).sealed == (2,)


@pytest.mark.parametrize("count", [1, 12])
def test_a_dispatch_seals_more_than_one_epochs_worth(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(epochs, "MAX_BATCHES", 5)
    store = MemoryStore()
    for _ in range(count):
        stage(store)
    assert len(run(store, None).sealed) == -(-count // 5)


def test_a_dispatch_seals_a_backlog_in_full_epochs_and_leaves_the_rest_until_it_is_due() -> None:
    store = MemoryStore()
    policy = CommitPolicy(every_seconds=600, caps=Caps(events=2))
    for _ in range(21):
        stage(store)
    assert run(store, None, policy=policy).sealed == (1, 2)
    assert [epoch.events for epoch in epochs.read_range(store, "shop", 1, 2)] == [16, 4]
    assert run(store, None, policy=policy, force=True).events == 1


_: Callable[..., Jobs] = ListOfJobs  # the fake is a Jobs


def test_while_it_is_paused_nothing_is_sealed_and_no_job_starts_and_then_all_that_waits() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    jobs.end_all("FAILED")
    pause.begin(store)
    stage(store)
    since = pause.since(store)
    assert since is not None
    for asked in ({}, {"force": True}, {"reconcile": True}):
        assert run(store, jobs, NOW + MINUTE, **asked) == Dispatched("shop", paused=layout.instant(since))
    assert (jobs.calls, epochs.numbers(store, "shop")) == (1, [1])
    pause.end(store)
    done = run(store, jobs, NOW + timedelta(days=3))
    assert (done.sealed, done.pending, done.run, done.paused) == ((2,), (1, 2), "r2", None)


@pytest.mark.parametrize("killed", [False, True])
def test_all_that_waited_for_days_is_sealed_however_many_epochs_it_takes(
    monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """The first of them is as new as what is left is old: it must not hide that until the daily reconcile."""
    monkeypatch.setattr(epochs, "MAX_BATCHES", 5)
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    pause.begin(store)
    for hour in range(12):
        stage(store, NOW + timedelta(hours=hour))
    pause.end(store)
    now = NOW + timedelta(days=3)
    if killed:  # after its first epoch, by the function's time-out
        found = epochs.candidates(store, "shop", now)
        epochs.seal(store, "shop", found, now=now, config=CONFIG.sha, nonce="00")
    run(store, jobs, now)
    assert [len(epoch.batches) for epoch in epochs.read_range(store, "shop", 1, 9)] == [1, 5, 5, 2]


def test_a_pause_hides_nothing_that_is_quarantined() -> None:
    """Else the alarm on it would go back to OK for as long."""
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    holds.hold(store, killing_epoch("shop", 1, 3, layout.instant(NOW)))
    pause.begin(store)
    assert run(store, jobs, NOW + MINUTE).quarantined == ("epoch 1",)


def test_who_can_not_look_whether_it_is_paused_starts_no_job() -> None:
    store, jobs = FaultyStore(), ListOfJobs()
    stage(store)
    store.away = True
    with pytest.raises(StorageUnavailable):
        run(store, jobs)
    assert jobs.calls == 0
