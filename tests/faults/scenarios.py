"""What Firn does, one program at a time, each in a world made ready for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from firn.config.names import TableName
from tests.faults.calls import Counting, Died
from tests.model.checks import Checks
from tests.model.world import CONFIG, World

Program = Callable[[], object]
ORDERS: Final = TableName("lake", "orders")
# Every event is a dead letter under this one: they are not flattened.
WRONG: Final = CONFIG.replace("  shop:\n", "  shop:\n    envelope: flat\n")


class Stage:
    """A world behind a gate that does not fail yet, and its checks."""

    def __init__(self) -> None:
        self.gate = Counting()
        self.world = World(self.gate)
        self.checks = Checks(self.world)

    def run(self, program: Program) -> None:
        """In a process of its own, which may die."""
        self.gate.born_again()
        try:
            program()
        except Died:
            for parcel in self.world.parcels:
                parcel.in_flight = False  # the visibility time-out passes, the sender hears nothing

    def land(self) -> None:
        """All that is on its way, to the tables."""
        self.world.settle(self.run)

    def start_job(self) -> Program:
        """Seals what is staged. -> the job that dispatch starts for it."""
        self.world.now += timedelta(minutes=20)
        self.world.dispatch()
        (run,) = self.world.emr.active()

        def job() -> None:
            try:
                self.world.job(run)
            finally:
                if self.world.emr.known[run.first, run.last, run.attempt].active:
                    self.world.emr.told(run, "FAILED")

        return job

    def some_history(self) -> None:
        """Rows in both tables, with an out-of-line column kept, in what is sent next."""
        source = self.world.source
        for key in (1, 2, 3):
            source.insert("orders", key)
        source.update("orders", 1, keeps=True)
        source.insert("items", 1)
        source.append(2)

    def more_history(self) -> None:
        """On top of that: a delete, a new key, a truncate, events that no table takes."""
        source = self.world.source
        source.delete("orders", 2)
        source.move("orders", 1, 5, keeps=True)
        source.truncate("items")
        source.insert("items", 2)
        source.append(1)
        source.broken("no key")
        source.broken("cut off")
        source.broken("filtered")


def http_with_a_key(stage: Stage) -> Program:
    stage.some_history()
    stage.more_history()
    parcel = stage.world.everything()
    return lambda: stage.world.post(parcel)


def http_without_a_key(stage: Stage) -> Program:
    stage.some_history()
    stage.more_history()
    parcel = stage.world.everything(named=False)
    return lambda: stage.world.post(parcel)


def the_retry_of_a_request(stage: Stage) -> Program:
    program = http_with_a_key(stage)
    program()
    stage.world.parcels[0].acknowledged = False  # the answer never came
    return program


def a_delivery_of_messages(stage: Stage) -> Program:
    stage.some_history()
    stage.more_history()
    for event in stage.world.source.log:
        stage.world.parcel([event], queued=True)
    return lambda: stage.world.bring(stage.world.visible()[:10])


def messages_whose_delivery_died(stage: Stage) -> Program:
    """Their receipts name a batch that was never staged: it is made void, and they are claimed again."""
    deliver = a_delivery_of_messages(stage)
    stage.gate.at, stage.gate.fault = "put staged", "dies before"
    stage.run(deliver)
    assert stage.gate.hit
    stage.gate.heal()
    stage.world.now += timedelta(minutes=2)
    return deliver


def a_dispatch(stage: Stage) -> Program:
    stage.some_history()
    for event in stage.world.source.log:
        stage.world.post(stage.world.parcel([event]))
    stage.world.now += timedelta(minutes=20)
    return stage.world.dispatch


def a_dispatch_that_looks_at_everything(stage: Stage) -> Program:
    a_dispatch(stage)
    return lambda: stage.world.dispatch(reconcile=True)


def a_dispatch_of_nothing_but_filtered_events(stage: Stage) -> Program:
    stage.world.source.broken("filtered")
    stage.world.post(stage.world.everything())
    stage.world.now += timedelta(minutes=20)
    return stage.world.dispatch


def the_first_commit(stage: Stage) -> Program:
    stage.some_history()
    stage.world.post(stage.world.everything())
    return stage.start_job()


def a_later_commit(stage: Stage) -> Program:
    stage.some_history()
    stage.world.everything()
    stage.land()
    before = len(stage.world.source.log)
    stage.more_history()
    stage.world.post(stage.world.parcel(stage.world.source.log[before:]))
    return stage.start_job()


def a_commit_of_late_changes(stage: Stage) -> Program:
    """The second half of everything lands first; a move's halves come apart."""
    stage.some_history()
    stage.more_history()
    log = stage.world.source.log
    stage.world.parcel(log[7:])
    stage.land()
    stage.world.post(stage.world.parcel(log[:7]))
    return stage.start_job()


