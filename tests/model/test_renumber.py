"""A staging area that was started over, while others go on: no batch stays in an epoch that the tables take for old."""

from collections.abc import Callable
from typing import Any

import pytest

from firn.dispatch.dispatcher import Terms, dispatch
from firn.log import cuts, epochs
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake
from tests.soak import MUTANTS, few_cases, times
from tests.unit.audit.audited import audited
from tests.unit.log.interrupted_store import Died, InterruptedStore, When
from tests.unit.log.turns import FOREVER, Turns

Program = Callable[[Any], Any]


def begun_anew(old: int = 4) -> tuple[Stream, MemoryGround]:
    """Tables that have `old` epochs of another log; in this one epoch 1 is sealed, and more is staged."""
    before = Stream(MemoryGround())
    for number in range(1, old + 1):
        before.land(event("c", 10 * number, {"id": number, "v": "old"}))
    ground = MemoryGround()
    ground.catalog = ground.lake.catalog = before.ground.catalog  # type: ignore[attr-defined]
    stream = Stream(ground)
    stream.post(event("c", 100, {"id": 100, "v": "new"}))
    assert seal(stream)(stream.store).sealed == (1,)
    stream.post(event("c", 200, {"id": 200, "v": "new"}))
    return stream, ground


def seal(stream: Stream) -> Program:
    """A dispatcher."""
    return lambda store: dispatch(store, STREAM, None, now=stream.now, terms=Terms(stream.config.sha), force=True)


def job(stream: Stream, ground: MemoryGround) -> Program:
    """The job for the epoch that is sealed."""
    return lambda store: stream.commit(1, lake=MemoryLake(store, ground.catalog), store=store)


def ends_well(stream: Stream, ground: MemoryGround, old: int = 4, events: int = 3) -> None:
    """Dispatchers and jobs, until all is in: everything is in the table and counted once."""
    stream.post(event("c", 300, {"id": 300, "v": "new"}))
    for _ in range(6):
        done = dispatch(stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha), force=True)
        if done.pending is None:
            break
        assert stream.commit(*done.pending) == 0, stream.lines[-1]
    assert [id for id, v in stream.values() if v == "new"] == [100, 200, 300], epochs.numbers(stream.store, STREAM)
    assert stream.cut().n > old
    found = [cuts.read(stream.store, STREAM, n) for n in cuts.numbers(stream.store, STREAM)]
    assert sum(cut.counts.get("lake.orders", {}).get("events", 0) for cut in found if cut) == events
    assert audited(stream, ground).differences == []


@few_cases(1)
@pytest.mark.parametrize("old", [2, 4])
@pytest.mark.parametrize("dispatcher_first", [True, False])
def test_a_dispatcher_that_seals_at_any_moment_of_it_loses_nothing(dispatcher_first: bool, old: int) -> None:
    def tried(first: int, second: int) -> list[int]:
        stream, ground = begun_anew(old)
        programs = [seal(stream), job(stream, ground)]
        turns = Turns(stream.store, first, second)
        assert turns.run(programs if dispatcher_first else programs[::-1]) == [None, None]
        ends_well(stream, ground, old)
        return turns.calls

    one, other = tried(FOREVER, FOREVER)
    assert min(one, other) > 5
    step = 3 if MUTANTS else times(5, 1)
    for first in range(one + 1):
        for second in range(1 + first % step, other + 2, step):
            tried(first, second)


@pytest.mark.parametrize("old", [1, 2, 3, 4])
def test_a_new_log_that_has_come_as_far_as_the_tables_is_told_from_theirs(old: int) -> None:
    for sealed in range(4):
        stream, ground = begun_anew(old)
        for number in range(sealed):
            stream.post(event("c", 210 + number, {"id": 1, "v": "old"}))
            seal(stream)(stream.store)
        job(stream, ground)(stream.store)
        assert stream.lines[-1]["status"] == "renumbered"
        ends_well(stream, ground, old, 3 + sealed)


@few_cases(1)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("old", [1, 4])
def test_a_job_that_dies_at_any_call_of_it_is_followed_by_one_that_ends_it(when: When, old: int) -> None:
    for call in range(1, 100):
        stream, ground = begun_anew(old)
        try:
            job(stream, ground)(InterruptedStore(stream.store, at=call, when=when))
        except Died:
            ends_well(stream, ground, old)
        else:
            assert call > 10
            return
    pytest.fail("the calls have no end")
