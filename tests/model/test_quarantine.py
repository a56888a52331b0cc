"""What a job does about tables that fail or are behind, and about a source that went back: over tables in memory."""

from collections.abc import Callable
from typing import Any

import obstore
import pytest

from firn.config.names import TableName
from firn.dispatch.dispatcher import Terms, dispatch
from firn.errors import StorageUnavailable
from firn.log import cuts, epochs, holds, layout
from firn.log.holds import How, Quarantine
from firn.log.store import get
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import Call, MemoryLake
from tests.unit.log.interrupted_store import Died, InterruptedStore, When

OTHER = TableName("lake", "other")
MINUTE = 60_000


@pytest.fixture
def stream() -> Stream:
    return Stream(MemoryGround())


def catalog(stream: Stream) -> Any:
    return stream.ground.catalog  # type: ignore[attr-defined]


def held(stream: Stream) -> dict[str, Quarantine]:
    return holds.read_all(stream.store, STREAM).held()


def release(stream: Stream, table: str, how: How = "retry") -> None:
    found = held(stream)[table]
    assert holds.lift(stream.store, found, how, layout.instant(stream.tick()))


def go_on(stream: Stream) -> None:
    """What dispatch and its job do, at once."""
    done = dispatch(
        stream.store, STREAM, None, now=stream.tick(), force=True,
        terms=Terms(stream.config.sha, generation=stream.settings.generation),
    )  # fmt: skip
    assert done.pending is not None
    assert done.held is None
    assert stream.commit(*done.pending) == 0, stream.lines


def broken(table: TableName, error: Exception) -> Callable[[Call, Callable[[], Any]], Any]:
    """Commits of one table fail."""

    def around(call: Call, effect: Callable[[], Any]) -> Any:
        if call.kind == "commit" and call.table == table:
            raise error
        return effect()

    return around


def fixed(call: Call, effect: Callable[[], Any]) -> Any:
    return effect()


def two(lsn: int, v: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return event("c", lsn, {"id": lsn, "v": v}), event("c", lsn + 1, {"id": lsn, "v": v}, table="other")


def balance(stream: Stream) -> dict[str, int]:
    """events by table over all cuts, each of which must balance in itself."""
    total: dict[str, int] = {}
    for n in cuts.numbers(stream.store, STREAM):
        cut = cuts.read(stream.store, STREAM, n)
        assert cut is not None
        for table, counts in cut.counts.items():
            assert counts["events"] == sum(counts[name] for name in ("merged", "superseded", "ignored", "dead"))
            total[table] = total.get(table, 0) + counts["events"]
    return total


def test_a_changed_key_quarantines_its_table_and_the_others_go_on(stream: Stream) -> None:
    stream.land(*two(10, "a"))
    stream.publish(CONFIG.replace("lake.orders, key: [id]", "lake.orders, key: [v]"))
    stream.land(*two(20, "b"))
    assert stream.line(ORDERS)["status"] == "quarantined"
    assert stream.cut().quarantined == {"lake.orders": "key_changed"}
    assert (stream.cut().n, stream.cut().progress) == (2, {"lake.orders": 1, "lake.other": 2})
    stream.land(*two(30, "c"))
    assert stream.line(ORDERS)["status"] == "quarantined"
    assert stream.values(OTHER) == [(10, "a"), (20, "b"), (30, "c")]
    assert stream.values() == [(10, "a")]
    assert "firn resume shop lake.orders" in held(stream)["lake.orders"].advice

    stream.publish(CONFIG)
    release(stream, "lake.orders")
    go_on(stream)
    assert stream.values() == [(10, "a"), (20, "b"), (30, "c")]
    assert (stream.cut().quarantined, stream.cut().progress["lake.orders"]) == ({}, 3)
    assert balance(stream) == {"lake.orders": 3, "lake.other": 3}
    idle = dispatch(stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha), force=True)
    assert idle.pending is None


def test_other_failures_quarantine_at_the_last_attempt_only(stream: Stream) -> None:
    catalog(stream).around = broken(ORDERS, ValueError("what is this"))
    n = stream.seal(*two(10, "a"))
    assert [stream.commit(n, attempt=attempt) for attempt in (1, 2, 3)] == [1, 1, 0]
    assert held(stream)["lake.orders"].reason == "failed"
    assert "what is this" in held(stream)["lake.orders"].message
    assert stream.values(OTHER) == [(10, "a")]


def test_what_passes_by_itself_never_quarantines(stream: Stream) -> None:
    catalog(stream).around = broken(ORDERS, StorageUnavailable("away"))
    n = stream.seal(*two(10, "a"))
    assert [stream.commit(n, attempt=attempt) for attempt in (1, 3, 30)] == [1, 1, 1]
    assert held(stream) == {}
    assert cuts.newest(stream.store, STREAM) == 0
    catalog(stream).around = fixed
    assert stream.commit(n) == 0


