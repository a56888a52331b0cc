"""Jobs commit the shards of a table in lanes, twice, late, in other ranges, and die between any two calls; maps change
meanwhile. At every cut each shard is what `fold` places there, and what was left half-way is made good by the next."""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from firn.changes.decode.types import STRING
from firn.changes.merge.fold import RowChange
from firn.changes.placement.map_changes import merge, move, split_values
from firn.changes.placement.shard_map import Home, Listed, ShardMap
from tests.model.shards_world import Cut, Job, Lost, Worker, World
from tests.property.random_histories import change
from tests.soak import LONG, times

CASES = 20_000 if LONG else times(500, 500, 2_000)
FATES = (*[""] * 40, "dies before", "dies after", "fails", "answer lost")


class Jobs:
    """The jobs of a world that are at work."""

    def __init__(self, world: World, dice: random.Random, seen: Counter[str]) -> None:
        self.world, self.dice, self.seen = world, dice, seen
        self.living: list[tuple[Worker, Job, Any]] = []

    def start(self, lane: int, count: int, upto: int) -> None:
        worker = Worker(self.world, lane, count, upto, self.dice)
        job = worker.run()
        self.living.append((worker, job, next(job)))

    def step(self, which: int, fate: str = "") -> bool:
        """One call of a job. -> whether it lives on."""
        worker, job, call = self.living.pop(which)
        self.seen[fate or "goes well"] += 1
        try:
            if fate == "dies before":
                return False
            if fate == "fails":
                call = job.throw(Lost("storage is away"))
            else:
                try:
                    answer = call()
                except (Lost, KeyError) as error:
                    call = job.throw(error)
                else:
                    if fate == "dies after":
                        return False
                    call = job.throw(Lost("no answer")) if fate == "answer lost" else job.send(answer)
        except (StopIteration, Lost):
            return False
        self.living.insert(which, (worker, job, call))
        return True

    def settle(self, count: int) -> None:
        """New jobs, without a fault, until all is in a cut."""
        world, upto = self.world, len(self.world.epochs)
        for _ in range(2 * len(world.epochs) + 2):
            if world.newest().n == upto:
                return
            for lane in range(count):
                self.start(lane, count, upto)
                while self.step(len(self.living) - 1):
                    pass
        raise AssertionError(f"the newest cut is {world.newest().n}, of {upto} epochs, seed {world.seed}")


def check(seed: int, seen: Counter[str]) -> None:
    """Raises AssertionError with the seed."""
    dice = random.Random(f"jobs {seed}")
    world, batches = World.of(seed)
    jobs = Jobs(world, dice, seen)
    for batch in batches:
        world.seal(batch, dice)
        for _ in range(dice.randrange(4)):
            what = dice.choice(("job", "job", "job", "map", "compact", "expire"))
            if what == "job":
                count = dice.randrange(1, 4)
                jobs.start(dice.randrange(count), count, dice.randint(world.newest().n, len(world.epochs)))
            elif what == "map":
                world.plan(dice)
            elif what == "compact":
                world.compact(dice)
            else:
                world.expire({one for worker, _, _ in jobs.living for one in worker.held})
            for _ in range(dice.choice((0, 3, 30))):
                if jobs.living:
                    jobs.step(dice.randrange(len(jobs.living)), dice.choice(FATES))
        if dice.random() < 0.3:
            jobs.settle(dice.randrange(1, 4))
    asleep = jobs.living[:]
    jobs.settle(dice.randrange(1, 4))
    seen["asleep"] += len(asleep)
    while jobs.living:  # who stood still all the time goes on, and changes nothing
        jobs.step(0)
    world.check_current()
    seen["cuts"] += len(world.cuts)
    seen["maps in cuts"] += len({cut.version for cut in world.cuts.values()})


def test_shards_are_right_at_every_cut_whoever_dies_or_comes_late() -> None:
    seen = Counter[str]()
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG else 0
    for seed in range(first, first + CASES):
        check(seed, seen)
    assert seen["cuts"] > 2 * CASES, seen
    assert seen["maps in cuts"] > 1.1 * CASES, seen
    assert seen["asleep"] > CASES / 10, seen


# The same by hand: what is the danger in each of them.

SHARDS = ShardMap(
    1,
    "geographic",
    "w",
    STRING,
    Listed({"a": "a", "b": "b"}),
    "rest",
    {name: Home(f"{name}.t") for name in ("a", "b", "rest")},
)


def told(*epochs: tuple[RowChange, ...]) -> World:
    world = World(0, {}, {1: SHARDS}, frozenset({"t"}))
    world.put_cut(Cut(0, 1, {}))
    world.epochs += [(list(changes), 1) for changes in epochs]
    return world


