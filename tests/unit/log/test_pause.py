"""A stack that is paused, whatever happens to the call that pauses or resumes it."""

from datetime import UTC, datetime, timedelta

import pytest
from obstore.store import MemoryStore

from firn.errors import StorageUnavailable
from firn.log import pause
from tests.unit.log.storage_faults import Fault, FaultyStore


def test_a_pause_lasts_until_it_is_ended_and_a_second_one_keeps_the_first_time() -> None:
    store = MemoryStore()
    assert pause.since(store) is None
    pause.begin(store)
    first = pause.since(store)
    assert first is not None
    assert timedelta() <= datetime.now(UTC) - first < timedelta(minutes=1)
    pause.begin(store)
    assert pause.since(store) == first
    for _ in range(2):
        pause.end(store)
        assert pause.since(store) is None


@pytest.mark.parametrize("fault", ["refused", "lost before", "lost after"])
def test_an_answer_that_got_lost_leaves_it_paused(fault: Fault) -> None:
    store = FaultyStore(fault)
    pause.begin(store)
    assert pause.since(store) is not None


def test_who_can_not_look_does_not_take_it_for_running() -> None:
    store = FaultyStore()
    pause.begin(store)
    watch = pause.Watch(store, 0)
    assert watch()
    store.away = True
    for look in (lambda: pause.since(store), watch, lambda: pause.end(store)):
        with pytest.raises(StorageUnavailable):
            look()
    store.away = False
    assert watch()


def test_a_watch_looks_again_after_its_seconds() -> None:
    store, now = MemoryStore(), [0.0]
    watch = pause.Watch(store, 5, lambda: now[0])
    assert not watch()
    pause.begin(store)
    now[0] = 4.9
    assert not watch()
    now[0] = 5.0
    assert watch()