def spoil(stream: Stream, n: int) -> dict[str, bytes]:
    """The objects of an epoch become what no reader takes. -> what they were."""
    sealed = epochs.read(stream.store, STREAM, n)
    assert sealed is not None
    there = {batch.path: get(stream.store, batch.path) or b"" for batch in sealed.batches}
    for path in there:
        obstore.put(stream.store, path, b"no Parquet")
    return there


def test_an_epoch_that_can_not_be_read_is_held_at_the_last_attempt_and_the_others_go_on(stream: Stream) -> None:
    numbers = [stream.seal(*two(10 * n, "a")) for n in range(1, 6)]
    was = spoil(stream, 2) | spoil(stream, 5)
    assert [stream.commit(1, 5, attempt=attempt) for attempt in (1, 2)] == [1, 1]
    assert holds.read_epochs(stream.store, STREAM) == {}
    assert stream.commit(1, 5, attempt=3) == 0, stream.lines
    assert set(holds.read_epochs(stream.store, STREAM)) == {2, 5}
    assert (stream.cut().n, numbers) == (5, [1, 2, 3, 4, 5])
    assert stream.values() == [(10, "a"), (30, "a"), (40, "a")]
    case = holds.read_all(stream.store, STREAM).epochs[2].quarantine
    assert (case.reason, "firn resume shop --epoch 2" in case.advice) == ("failed", True)
    assert balance(stream) == {"lake.orders": 3, "lake.other": 3}

    for path, body in was.items():
        obstore.put(stream.store, path, body)
    for n in (2, 5):
        found = holds.read_all(stream.store, STREAM).epochs[n].quarantine
        assert holds.lift(stream.store, found, "retry", layout.instant(stream.tick()))
    go_on(stream)
    assert stream.values() == [(10, "a"), (20, "a"), (30, "a"), (40, "a"), (50, "a")]
    assert balance(stream) == {"lake.orders": 5, "lake.other": 5}


def test_a_range_of_which_nothing_can_be_read_is_not_the_epochs_fault(stream: Stream) -> None:
    for n in (1, 2):
        stream.seal(*two(10 * n, "a"))
        spoil(stream, n)
    assert [stream.commit(1, 2, attempt=attempt) for attempt in (1, 3, 30)] == [1, 1, 1]
    assert holds.read_epochs(stream.store, STREAM) == {}
    assert cuts.newest(stream.store, STREAM) == 0


def test_a_released_table_that_fails_again_is_quarantined_again_and_loses_nothing(stream: Stream) -> None:
    catalog(stream).around = broken(ORDERS, ValueError("bad"))
    for number in (1, 2):
        assert stream.commit(stream.seal(*two(10 * number, "a")), attempt=3) == 0
    release(stream, "lake.orders")
    found = dispatch(stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha), force=True).pending
    assert found == (3, 3)
    assert stream.commit(3, attempt=3) == 0
    assert [held(stream)["lake.orders"].epoch, stream.cut().quarantined] == [1, {"lake.orders": "failed"}]
    catalog(stream).around = fixed
    release(stream, "lake.orders")
    go_on(stream)
    assert stream.values() == [(10, "a"), (20, "a")]
    assert balance(stream) == {"lake.orders": 2, "lake.other": 2}


def test_a_released_table_that_cannot_catch_up_gets_nothing_newer_either(stream: Stream) -> None:
    catalog(stream).around = broken(ORDERS, ValueError("bad"))
    assert stream.commit(stream.seal(*two(10, "a")), attempt=3) == 0
    release(stream, "lake.orders")
    n = stream.seal(*two(20, "b"))
    assert stream.commit(n) == 1
    catalog(stream).around = fixed
    assert stream.commit(n) == 0
    assert stream.values() == [(10, "a"), (20, "b")]
    assert balance(stream) == {"lake.orders": 2, "lake.other": 2}


def test_a_table_that_is_told_to_skip_never_gets_those_epochs_and_they_are_accounted(stream: Stream) -> None:
    stream.land(*two(10, "a"))
    catalog(stream).around = broken(ORDERS, ValueError("bad"))
    assert stream.commit(stream.seal(*two(20, "b")), attempt=3) == 0
    catalog(stream).around = fixed
    release(stream, "lake.orders", "skip")
    stream.land(*two(30, "c"))
    assert stream.values() == [(10, "a"), (30, "c")]
    assert (
        stream.cut().counts["lake.orders"] | {"events": 2, "merged": 1, "ignored": 1}
        == stream.cut().counts["lake.orders"]
    )
    assert balance(stream) == {"lake.orders": 3, "lake.other": 3}
    stream.land(*two(40, "d"))
    assert balance(stream) == {"lake.orders": 4, "lake.other": 4}