def row(op: str, key: int, place: int, shard: str | None = None) -> RowChange:
    told = change(op, key, place, "t")
    return told if told.values is None else replace(told, values={"k": key, "w": shard})


def run(world: World, upto: int, stop: Callable[[World], bool] = lambda _: False) -> Jobs:
    """A job of one lane up to an epoch, which stands still once `stop` holds, and dies with the test."""
    jobs = Jobs(world, random.Random(0), Counter())
    jobs.start(0, 1, upto)
    while not stop(world) and jobs.step(0):
        pass
    return jobs


def reaches(shard: str, progress: int) -> Callable[[World], bool]:
    def stop(world: World) -> bool:
        table = world.tables.get(SHARDS.homes[shard])
        return table is not None and table.current.progress == progress

    return stop


def rows(world: World, shard: str) -> set[Any]:
    table = world.tables.get(SHARDS.homes[shard])
    return {key for (key,) in table.current.rows} if table else set()


@pytest.mark.parametrize("first", ["leaves", "enters"])
def test_a_job_that_dies_between_two_shards_is_made_good_by_the_next(first: str) -> None:
    """The lanes' order is that of names: a row that goes from a to b is in neither for a while, from b to a in both."""
    here, there = ("a", "b") if first == "leaves" else ("b", "a")
    world = told((row("c", 1, 10, here),), (row("u", 1, 20, there),), (row("u", 1, 30, there),))
    run(world, 1)
    assert rows(world, here) == {1}
    run(world, 2, reaches("a", 2))
    assert (rows(world, here), rows(world, there)) == ((set(), set()) if first == "leaves" else ({1}, {1}))
    assert world.newest().n == 1, "who reads at the cut sees it where it was"
    run(world, 3)
    assert (rows(world, here), rows(world, there), world.newest().n) == (set(), {1}, 3)


def test_who_stood_still_does_not_bring_back_a_row_that_came_and_went() -> None:
    world = told((row("c", 1, 10, "a"),), (row("u", 1, 20, "b"),), (row("u", 1, 30, "a"),))
    run(world, 1)
    late = Jobs(world, random.Random(0), Counter())
    late.start(1, 3, 2)  # the lane of b
    late.step(0)  # it begins at this cut
    run(world, 3)
    while late.living:
        late.step(0)
    assert (rows(world, "a"), rows(world, "b")) == ({1}, set())


@pytest.mark.parametrize("how", ["split", "merge", "move"])
def test_rows_that_passed_before_a_job_died_pass_no_second_time_and_none_is_lost(how: str) -> None:
    """Shards are committed by name: of a split the one that loses first, of a merge and a move the one that gets."""
    now = {
        "split": split_values(SHARDS, "rest", "z", Home("z.t"), ["x"]),
        "merge": merge(SHARDS, ["b"], "a"),
        "move": move(SHARDS, "a", Home("c.t")),
    }[how]
    places = {1: "a", 2: "b", 3: "b", 4: "x", 5: "x", 6: None, 7: "a"}
    world = told(
        tuple(row("c", key, key, place) for key, place in places.items()),
        (row("u", 1, 21, "b"), row("d", 5, 22)),
        (row("u", 3, 31, "x"), row("u", 7, 32, "a"), row("u", 4, 33, "b")),
    )
    world.maps[2] = now
    run(world, 1)
    world.epochs[1:] = [(changes, 2) for changes, _ in world.epochs[1:]]
    first = "rest" if how == "split" else "a"
    run(world, 2, lambda world: (at := world.tables.get(now.homes[first])) is not None and at.current.progress == 2)
    assert world.newest().n == 1
    run(world, 3)
    assert (world.newest().n, world.newest().version) == (3, 2)
    world.check_current()


def test_what_was_remembered_early_does_not_reach_a_cut_before_it() -> None:
    world = told((row("c", 1, 10, "a"),), (row("d", 1, 20),))
    run(world, 2, lambda world: bool(world.facts))
    run(world, 1)
    assert (rows(world, "a"), world.newest().n) == ({1}, 1)


def test_what_a_mark_names_is_there_until_its_cut_is_made() -> None:
    world = told((row("c", 1, 10, "a"), row("c", 2, 10, "b")), (row("u", 1, 20, "a"),))
    jobs = Jobs(world, random.Random(0), Counter())
    for lane, upto in ((0, 1), (0, 2), (1, 1)):
        world.expire(set())
        jobs.start(lane, 2, upto)
        while jobs.step(0):
            pass
    assert world.newest().n == 1
