"""A job's turn at file sinks: plans partition the epochs, and what dies between two steps is written once.

Real ingest, sealing and job, tables in memory, rows as lines (tests/memory_sink.py).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.commit import sink_turn
from firn.dispatch.dispatcher import Terms, dispatch
from firn.log import cuts, epochs, holds, layout
from firn.log.batches import FORMAT
from firn.log.store import get, open_store, paths
from firn.maintenance.log_retention import safe_upto, sweep, written_upto
from firn.sinks import plans, state
from tests.faults.calls import FAULTS, Counting, Died, Fault, WatchedStore, in_order
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.soak import times

CONFIG = """
streams:
  shop:
    tables:
      app.orders: {to: lake.orders, key: [id]}
    pipelines:
      raw:
        sql: SELECT * FROM app.orders
        files:
          {to: file:///sinks/raw, format: json, compression: none, path: 'r={region}', roll: {every: 60s, size: 1MB}}
"""
HOUR = timedelta(hours=1)


class Sinks:
    """The sinks' stores by address, each in memory."""

    def __init__(self) -> None:
        self.stores: dict[str, Any] = {}
        self.around: Callable[[Any], Any] = lambda store: store

    def __call__(self, to: str) -> Any:
        return self.around(self.stores.setdefault(to, MemoryStore()))

    def lines(self, *, to: str = "file:///sinks/raw") -> list[dict[str, Any]]:
        """All rows that lie in the sink, whatever a manifest says."""
        store = self.stores.get(to) or MemoryStore()
        bodies = [get(store, path) or b"" for path in paths(store, "")]
        return [json.loads(line) for body in bodies for line in body.splitlines()]


@pytest.fixture
def sinks(monkeypatch: pytest.MonkeyPatch) -> Sinks:
    found = Sinks()
    in_order(monkeypatch)
    monkeypatch.setattr(sink_turn, "open_files", found)
    return found


@pytest.fixture
def stream() -> Stream:
    return Stream(MemoryGround(), CONFIG)


def order(n: int, region: str | None = "eu", **more: Any) -> dict[str, Any]:
    return event("c", n, {"id": n, "region": region, **more})


def manifests(stream: Stream, name: str = "raw") -> list[plans.Manifest]:
    return plans.manifests(stream.store, STREAM, name)


def spans(stream: Stream, name: str = "raw") -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in manifests(stream, name)]


def listed(stream: Stream, sinks: Sinks) -> list[int]:
    """The ids in the files that the manifests name."""
    store = sinks.stores.get("file:///sinks/raw")
    found = []
    for manifest in manifests(stream):
        for one in manifest.files:
            body = get(store, one.path)
            assert body is not None
            assert (len(body), body.count(b"\n")) == (one.bytes, one.rows)
            found += [json.loads(line)["id"] for line in body.splitlines()]
    return sorted(found)


def wake(stream: Stream, *, later: timedelta = timedelta()) -> int | None:
    """What dispatch does when time has passed: an empty epoch, if files are due, and its job. -> the epoch."""
    stream.now += later
    done = dispatch(stream.store, STREAM, None, now=stream.now, terms=Terms(stream.config.sha), tick=timedelta())
    if done.pending is not None:
        assert stream.commit(*done.pending) == 0, stream.lines
    return done.sealed[0] if done.sealed else None


def test_what_waits_is_written_once_it_is_old_enough_over_several_epochs(stream: Stream, sinks: Sinks) -> None:
    stream.land(order(1), order(2, "us"))
    stream.land(order(3))
    assert manifests(stream) == []
    assert stream.cut().files == {"raw": 0}
    assert wake(stream) is None  # not yet
    assert wake(stream, later=timedelta(seconds=61)) == 3
    assert spans(stream) == [(1, 2)]
    assert listed(stream, sinks) == [1, 2, 3]
    assert sorted(one.path.partition("/")[0] for one in manifests(stream)[0].files) == ["r=eu", "r=us"]
    assert wake(stream, later=HOUR) is None  # nothing waits any more


