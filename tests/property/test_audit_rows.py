"""Whatever happened to a stream: a row that is lost, doubled, set back, invented or altered is told, and no other."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from firn.audit.expected_changes import TableLog
from firn.audit.row_check import Logged
from firn.log import cuts, epochs, layout
from tests.model.lake_contract import STREAM
from tests.property.test_audit import STEPS, World
from tests.soak import examples, times
from tests.unit.audit.audited import row_audited

WAYS = ("lose", "double", "set back", "invent", "alter")
Rows = list[tuple[Any, Any]]


class Damaged:
    """Does one thing to one row of one table. `what`: how an audit has to call it; None if no row was fit for it."""

    def __init__(self, seed: int, way: str) -> None:
        self.chance, self.way = random.Random(seed), way
        self.table, self.row, self.what = "", "", ""

    def __call__(self, log: TableLog, logged: list[Logged], rows: Rows) -> Rows:
        # What a dead letter or an epoch that was given up may explain is no certain loss.
        doubtful = {one.name if log.mirror else (one.name,) for one in logged if not one.needed}
        fit = [
            place
            for place, (name, row) in enumerate(rows)
            if (name if log.mirror else (name,)) not in doubtful and not (log.mirror and row.order in log.refused)
        ]
        if self.what or not fit or not log.whole or not all(one.needed for one in log.truncates):
            return rows
        place = self.chance.choice(fit)
        name, row = rows[place]
        left = [*rows[:place], *rows[place + 1 :]]
        match self.way:
            case "lose":
                return self._did("missing", log, name, left)
            case "double":
                return self._did("surplus", log, name, [*rows, rows[place]])
            case "set back" if log.mirror:
                return self._did("missing", log, name, [*left, (name, replace(row, order=b"\1" + bytes(54)))])
            case "invent" if log.mirror:
                return self._did("surplus", log, ("new",), [*rows, (("new",), row)])
            case "invent":
                return self._did("surplus", log, "new", [*rows, ("new", row)])
            case "alter" if log.mirror and "v" in row.values:
                return self._did(
                    "differs", log, name, [*left, (name, replace(row, values={**row.values, "v": "wrong"}))]
                )
            case "alter" if not log.mirror and row:
                column = self.chance.choice(sorted(row))
                return self._did("differs", log, name, [*left, (name, {**row, column: "wrong"})])
        return rows

    def _did(self, what: str, log: TableLog, name: Any, rows: Rows) -> Rows:
        self.what, self.table, self.row = what, str(log.name), ", ".join(map(str, name if log.mirror else (name,)))
        return rows


def forget(world: World) -> None:
    """The oldest epochs that are committed expire, with their batches."""
    store = world.stream.store
    old = [n for n in epochs.numbers(store, STREAM) if n <= cuts.newest(store, STREAM)]
    for n in old[: world.chance.randint(0, len(old))]:
        sealed = epochs.read(store, STREAM, n)
        assert sealed is not None
        for batch in sealed.batches:
            store.delete(batch.path)
        store.delete(layout.epoch_path(STREAM, n))


def lived(seed: int, steps: list[str]) -> World:
    world = World(seed)
    for step in ("post", *steps, "seal", "commit"):
        getattr(world, step)()
    return world


@settings(max_examples=examples(15, 60))
@given(
    seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=30),
    way=st.sampled_from(WAYS),
)  # fmt: skip
def test_what_is_done_to_one_row_is_told_of_this_row_and_of_no_other(seed: int, steps: list[str], way: str) -> None:
    world = lived(seed, steps)
    damage = Damaged(seed, way)
    found = row_audited(world.stream, world.ground, damage=damage)
    event(f"{way}: {damage.what or 'no row was fit'}")
    for name, table in found.items():
        said = [(one.what, ", ".join(one.row)) for one in table.samples]
        assert said == ([(damage.what, damage.row)] if name == damage.table else []), table
        wrong = {"missing": table.missing, "surplus": table.surplus, "differs": table.differs}
        assert wrong == dict.fromkeys(wrong, 0) | ({damage.what: 1} if name == damage.table else {})
        assert table.expected == table.found + table.missing + table.differs


@settings(max_examples=examples(10, 40))
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=30))
def test_a_table_that_is_older_than_the_log_and_right_balances(seed: int, steps: list[str]) -> None:
    world = World(seed)
    for step in ("post", "post", "seal", "commit", *steps, "seal", "commit"):
        # An epoch that was given up and expired leaves nothing that would tell what of it a table got.
        if step not in ("hold_epoch", "configure"):
            getattr(world, step)()
        if world.chance.random() < 0.2:
            forget(world)
        for table in row_audited(world.stream, world.ground).values():
            assert table.right, table


def test_most_damage_is_done() -> None:
    steps = ["post", "seal", "commit"] * 3
    seeds = times(4, 10)
    done = [Damaged(seed, way) for seed in range(seeds) for way in WAYS]
    for number, damage in enumerate(done):
        world = lived(number, steps)
        row_audited(world.stream, world.ground, damage=damage)
    assert {one.what for one in done if one.what} == {"missing", "surplus", "differs"}
    assert sum(bool(one.what) for one in done) > 2.5 * seeds
