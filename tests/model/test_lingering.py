"""A job that stays for more, beside dispatchers that count on it: nothing that is sealed is left to nobody."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from firn.commit import warm_job
from firn.config import epoch_limits
from firn.log import cuts, epochs, job_closed_marker, layout, pause, published_configs
from firn.log.store import Store
from firn.runs.job_runs import Run
from tests.faults.calls import Counting
from tests.model.memory_lake import MemoryLake
from tests.model.processes import Process, Turns
from tests.model.world import CONFIG, STREAM, World, configuration

LIMIT = 300  # calls of a job


class Job:
    """A run as EMR Serverless starts it; `meanwhile` is done while it waits, once each time."""

    def __init__(
        self, world: World, run: Run, *meanwhile: Callable[[], object], seconds: float = 20.0, looks: float = 0.0
    ) -> None:
        self.world, self.run = world, run
        self.looks = looks  # how old its configuration may be
        self.left = list(meanwhile)
        self.seconds = seconds
        self.slept = 0
        self.lines: list[dict[str, Any]] = []

    def __call__(self) -> int:
        store = self.world.store()
        passing = count(0.0, self.seconds)
        clock = warm_job.Clock(self.world.clock, lambda: next(passing), self.sleep)
        return warm_job.run(
            store, MemoryLake(store, self.world.catalog), published_configs.CurrentConfig(store, self.looks),
            pause.Watch(store, 0),
            self.run.stream, self.run.first, self.run.last, log=self.lines.append, clock=clock,
            attempt=self.run.attempt,
        )  # fmt: skip

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        if self.left:
            self.left.pop(0)()


def sent(world: World, key: int) -> None:
    world.source.insert("orders", key)
    world.post(world.parcel(world.source.log[-1:]))


def started(world: World) -> Run:
    """One change, sealed, and the run that dispatch starts for it."""
    sent(world, 1)
    world.dispatch(force=True)
    (run,) = world.emr.active()
    return run


def all_committed(store: Store, stream: str = STREAM) -> bool:
    return cuts.newest(store, stream) == max(epochs.numbers(store, stream))


def test_a_job_commits_what_comes_while_it_lingers() -> None:
    world = World()
    run = started(world)

    def more() -> None:
        sent(world, 2)
        world.now += timedelta(seconds=3)

    job = Job(world, run, more)
    assert job() == 0
    assert cuts.newest(world.disk, STREAM) == 2
    assert [line["last"] for line in job.lines if line.get("status") == "committed" and "last" in line] == [1, 2]
    assert job_closed_marker.is_closed(world.disk, run.name)
    assert job.slept >= 3, "it stays for its linger after the last"


def test_a_job_that_lingers_takes_what_a_writer_floods_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_limits, "EVENTS_PER_WRITER", 1)
    writers = ", ".join(f"{name}: {{auth: {{by: api_key, secret: 'file:/{name}'}}, tables: ['*']}}" for name in "ab")
    world = World(config=CONFIG.replace("    tables:", f"    writers: {{{writers}}}\n    tables:", 1))

    def more() -> None:
        for key in (2, 3):
            sent(world, key)
        world.now += timedelta(seconds=3)

    assert Job(world, started(world), more)() == 0
    found = epochs.read_many(world.disk, STREAM, epochs.numbers(world.disk, STREAM))
    assert [len(one.batches) for one in found] == [1, 1, 1]
    assert all_committed(world.disk)


def test_what_has_just_come_waits_for_company() -> None:
    world = World()
    job = Job(world, started(world), lambda: sent(world, 2))
    assert job() == 0
    assert cuts.newest(world.disk, STREAM) == 1, "`fresh` has not passed on its clock"


def test_what_is_late_is_found_within_a_minute() -> None:
    """A job lists little of what was staged before the newest that is sealed, but now and then what may be late."""
    world = World()
    run = started(world)

    def late() -> None:
        began = world.now
        world.now -= timedelta(minutes=20)
        sent(world, 2)  # its function's clock is behind
        world.now = began + timedelta(seconds=3)

    def later() -> None:
        world.now += timedelta(seconds=30)

    before: list[int] = []
    job = Job(world, run, late, lambda: before.append(cuts.newest(world.disk, STREAM)), later, later, seconds=1.0)
    assert job() == 0
    assert before == [1]
    assert cuts.newest(world.disk, STREAM) == 2


def test_without_linger_a_job_ends_at_once() -> None:
    world = World(config=CONFIG.replace("    tables:\n", "    commit: {linger: 0s}\n    tables:\n", 1))
    job = Job(world, started(world))
    assert job() == 0
    assert job.slept == 0
    assert job_closed_marker.is_closed(world.disk, job.run.name)


def test_a_dispatcher_waits_for_a_job_that_has_not_closed_and_no_longer() -> None:
    world = World()
    run = started(world)
    sent(world, 2)
    world.dispatch(force=True)
    assert world.dispatched[-1] is not None
    assert world.dispatched[-1].waits_for == run.id
    job_closed_marker.close(world.disk, run.name)
    sent(world, 3)
    world.dispatch(force=True)
    assert world.dispatched[-1] is not None
    assert world.dispatched[-1].run not in (None, run.id)


def test_a_round_that_fails_ends_the_job_and_dispatch_goes_on() -> None:
    world = World()
    run = started(world)

    def break_an_epoch() -> None:
        sent(world, 2)
        world.dispatch(force=True)
        epoch = epochs.read(world.disk, STREAM, 2)
        assert epoch is not None
        body = bytes(world.disk.get(epoch.batches[0].path).bytes())
        world.disk.delete(epoch.batches[0].path)
        fixed.append(lambda: world.disk.put(epoch.batches[0].path, body))

    fixed: list[Callable[[], object]] = []
    job = Job(world, run, break_an_epoch)
    assert job() == 1
    assert job_closed_marker.is_closed(world.disk, run.name)
    world.emr.told(run, "FAILED")
    fixed[0]()
    world.dispatch(force=True)
    (following,) = world.emr.active()
    assert (following.first, following.attempt) == (2, 1), "the round was no attempt"
    assert Job(world, following)() == 0
    assert all_committed(world.disk)


def test_streams_that_share_a_job_share_it_unless_it_is_tried_again() -> None:
    two = CONFIG + CONFIG.partition("streams:\n")[2].replace("  shop:", "  other:").replace("lake.", "other.")
    config = published_configs.publish(World(config=two).disk, two)
    assert config.sharing("other") == ("shop", "other")
    apart = two.replace("  other:\n", "  other:\n    job: other\n")
    assert published_configs.publish(World(config=apart).disk, apart).sharing("other") == ("other",)


@pytest.mark.parametrize("fault", ["refused", "lost before", "lost after"])
def test_storage_that_is_away_for_a_moment_does_not_end_a_job(fault: Any) -> None:
    gate = Counting()
    world = World(gate)
    run = started(world)

    def away() -> None:
        sent(world, 2)
        world.now += timedelta(seconds=3)
        gate.at, gate.fault, gate.hit = len(gate.log) + 3, fault, None

    job = Job(world, run, away)
    assert job() == 0
    assert gate.hit is not None
    assert all_committed(world.disk)


@pytest.mark.parametrize("steps", range(0, 30))
@pytest.mark.parametrize("begins", ["job", "tick"])
def test_no_epoch_falls_between_a_job_that_ends_and_the_next(begins: str, steps: int) -> None:
    """A dispatcher seals and looks for a job, at every moment of the job's end; and the job ends, at every moment of
    the dispatcher's look."""
    gate = Turns()
    world = World(gate)
    run = started(world)
    sent(world, 2)
    job = Process(gate, "job", Job(world, run, seconds=100.0))
    tick = Process(gate, "tick", lambda: world.dispatch(force=True))
    for process in (job, tick):
        process.start()
    _until(job, "put jobs")
    # `steps` calls of the one, then all of the other, then the rest.
    first, second = (job, tick) if begins == "job" else (tick, job)
    for _ in range(steps):
        first.step()
    second.finish()
    first.finish()
    done = world.dispatched[-1]
    assert done is not None
    assert max(epochs.numbers(world.disk, STREAM)) == 2
    assert cuts.newest(world.disk, STREAM) == 2 or done.run not in (None, run.id), done