def test_what_reaches_the_size_is_written_at_once(stream: Stream, sinks: Sinks) -> None:
    stream.publish(CONFIG.replace("1MB", "1KB"))
    stream.land(order(1))
    assert spans(stream) == [(1, 1)]
    stream.land(order(2))
    assert spans(stream) == [(1, 1), (2, 2)]


def test_a_plan_has_one_configuration(stream: Stream, sinks: Sinks) -> None:
    stream.land(order(1))
    stream.publish(CONFIG.replace("file:///sinks/raw", "file:///sinks/new"))
    stream.land(order(2))
    assert spans(stream) == [(1, 1)]
    wake(stream, later=HOUR)
    assert [one.to for one in manifests(stream)] == ["file:///sinks/raw", "file:///sinks/new"]
    assert [one["id"] for one in sinks.lines()] == [1]
    assert [one["id"] for one in sinks.lines(to="file:///sinks/new")] == [2]


def test_a_sink_that_is_taken_out_of_the_configuration_gets_what_waits(stream: Stream, sinks: Sinks) -> None:
    stream.land(order(1))
    without = CONFIG.partition("    pipelines:")[0]
    stream.publish(without)
    stream.land(order(2))
    assert listed(stream, sinks) == [1]
    stream.land(order(3))
    assert stream.cut().files == {}
    stream.publish(CONFIG)
    stream.land(order(4))
    wake(stream, later=HOUR)
    assert listed(stream, sinks) == [1, 4]  # it begins with the first epoch that names it


def test_a_sink_that_fails_stops_nothing_else_and_is_tried_again_later(stream: Stream, sinks: Sinks) -> None:
    stream.publish(CONFIG.replace("1MB", "1KB"))
    stream.land(order(1, kills=True))
    (failed,) = [line for line in stream.lines if line.get("sink")]
    assert (failed["status"], failed["error"]) == ("failed", "TerminalError: this row can't be read")
    assert failed["tries"] == 1
    known = state.read(stream.store, STREAM).sinks["raw"]
    assert known.error == "TerminalError: this row can't be read"
    stream.land(order(2))
    assert not [line for line in stream.lines if line.get("sink")]  # it rests
    assert wake(stream, later=timedelta(seconds=70)) is not None
    assert state.read(stream.store, STREAM).sinks["raw"].tries == 2
    assert stream.cut().files == {"raw": 0}
    wake(stream, later=HOUR)
    done = dispatch(stream.store, STREAM, None, now=stream.now, terms=Terms(stream.config.sha))
    assert done.quarantined == ("files of raw",)  # an alarm goes by that
    assert safe_upto(stream.cut(), holds.Quarantines(), written_upto(stream.store, STREAM, stream.cut())) == (
        0, "the files of raw lack what is above epoch 0",
    )  # fmt: skip


def test_the_log_is_kept_until_the_files_have_it(stream: Stream, sinks: Sinks) -> None:
    stream.publish(CONFIG.replace("every: 60s", "every: 24h"))
    stream.land(order(1))
    stream.land(order(2))
    stream.now += timedelta(days=20)
    found = sweep(stream.store, STREAM, stream.now)
    assert (found.batches, found.waiting) == (
        0,
        "epoch 1 is old enough, but the files of raw lack what is above epoch 0",
    )
    wake(stream)
    assert listed(stream, sinks) == [1, 2]
    assert sweep(stream.store, STREAM, stream.now).batches == 2


def test_batches_of_an_epoch_that_is_quarantined_after_its_plan_are_not_written_again(
    stream: Stream, sinks: Sinks
) -> None:
    stream.publish(CONFIG.replace("1MB", "1KB"))
    stream.land(order(1))
    kept = cuts.newest(stream.store, STREAM)
    held = holds.Quarantine(FORMAT, STREAM, kept, layout.instant(stream.now), "killed", "it kills", "fix", epoch=kept)
    holds.hold(stream.store, held)
    holds.lift(stream.store, held, "retry", layout.instant(stream.now))
    stream.land(order(2))  # seals the batch of the first once more
    newest = epochs.read(stream.store, STREAM, cuts.newest(stream.store, STREAM))
    assert newest is not None
    assert len(newest.batches) == 2
    assert listed(stream, sinks) == [1, 2]


