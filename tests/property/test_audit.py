"""Whatever happens to a stream in the right way, in any order, with crashes: the audit never cries wolf, and its sum is
what was acknowledged."""

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firn.ingest.accept import accept
from firn.ingest.replay import Choice, replay
from firn.log import cuts, epochs, holds, layout
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.model.memory_lake import Call
from tests.unit.audit.audited import Ground, audited, row_audited

TABLES = ("orders", "orders", "other", "events", "typed", "no_key", "nowhere")


class Crash(BaseException):
    """The process is gone."""


class World:
    """A stream at which things happen. `acked`: what its senders were told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.ground = Ground()
        self.stream = Stream(self.ground)
        self.acked = 0
        self.lsn = 0
        self.rolled_back = False

    def post(self) -> None:
        lines = [self._event() for _ in range(self.chance.randint(1, 6))]
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            body = "\n".join(lines).encode()
            done = accept(self.stream.store, self.stream.config, STREAM, body, now=self.stream.tick())
            self.acked += done.accepted + done.rejected + sum(done.ignored.values())

    def _event(self) -> str:
        kind = self.chance.random()
        if kind < 0.05:
            return '{"op": "x"}'
        if kind < 0.1:
            return '{"ts_ms": 1}'
        self.lsn += self.chance.choice((1, 1, 1, 0, -2))
        lsn, table, key = max(1, self.lsn), self.chance.choice(TABLES), self.chance.randint(1, 4)
        wrong = table == "typed" and self.chance.random() < 0.5
        after: Any = {"id": "x" if wrong else key, "v": str(lsn)}
        match self.chance.choice("ccuudtmf"):
            case "d":
                one = event("d", lsn, None, {"id": key}, table)
            case "t":
                one = event("t", lsn, None, None, table)
            case "m":
                one = event("u", lsn, {"id": key, "v": "m"}, {"id": key + 10, "v": "m"}, table)
            case "f":
                one = event(self.chance.choice("ct"), lsn, after, None, table)
                one["source"] |= {"sequence": '["x","y"]', "lsn": "z"}
            case op:
                one = event(op, lsn, after, None, table)
        return json.dumps(one)

    def seal(self) -> None:
        store = self.stream.store
        found = epochs.candidates(store, STREAM, self.stream.tick(), above=cuts.newest(store, STREAM), whole=True)
        if found.batches:
            sha = self.stream.config.sha
            assert epochs.seal(store, STREAM, found, now=self.stream.now, config=sha, nonce=str(self.chance.random()))

    def commit(self) -> None:
        known = holds.read_epochs(self.stream.store, STREAM)
        done = cuts.newest(self.stream.store, STREAM)
        open_ = [n for n in epochs.numbers(self.stream.store, STREAM, done) if n not in known]
        if open_:
            self.stream.commit(open_[0], open_[-1])
            self.rolled_back = self.rolled_back and cuts.newest(self.stream.store, STREAM) == done

    def crash(self) -> None:
        left = self.chance.randint(1, 8)
        after = self.chance.random() < 0.5

        def around(call: Call, effect: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                raise Crash
            answer = effect()
            if left == 0:
                raise Crash
            return answer

        self.ground.catalog.around = around
        try:
            self.commit()
        except Crash:
            pass
        finally:
            self.ground.catalog.around = lambda call, effect: effect()

    def release(self) -> None:
        for case in holds.read_all(self.stream.store, STREAM).held().values():
            how: Any = self.chance.choice(("retry", "skip"))
            holds.lift(self.stream.store, case, how, layout.instant(self.stream.tick()))

    def hold_epoch(self) -> None:
        """An epoch that kills its jobs: the first that is open, now or soon let go again."""
        known = holds.read_epochs(self.stream.store, STREAM)
        for case in known.values():
            if case.lift is None:
                holds.lift(self.stream.store, case.quarantine, "retry", layout.instant(self.stream.tick()))
                return
        done = cuts.newest(self.stream.store, STREAM)
        open_ = [n for n in epochs.numbers(self.stream.store, STREAM, done) if n not in known]
        if open_:
            n = open_[0]
            now = layout.instant(self.stream.tick())
            holds.hold(
                self.stream.store,
                holds.Quarantine(1, STREAM, n, now, "killed", "it kills", "fix", epoch=n, last=n),
            )

    def configure(self) -> None:
        text = CONFIG
        if self.chance.random() < 0.5:
            text = text.replace("[nowhere]", "[id]")
        if self.chance.random() < 0.5:
            text = text.replace("columns: {id: int}", "columns: {id: string}")
        self.stream.publish(text)

    def again(self) -> None:
        for one in replay(self.stream.store, self.stream.config, STREAM, Choice(), clock=self.stream.tick):
            self.acked += one.events + one.ignored + one.dead_again

    def roll_back(self) -> None:
        table = self.ground.catalog.tables.get(ORDERS)
        if table is not None and len(table.ancestry()) > 1:
            self.ground.catalog.rollback(ORDERS, self.chance.choice(table.ancestry()[1:]).id)
            self.rolled_back = True

    def maintain(self) -> None:
        for name, table in self.ground.catalog.tables.items():
            if table.current is None:
                continue
            if self.chance.random() < 0.5:
                self.ground.catalog.compact(name)
            elif self.chance.random() < 0.5:
                self.ground.catalog.expire(name, keep=self.chance.randint(1, 3))


STEPS = (
    "post", "post", "post", "seal", "seal", "commit", "commit", "crash", "release", "hold_epoch", "configure", "again",
    "roll_back", "maintain",
)  # fmt: skip


@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=30))
def test_an_audit_balances_after_every_step(seed: int, steps: list[str]) -> None:
    world = World(seed)
    for step in (*steps, "seal", "commit"):
        getattr(world, step)()
        found = audited(world.stream, world.ground)
        allowed = {"rolled_back"} if world.rolled_back else set()
        assert {one.code for one in found.differences} <= allowed, (step, found.differences)
        assert found.difference == 0, step
        assert found.acked == world.acked, step
        for table in found.tables:
            assert table.accounted == table.events, (step, table)
        for rows in row_audited(world.stream, world.ground).values():
            assert rows.right, (step, rows)


def test_a_world_is_not_empty() -> None:
    world = World(1)
    for step in ("post", "post", "post", "post", "seal", "commit"):
        getattr(world, step)()
    found = audited(world.stream, world.ground)
    assert found.acked == world.acked > 5
    assert found.merged > 1
    assert found.dead > 0