def a_commit_that_finds_a_table_rolled_back(stage: Stage) -> Program:
    program = a_later_commit(stage)
    stage.world.catalog.rollback(ORDERS, None)
    stage.checks.rolled_back(ORDERS)
    return program


def a_release(stage: Stage) -> Program:
    a_commit_that_finds_a_table_rolled_back(stage)()
    assert stage.world.troubles()
    return stage.world.release


def the_dispatch_after_a_release(stage: Stage) -> Program:
    a_release(stage)()
    return stage.world.dispatch


def the_commit_after_a_release(stage: Stage) -> Program:
    a_release(stage)()
    return stage.start_job()


def a_replay(stage: Stage) -> Program:
    stage.world.publish(WRONG)
    stage.some_history()
    for event in stage.world.source.log[:2]:
        stage.world.parcel([event])
    stage.world.parcel(stage.world.source.log[2:])
    stage.land()
    stage.world.publish(CONFIG)
    stage.world.replaying = True
    return stage.world.replay


def a_full_backlog(stage: Stage) -> Program:
    """More is staged than the limit lets wait, and dispatch says so. -> the job that will take it away."""
    stage.some_history()
    stage.more_history()
    stage.world.post(stage.world.everything())
    job = stage.start_job()
    assert stage.world.shut()
    return job


def a_request_while_the_backlog_is_full(stage: Stage) -> Program:
    a_full_backlog(stage)
    before = len(stage.world.source.log)
    stage.world.source.append(2)
    parcel = stage.world.parcel(stage.world.source.log[before:])
    return lambda: stage.world.post(parcel)


def the_retry_of_a_request_while_the_backlog_is_full(stage: Stage) -> Program:
    a_full_backlog(stage)
    (parcel,) = stage.world.parcels
    parcel.acknowledged = False  # the answer never came
    return lambda: stage.world.post(parcel)


def a_delivery_while_the_backlog_is_full(stage: Stage) -> Program:
    a_request_while_the_backlog_is_full(stage)
    stage.world.parcels[-1].queued = True
    return lambda: stage.world.bring(stage.world.visible())


def keeping_a_cut(stage: Stage) -> Program:
    stage.some_history()
    stage.world.everything()
    stage.land()
    return stage.world.keep


def a_pause(stage: Stage) -> Program:
    stage.some_history()
    stage.world.post(stage.world.everything())
    stage.world.now += timedelta(minutes=20)
    return stage.world.pause


SCENARIOS: Final[tuple[Callable[[Stage], Program], ...]] = (
    http_with_a_key,
    http_without_a_key,
    the_retry_of_a_request,
    a_delivery_of_messages,
    messages_whose_delivery_died,
    a_dispatch,
    a_dispatch_that_looks_at_everything,
    a_dispatch_of_nothing_but_filtered_events,
    the_first_commit,
    a_later_commit,
    a_commit_of_late_changes,
    a_commit_that_finds_a_table_rolled_back,
    a_release,
    the_dispatch_after_a_release,
    the_commit_after_a_release,
    a_replay,
    a_full_backlog,
    a_request_while_the_backlog_is_full,
    the_retry_of_a_request_while_the_backlog_is_full,
    a_delivery_while_the_backlog_is_full,
    keeping_a_cut,
    a_pause,
)
