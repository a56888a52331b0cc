"""What a job tells of its progress: stages, rows, an estimate; and that nothing of it can fail or hold up a job."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.commit.progress_tracker import Estimate, ProgressTracker, RangeProgress, silent
from firn.log import job_progress, layout
from firn.log.job_progress import JobProgress
from tests.unit.log.storage_faults import Fault, FaultyStore

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = "firn-shop-1-2-1"


def until(done: Callable[[], Any]) -> Any:
    for _ in range(500):
        if found := done():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def seen(progress: RangeProgress) -> tuple[str, int, int]:
    return progress.seen()[:3]


def test_a_range_is_read_and_its_tables_are_decoded_folded_written_and_committed() -> None:
    progress = RangeProgress(1_000)
    steps = [progress.seen()]
    for act in (
        lambda: progress.read(600),
        lambda: progress.read(400),
        lambda: progress.plan({"a": 800, "b": 200}),
        lambda: progress.enter("a", "folding"),
        lambda: progress.enter("b", "folding"),
        lambda: progress.enter("b", "writing"),
        lambda: progress.enter("a", "writing"),
        lambda: progress.done("b"),
        lambda: progress.enter("a", "committing"),
        lambda: progress.done("a"),
    ):
        act()
        steps.append(progress.seen())
    assert [one[:3] for one in steps] == [
        ("reading", 0, 1_000),
        ("reading", 300, 1_000),
        ("reading", 500, 1_000),
        ("reading", 500, 1_000),
        ("reading", 900, 1_000),
        ("folding", 0, 1_000),
        ("folding", 200, 1_000),
        ("writing", 0, 1_000),
        ("writing", 200, 1_000),
        ("committing", 200, 1_000),
        ("committing", 1_000, 1_000),
    ]
    work = [one[3] for one in steps]
    assert work == sorted(work)
    assert (work[0], round(work[-1], 9)) == (0.0, 1.0)
    assert [one[4:] for one in steps[2:4] + steps[-3:]] == [(0, 0), (0, 2), (1, 2), (1, 2), (2, 2)]


def test_what_sparks_tasks_have_done_counts_while_they_are_asked_and_only_then() -> None:
    share = [0.5]
    progress = RangeProgress(1_000, lambda: share[0])
    with progress.counting():
        assert seen(progress) == ("reading", 250, 1_000)
    progress.plan({"a": 1_000})
    progress.enter("a", "folding")
    assert seen(progress) == ("folding", 0, 1_000)
    with progress.counting("a"):
        assert seen(progress) == ("folding", 500, 1_000)
        share[0] = 0.1  # the next of Spark's jobs counts from its beginning
        assert seen(progress) == ("folding", 500, 1_000)
        share[0] = 7.0  # nobody's share
        assert seen(progress) == ("folding", 1_000, 1_000)


def test_an_engine_that_can_not_say_how_far_it_is_fails_nothing() -> None:
    def broken() -> float:
        raise RuntimeError("the JVM is gone")

    progress = RangeProgress(10, broken)
    with progress.counting():
        assert seen(progress) == ("reading", 0, 10)


def test_a_table_that_is_tried_again_takes_no_step_back_and_one_that_failed_is_done() -> None:
    progress = RangeProgress(10)
    progress.plan({"a": 10})
    progress.enter("a", "writing")
    progress.enter("a", "folding")
    assert seen(progress)[0] == "writing"
    progress.done("a")
    assert seen(progress) == ("committing", 10, 10)


def test_the_estimate_counts_down_and_is_made_again_when_more_is_done() -> None:
    estimate = Estimate()
    assert estimate.left(0.01, 5) is None
    assert estimate.left(0.25, 10) == 30
    assert estimate.left(0.25, 20) == 20
    assert estimate.left(0.2, 25) == 15, "an engine that counts anew takes no step back"
    assert estimate.left(0.25, 60) == 1
    assert estimate.left(0.5, 60) == 60


def test_a_long_commit_is_told_of_and_a_short_one_costs_nothing() -> None:
    store = MemoryStore()
    short = ProgressTracker(store, RUN, lambda: NOW, every=60).begin("shop", 1, 2, 10)
    short.end()
    assert not list(store.list())
    long = ProgressTracker(store, RUN, lambda: NOW, every=0.01).begin("shop", 1, 2, 10)
    long.plan({"a": 10})
    long.enter("a", "folding")
    found = until(lambda: (told := job_progress.running(store, "shop", NOW, RUN)) and told.stage == "folding" and told)
    assert (found.run, found.first, found.last, found.rows, found.planned) == (RUN, 1, 2, 0, 10)
    long.end()
    assert [one["path"] for one in store.list().collect()] == [layout.progress_path("shop")]
    assert len(bytes(store.get(layout.progress_path("shop")).bytes())) < 400


def test_no_report_comes_after_the_end_but_for_one_on_its_way() -> None:
    store, told = MemoryStore(), []
    progress = ProgressTracker(store, RUN, lambda: told.append(1) or NOW, every=0.01).begin("shop", 1, 2, 10)  # type: ignore[func-returns-value]
    until(lambda: len(told) > 2)
    progress.end()
    time.sleep(0.05)
    after = len(told)
    time.sleep(0.1)
    assert len(told) == after


@pytest.mark.parametrize("fault", ["refused", "lost before", "lost after"])
def test_a_report_that_is_refused_or_lost_is_made_good_by_the_next(fault: Fault) -> None:
    store = FaultyStore(*[fault] * 9)
    progress = ProgressTracker(store, RUN, lambda: NOW, every=0.01).begin("shop", 1, 2, 10)
    until(lambda: not store.faults and job_progress.running(store, "shop", NOW, RUN))
    progress.end()


def test_a_defect_of_a_report_ends_the_reports_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[JobProgress] = []

    def fails(_store: object, progress: JobProgress) -> None:
        tried.append(progress)
        raise RuntimeError("a defect")

    monkeypatch.setattr(job_progress, "write", fails)
    progress = ProgressTracker(MemoryStore(), RUN, lambda: NOW, every=0.01).begin("shop", 1, 2, 10)
    until(lambda: tried)
    progress.plan({"a": 10})
    progress.done("a")
    progress.end()
    assert (seen(progress), len(tried)) == (("committing", 10, 10), 1)


def test_who_tells_nobody_has_no_thread_and_takes_everything() -> None:
    progress = silent()
    progress.enter("a", "writing")
    with progress.counting("a"):
        progress.done("a")
    progress.end()