@pytest.mark.parametrize(("how", "values"), [("replay", "abcd"), ("skip", "acd")])
def test_a_table_rolled_back_by_hand_waits_for_a_decision(stream: Stream, how: How, values: str) -> None:
    stream.land(*two(10, "a"))
    before = catalog(stream).tables[ORDERS].current
    stream.land(*two(20, "b"))
    catalog(stream).rollback(ORDERS, before)
    stream.land(*two(30, "c"))
    assert stream.values() == [(10, "a")]
    found = held(stream)["lake.orders"]
    assert (found.reason, found.epoch, found.last) == ("rolled_back", 2, 3)
    assert stream.cut().quarantined == {"lake.orders": "rolled_back"}
    release(stream, "lake.orders", how)
    stream.land(*two(40, "d"))
    lines = {"a": (10, "a"), "b": (20, "b"), "c": (30, "c"), "d": (40, "d")}
    assert stream.values() == [lines[v] for v in values]
    assert balance(stream) == {"lake.orders": 4, "lake.other": 4}
    stream.land(*two(50, "e"))
    assert stream.cut().quarantined == {}


def test_a_dropped_table_is_made_again_from_the_log(stream: Stream) -> None:
    stream.land(*two(10, "a"))
    stream.land(*two(20, "b"))
    del catalog(stream).tables[ORDERS]
    stream.land(*two(30, "c"))
    assert held(stream)["lake.orders"].reason == "rolled_back"
    release(stream, "lake.orders", "replay")
    go_on(stream)
    assert stream.values() == [(10, "a"), (20, "b"), (30, "c")]


def test_a_replay_whose_epochs_have_expired_says_so(stream: Stream) -> None:
    stream.land(*two(10, "a"))
    stream.land(*two(20, "b"))
    catalog(stream).rollback(ORDERS, None)
    stream.land(*two(30, "c"))
    stream.store.delete(layout.epoch_path(STREAM, 1))
    epochs._known.clear()
    release(stream, "lake.orders", "replay")
    go_on(stream)
    assert held(stream)["lake.orders"].reason == "expired"
    assert "epoch 1 is no longer in the log" in held(stream)["lake.orders"].message


def test_a_release_needs_no_epochs_from_before_the_quarantine(stream: Stream) -> None:
    stream.land(*two(10, "a"))
    for number in (2, 3):
        stream.land(event("c", 10 * number, {"id": number, "v": "x"}, table="other"))
    catalog(stream).around = broken(ORDERS, ValueError("bad"))
    assert stream.commit(stream.seal(*two(40, "b")), attempt=3) == 0
    catalog(stream).around = fixed
    for number in (1, 2, 3):
        stream.store.delete(layout.epoch_path(STREAM, number))
    epochs._known.clear()
    release(stream, "lake.orders")
    go_on(stream)
    assert stream.values() == [(10, "a"), (40, "b")]
    assert (held(stream), stream.cut().quarantined) == ({}, {})


def a_story(stream: Stream, store: Any) -> None:
    """Dispatch and a job over `store`, until nothing is left to do."""
    lake = MemoryLake(store, catalog(stream))
    for _ in range(5):
        done = dispatch(store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha), force=True)
        if done.pending is None:
            return
        assert stream.commit(*done.pending, lake=lake, store=store, attempt=3) == 0
    pytest.fail("it never ends")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_storage_call_of_a_quarantine_and_a_release_changes_nothing(when: When) -> None:
    for call in range(1, 500):
        stream = Stream(MemoryGround())
        catalog(stream).around = broken(ORDERS, ValueError("bad"))
        stream.post(*two(10, "a"))
        breaking = InterruptedStore(stream.store, at=call, when=when)
        died = False
        for mended_by_now in (False, True):
            if mended_by_now:
                stream.post(*two(20, "b"))
                catalog(stream).around = fixed
                release(stream, "lake.orders")
            try:
                a_story(stream, breaking)
            except Died:
                died = True
                breaking = InterruptedStore(stream.store)
                a_story(stream, stream.store)
        assert stream.values() == stream.values(OTHER) == [(10, "a"), (20, "b")]
        assert balance(stream) == {"lake.orders": 2, "lake.other": 2}
        assert stream.cut().quarantined == {}
        if not died:
            assert call > 30
            return
    pytest.fail("the calls have no end")


def at(one: dict[str, Any], minutes: float) -> dict[str, Any]:
    one["source"]["ts_ms"] = 1_700_000_000_000 + int(minutes * MINUTE)
    return one


