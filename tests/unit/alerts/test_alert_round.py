"""Alerts begin once and end once, and are told of both, whoever dies and whatever gets lost."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.alerts import alert_round
from firn.alerts.alert_delivery import PAUSES, Sender
from firn.alerts.alert_round import QUIET, RoundResult
from firn.alerts.alert_views import AlertView, alerts_view
from firn.config.model import Config
from firn.config.reader import parse
from firn.ingest.accept import accept
from firn.log import alert_log, backlog, backlog_gate, holds, layout, pulls
from firn.log.alert_log import place_of
from firn.log.batches import UnreadableBatch
from firn.log.holds import Quarantine
from firn.log.published_configs import publish
from firn.log.store import Store, paths
from firn.sources.poller import SourceStatus
from tests.unit.alerts.receiver import Receiver
from tests.unit.log.interrupted_store import Died, InterruptedStore, When
from tests.unit.log.storage_faults import REFUSED, FaultyStore

STREAMS = """
streams:
  shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}
  crm: {tables: {'*': {to: 'crm.{table}'}}}
sources: {crm: {postgres: 'postgresql://firn@localhost/crm', slot: firn_crm}}
"""
RULES = {
    "late": "{on: freshness, over: 15m, streams: [shop]}",
    "orders": "{on: freshness, over: 15m, tables: [shop.orders]}",
    "dead": "{on: dead_letters, at_least: 2}",
    "held": "{on: quarantine}",
    "slot": "{on: slot_lag, over: 1GB}",
}
SOURCE = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": '["1","2"]'}
EVENT = json.dumps({"op": "c", "before": None, "after": {"id": 1}, "source": SOURCE}).encode()
Run = Callable[..., RoundResult]


def configured(place: Path, *rules: str, targets: str = "") -> str:
    """firn.yaml with some of the rules, told to the receiver."""
    told = f"oncall: {{webhook: 'file:{place}/url', secret: 'file:{place}/key'}}"
    lines = ", ".join(f"{name}: {RULES[name]}" for name in rules)
    return f"{STREAMS}alerts: {{targets: {{{told}{targets}}}, rules: {{{lines}}}}}\n"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def run(store: Store, place: Path, sender: Sender) -> Run:
    """A round so many minutes from now, with these rules."""

    def rounded(*rules: str, minutes: float = 0, on: Store | None = None, config: Config | None = None) -> RoundResult:
        known = config or publish(on or store, configured(place, *rules))
        return alert_round.run(on or store, known, sender, datetime.now(UTC) + timedelta(minutes=minutes))

    return rounded


def hold(
    store: Store, table: str = "shop.orders", n: int = 1, message: str = "value 'secret-row' is none"
) -> Quarantine:
    found = Quarantine(1, "shop", n, layout.instant(datetime.now(UTC)), "failed", message, "fix", table=table, epoch=3)
    assert holds.hold(store, found)
    return found


def lift(store: Store, found: Quarantine) -> None:
    assert holds.lift(store, found, "retry", layout.instant(datetime.now(UTC)))


def letters(store: Store, config: Config, count: int) -> None:
    for number in range(count):
        accept(store, config, "shop", b'{"secret-row": %d}' % number, now=datetime.now(UTC))


def test_what_is_held_is_told_once_when_it_begins_and_once_when_it_ends(
    store: Store, run: Run, receiver: Receiver
) -> None:
    assert run("held") == RoundResult()
    found = hold(store)
    assert run("held") == RoundResult(begun=1, sent=1)
    assert run("held") == run("held", minutes=60) == RoundResult()
    lift(store, found)
    assert run("held", minutes=61) == RoundResult(ended=1, sent=1)
    assert run("held", minutes=300) == RoundResult()
    begun, ended = receiver.messages
    assert (begun["what"], begun["subject"], begun["on"], begun["alert"]) == (
        "begun",
        "shop.orders",
        "quarantine",
        "held",
    )
    assert (ended["what"], ended["text"].split(" (")[0]) == (
        "ended", "shop.orders of shop: no longer quarantined after 1 h 1 min"
    )  # fmt: skip
    assert "secret-row" not in json.dumps([begun, ended])


def test_letters_that_wait_begin_an_alert_and_their_end_ends_it(
    store: MemoryStore, run: Run, place: Path, receiver: Receiver
) -> None:
    config = publish(store, configured(place, "dead"))
    letters(store, config, 1)
    assert run("dead") == RoundResult()
    letters(store, config, 1)
    assert run("dead") == RoundResult(begun=1, sent=1)
    [message] = receiver.messages
    assert "2 dead letters of shop to replay (missing_op 2)" in message["text"]
    assert "secret-row" not in json.dumps(message)
    for path in paths(store, "dead"):
        store.delete(path)
    assert run("dead") == RoundResult(ended=1, sent=1)


@pytest.mark.parametrize(("rule", "subject"), [("late", ""), ("orders", "shop.orders")])
def test_a_change_that_waits_too_long_begins_an_alert(
    store: Store, run: Run, place: Path, receiver: Receiver, rule: str, subject: str
) -> None:
    config = publish(store, configured(place, rule))
    accept(store, config, "shop", EVENT, now=datetime.now(UTC))

    def told(minutes: float) -> RoundResult:
        backlog.tell(store, config.streams["shop"], datetime.now(UTC) + timedelta(minutes=minutes))
        return run(rule, minutes=minutes)

    assert told(14) == RoundResult()
    assert told(16) == RoundResult(begun=1, sent=1)
    assert told(14) == RoundResult()  # it ends well below the limit: it does not flicker
    assert told(11) == RoundResult(ended=1, sent=1)
    assert [(one["what"], one["subject"]) for one in receiver.messages] == [("begun", subject), ("ended", subject)]


@pytest.mark.parametrize(
    ("status", "begins"),
    [
        ({"lag": 2 * 10**9}, True),
        ({"lag": 10**6}, False),
        ({"stopped": "the slot is gone: secret-row"}, True),
        ({"wal_status": "lost"}, True),
        ({"waits": "nobody answers"}, False),
    ],
)
def test_a_slot_that_is_behind_or_not_read_begins_an_alert(
    store: Store, run: Run, receiver: Receiver, status: dict[str, Any], begins: bool
) -> None:
    pulls.write_state(store, "crm", "crm", SourceStatus(layout.instant(datetime.now(UTC)), **status))
    assert run("slot").begun == begins
    assert len(receiver.messages) == begins
    assert "secret-row" not in json.dumps(receiver.messages)


def test_a_pull_that_nobody_makes_any_more_begins_an_alert(store: Store, run: Run, receiver: Receiver) -> None:
    pulls.write_state(store, "crm", "crm", SourceStatus(layout.instant(datetime.now(UTC))))
    assert run("slot") == RoundResult()
    assert run("slot", minutes=11).begun == 1
    assert "no pull has looked at crm for 11 min" in receiver.messages[0]["text"]


def test_what_cannot_be_read_begins_nothing_and_ends_nothing(
    store: Store, run: Run, place: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("slot") == run("late") == RoundResult()  # neither a pull nor dispatch has said anything
    found = hold(store)
    assert run("held").begun == 1
    lift(store, found)
    config = publish(store, configured(place, "held"))

    def away(prefix: str | None = None, *, offset: str | None = None) -> Any:
        if prefix is not None and prefix.startswith("quarantine"):
            raise REFUSED
        return store.list(prefix, offset=offset)

    broken = InterruptedStore(store)  # type: ignore[arg-type]
    monkeypatch.setattr(broken, "list", away)
    assert run(on=broken, config=config) == RoundResult()
    assert run("held").ended == 1


def test_a_target_that_is_away_is_tried_six_times_and_then_it_is_said(
    store: Store, run: Run, place: Path, receiver: Receiver
) -> None:
    receiver.planned = [503] * 20
    found = hold(store)
    waited, outcomes = 0.0, [run("held")]
    for pause in PAUSES[1:]:
        waited += pause.total_seconds() / 60
        early = run("held", minutes=pause.total_seconds() / 60 - 0.5)
        assert (early.failed, early.sent) == (0, 0)
        outcomes.append(run("held", minutes=pause.total_seconds() / 60 + 0.1))
    assert [one.failed for one in outcomes] == [1] * 6
    assert [one.untold for one in outcomes] == [0] * 5 + [1]
    assert run("held", minutes=1000) == RoundResult()
    assert len({(headers["webhook-id"], body) for headers, body in receiver.got}) == 1
    [told] = view(store, place).told
    assert (told.state, told.tries, told.why) == ("failed", 6, "it answered HTTP 503; given up")
    receiver.planned.clear()
    lift(store, found)
    assert run("held") == RoundResult(ended=1, sent=1)  # its end is told all the same


def view(store: Store, place: Path, minutes: float = 0) -> AlertView:
    now = datetime.now(UTC) + timedelta(minutes=minutes)
    found = alerts_view(store, publish(store, configured(place, "held")), now)
    return found.alerts[0]


def test_an_answer_that_is_lost_is_said_and_the_same_is_sent_again(
    store: Store, run: Run, place: Path, receiver: Receiver
) -> None:
    receiver.planned = ["drop"]
    hold(store)
    assert run("held") == RoundResult(begun=1, unknown=1)
    [told] = view(store, place).told
    assert (told.state, "may have arrived; 5 more tries" in told.why) == ("waits", True)
    assert run("held", minutes=2) == RoundResult(sent=1)
    assert len({(headers["webhook-id"], body) for headers, body in receiver.got}) == 1
    assert view(store, place).told[0].state == "sent"


def test_one_target_that_is_away_keeps_no_other(store: Store, run: Run, place: Path, receiver: Receiver) -> None:
    (place / "none").write_text("http://127.0.0.1:9/")
    other = f", gone: {{webhook: 'file:{place}/none', secret: 'file:{place}/key'}}"
    config = publish(store, configured(place, "held", targets=other))
    hold(store)
    assert run(config=config) == RoundResult(begun=1, sent=1, failed=1)
    assert run("held", minutes=5) == RoundResult()  # and one that firn.yaml no longer names is told nothing
    states = {one.target: (one.state, one.why) for one in view(store, place).told}
    assert states == {"oncall": ("sent", ""), "gone": ("failed", "firn.yaml no longer names the target")}


def test_a_target_that_is_away_and_has_much_to_hear_keeps_no_other_waiting(
    store: Store, run: Run, place: Path, receiver: Receiver
) -> None:
    (place / "none").write_text("http://127.0.0.1:9/")
    targets = ", ".join(f"{name}: {{webhook: 'file:{place}/{file}', secret: 'file:{place}/key'}}"
                        for name, file in (("gone", "none"), ("oncall", "url")))  # fmt: skip
    rules = "a: {on: quarantine, to: [gone]}, z: {on: freshness, streams: [shop], to: [oncall]}"
    config = publish(store, f"{STREAMS}alerts: {{targets: {{{targets}}}, rules: {{{rules}}}}}\n")
    for number in range(60):
        hold(store, f"shop.t{number:02}")
    accept(store, config, "shop", EVENT, now=datetime.now(UTC))
    assert run(config=config, minutes=20) == RoundResult(begun=52, sent=1, failed=23)
    assert [one["alert"] for one in receiver.messages] == ["z"]
    # None of those that were never tried waits for the second tries of the others.
    assert [run(config=config, minutes=22).failed for _ in range(2)] == [24, 24]
    firsts = {path.split(".gone.")[0] for path in paths(store, "alerts") if ".gone.01." in path}
    assert len(firsts) == 51


def test_who_dies_at_the_last_try_is_counted_as_telling_nobody_once(
    store: Store, run: Run, place: Path, receiver: Receiver
) -> None:
    hold(store)
    receiver.planned = [503]
    assert run("held").failed == 1
    [[alert]] = alert_log.read_all(store).alerts.values()
    for k in range(2, 1 + len(PAUSES)):
        assert alert_log.claim(store, alert, "begun", "oncall", k, "x")  # and nothing ever came of it
    assert run("held", minutes=2) == RoundResult()  # it may still be made
    assert run("held", minutes=4) == RoundResult(untold=1)
    assert run("held", minutes=5) == RoundResult()
    [told] = view(store, place, minutes=5).told
    assert (told.state, "may have arrived; given up" in told.why) == ("unknown", True)
    [[alert]] = alert_log.read_all(store).alerts.values()
    alert_log.write_result(
        store, alert, "begun", "oncall", 6, alert_log.result_now("sent", datetime.now(UTC))
    )  # it was slow
    assert view(store, place).told[0].state == "sent"


def test_a_stream_that_firn_yaml_no_longer_has_is_not_said_to_be_well(
    store: Store, run: Run, place: Path, receiver: Receiver
) -> None:
    text = configured(place, "late").replace(", streams: [shop]", "")
    accept(store, config := publish(store, text), "shop", EVENT, now=datetime.now(UTC))
    assert run(config=config, minutes=20) == RoundResult(begun=1, sent=1)
    without = "\n".join(line for line in text.splitlines() if not line.startswith("  shop:"))
    assert run(config=publish(store, without), minutes=21) == RoundResult(ended=1, sent=1)
    assert receiver.messages[-1]["text"].startswith("shop: no longer watched, after ")


@pytest.mark.parametrize("first", ["held", "late"])
def test_a_rule_that_watches_something_else_from_now_on_tells_of_that(
    store: Store, run: Run, place: Path, receiver: Receiver, first: str
) -> None:
    text = configured(place, first).replace(f"{first}:", "one:")
    accept(store, config := publish(store, text), "shop", EVENT, now=datetime.now(UTC))
    letters(store, config, 2)
    hold(store)
    assert run(config=config, minutes=20).begun == 1
    other = configured(place, "dead").replace("dead:", "one:")
    assert run(config=publish(store, other), minutes=21) == RoundResult(begun=1, ended=1, sent=2)
    begun, ended = sorted(receiver.messages[1:], key=lambda one: one["what"])
    assert (begun["on"], begun["stream"], begun["subject"]) == ("dead_letters", "shop", "")
    assert ": no longer watched, after " in ended["text"]


def test_what_comes_and_goes_begins_again_only_after_a_while(store: Store, run: Run, receiver: Receiver) -> None:
    lift(store, hold(store))
    first = hold(store, n=2)
    assert run("held").begun == 1
    lift(store, first)
    assert run("held").ended == 1
    hold(store, n=3)
    assert run("held", minutes=QUIET.total_seconds() / 60 - 1).begun == 0
    assert run("held", minutes=QUIET.total_seconds() / 60 + 1).begun == 1
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 3


def test_many_that_are_held_are_fifty_alerts_and_one(store: Store, run: Run) -> None:
    for number in range(60):
        hold(store, f"shop.t{number:02}")
    assert run("held").begun == 51
    known = alert_log.read_all(store)
    assert known.newest("held", place_of("quarantine", "shop", "more")) is not None
    assert sum(run("held").sent for _ in range(3)) > 20  # as many as a round has time for


def test_an_alert_that_outlives_its_beginning_begins_once_more(
    store: MemoryStore, run: Run, receiver: Receiver
) -> None:
    hold(store)
    run("held")
    [begun] = [path for path in paths(store, "alerts") if path.endswith(".begun")]
    store.delete(begun)  # as the lifecycle rule does, the oldest object first
    assert run("held") == RoundResult(begun=1, sent=1)
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 2


def test_a_rule_that_is_gone_ends_nothing_and_tells_nobody(store: Store, run: Run) -> None:
    found = hold(store)
    assert run("held").begun == 1
    lift(store, found)
    assert run("dead") == RoundResult()
    assert run("held") == RoundResult(ended=1, sent=1)


def test_rounds_at_once_tell_nobody_twice(
    store: Store, run: Run, place: Path, sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = publish(store, configured(place, "held"))
    hold(store)
    together, claim = threading.Barrier(6), alert_log.claim

    def dies(*_given: Any) -> bool:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(alert_log, "claim", dies)
        with pytest.raises(Died):
            run("held")  # it has begun, and nobody was told

    def claimed(*given: Any) -> bool:
        together.wait(30)  # each of them has found the message untold
        return claim(*given)

    with monkeypatch.context() as patched, ThreadPoolExecutor(6) as rounds:
        patched.setattr(alert_log, "claim", claimed)
        each = [rounds.submit(alert_round.run, store, config, sender, datetime.now(UTC)) for _ in range(6)]
        assert sum(one.result().sent for one in each) == 1
    run("held")
    assert [one["what"] for one in receiver.messages] == ["begun"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_dies_anywhere_the_next_round_finishes_it(
    store: MemoryStore, run: Run, place: Path, receiver: Receiver, when: When
) -> None:
    """Killed before or after each call of the storage: a begin and an end, one object each; each told, and more than
    once only where the maker died between the message and its note, under the same id."""
    config = publish(store, configured(place, "held"))
    repeated = steps = 0
    for at in range(1, 60):
        inner = MemoryStore()
        receiver.got.clear()
        found = hold(inner)
        calls = 0
        for phase in ("begun", "ended"):
            interrupted = InterruptedStore(inner, at=at - calls if phase == "ended" else at, when=when)
            try:
                run(on=interrupted, config=config)
            except Died:
                steps += 1
            calls += interrupted.calls
            for minutes in (0, 4, 5):  # by then nobody makes a try any more
                run(on=inner, config=config, minutes=minutes)
            if phase == "begun":
                lift(inner, found)
        names = Counter(path.rpartition(".")[2] for path in paths(inner, "alerts") if path.count(".") == 1)
        assert names == {"begun": 1, "ended": 1}, (at, when)
        ids = Counter(headers["webhook-id"].rpartition("-")[2] for headers, _ in receiver.got)
        assert set(ids) == {"begun", "ended"}, (at, when)
        assert max(ids.values()) <= 2
        assert len({(headers["webhook-id"], body) for headers, body in receiver.got}) == 2
        repeated += sum(ids.values()) - 2
    assert steps >= 20
    assert repeated == (2 if when == "before" else 0)  # a begin and an end that were sent and not noted


@pytest.mark.parametrize("fault", ["refused", "lost before", "lost after"])
def test_writes_that_fail_or_whose_answers_are_lost_are_finished_by_the_next_round(
    run: Run, place: Path, receiver: Receiver, fault: Any
) -> None:
    for at in range(5):
        faulty = FaultyStore()
        config = publish(faulty, configured(place, "held"))
        hold(faulty)
        receiver.got.clear()
        faulty.faults = [None] * at + [fault] * 3
        run(on=faulty, config=config)
        faulty.faults = []
        for minutes in (0, 4, 8):
            run(on=faulty, config=config, minutes=minutes)
        assert {headers["webhook-id"].rpartition("-")[2] for headers, _ in receiver.got} == {"begun"}
        assert len({body for _, body in receiver.got}) == 1
        assert 1 <= len(receiver.got) <= 2, (at, fault)
        assert sum(path.endswith(".begun") for path in paths(faulty, "alerts")) == 1


def test_freshness_believes_a_new_state_that_says_well_and_else_the_log(store: Store, run: Run, place: Path) -> None:
    config = publish(store, configured(place, "late"))

    def tell(hours: float, minutes: float) -> None:
        """Dispatch said, so many minutes from now, that a change had waited so many hours."""
        now = datetime.now(UTC) + timedelta(minutes=minutes)
        limit = config.streams["shop"].backlog
        judged = backlog_gate.judged("shop", 1, 1, 1, now - timedelta(hours=hours), limit, now)
        store.put(layout.state_path("shop"), backlog_gate.encode(judged), mode="overwrite")

    tell(hours=3, minutes=0)
    assert run("late", minutes=1) == RoundResult()  # it is committed since: nothing waits in the log
    assert run("late", minutes=30) == RoundResult()
    accept(store, config, "shop", EVENT, now=datetime.now(UTC))
    tell(hours=0.1, minutes=30)
    assert run("late", minutes=31) == RoundResult()  # what dispatch says is well is not looked for
    assert run("late", minutes=50).begun == 1  # nobody dispatches any more
    tell(hours=0.1, minutes=51)
    assert run("late", minutes=52).ended == 1


def test_a_log_that_nobody_can_read_or_dispatch_is_late_and_keeps_no_other_from_being_looked_at(
    store: Store, run: Run, place: Path, receiver: Receiver
) -> None:
    config = publish(store, configured(place, "dead", "late", "orders"))
    letters(store, config, 2)
    store.put(layout.epoch_path("shop", 1), b"garbage", mode="create")
    assert run(config=config) == RoundResult(begun=2, sent=2)
    said = {one["alert"]: one["text"] for one in receiver.messages}
    assert said.keys() == {"dead", "late"}
    assert "its log can't be read (UnreadableBatch); firn status says why" in said["late"]
    with pytest.raises(UnreadableBatch, match=r"epochs/shop/0+1\.json was overwritten or damaged"):
        backlog.look(store, "shop", datetime.now(UTC))
    store.delete(layout.epoch_path("shop", 1))
    assert run(config=config) == RoundResult(ended=1, sent=1)


def test_who_may_see_one_stream_sees_its_alerts_and_no_place_of_a_secret(store: Store, run: Run, place: Path) -> None:
    hold(store)
    hold(store, "shop.hidden", n=2)
    (place / "key").unlink()
    assert run("held").failed == 2
    config = publish(store, configured(place, "held", "slot"))

    def seen(stream: str, table: str | None, **more: bool) -> Any:
        return alerts_view(
            store, config, datetime.now(UTC), sees=lambda s, t: s == stream and t in (None, table), **more
        )

    found = seen("shop", "shop.orders", whole=False)
    assert ([one.subject for one in found.alerts], found.rules) == (["shop.orders"], ())
    assert str(place) not in str(found)
    assert str(place) in str(seen("shop", "shop.orders"))
    assert seen("crm", None, whole=False).alerts == ()


def test_views_name_what_is_watched_in_words(place: Path) -> None:
    config = parse(configured(place, *RULES))
    found = {one.name: one.watches for one in alerts_view(MemoryStore(), config, datetime.now(UTC)).rules}
    assert found == {
        "late": "shop: a change waits 15 min for its commit",
        "orders": "shop.orders: a change waits 15 min for its commit",
        "dead": "every stream: 2 dead letters to replay",
        "held": "every stream: anything is quarantined",
        "slot": "sources of every stream: a slot is 1.0 GB behind, or nobody reads it",
    }


def test_an_alert_whose_object_is_damaged_begins_once_more(store: Store, run: Run, receiver: Receiver) -> None:
    hold(store)
    assert run("held") == RoundResult(begun=1, sent=1)
    [begun] = [path for path in paths(store, "alerts") if path.endswith(".begun")]
    store.put(begun, b"garbage", mode="overwrite")
    alert_log._known.clear()
    assert run("held", minutes=1) == RoundResult(begun=1, sent=1)
    assert run("held", minutes=2) == RoundResult()
    assert [one["what"] for one in receiver.messages] == ["begun", "begun"]


def test_a_clock_that_was_set_back_keeps_nobody_from_being_told(store: Store, run: Run, receiver: Receiver) -> None:
    year = 365 * 24 * 60
    hold(store)
    receiver.planned = [503]
    assert run("held").failed == 1
    assert run("held", minutes=-year) == RoundResult(sent=1), "the try that failed lies a year ahead"
    [[alert]] = alert_log.read_all(store).alerts.values()
    assert alert_log.claim(store, alert, "begun", "gone", 1, "x")
    made = alert_log.read_all(store).alerts[alert.rule, alert.place][0].tries["begun", "gone"][0]
    assert made.known(made.at - timedelta(minutes=30)) is None, "clocks are apart"
    assert made.known(made.at - timedelta(minutes=year)) == "unknown"


def test_what_ended_while_the_clock_was_ahead_may_begin_again(store: Store, run: Run) -> None:
    held = hold(store)
    assert run("held").begun == 1
    lift(store, held)
    assert run("held").ended == 1
    hold(store, n=2)
    assert run("held", minutes=-5).begun == 0
    assert run("held", minutes=-365 * 24 * 60).begun == 1


class SlowStore(FaultyStore):
    """A call takes 10 ms; `most`: how many were made at once."""

    def __init__(self) -> None:
        super().__init__()
        self.made, self.now, self.most, self.lock = 0, 0, 0, threading.Lock()

    def _reach(self) -> None:
        with self.lock:
            self.made, self.now = self.made + 1, self.now + 1
            self.most = max(self.most, self.now)
        time.sleep(0.01)
        with self.lock:
            self.now -= 1


def test_a_thousand_streams_are_looked_at_several_at_once(place: Path, sender: Sender) -> None:
    """One after the other they would take longer than the function may."""
    streams = "".join(f"  s{n}: {{tables: {{a.t: {{to: s{n}.t, key: [id]}}}}}}\n" for n in range(100))
    config = parse(configured(place, "held", "dead").replace("streams:\n", f"streams:\n{streams}"))
    slow = SlowStore()
    assert alert_round.run(slow, config, sender, datetime.now(UTC)) == RoundResult()
    assert slow.made >= 200
    assert slow.most >= 8
