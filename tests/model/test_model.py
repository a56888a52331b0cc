"""Everything at once, in any order: hypothesis drives the real ingest, dispatch and commit code over memory.

Programs stand still before each call that they make, so that any of them can be overtaken, fail or die at any call.
After each step everything in checks.py holds; at the end the faults stop, all comes to rest, and the tables are the
source's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from firn.changes.decode.types import LONG, STRING, Column
from firn.config.names import TableName
from firn.log import published_configs
from firn.log.epochs import SKEW
from tests.faults.calls import FAULTS, READS, Fault
from tests.model.checks import Checks
from tests.model.processes import Process, Turns
from tests.model.source import NAMES, TABLES, Event
from tests.model.world import World, configuration
from tests.soak import examples

T = TypeVar("T")
Kind = Literal["ingest", "dispatch", "job", "release", "care"]
LAMBDA = timedelta(minutes=15)  # no function lives longer
JOB = timedelta(hours=12)  # no run lives longer: EMR's own time-out
KEYS = range(1, 5)
# About how many of its calls have an effect.
WRITES: dict[Kind, int] = {"ingest": 3, "dispatch": 2, "job": 8, "release": 1, "care": 3}
ACTIONS = (
    "insert", "insert", "insert a placeholder", "update", "update", "update", "late update", "delete", "late delete",
    "move", "move", "move in one event", "truncate", "snapshot", "transaction", "hold", "append", "append", "no key",
    "cut off", "filtered", "wait",
)  # fmt: skip

picks = st.integers(0, 999)
# No two clocks are more than SKEW apart.
offsets = st.sampled_from([timedelta(0), timedelta(0), SKEW / 2, SKEW])


@dataclass(frozen=True)
class Fate:
    """How far a process goes on now: to its end, or over `calls` calls, only those with an effect counted (`writes`) or
    all. There the next call fails, or all from there on do (`lasting`), and it goes on to its end if it can; or it
    stands still. `overtaken`: a minute later a twin does the same, from beginning to end; then it goes on itself,
    unless it stands still for `lasting`."""

    calls: int | None
    writes: bool
    fault: Fault | None
    lasting: bool
    overtaken: bool


Writes = list[tuple[str, str, int, int, bool]]
histories = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(TABLES), picks, picks, st.booleans()), max_size=5
)
fates = st.builds(
    Fate,
    calls=st.sampled_from([None, None, None, *range(12)]),
    writes=st.sampled_from([True, True, False]),
    fault=st.sampled_from([None, None, *FAULTS]),
    lasting=st.booleans(),
    overtaken=st.booleans(),
)


@dataclass
class Living:
    """A process, what it is, when it began, and the run that it is (a job)."""

    process: Process
    kind: Kind
    since: datetime
    run: str | None = None


class Firn(RuleBasedStateMachine):
    """Each rule is something that happens to Firn."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns()
        self.world = World(self.turns)
        self.checks = Checks(self.world)
        self.living: list[Living] = []
        self.sent = 0
        self.versions = 0
        self.looked: Any = None

    # The source, and its events on their way.

    @initialize(writes=histories, count=st.integers(1, 10), adopted=st.booleans())
    def there_is_a_lake(self, writes: Writes, count: int, adopted: bool) -> None:
        """Some of it in epochs of its own. `adopted`: one table is there already, and not Firn's."""
        if adopted:
            columns = (Column("id", LONG), Column("n", STRING), Column("v", STRING))
            self.world.catalog.create(TableName("lake", "items"), columns, {})
        self.write_all([("insert", "orders", 0, 0, False), ("insert", "items", 1, 1, False), *writes])
        for start in range(0, len(self.world.source.log), count):
            self.world.parcel(self.some_events(start, count, new=True, backwards=False))
            if start < 3 * count:
                self.world.settle(lambda program: program())

    def write_all(self, writes: Writes) -> None:
        for write in writes:
            self.write(*write)

    def write(self, action: str, table: str, pick: int, other: int, keeps: bool) -> None:
        source = self.world.source
        source.part = pick // 2
        live, free = sorted(source.rows[table]), source.free(table, KEYS)
        key, to = chosen(live, pick), chosen(free, other)
        if action.startswith("insert") and to is not None:
            source.insert(table, to, literal=action != "insert")
        elif action in ("update", "late update") and key is not None:
            source.update(table, key, keeps=keeps, late=action != "update")
        elif action in ("delete", "late delete") and key is not None:
            source.delete(table, key, late=action != "delete")
        elif action.startswith("move") and key is not None and to is not None:
            source.move(table, key, to, keeps=keeps, one_event=action != "move")
        elif action == "transaction" and live:
            source.several(table, live)
        elif action == "truncate":
            source.truncate(table)
        elif action == "snapshot":
            source.snapshot(table)
        elif action == "hold":
            source.hold()
        elif action == "append":
            source.append(1 + pick % 2)
        elif action in ("no key", "cut off", "filtered"):
            source.broken(action)
        elif action == "wait":
            source.wait(60 * (pick % 20))

    @rule(writes=histories, start=picks, count=st.integers(1, 6), new=st.booleans(), backwards=st.booleans(),
          named=st.booleans(), offset=offsets, fate=fates)  # fmt: skip
    def a_request_is_made(
        self, writes: Writes, start: int, count: int, new: bool, backwards: bool, named: bool, offset: timedelta,
        fate: Fate,
    ) -> None:  # fmt: skip
        """Of the next events, or of some again; in order or not; with a key or without."""
        self.write_all(writes)
        events = self.some_events(start, count, new, backwards)
        if events:
            parcel = self.world.parcel(events, named=named)
            if not parcel.queued:
                self.begin(
                    "ingest", f"request {parcel.name}", lambda: self.world.post(parcel, self.clock(offset)), fate
                )

    @precondition(lambda self: any(not parcel.queued for parcel in self.world.parcels))
    @rule(pick=picks, offset=offsets, fate=fates)
    def a_request_is_made_again(self, pick: int, offset: timedelta, fate: Fate) -> None:
        """Even while it is under way, or though it was answered, if it has a key."""
        able = [one for one in self.world.parcels if not one.queued and (one.name or not one.acknowledged)]
        parcel = chosen(able, pick)
        if parcel is not None:
            self.begin("ingest", f"request {parcel.name}", lambda: self.world.post(parcel, self.clock(offset)), fate)

    @rule(writes=histories, start=picks, counts=st.lists(st.integers(1, 3), min_size=1, max_size=3), new=st.booleans(),
          backwards=st.booleans())  # fmt: skip
    def messages_are_sent(self, writes: Writes, start: int, counts: list[int], new: bool, backwards: bool) -> None:
        self.write_all(writes)
        for count in counts:
            events = self.some_events(start, count, new, backwards)
            if events:
                self.world.parcel(events, queued=True)

    @precondition(lambda self: any(parcel.queued for parcel in self.world.parcels))
    @rule(them=st.lists(picks, min_size=1, max_size=4), offset=offsets, fate=fates, again=st.booleans())
    def messages_are_delivered(self, them: list[int], offset: timedelta, fate: Fate, again: bool) -> None:
        """At least once: what is at work elsewhere, or was deleted, may come again."""
        queued = [parcel for parcel in self.world.parcels if parcel.queued]
        able = queued if again else self.world.visible()
        parcels = list({id(one): one for one in (able[pick % len(able)] for pick in them if able)}.values())
        if parcels:
            self.begin("ingest", "delivery", lambda: self.world.bring(parcels, self.clock(offset)), fate)

    def some_events(self, start: int, count: int, new: bool, backwards: bool) -> list[Event]:
        log = self.world.source.log
        at = self.sent if new else start % max(len(log), 1)
        events = log[at : at + count]
        if new:
            self.sent += len(events)
        return events[::-1] if backwards else events

    # Sealing, committing, and their operator.

    @rule(force=st.booleans(), reconcile=st.booleans(), offset=offsets, fate=fates)
    def a_dispatch_begins(self, force: bool, reconcile: bool, offset: timedelta, fate: Fate) -> None:
        self.begin(
            "dispatch", "dispatch",
            lambda: self.world.dispatch(force=force, reconcile=reconcile, clock=self.clock(offset)), fate,
        )  # fmt: skip

    @rule(fate=fates, given_up=st.booleans())
    def a_commit_begins(self, fate: Fate, given_up: bool) -> None:
        """What is staged is sealed, and its job begins. `given_up`: EMR says that it failed; it may stand still and go
        on after its successor."""
        self.begin_commits(fate, given_up)

    def begin_commits(self, fate: Fate, given_up: bool) -> None:
        self.world.now += timedelta(minutes=2)
        self.world.dispatch(force=True)
        begun = {one.run for one in self.living}
        for run in self.world.emr.active():
            if run.id not in begun:
                self.begin("job", run.id, lambda run=run: self.world.job(run), fate, run.id)  # type: ignore[misc]
            if given_up and run in self.world.emr.active():
                self.world.emr.told(run, "FAILED")

    @precondition(lambda self: self.world.emr.known)
    @rule(pick=picks, again=st.booleans(), offset=offsets, fate=fates)
    def a_job_begins(self, pick: int, again: bool, offset: timedelta, fate: Fate) -> None:
        """`again`: EMR starts a run a second time, as it may."""
        begun = {one.run for one in self.living}
        runs = [run for run in self.world.emr.known.values() if again or (run.active and run.id not in begun)]
        run = chosen(runs, pick)
        if run is not None:
            self.begin("job", run.id, lambda: self.world.job(run, self.clock(offset)), fate, run.id)

    @precondition(lambda self: self.world.held())
    @rule(fate=fates)
    def what_is_held_is_released(self, fate: Fate) -> None:
        self.begin("release", "release", self.world.release, fate)

    @precondition(lambda self: self.versions < 3)
    @rule(forgets=st.booleans(), buckets=st.integers(0, 2))
    def a_configuration_is_published(self, forgets: bool, buckets: int) -> None:
        """`forgets`: it says nothing of renames any more, once the tables know them all."""
        self.versions += 1
        renamed = 0 if forgets and self.world.knows_renames() else self.world.source.renamed
        published_configs.publish(self.world.disk, configuration(renamed, f"version {self.versions}", buckets))

    @precondition(lambda self: not self.world.source.texts)
    @rule(paused=st.none() | fates, fate=fates, writes=histories)
    def columns_of_numbers_become_text(self, paused: Fate | None, fate: Fate, writes: Writes) -> None:
        """A job that has looked before may stand still at any call, and so may the one that retypes the columns."""
        if paused is not None:
            self.write_all([("insert", table, 0, 0, False) for table in TABLES])
            self.a_job_comes_of_it(paused, given_up=True)
        self.world.source.retype()
        self.write_all([("insert", table, 0, 1, False) for table in TABLES])
        self.write_all([("update", table, 0, 0, False) for table in TABLES])
        self.write_all([("append", "orders", 0, 0, False), *writes])
        self.a_job_comes_of_it(fate, given_up=False)

    def a_job_comes_of_it(self, fate: Fate, *, given_up: bool) -> None:
        """What the source has told since is staged, and a job begins to commit it."""
        self.world.parcel(self.some_events(0, 20, new=True, backwards=False))
        for parcel in self.world.waiting():
            self.world.post(parcel)
        self.begin_commits(fate, given_up)

    @precondition(lambda self: self.world.source.renamed < len(NAMES) - 1)
    @rule(fault=st.sampled_from(["dies before", "dies after"]), lands=st.booleans(), forgets=st.booleans())
    def a_column_is_renamed(self, fault: Fault, lands: bool, forgets: bool) -> None:
        """firn.yaml says so first, and every function that knows an older one has ended. Jobs may stand still. `lands`:
        the tables know it before anything else happens; `forgets`: firn.yaml then says nothing of it any more."""
        published_configs.publish(self.world.disk, configuration(self.world.source.renamed + 1))
        self.world.now += LAMBDA
        self.outlive(fault)
        self.world.source.rename()
        if lands:
            self.write_all([("insert", table, 0, 0, False) for table in TABLES])
            self.world.parcel(self.some_events(0, len(self.world.source.log), new=True, backwards=False))
            self.world.settle(lambda program: program())
            if forgets and self.world.knows_renames():
                published_configs.publish(self.world.disk, configuration(0))

    # How they go on.

    @precondition(lambda self: self.living)
    @rule(pick=picks, fate=fates)
    def a_process_goes_on(self, pick: int, fate: Fate) -> None:
        self.go_on(self.living[pick % len(self.living)], fate)
        self.tidy()

    @rule()
    def everybody_does_what_is_due(self) -> None:
        """Senders, queue, schedule and jobs, each from beginning to end; beside those that stand still."""
        self.world.round(lambda program: program())
        self.outlive("dies before")

    @rule(minutes=st.sampled_from([1, 5, 20, 90]), fault=st.sampled_from(["dies before", "dies after"]))
    def time_passes(self, minutes: int, fault: Fault) -> None:
        """Functions that have lived too long are ended; jobs may stand still for as long as they like."""
        self.world.now += timedelta(minutes=minutes)
        self.outlive(fault)

    def outlive(self, fault: Fault) -> None:
        for one in self.living:
            if self.world.now - one.since >= (JOB if one.kind in ("job", "care") else LAMBDA):
                one.process.kill(fault)
        self.tidy()

    # The tables, beside Firn's jobs.

    @precondition(lambda self: self.world.catalog.tables)
    @rule(pick=picks, work=st.sampled_from(["compact", "expire", "orphans"]), most=st.integers(1, 3), fate=fates)
    def a_table_is_cared_for(self, pick: int, work: str, most: int, fate: Fate) -> None:
        """Compacted, or its old snapshots expire, or orphans are removed; while jobs commit to it."""
        name = chosen_surely(list(self.world.catalog.tables), pick)
        self.begin("care", f"{work} {name}", lambda: self.world.care(name, work, most), fate)

    @precondition(lambda self: self.world.catalog.tables)
    @rule(pick=picks, work=st.sampled_from(["compact", "compact", "expire", "orphans"]), most=st.integers(1, 3),
          calls=st.integers(1, 3), writes=histories)  # fmt: skip
    def care_is_overtaken_by_a_commit(self, pick: int, work: str, most: int, calls: int, writes: Writes) -> None:
        """Between two of its calls all that is new is committed."""
        name = chosen_surely(list(self.world.catalog.tables), pick)
        one = Living(Process(self.turns, work, lambda: self.world.care(name, work, most)), "care", self.world.now)
        one.process.start()
        for _ in range(calls):
            one.process.step()
        self.write_all([*writes, ("delete", name.table if name.table in TABLES else "orders", pick, pick, False)])
        events = self.some_events(0, 20, new=True, backwards=False)
        if events:
            self.world.parcel(events)
        self.world.round(lambda program: program())
        self.checks.now()  # what care now lets go of has been looked at
        one.process.finish()

    @precondition(lambda self: self.world.catalog.tables and not any(one.kind == "job" for one in self.living))
    @rule(pick=picks, to=picks)
    def a_table_is_rolled_back_by_hand(self, pick: int, to: int) -> None:
        """While nothing commits to it, as the guide asks. The next job finds it; so there is something for it to do."""
        if self.world.emr.active():
            return
        name = chosen_surely(list(self.world.catalog.tables), pick)
        table = self.world.catalog.tables[name]
        # Rows of before a column got another type have nothing in it: such a table has to be rebuilt.
        ancestry = [one for one in table.ancestry() if one.called.keys() <= table.called.keys()]
        if ancestry:
            self.checks.now()
            self.world.catalog.rollback(name, chosen_surely(ancestry, to).id)
            self.checks.rolled_back(name)
            self.world.source.append(1)

    @precondition(lambda self: self.world.catalog.tables and self.have_all_looked() and not self.world.source.renamed)
    @rule(pick=picks)
    def a_table_is_dropped_by_hand(self, pick: int) -> None:
        """Whoever stands at a commit to it has looked at another table. The next job finds it, as after a rollback.
        What the table remembered of renames would be gone with it."""
        if self.world.emr.active():
            return
        name = chosen_surely(list(self.world.catalog.tables), pick)
        self.checks.now()
        self.world.catalog.drop(name)
        self.checks.rolled_back(name)
        self.world.source.append(1)

    def have_all_looked(self) -> bool:
        """Whether all jobs that stand still do so at their last call on a table."""
        jobs = [one.process.pending or "" for one in self.living if one.kind == "job"]
        return all(pending.startswith(("commit ", "alter ", "update ")) for pending in jobs)

    # What must be true.

    @invariant()
    def everything_holds(self) -> None:
        snapshots = [(table.current, len(table.snapshots)) for table in self.world.catalog.tables.values()]
        looked = (
            self.turns.effects,
            len(self.world.source.log),
            snapshots,
            [p.acknowledged for p in self.world.parcels],
        )
        if looked != self.looked:
            self.checks.now()
            self.looked = looked

    def teardown(self) -> None:
        """Functions end, faults stop. Jobs that stand still do so until all is at rest, and then change nothing."""
        try:
            for one in self.living:
                if one.kind not in ("job", "care"):
                    one.process.kill()
            self.tidy()
            if self.sent < len(self.world.source.log):
                self.world.parcel(self.world.source.log[self.sent :])
            self.world.settle(lambda program: program())
            self.checks.at_rest()
            for one in self.living:
                one.process.finish()
            self.checks.at_rest()
        finally:
            for one in self.living:
                one.process.kill() if not one.process.ended else None

    def begin(self, kind: Kind, name: str, program: Callable[[], object], fate: Fate, run: str | None = None) -> None:
        one = Living(Process(self.turns, name, program), kind, self.world.now, run)
        self.living.append(one)
        one.process.start()
        self.go_on(one, fate)
        if fate.overtaken and not one.process.ended:
            self.world.now += timedelta(minutes=1)
            twin = Living(Process(self.turns, name, program), kind, self.world.now, run)
            self.living.append(twin)
            twin.process.start()
            twin.process.finish()
            if not fate.lasting:
                one.process.finish()
        self.tidy()

    def go_on(self, one: Living, fate: Fate) -> None:
        process = one.process
        if fate.calls is None:
            process.finish()
            return
        left = fate.calls % WRITES[one.kind] if fate.writes else fate.calls * 3
        while not process.ended:
            counts = not fate.writes or (process.pending or "").split()[0] not in READS
            if counts and left == 0:
                break
            left -= counts
            process.step()
        if fate.fault is not None and not process.ended:
            process.step(fate.fault)
            process.finish(fate.fault if fate.lasting else None)

    def tidy(self) -> None:
        """Who has ended is forgotten; EMR learns that a run is over."""
        over = [one for one in self.living if one.process.ended]
        self.living = [one for one in self.living if not one.process.ended]
        alive = {one.run for one in self.living}
        for run in self.world.emr.active():
            if run.id in {one.run for one in over} and run.id not in alive:
                self.world.emr.told(run, "FAILED")

    def clock(self, offset: timedelta) -> Callable[[], datetime]:
        return lambda: self.world.now + offset


def chosen(among: list[T], pick: int) -> T | None:
    return among[pick % len(among)] if among else None


def chosen_surely(among: list[T], pick: int) -> T:
    return among[pick % len(among)]


TestFirn = Firn.TestCase
TestFirn.settings = settings(max_examples=examples(15, 60), stateful_step_count=50)