def test_a_restored_source_holds_the_stream_until_its_generation_is_raised(stream: Stream) -> None:
    stream.land(at(event("c", 1000, {"id": 1, "v": "a"}), 0), at(event("u", 2000, {"id": 1, "v": "b"}), 60))
    n = stream.seal(at(event("u", 1500, {"id": 1, "v": "restored"}), 90))
    assert stream.commit(n) == 0
    assert stream.lines[-1]["status"] == "quarantined"
    assert stream.values() == [(1, "b")]
    assert cuts.newest(stream.store, STREAM) == 1
    found = holds.read_all(stream.store, STREAM).held_stream(0)
    assert found is not None
    assert "`generation: 1`" in found.advice
    told = dispatch(stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha), force=True)
    assert (told.quarantined, told.held is not None) == (("stream",), True)

    stream.publish(CONFIG.replace("  shop:\n", "  shop:\n    generation: 1\n"))
    go_on(stream)
    assert stream.values() == [(1, "restored")]
    stream.land(at(event("u", 1600, {"id": 1, "v": "and on"}), 91))
    assert stream.values() == [(1, "and on")]


def test_a_stream_that_was_held_by_mistake_is_released_by_hand(stream: Stream) -> None:
    stream.land(at(event("c", 2000, {"id": 1, "v": "b"}), 60))
    n = stream.seal(at(event("c", 1500, {"id": 2, "v": "clock ahead"}), 90))
    assert stream.commit(n) == 0
    found = holds.read_all(stream.store, STREAM).held_stream(0)
    assert found is not None
    holds.lift(stream.store, found, "retry", layout.instant(stream.tick()))
    assert stream.commit(n) == 0
    assert stream.values() == [(1, "b"), (2, "clock ahead")]


def test_late_doubled_and_read_again_changes_never_hold_a_stream(stream: Stream) -> None:
    first = at(event("c", 1000, {"id": 1, "v": "a"}), 0)
    stream.land(first, at(event("u", 2000, {"id": 1, "v": "b"}), 60))
    stream.land(first, at(event("u", 1900, {"id": 1, "v": "late"}), 59), at(event("u", 1990, {"id": 1, "v": "x"}), 64))
    stream.land(at(event("r", 1500, {"id": 3, "v": "incremental"}), 600))
    flat = at(event("u", 1200, {"id": 4, "v": "lsn alone"}), 600)
    flat["source"]["sequence"] = None
    stream.land(flat)
    assert stream.values() == [(1, "b"), (3, "incremental"), (4, "lsn alone")]


def test_a_staging_area_begun_anew_is_numbered_on_from_the_tables(stream: Stream) -> None:
    for number in (1, 2, 3):
        stream.land(*two(10 * number, "a"))
    ground = MemoryGround()
    ground.catalog = catalog(stream)
    ground.lake.catalog = ground.catalog
    again = Stream(ground)
    n = again.seal(*two(40, "new"))
    assert n == 1
    assert again.commit(1) == 0
    assert again.lines[-1]["status"] == "renumbered"
    go_on(again)
    assert again.values()[-1] == (40, "new")
    assert (again.cut().n, again.cut().progress["lake.orders"]) == (4, 4)
    assert balance(again) == {"lake.orders": 1, "lake.other": 1}
    assert get(again.store, layout.quarantine_path(STREAM, "epochs", 1)) is not None


RAISED = CONFIG.replace("  shop:\n", "  shop:\n    generation: 1\n")


def test_what_a_restored_source_sent_before_its_generation_was_raised_counts_under_the_raised_one(
    stream: Stream,
) -> None:
    stream.land(at(event("c", 1000, {"id": 1, "v": "a"}), 0), at(event("u", 2000, {"id": 1, "v": "b"}), 60))
    first = stream.seal(at(event("u", 1500, {"id": 1, "v": "restored"}), 90))
    stream.publish(RAISED)
    last = stream.seal(at(event("c", 1600, {"id": 2, "v": "and on"}), 91))
    assert stream.commit(first, last) == 0
    assert (stream.lines[-1]["status"], stream.values()) == ("committed", [(1, "restored"), (2, "and on")])
    stream.land(at(event("u", 2000, {"id": 1, "v": "b"}), 60), at(event("u", 1500, {"id": 1, "v": "restored"}), 90))
    assert stream.values() == [(1, "restored"), (2, "and on")]
    idle = dispatch(stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha, generation=1))
    assert (idle.held, idle.pending) == (None, None)


def test_what_a_held_stream_was_told_again_keeps_its_generation(stream: Stream) -> None:
    old = at(event("u", 2000, {"id": 1, "v": "b"}), 60)
    stream.land(at(event("c", 1000, {"id": 1, "v": "a"}), 0), old)
    n = stream.seal(old, at(event("u", 1500, {"id": 1, "v": "restored"}), 90))
    assert stream.commit(n) == 0
    assert stream.lines[-1]["status"] == "quarantined"
    stream.publish(RAISED)
    go_on(stream)
    assert stream.values() == [(1, "restored")]
