"""An epoch that kills every job, a stream that is held, a table that was released: what dispatch does."""

from obstore.store import MemoryStore

from firn.audit.batch_status import batch_status
from firn.dispatch.dispatcher import Terms, dispatch
from firn.log import attempts, cuts, epochs, holds
from firn.log.batches import FORMAT
from firn.log.holds import Quarantine
from firn.log.store import Store
from firn.quarantine.rules import killing_epoch
from tests.unit.dispatch.jobs_list import MINUTE, NOW, ListOfJobs, held_batches, run, stage

AT = "2026-03-01T12:30:00.000Z"


def kill(store: Store, jobs: ListOfJobs) -> None:
    """The active run begins, and dies without a word."""
    for one in jobs.runs(NOW):
        if one.active:
            attempts.begin(store, "shop", one.first, one.last, one.attempt)
    jobs.end_all("FAILED")


def poisoned() -> tuple[Store, ListOfJobs, list[str]]:
    """Epochs 1 and 2, of which 1 has killed its jobs until it was held."""
    store, jobs = MemoryStore(), ListOfJobs()
    staged = [stage(store)]
    run(store, jobs)
    staged.append(stage(store))
    ranges = [(1, 1)]
    kill(store, jobs)
    for n in range(1, 9):
        done = run(store, jobs, NOW + n * MINUTE)
        if done.quarantined:
            assert done.quarantined == ("epoch 1",)
            assert done.pending == (2, 2)
            break
        ranges += [key[1:3] for key in list(jobs.started)[-1:]]
        kill(store, jobs)
    assert ranges == [(1, 1), (1, 2), (1, 2), (1, 1), (1, 1)]
    return store, jobs, staged


def test_an_epoch_that_kills_every_job_is_held_and_the_next_ones_go_on() -> None:
    store, jobs, staged = poisoned()
    assert list(jobs.started)[-1] == ("shop", 2, 2, 1)
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 2, "t", {}))
    done = run(store, jobs, NOW + 20 * MINUTE)
    assert (done.pending, done.quarantined) == (None, ("epoch 1",))
    first, second = (batch_status(store, batch) for batch in staged)
    assert first is not None
    assert second is not None
    assert (first.state, second.state) == ("quarantined", "committed")


def test_a_lifted_epochs_batches_are_sealed_into_a_new_one_once() -> None:
    store, jobs, staged = poisoned()
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 2, "t", {}))
    held = holds.read_all(store, "shop").epochs[1].quarantine
    holds.lift(store, held, "retry", AT)
    later = stage(store, NOW + 300 * MINUTE)
    done = run(store, jobs, NOW + 300 * MINUTE, force=True)
    assert (done.sealed, done.pending) == ((3,), (3, 3))
    for n in range(3):
        assert run(store, jobs, NOW + (301 + n) * MINUTE, force=True).sealed == ()
    assert held_batches(store) == [staged[0], staged[1], *sorted([staged[0], later])]
    assert holds.read_all(store, "shop").epochs[1].again
    assert run(store, jobs, NOW + 400 * MINUTE, reconcile=True).sealed == ()
    found = epochs.epoch_of(store, staged[0])
    assert found is not None
    assert found.n == 3


def test_runs_that_fail_for_a_reason_that_passes_are_repeated_and_hold_nothing() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    for n in range(6):
        assert run(store, jobs, NOW + n * MINUTE).run
        one = next(one for one in jobs.runs(NOW) if one.active)
        attempts.begin(store, "shop", one.first, one.last, one.attempt)
        attempts.fail(store, "shop", one.first, one.last, one.attempt, "transient", "the catalog is away")
        jobs.end_all("FAILED")
    assert run(store, jobs, NOW + 9 * MINUTE).quarantined == ()


def source_restored(generation: int, last: int) -> Quarantine:
    return Quarantine(
        FORMAT, "shop", last, AT, "source_restored", "it went back", "raise it", generation=generation, last=last
    )


def test_while_a_stream_is_held_its_batches_are_sealed_and_no_job_starts() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, None)
    holds.hold(store, source_restored(0, 1))
    stage(store)
    done = run(store, jobs, NOW + MINUTE)
    assert (done.sealed, done.run, done.held, done.quarantined) == ((2,), None, "it went back", ("stream",))


def test_a_higher_generation_lets_the_stream_go_on_under_its_configuration() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    stage(store)
    run(store, None)
    holds.hold(store, source_restored(0, 1))
    done = dispatch(store, "shop", jobs, now=NOW + MINUTE, terms=Terms("raised", generation=1))
    assert (done.pending, done.run, done.held) == ((1, 2), "r1", None)
    newest = epochs.read(store, "shop", 2)
    assert newest is not None
    assert (newest.config, newest.batches) == ("raised", [])
    again = dispatch(store, "shop", jobs, now=NOW + 2 * MINUTE, terms=Terms("raised", generation=1))
    assert (again.sealed, again.pending, again.waits_for) == ((), (1, 2), "r1")


def test_a_released_table_gets_a_job_though_nothing_else_waits() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    cuts.write(store, cuts.make("shop", 4, "t", {}, quarantined={"shop.orders": "failed"}))
    held = Quarantine(FORMAT, "shop", 4, AT, "failed", "bad", "fix it", table="shop.orders", epoch=2, upto=4, last=4)
    holds.hold(store, held)
    assert run(store, jobs).pending is None
    holds.lift(store, held, "retry", AT)
    done = run(store, jobs, NOW + MINUTE)
    assert (done.pending, done.run, done.quarantined) == ((5, 5), "r1", ())
    jobs.end_all("SUCCESS")
    cuts.write(store, cuts.make("shop", 5, "t", {}))
    assert run(store, jobs, NOW + 2 * MINUTE).pending is None


def test_a_cut_without_a_job_still_says_what_is_held_and_how_far_each_table_is() -> None:
    store, jobs = MemoryStore(), ListOfJobs()
    before = cuts.make(
        "shop", 4, "t", {"shop.orders": 9}, progress={"shop.orders": 4}, high=("00", 1), filtered=3,
        counts={"shop.orders": {"events": 1}}, quarantined={"shop.x": "failed"},
    )  # fmt: skip
    cuts.write(store, before)
    holds.hold(store, Quarantine(FORMAT, "shop", 4, AT, "failed", "bad", "fix", table="shop.x", last=4))
    stage(store, table="filtered")
    assert run(store, jobs, force=True).run is None
    cut = cuts.read(store, "shop", 5)
    assert cut is not None
    assert (cut.tables, cut.progress, cut.high) == (before.tables, before.progress, before.high)
    assert (cut.quarantined, cut.counts, cut.filtered) == (before.quarantined, {}, 0)


def test_the_advice_for_an_epoch_names_the_command() -> None:
    assert "firn resume shop --epoch 7" in killing_epoch("shop", 7, 3, AT).advice
