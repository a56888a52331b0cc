"""Jobs commit the shards of a table in lanes, twice, late, in other ranges, and die between any two calls; maps change
meanwhile. At every cut each shard is what `fold` places there, and what was left half-way is made good by the next."""

import os
import random
from collections import Counter
from typing import Any

from tests.model.shards_world import Job, Lost, Worker, World
from tests.soak import LONG, times

CASES = 20_000 if LONG else times(int(os.environ.get('N','250')), 250, 1_000)
FATES = (*[""] * 40, "dies before", "dies after", "fails", "answer lost")


class Jobs:
    """The jobs of a world that are at work."""

    def __init__(self, world: World, dice: random.Random, seen: Counter[str]) -> None:
        self.world, self.dice, self.seen = world, dice, seen
        self.living: list[tuple[Worker, Job, Any]] = []

    def start(self, lane: int, count: int, upto: int) -> None:
        worker = Worker(self.world, lane, count, upto)
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
    assert seen["maps in cuts"] > 1.2 * CASES, seen
    assert seen["asleep"] > CASES / 10, seen
