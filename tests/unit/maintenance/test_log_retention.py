"""Staged objects go by their age, and never before every table has what they hold."""

import itertools
from datetime import timedelta

import pytest
from obstore.store import MemoryStore

from firn.audit.batch_status import batch_status
from firn.errors import StorageUnavailable, UnknownOutcome
from firn.log import cuts, holds, layout
from firn.log.batches import FORMAT
from firn.log.holds import Quarantines
from firn.log.store import objects, paths, put
from firn.maintenance import log_retention
from firn.maintenance.log_retention import KEEP, safe_upto, sweep
from firn.rebuild.plan import CannotRebuild
from firn.rebuild.plan import plan as plan_rebuild
from tests.faults.calls import Counting, Died, Fault, WatchedStore
from tests.model.lake_contract import ORDERS, STREAM, Stream, event
from tests.soak import few_cases
from tests.unit.audit.audited import Ground, audited, typed

DAY = timedelta(days=1)


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def stream(ground: Ground) -> Stream:
    return Stream(ground)


def land(stream: Stream, count: int, first: int = 1) -> None:
    for n in range(first, first + count):
        stream.land(event("c", n, {"id": n, "v": "a"}))


def staged(stream: Stream) -> list[str]:
    return paths(stream.store, layout.staged_prefix(STREAM))


def held(n: int, **more: object) -> holds.Quarantine:
    return holds.Quarantine(FORMAT, STREAM, n, "2026-11-21T00:00:00.000Z", "killed", "it kills", "fix it", **more)  # type: ignore[arg-type]


def test_objects_go_when_they_are_old_and_not_before(stream: Stream, ground: Ground) -> None:
    land(stream, 3)
    sizes = [one.size for one in objects(stream.store, layout.staged_prefix(STREAM))]
    stream.now += 10 * DAY
    land(stream, 2, first=4)
    everything = len(paths(stream.store, ""))
    assert sweep(stream.store, STREAM, stream.now).line() == {
        "stream": STREAM, "epochs": 0, "batches": 0, "bytes": 0, "upto": 0
    }  # fmt: skip
    late = stream.now + 5 * DAY
    assert sweep(stream.store, STREAM, late, dry_run=True).batches == 3
    assert len(paths(stream.store, "")) == everything
    done = sweep(stream.store, STREAM, late)
    assert (done.epochs, done.batches, done.bytes, done.upto, done.waiting) == (3, 3, sum(sizes), 3, "")
    assert len(staged(stream)) == 2
    assert len(paths(stream.store, layout.epoch_prefix(STREAM))) == 5
    assert sweep(stream.store, STREAM, late).epochs == 0
    found = audited(stream, ground, later=5 * DAY)
    assert (found.differences, found.expired_batches, found.merged) == ([], 3, 5)
    assert sweep(stream.store, STREAM, late + KEEP).upto == 5
    assert staged(stream) == []


def test_what_went_is_said_of_a_batch_and_of_a_rebuild(stream: Stream) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    batch = layout.batch_of(staged(stream)[0])
    sweep(stream.store, STREAM, stream.now + KEEP + DAY)
    assert batch is not None
    said = batch_status(stream.store, batch)
    assert said is not None
    assert (said.expired, said.state, said.accepted) == (True, "committed", 1)
    with pytest.raises(CannotRebuild, match="no longer holds"):
        plan_rebuild(stream.store, stream.config, ORDERS)


def test_what_is_not_committed_stays_whatever_its_age(stream: Stream) -> None:
    land(stream, 2)
    stream.seal(event("c", 3, {"id": 3, "v": "a"}))
    stream.post(event("c", 4, {"id": 4, "v": "a"}))
    done = sweep(stream.store, STREAM, stream.now + 100 * DAY)
    assert (done.upto, done.waiting) == (2, "epoch 3 is old enough, but the newest cut is 2")
    assert len(staged(stream)) == 2
    alone = MemoryStore()
    assert sweep(alone, STREAM, stream.now).upto == 0


def test_what_a_held_table_lacks_stays_until_it_has_caught_up(stream: Stream) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.land(typed(2, 1))
    cut = cuts.read(stream.store, STREAM, 2)
    assert cut is not None
    known = Quarantines(tables={"lake.typed": holds.Case(held(2, table="lake.typed", epoch=2, last=2))})
    assert safe_upto(cut, known) == (1, "lake.typed is quarantined and lacks epoch 2")
    released = {"lake.typed": holds.Case(held(2, table="lake.typed", epoch=2, last=2), holds.Lift(1, "", "retry"))}
    behind = cuts.make(STREAM, 2, "", {}, progress={"lake.typed": 1, "x.y": 2}, quarantined={"lake.typed": "failed"})
    assert safe_upto(behind, Quarantines(tables=released))[0] == 1
    assert safe_upto(behind, Quarantines(tables=released, skipped={"lake.typed": 2}))[0] == 2


