"""Histories with raised generations: whatever comes again, in whatever order and company, the tables are those of the
source's own history (docs/adr/0034-generations.md)."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from firn.dispatch.dispatcher import Terms, dispatch
from firn.errors import UnknownOutcome
from firn.log import cuts, epochs, holds, layout
from firn.log.batches import FORMAT
from firn.log.holds import Quarantine
from tests.model.lake_contract import CONFIG, EVENTS, STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import Call, MemoryLake
from tests.soak import few_cases, seeds
from tests.unit.log.interrupted_store import Died, InterruptedStore, When

MINUTE = 60_000
BEGUN = 1_700_000_000_000
IDS = range(1, 5)


def at(one: dict[str, Any], ms: int) -> dict[str, Any]:
    one["source"]["ts_ms"] = ms
    return one


def raised(generation: int) -> str:
    return CONFIG.replace("  shop:\n", f"  shop:\n    generation: {generation}\n", 1)


def of_the_source(random: Random, generation: int, begins: int) -> list[dict[str, Any]]:
    """What a source tells while its stream has this generation: a snapshot, and changes of one mirror and one append
    table. A restored one gives places and contents again that were there before, at other times."""
    told = [event("r", 10, {"id": n, "v": "read"}) for n in IDS if random.random() < 0.7]
    for lsn in range(11, 11 + random.randint(2, 8)):
        n, v = random.choice(IDS), random.choice("ab")
        told.append(
            random.choice(
                [
                    event("u", lsn, {"id": n, "v": v}),
                    event("d", lsn, None, {"id": n, "v": v}),
                    event("c", lsn, {"a": v}, table="events"),
                ]
            )
        )
    return [at(one, begins + place) for place, one in enumerate(told)]


def rows_of(history: Sequence[Sequence[dict[str, Any]]]) -> list[tuple[Any, Any]]:
    """The specification: in each generation the snapshot, then the changes; a newer one beats all that was."""
    rows: dict[int, str] = {}
    for told in history:
        for one in (one for one in told if one["source"]["table"] == "orders"):
            image = one["after"] or one["before"]
            if one["op"] == "d":
                rows.pop(image["id"], None)
            else:
                rows[image["id"]] = image["v"]
    return sorted(rows.items())


class Telling:
    """A history on its way: in pieces, doubled, late, with epochs that are committed sooner or later, or given up."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.stream = Stream(MemoryGround())
        self.held: list[Quarantine] = []

    def bring(self, told: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> None:
        random, left = self.random, list(told)
        random.shuffle(left)
        while left:
            some = [left.pop() for _ in range(min(len(left), random.randint(1, 4)))]
            # Twice in one request an event that does not say when it was emitted would be two (docs/guarantees.md).
            other = [one for one in before if one not in some]
            self.post([*some, *random.sample(other, min(len(other), random.randint(0, 3)))])

    def post(self, some: list[dict[str, Any]]) -> None:
        self.random.shuffle(some)
        self.stream.post(*some)
        if self.random.random() < 0.6:
            self.seal()
        if self.random.random() < 0.4:
            self.commit()
        if self.held and self.random.random() < 0.3:
            self.release()

    def seal(self) -> None:
        dispatch(
            self.stream.store, STREAM, None, now=self.stream.tick(), terms=Terms(self.stream.config.sha), force=True
        )

    def commit(self) -> None:
        known = holds.read_all(self.stream.store, STREAM)
        above = cuts.newest(self.stream.store, STREAM)
        left = [n for n in epochs.numbers(self.stream.store, STREAM, above) if n not in known.epochs]
        if not left:
            return
        if self.random.random() < 0.2:
            self.give_up(left[0])
        else:
            assert self.stream.commit(left[0], self.random.choice(left)) == 0, self.stream.lines

    def give_up(self, n: int) -> None:
        """Jobs of this epoch die, one of them after it committed the append table."""
        opened, target = self.stream.opened(n, EVENTS) if self._appends(n) else (None, None)
        if opened is not None and target is not None:
            assert opened.commit(target).status == "committed"
        now = layout.instant(self.stream.tick())
        self.held.append(Quarantine(FORMAT, STREAM, n, now, "killed", "m", "a", epoch=n, last=n))
        assert holds.hold(self.stream.store, self.held[-1])

    def _appends(self, n: int) -> bool:
        sealed = epochs.read(self.stream.store, STREAM, n)
        return sealed is not None and "app.events" in sealed.tables and cuts.newest(self.stream.store, STREAM) == n - 1

    def release(self) -> None:
        one = self.held.pop()
        assert holds.lift(self.stream.store, one, "retry", layout.instant(self.stream.tick()))

    def end(self) -> None:
        while self.held:
            self.release()
        for _ in range(5):
            done = dispatch(
                self.stream.store, STREAM, None, now=self.stream.tick(), terms=Terms(self.stream.config.sha), force=True
            )
            if done.pending is None:
                return
            assert self.stream.commit(*done.pending) == 0, self.stream.lines
        pytest.fail("it never ends")


@few_cases(12)
@pytest.mark.parametrize("seed", seeds(40, 2_000))
def test_whatever_comes_again_around_raised_generations_the_tables_are_the_sources(seed: int) -> None:
    random = Random(seed)
    telling = Telling(random)
    history: list[list[dict[str, Any]]] = []
    for generation in range(random.randint(2, 3)):
        if generation:
            if random.random() < 0.7:
                telling.seal()
            else:  # what is staged by now goes on under the raised one: it has to be the new source's
                telling.end()
            telling.stream.publish(raised(generation))
        skew = random.choice([-50, 0, 50]) * MINUTE
        begins = int(telling.stream.now.timestamp() * 1000) + skew + generation
        told = of_the_source(random, generation, begins)
        telling.bring(told, [one for before in history for one in before])
        history.append(told)
        telling.seal()
    again = [one for told in history for one in told]
    telling.bring(random.sample(again, len(again) // 2), again)
    telling.end()
    assert telling.stream.values() == rows_of(history)
    appended = [one["after"]["a"] for told in history for one in told if one["source"]["table"] == "events"]
    there = telling.stream.ground.rows(EVENTS) if appended else []
    assert sorted(found["a"] for found in there) == sorted(appended)


def restored() -> Stream:
    """A source that was restored, and a generation that was raised before anybody noticed; some comes again."""
    stream = Stream(MemoryGround())
    old = at(event("u", 200, {"id": 1, "v": "old"}), BEGUN)
    stream.land(old, at(event("c", 150, {"a": "x"}, table="events"), BEGUN))
    stream.post(old, at(event("u", 90, {"id": 1, "v": "restored"}), BEGUN + 30 * MINUTE))
    dispatch(stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha), force=True)
    stream.publish(raised(1))
    stream.post(old, at(event("c", 150, {"a": "x"}, table="events"), BEGUN))
    return stream


def brought_up(stream: Stream, store: Any) -> None:
    for _ in range(5):
        done = dispatch(
            store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha, generation=1), force=True
        )
        if done.pending is None:
            return
        lake = MemoryLake(store, stream.ground.catalog)  # type: ignore[attr-defined]
        assert stream.commit(*done.pending, lake=lake, store=store) == 0, stream.lines
    pytest.fail("it never ends")


@few_cases(1)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_storage_call_around_a_raised_generation_changes_nothing(when: When) -> None:
    for call in range(1, 300):
        stream = restored()
        try:
            brought_up(stream, InterruptedStore(stream.store, at=call, when=when))
            died = False
        except Died:
            died = True
            brought_up(stream, stream.store)
        assert stream.values() == [(1, "restored")]
        assert [found["a"] for found in stream.ground.rows(EVENTS)] == ["x"]
        if not died:
            assert call > 30
            return
    pytest.fail("the calls have no end")


@pytest.mark.parametrize("kind", ["load", "remember", "write", "commit"])
@pytest.mark.parametrize("when", ["before", "lost"])
def test_a_call_of_the_catalog_that_fails_or_whose_answer_is_lost_around_a_raised_generation_changes_nothing(
    kind: str, when: str
) -> None:
    for number in range(1, 30):
        stream = restored()
        calls: list[Call] = []

        def around(call: Call, effect: Callable[[], Any], calls: list[Call] = calls, number: int = number) -> Any:
            calls += [call] if call.kind == kind else []
            if call.kind == kind and len(calls) == number:
                if when == "lost":
                    effect()
                raise UnknownOutcome("no answer")
            return effect()

        stream.ground.catalog.around = around  # type: ignore[attr-defined]
        for _ in range(4):
            done = dispatch(
                stream.store, STREAM, None, now=stream.tick(), terms=Terms(stream.config.sha, generation=1), force=True
            )
            if done.pending is not None:
                stream.commit(*done.pending)
        assert done.pending is None
        assert stream.values() == [(1, "restored")]
        assert [found["a"] for found in stream.ground.rows(EVENTS)] == ["x"]
        if len(calls) < number:
            return
    pytest.fail("the calls have no end")