def _until(process: Process, call: str) -> None:
    """It stands before this call."""
    for _ in range(LIMIT):
        if process.pending == call:
            return
        process.step()
    raise AssertionError(f"{process.name} did not come to {call}; it stands before {process.pending}")


def test_the_mark_lies_where_dispatch_looks() -> None:
    assert layout.closed_path(Run("r", "shop", 1, 2, 3, "RUNNING").name) == "jobs/firn-shop-1-2-3.closed"


def test_a_job_ends_when_the_configuration_changes() -> None:
    """What it may touch was fixed when it was started: a table that is new since is the next job's."""
    world = World()
    run = started(world)

    def change() -> None:
        published_configs.publish(world.disk, CONFIG + "\n# a comment is a change\n")
        sent(world, 2)
        world.now += timedelta(seconds=3)

    job = Job(world, run, change)
    assert job() == 0
    assert (cuts.newest(world.disk, STREAM), epochs.numbers(world.disk, STREAM)) == (1, [1])
    assert job_closed_marker.is_closed(world.disk, run.name)


@pytest.mark.parametrize("steps", range(0, 24))
def test_what_comes_after_a_configuration_is_sealed_under_no_older_one(steps: int) -> None:
    """A column is called otherwise from now on, and the first rows under the new name come at any moment of a job's
    round. The job looked at its configuration before. Under that one they would make another column."""
    gate = Turns()
    world = World(gate)
    run = started(world)
    job = Process(gate, "job", Job(world, run, seconds=0.5, looks=1e9))
    job.start()
    _until(job, "list staged")
    world.now += timedelta(seconds=3)
    sent(world, 2)
    for _ in range(steps):
        job.step()
    new = published_configs.publish(world.disk, configuration(1))
    world.source.rename()
    sent(world, 3)
    world.now += timedelta(seconds=3)
    last = world.source.log[-1]
    job.finish()
    world.emr.told(run, "SUCCESS")
    world.settle(lambda program: program())
    found = [epoch for n in epochs.numbers(world.disk, STREAM) if (epoch := epochs.read(world.disk, STREAM, n))]
    newest = max(found, key=lambda epoch: epoch.batches[-1].id)
    assert newest.config == new.sha, last
    assert all_committed(world.disk)


def test_a_paused_job_ends_after_its_epoch_and_the_next_takes_the_rest() -> None:
    world = World()
    run = started(world)

    def stop() -> None:
        pause.begin(world.disk)
        sent(world, 2)
        world.now += timedelta(seconds=3)

    job = Job(world, run, stop)
    assert job() == 0
    world.emr.told(run, "SUCCESS")
    assert (cuts.newest(world.disk, STREAM), epochs.numbers(world.disk, STREAM)) == (1, [1])
    assert job_closed_marker.is_closed(world.disk, run.name)
    pause.end(world.disk)
    world.dispatch(force=True)
    (following,) = world.emr.active()
    assert Job(world, following)() == 0
    assert all_committed(world.disk)