def test_dispatch_wakes_a_job_that_died_between_the_cut_and_the_files(stream: Stream, sinks: Sinks) -> None:
    stream.publish(CONFIG.replace("1MB", "1KB"))
    n = stream.seal(order(1))
    gate = Counting("put sinks", "dies before")
    with pytest.raises(Died):
        stream.commit(n, store=WatchedStore(stream.store, gate))
    assert cuts.newest(stream.store, STREAM) == n
    assert manifests(stream) == []
    assert wake(stream) is not None
    assert listed(stream, sinks) == [1]


def _histories(seed: int) -> Iterator[list[dict[str, Any]]]:
    for n in range(1, 5):
        yield [order(10 * n + i, [None, "eu", "..", "a/b"][(seed + n + i) % 4]) for i in range(3)]


@pytest.mark.parametrize("fault", FAULTS)
def test_killed_at_any_call_the_files_hold_each_row_once(fault: Fault, sinks: Sinks) -> None:
    """Every call of a turn, on the log and on the sink, fails once in each way; quick runs take every seventh."""
    step = times(7, 1)
    at, hit = 1 + FAULTS.index(fault), True
    while hit:
        hit = _killed_once(at, fault, sinks)
        at += step


def _killed_once(at: int, fault: Fault, sinks: Sinks) -> bool:
    sinks.stores.clear()
    stream = Stream(MemoryGround(), CONFIG.replace("1MB", "1KB"))
    gate = Counting(at, fault)
    watched = WatchedStore(stream.store, gate)
    sinks.around = lambda store: WatchedStore(store, gate)
    ids = []
    for some in _histories(at):
        ids += [one["after"]["id"] for one in some]
        n = stream.seal(*some)
        gate.born_again()
        with suppress(Died):
            stream.commit(n, store=watched)
    gate.heal()
    for _ in range(4):
        wake(stream, later=timedelta(seconds=121))
    assert listed(stream, sinks) == sorted(ids), gate.hit
    # Nothing else lies there, and the plans partition the epochs.
    assert Counter(one["id"] for one in sinks.lines()) == Counter(ids), gate.hit
    found = spans(stream)
    assert [first for first, _ in found] == [1, *(last + 1 for _, last in found[:-1])]
    return gate.hit is not None


def test_twins_that_plan_at_once_leave_one_set_of_files(stream: Stream, sinks: Sinks) -> None:
    stream.publish(CONFIG.replace("1MB", "1KB"))
    n = stream.seal(order(1), order(2, "us"))
    ran: list[int] = []

    class Gate(Counting):
        def call(self, where: Any, name: str, effect: Any) -> Any:
            self.log.append(name)
            if self.log.count("put sinks") == 2 and not ran:  # the first says that it is at it, the second is the plan
                stream.now += timedelta(minutes=2)  # this job seems to have died of it
                ran.append(stream.commit(n))
                assert spans(stream) == [(1, 1)]
            return effect()

    assert stream.commit(n, store=WatchedStore(stream.store, Gate())) == 0
    assert ran == [0]
    assert listed(stream, sinks) == [1, 2]
    assert len(sinks.lines()) == 2
    assert spans(stream) == [(1, 1)]


def test_files_lie_where_the_address_says(tmp_path: Any) -> None:
    stream = Stream(MemoryGround(), CONFIG.replace("file:///sinks/raw", tmp_path.as_uri()).replace("1MB", "1KB"))
    stream.land(order(1, "ü/."))
    (manifest,) = manifests(stream)
    assert manifest.to == tmp_path.as_uri()
    assert paths(open_store(manifest.to), "") == [one.path for one in manifest.files]
    assert manifest.files[0].path.startswith("r=%C3%BC%2F./shop.raw.00000001-")
