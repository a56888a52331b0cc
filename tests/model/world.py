"""All of Firn but Spark, over memory: the programs that run, and those around them who try again.

The programs are the real ones (ingest, queue, dispatch, commit job, replay, release). Senders, SQS, EMR Serverless and
the clocks are played here, by what their documentation promises and no more.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any, Final

from obstore.store import MemoryStore

from firn.commit import warm_job
from firn.config.names import TableName
from firn.dispatch.dispatcher import Dispatched, Terms, dispatch
from firn.errors import ConfigError, FirnError, RequestError, StorageUnavailable, TransientError, UnknownOutcome
from firn.ingest.accept import accept, accepted_before, stream_config
from firn.ingest.dead_letter_metrics import print_dead
from firn.ingest.queue import Message as Arrived
from firn.ingest.queue import take
from firn.ingest.replay import Choice, replay
from firn.log import backlog, cuts, epochs, holds, layout, named_cuts, pause, published_configs
from firn.log.backlog_gate import Gate as Ingress
from firn.log.store import Store, paths
from firn.maintenance.cut_coverage import counted
from firn.runs.job_runs import Run
from firn.tables.renames import RENAMES
from tests.faults.calls import Gate, WatchedStore
from tests.model.memory_lake import Call, Catalog, LostRace, MemoryLake
from tests.model.source import NAMES, TABLES, Event, Postgres

STREAM: Final = "shop"
CONFIG: Final = """
streams:
  shop:
    backlog: {events: 12}
    tables:
      app.orders: {to: lake.orders, key: [id], columns: {id: long}}
      app.items: {to: lake.items, key: [id], columns: {id: long}}
      app.items_old: {to: lake.items, key: [id], columns: {id: long}}
      app.log: {to: lake.log, mode: append}
