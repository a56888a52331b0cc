"""Dispatch and what surrounds it: twins, lost answers, clocks, late objects, numbers, retention, lost events."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.errors import UnknownOutcome
from firn.log import cuts, epochs, layout
from firn.log.store import Store, put
from tests.unit.dispatch.jobs_list import MINUTE, NOW, ListOfJobs, fail, held_batches, run, stage
from tests.unit.log.storage_faults import Fault, FaultyStore
from tests.unit.log.turns import FOREVER, Turns


def twins(first: int, second: int) -> tuple[Turns, ListOfJobs]:
    """Two dispatchers that see the same three batches and, one of them, a later one too."""
    store, jobs = MemoryStore(), ListOfJobs()
    staged = [stage(store) for _ in range(3)]
    turns = Turns(store, first, second)
    errors = turns.run([lambda one: run(one, jobs), lambda one: run(one, jobs, NOW + MINUTE)])
    assert errors == [None, None]
    assert sorted(held_batches(store)) == sorted(staged)
    assert epochs.numbers(store, "shop") == [1]
    assert [key[:3] for key in jobs.started] == [("shop", 1, 1)]
    return turns, jobs


def test_twin_dispatchers_agree_at_every_interleaving_of_their_calls() -> None:
    alone, _ = twins(FOREVER, FOREVER)
    assert alone.calls[0] > 5
    for first in range(alone.calls[0] + 1):
        for second in range(1, alone.calls[0] + 1):
            twins(first, second)


def test_twins_of_which_one_sees_more_put_each_batch_in_one_epoch() -> None:
    for first in range(14):
        store = MemoryStore()
        staged = [stage(store)]

        def later(one: Store, staged: list[str] = staged) -> None:
            staged.append(stage(one))
            run(one, None, NOW + MINUTE)

        turns = Turns(store, first, FOREVER)
        assert turns.run([lambda one: run(one, None), later]) == [None, None]
        run(store, None, NOW + 2 * MINUTE)
        assert sorted(held_batches(store)) == sorted(staged), first


@pytest.mark.parametrize("answers", [["lost after"], ["lost before"], ["lost before", "lost after"]])
def test_an_epoch_whose_answer_was_lost_is_known_by_its_nonce(answers: list[Any]) -> None:
    store = FaultyStore()
    stage(store)
    store.faults = answers
    assert run(store, None).sealed == (1,)
    assert len(held_batches(store)) == 1


def test_an_epoch_of_which_nothing_is_known_is_sealed_once_whatever_became_of_it() -> None:
    unclear: list[list[Fault]] = [["lost after", "lost before", "lost before"], ["lost before"] * 3]
    for answers in unclear:
        store, jobs = FaultyStore(), ListOfJobs()
        stage(store)
        store.faults = list(answers)
        with pytest.raises(UnknownOutcome):
            run(store, jobs)
        assert run(store, jobs, NOW + MINUTE).run == "r1"
        assert len(held_batches(store)) == 1


class LateStore(FaultyStore):
    """While staged objects are listed, another lands that sorts before what was listed already."""

    late: str | None = None

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Iterable[Sequence[Mapping[str, Any]]]:
        found = [list(chunk) for chunk in super().list(prefix, offset=offset)]
        if prefix == layout.staged_prefix("shop") and self.late is None:
            self.late = stage(self, NOW - timedelta(minutes=14))
        return found


def test_a_batch_that_lands_behind_the_listings_cursor_is_in_the_next_epoch() -> None:
    store = LateStore()
    first = stage(store)
    assert run(store, None).sealed == (1,)
    assert held_batches(store) == [first]
    assert run(store, None, NOW + MINUTE).sealed == (2,)
    assert held_batches(store) == [first, store.late]


@pytest.mark.parametrize("ingest", [-60, 0, 60])
@pytest.mark.parametrize("dispatcher", [-60, 0, 60])
def test_clocks_an_hour_apart_lose_nothing_and_double_nothing(ingest: int, dispatcher: int) -> None:
    store = MemoryStore()
    staged = []
    for n in range(6):
        staged += [stage(store, NOW + n * MINUTE), stage(store, NOW + (n + ingest) * MINUTE)]
        run(store, None, NOW + (n + (dispatcher if n % 2 else 0)) * MINUTE)
    run(store, None, NOW + timedelta(hours=2), force=True)
    assert sorted(held_batches(store)) == sorted(staged)


@pytest.mark.parametrize("before", [8, 98, 99_997])
def test_numbers_go_on_where_they_get_a_digit_more(before: int) -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    cuts.write(store, cuts.make("shop", before, "t", {}))
    for n in range(1, 5):
        stage(store)
        done = run(store, jobs, NOW + n * MINUTE)
        assert (done.sealed, done.run) == ((before + n,), f"r{n}")
        jobs.end_all("SUCCESS")
        cuts.write(store, cuts.make("shop", before + n, "t", {}))
    assert epochs.numbers(store, "shop") == [before + n for n in range(1, 5)]
    assert cuts.newest(store, "shop") == before + 4


def test_a_stream_idle_past_its_retention_counts_on_from_its_cut() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 7, "t", {"shop.orders": 5}, progress={"shop.orders": 7}))
    for meta in [one for chunk in store.list() for one in chunk]:
        if not str(meta["path"]).startswith("cuts/"):
            store.delete(meta["path"])
    epochs._known.clear()
    stage(store, NOW + timedelta(days=100))
    done = run(store, jobs, NOW + timedelta(days=100))
    assert (done.sealed, done.pending) == ((8,), (8, 8))


def test_the_daily_reconcile_tries_a_stuck_range_again() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    for n in range(3):
        run(store, jobs, NOW + n * MINUTE)
        fail(store, jobs)
    assert run(store, jobs, NOW + 5 * MINUTE).stuck
    assert run(store, jobs, NOW + 6 * MINUTE, reconcile=True).run == "r4"


@pytest.mark.parametrize("state", ["SUCCESS", "FAILED", "CANCELLED"])
def test_a_run_that_ended_without_a_cut_is_followed_though_nobody_told_of_its_end(state: str) -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, jobs)
    jobs.end_all(state)
    assert run(store, jobs, NOW + MINUTE).run == "r2"
    assert run(store, jobs, NOW + MINUTE).waits_for == "r2", "an event that comes twice starts nothing"


def test_a_foreign_object_among_the_epochs_is_no_epoch() -> None:
    store = MemoryStore()
    stage(store)
    put(store, "epochs/shop/notes.json", b"{}")
    assert run(store, None).sealed == (1,)