def test_a_held_stream_keeps_its_log_until_a_cut_shows_it_going_on(stream: Stream) -> None:
    land(stream, 2)
    cut = cuts.read(stream.store, STREAM, 2)
    assert safe_upto(cut, Quarantines(stream=(holds.Case(held(3, last=3)),)))[0] == 0
    assert safe_upto(cut, Quarantines(stream=(holds.Case(held(2, last=2)),)))[0] == 2
    assert safe_upto(None, Quarantines()) == (0, "no cut says yet that the tables have it")
    older = cuts.make(STREAM, 9, "", {"lake.orders": 7})  # of a Firn that told no progress
    assert safe_upto(older, Quarantines())[0] == 0


def test_batches_of_an_epoch_that_was_held_go_with_the_epoch_that_they_came_to(stream: Stream) -> None:
    land(stream, 1)
    n = stream.seal(event("c", 2, {"id": 2, "v": "a"}))
    case = held(n, epoch=n, last=n)
    holds.hold(stream.store, case)
    land(stream, 1, first=3)
    late = stream.now + KEEP + DAY
    assert sweep(stream.store, STREAM, late).upto == 3
    assert len(staged(stream)) == 1  # it waits for its release
    holds.lift(stream.store, case, "retry", layout.instant(stream.now))
    stream.now = late
    again = stream.seal()
    assert sweep(stream.store, STREAM, late + DAY).epochs == 0
    assert stream.commit(again) == 0
    assert len(staged(stream)) == 1
    assert sweep(stream.store, STREAM, late + KEEP + DAY).upto == again
    assert staged(stream) == []


def test_numbers_that_were_left_out_are_passed(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_retention, "_AT_ONCE", 2)
    monkeypatch.setattr(log_retention, "_NOTED_EVERY", 2)
    land(stream, 7)
    for n in (1, 3, 4, 5):
        stream.store.delete(layout.epoch_path(STREAM, n))
    fresh = MemoryStore()
    for path in paths(stream.store, ""):
        fresh.put(path, bytes(stream.store.get(path).bytes()))
    done = sweep(fresh, STREAM, stream.now + KEEP + DAY)
    assert (done.upto, done.epochs, done.batches) == (7, 3, 3)


def test_a_note_that_is_lost_or_broken_only_costs_a_second_look(stream: Stream) -> None:
    land(stream, 3)
    late = stream.now + KEEP + DAY
    sweep(stream.store, STREAM, late)
    for data in (b"{", b'{"format": 99, "upto": 3}'):
        put(stream.store, layout.swept_path(STREAM), data)
        assert sweep(stream.store, STREAM, late).upto == 3


@few_cases(1)
@pytest.mark.parametrize("fault", ["refused", "lost before", "lost after", "dies before", "dies after"])
def test_whatever_fails_the_next_sweep_ends_it(fault: Fault, ground: Ground) -> None:
    """The n-th call fails, for n upward until a sweep in which nothing failed."""
    stream = Stream(ground)
    land(stream, 5)
    stream.seal(event("c", 9, {"id": 9, "v": "a"}))  # not committed
    late = stream.now + KEEP + DAY
    for at in itertools.count(1):
        gate = Counting(at, fault)
        inner = MemoryStore()
        for path in paths(stream.store, ""):
            inner.put(path, bytes(stream.store.get(path).bytes()))
        watched = WatchedStore(inner, gate)
        try:
            sweep(watched, STREAM, late)
        except (Died, StorageUnavailable, UnknownOutcome):
            assert gate.hit is not None
        gate.heal()
        done = sweep(watched, STREAM, late)
        assert done.upto == 5
        assert len(paths(inner, layout.staged_prefix(STREAM))) == 1
        assert len(paths(inner, layout.epoch_prefix(STREAM))) == 6
        if gate.hit is None:
            break
    assert at > 8


def test_where_nothing_is_to_be_done_little_is_asked(stream: Stream) -> None:
    land(stream, 6)
    inner = MemoryStore()
    for path in paths(stream.store, ""):
        inner.put(path, bytes(stream.store.get(path).bytes()))
    gate = Counting()
    sweep(WatchedStore(inner, gate), STREAM, stream.now)
    assert len(gate.log) == 2