"""
DECLARED: Final = ("", "renames: {remark: v}", "renames: {note: remark, remark: v}")  # of source.NAMES


def configuration(renamed: int, comment: object = "", buckets: int = 0) -> str:
    """CONFIG after so many renames, with tables in so many buckets."""
    columns = "columns: {id: long}"
    more = [DECLARED[renamed]] * bool(renamed) + [f"partition_by: ['bucket({buckets}, id)']"] * bool(buckets)
    text = CONFIG.replace(columns, ", ".join([columns, *more]))
    return f"{text}\n# {comment}\n" if comment else text


START: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
_KEPT_TRYING: Final = 40
ORPHANS_AFTER: Final = timedelta(days=1)  # the least that firn.yaml may say


@dataclass
class Parcel:
    """Events on their way: a request that a sender repeats until it is told 202, or a message that SQS brings until it
    is deleted. `name`: idempotency key or message id, None for a request without a key; `tries`: how often it was sent.
    """

    events: tuple[Event, ...]
    name: str | None
    queued: bool = False
    tries: int = 0
    acknowledged: bool = False
    in_flight: bool = False

    @property
    def body(self) -> bytes:
        return "\n".join(event.line for event in self.events).encode()


@dataclass
class Emr:
    """EMR Serverless: a run for each different token. It knows of a run what it was told last, which may be wrong."""

    gate: Gate
    clock: Callable[[], datetime]
    known: dict[tuple[int, int, int], Run] = field(default_factory=dict)
    created: dict[str, datetime] = field(default_factory=dict)

    def runs(self, since: datetime) -> Sequence[Run]:
        def look() -> list[Run]:
            return [run for run in self.known.values() if run.active or self.created[run.id] >= since]

        return self.gate.call("jobs", "runs", look)

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        def begin() -> str:
            new = Run(f"run-{len(self.known) + 1}", stream, first, last, attempt, "SUBMITTED")
            run = self.known.setdefault((first, last, attempt), new)
            self.created.setdefault(run.id, self.clock())
            return run.id

        return self.gate.call("jobs", "start", begin)

    def told(self, run: Run, state: str) -> None:
        """What became of a run."""
        self.known[run.first, run.last, run.attempt] = Run(run.id, STREAM, run.first, run.last, run.attempt, state)

    def active(self) -> list[Run]:
        """What runs, for all that is known."""
        return [run for run in self.known.values() if run.active]


class World:
    """One lake, from its source to its tables. `gate` stands in front of every call that can fail."""

    def __init__(self, gate: Gate | None = None, config: str = CONFIG) -> None:
        self.gate = gate or Gate()
        self.disk = MemoryStore()
        self.catalog = Catalog()
        self.now = START
        self.random = Random(1).randbytes
        self.source = Postgres()
        self.emr = Emr(self.gate, lambda: self.now)
        self.parcels: list[Parcel] = []
        self.lines: list[dict[str, Any]] = []
        published_configs.publish(self.disk, config)
        self.catalog.around = self._around
        self.catalog.clock = self.clock
        self.replaying = False  # somebody replays what is dead, over and over
        self.keeping = False  # somebody keeps a cut, and was not told that it is kept
        self.pausing = False  # somebody pauses and resumes, and was not told that it goes on
        self.dispatched: list[Dispatched | None] = []  # what each tick said; None: it failed
        self._sent = 0

    def publish(self, config: str) -> None:
        """Another configuration."""
        published_configs.publish(self.disk, config)

    def _around(self, call: Call, effect: Callable[[], Any]) -> Any:
        return self.gate.call("catalog", f"{call.kind} {call.table}", effect)

    def store(self) -> Store:
        """The storage as a new process opens it: with nothing remembered."""
        return WatchedStore(self.disk, self.gate)

    # The programs. Each is what a function or a job does between its beginning and its end, under one clock.

    def post(self, parcel: Parcel, clock: Callable[[], datetime] | None = None) -> None:
        """functions/ingest_http: one try of a request."""
        parcel.tries += 1
        store = self.store()
        try:
            config = published_configs.CurrentConfig(store)()
            now = (clock or self.clock)()
            if Ingress(store).shut(STREAM, now) is not None:
                self._busy(store, parcel)
                return
            done = accept(
                store, config, STREAM, parcel.body, now=now, content="ndjson", key=parcel.name, random=self.random
            )
            if done.rejected and not done.duplicate:
                print_dead(store, stream_config(config, STREAM), done.batch_id, now)
        except RequestError as error:
            raise AssertionError(f"a right request was answered {error.status}: {error}") from error
        except (TransientError, UnknownOutcome, ConfigError):
            return  # 503
        parcel.acknowledged = True

    def _busy(self, store: Store, parcel: Parcel) -> None:
        """A 429, unless an earlier try was taken."""
        before = accepted_before(store, STREAM, parcel.body, parcel.name) if parcel.name else None
        parcel.acknowledged = parcel.acknowledged or before is not None

    def bring(self, parcels: Sequence[Parcel], clock: Callable[[], datetime] | None = None) -> None:
        """functions/ingest_queue: one delivery. What fails is visible again, the rest is deleted."""
        for parcel in parcels:
            parcel.tries += 1
            parcel.in_flight = True
        store = self.store()
        again: Iterable[int] = range(len(parcels))
        try:
            config = published_configs.CurrentConfig(store)()
            arrived = [Arrived(parcel.name, parcel.body) for parcel in parcels]
            now = (clock or self.clock)()
            if Ingress(store).shut(STREAM, now) is not None:
                raise StorageUnavailable("the backlog is full: the messages come again")
            taken = take(store, config, STREAM, arrived, now=now, random=self.random)
            again = taken.again
            if taken.batch is not None and taken.batch.rejected:
                print_dead(store, stream_config(config, STREAM), taken.batch.batch_id, now)
        except (TransientError, UnknownOutcome, ConfigError) as error:
            logging.getLogger(__name__).info("comes again: %s", error)
            again = range(len(parcels))
        for place, parcel in enumerate(parcels):
            parcel.in_flight = False
            parcel.acknowledged = parcel.acknowledged or place not in again

    def dispatch(
        self, *, force: bool = False, reconcile: bool = False, clock: Callable[[], datetime] | None = None
    ) -> None:
        """functions/dispatch: one tick."""
        self.dispatched.append(None)
        store = self.store()
        try:
            config = published_configs.CurrentConfig(store)()
            settings = stream_config(config, STREAM)
            done = dispatch(
                store, STREAM, self.emr, now=(clock or self.clock)(), force=force, reconcile=reconcile,
                terms=Terms(config.sha, settings.commit, settings.generation), random=self.random,
            )  # fmt: skip
        except FirnError:
            return
        finally:
            self._tell(store, (clock or self.clock)())
        self.dispatched[-1] = done

    def _tell(self, store: Store, now: datetime) -> None:
        """What dispatch does at its end, well or not."""
        try:
            settings = stream_config(published_configs.CurrentConfig(store)(), STREAM)
        except FirnError:
            return
        backlog.tell(store, settings, now)

    def job(self, run: Run, clock: Callable[[], datetime] | None = None) -> None:
        """spark_emr/commit.py: one run, from its start to its end. It lingers until a round finds nothing."""
        store = self.store()
        passing = count(0.0, 60.0)
        code = warm_job.run(
            store, MemoryLake(store, self.catalog), published_configs.CurrentConfig(store), pause.Watch(store), STREAM,
            run.first, run.last, log=self.lines.append, attempt=run.attempt,
            clock=warm_job.Clock(clock or self.clock, lambda: next(passing), lambda _: None),
        )  # fmt: skip
        self.emr.told(run, "FAILED" if code else "SUCCESS")

    def care(self, name: TableName, work: str, most: int) -> None:
        """spark_emr/care.py, or a job between two commits: one table's turn."""
        try:
            if work == "compact":
                self.catalog.compact(name, most + 1)
            elif work == "expire":
                self.catalog.expire(name, most, counted(self.store(), name, [STREAM]))
            else:
                self.catalog.remove_orphans(name, ORPHANS_AFTER)
        except (LostRace, StorageUnavailable, UnknownOutcome):
            return  # the next turn tries again

    def keep(self) -> None:
        """`firn cut keep`: the first cut, as month-end."""
        self.keeping = True
        store = self.store()
        try:
            cut = cuts.read(store, STREAM, 1)
            assert cut is not None
            named_cuts.record(store, "month-end", cut, self.now)
        except FirnError:
            return
        self.keeping = False

    def pause(self) -> None:
        """`firn pause`, a tick meanwhile, `firn resume`."""
        self.pausing = True
        store = self.store()
        try:
            pause.begin(store)
            started = len(self.emr.known)
            self.dispatch(force=True)
            assert len(self.emr.known) == started, "a job was started while it is paused"
            pause.end(store)
        except FirnError:
            return
        self.pausing = False
        self.dispatch()

    def replay(self, clock: Callable[[], datetime] | None = None) -> None:
        """`firn dead replay`: all letters that can be taken now."""
        store = self.store()
        try:
            config = published_configs.CurrentConfig(store)()
            for _ in replay(store, config, STREAM, Choice(), clock=clock or self.clock,
                            random=self.random):  # fmt: skip
                pass
        except FirnError:
            return

    def release(self) -> None:
        """`firn resume`: everything that is held, with what it lacks."""
        store = self.store()
        try:
            known = holds.read_all(store, STREAM)
            held = [case.quarantine for case in known.tables.values() if case.lift is None]
            held += [case.quarantine for case in known.epochs.values() if case.lift is None]
            held += [case.quarantine for case in known.stream if case.lift is None]
            for one in held:
                holds.lift(store, one, "replay" if one.reason == "rolled_back" else "retry", layout.instant(self.now))
        except FirnError:
            return

    # Those around it.

    def parcel(self, events: Iterable[Event], *, named: bool = True, queued: bool = False) -> Parcel:
        """Events set out, all in one. What can't be read at all goes by queue: as a request it is a 400."""
        self._sent += 1
        held = tuple(events)
        queued = queued or not any(event.readable for event in held)
        found = Parcel(held, f"name-{self._sent}" if named or queued else None, queued)
        self.parcels.append(found)
        return found

    def everything(self, *, queued: bool = False, named: bool = True) -> Parcel:
        """All that the source has told, in one."""
        return self.parcel(self.source.log, queued=queued, named=named)

    def visible(self) -> list[Parcel]:
        """The messages that SQS would bring now."""
        return [parcel for parcel in self.parcels if parcel.queued and not parcel.acknowledged and not parcel.in_flight]

    def waiting(self) -> list[Parcel]:
        """The requests that a sender would send again."""
        return [
            parcel for parcel in self.parcels
            if not parcel.queued and not parcel.acknowledged and not parcel.in_flight
        ]  # fmt: skip

    def quiet(self) -> bool:
        """Everything is acknowledged, sealed, committed, and nothing is held."""
        known = holds.read_all(self.disk, STREAM)
        sealed = epochs.numbers(self.disk, STREAM)
        return (
            all(parcel.acknowledged for parcel in self.parcels)
            and not epochs.candidates(self.disk, STREAM, self.now, whole=True).batches
            and cuts.newest(self.disk, STREAM) == max([0, *(n for n in sealed if n not in known.epochs)])
            and not (known.held() or known.held_epochs() or any(case.lift is None for case in known.stream))
            and not self._left_behind()
            and not self.keeping
            and not self.pausing
            and not (self.replaying and self._dead())
        )

    def _dead(self) -> bool:
        """Letters that a replay would take now, or has claimed and not staged."""
        config = published_configs.CurrentConfig(self.disk)()
        found = replay(self.disk, config, STREAM, Choice(), clock=self.clock, dry_run=True)
        claims = [path for path in paths(self.disk, layout.replays_prefix(STREAM)) if layout.replay_of(path)]
        done = {path for path in paths(self.disk, layout.replays_prefix(STREAM)) if path.endswith(".done")}
        return any(one.letters for one in found) or len(claims) > len(done)

    def troubles(self) -> list[str]:
        """What an operator can see of what is not well: an answer, an alarm, a line of `firn status`."""
        known = holds.read_all(self.disk, STREAM)
        latest = self.dispatched[-1] if self.dispatched else None
        found = ["a sender was not told 202"] * any(not parcel.acknowledged for parcel in self.parcels)
        found += ["dispatch failed"] * (bool(self.dispatched) and latest is None)
        found += ["stuck"] * bool(latest and latest.stuck)
        found += ["a run failed"] * any(run.failed for run in self.emr.known.values())
        found += [f"held: {name}" for name in known.names(0)]
        found += ["a cut is not kept"] * self.keeping
        found += ["paused, perhaps"] * self.pausing
        found += ["dead letters"] * (self.replaying and self._dead())
        return found

    def shut(self) -> bool:
        """Whether the backlog is over its limit, as ingest knows it."""
        return Ingress(self.disk).shut(STREAM, self.now) is not None

    def knows_renames(self) -> bool:
        """Whether the tables remember by themselves all names that the source's column has had."""
        names = set(NAMES[: self.source.renamed + 1])
        mirrors = [table for name, table in self.catalog.tables.items() if name.table in TABLES]
        told = [json.loads(table.properties.get(RENAMES, "{}")) for table in mirrors]
        known = [{column, *others} for one in told for column, others in one.items()]
        return sum(one >= names for one in known) == len(TABLES)

    def held(self) -> tuple[str, ...]:
        """What is quarantined now."""
        return holds.read_all(self.disk, STREAM).names(0)

    def _left_behind(self) -> bool:
        cut = cuts.read(self.disk, STREAM, cuts.newest(self.disk, STREAM))
        return cut is not None and bool(cut.quarantined)

    def round(self, run: Callable[[Callable[[], Any]], None]) -> None:
        """What everybody does who was not answered: senders send again, SQS brings again, the schedules come round,
        what is held is released. `run` runs a program."""
        self.now += timedelta(minutes=20)
        for parcel in self.waiting():
            run(lambda parcel=parcel: self.post(parcel))  # type: ignore[misc]
        if self.visible():
            run(lambda: self.bring(self.visible()[:10]))
        run(lambda: self.dispatch(force=True))
        for job in self.emr.active():
            run(lambda job=job: self.job(job))  # type: ignore[misc]
            if self.emr.known[job.first, job.last, job.attempt].active:
                self.emr.told(job, "FAILED")  # it died
        run(self.release)
        if self.keeping:
            run(self.keep)
        if self.pausing:
            run(self.pause)
        if self.replaying:
            run(self.replay)

    def settle(self, run: Callable[[Callable[[], Any]], None]) -> None:
        """Rounds until all is quiet; fails if it never is."""
        for _ in range(_KEPT_TRYING):
            for parcel in self.parcels:
                parcel.in_flight = False
            if self.quiet():
                return
            self.round(run)
        raise AssertionError(f"it is not quiet after {_KEPT_TRYING} rounds:\n{self.story()}")

    def story(self) -> str:
        """What is known, for whoever reads a failure."""
        known = holds.read_all(self.disk, STREAM)
        return "\n".join(
            [
                f"acknowledged {[parcel.acknowledged for parcel in self.parcels]}",
                f"epochs {epochs.numbers(self.disk, STREAM)}, cuts {cuts.numbers(self.disk, STREAM)}",
                f"held {known.names(0)}",
                *(
                    f"{run.id} {run.first}-{run.last} attempt {run.attempt}: {run.state}"
                    for run in self.emr.known.values()
                ),
                *(json.dumps(line, default=str) for line in self.lines[-12:]),
            ]
        )

    def clock(self) -> datetime:
        """Everybody's, unless a program is given one of its own."""
        return self.now
