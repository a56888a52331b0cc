"""What lanes save of one hot table of several shards: a simulation of its commits, from costs that were measured.

    python -m benchmarks.hot_table [--shards 8] [--changes 100000] [--lanes 1 2 4 8] [--cores 2 4 8 16]
        [--request-ms 100] [--json]

A range of changes is read and decoded by a process for each core, decided once in the job, and then the job's threads,
as many as the stream has lanes, each bring one shard after the other; the rest and the cut come last (ADR 104, 107).
A shard takes Python, which one thread of the job has at a time, what the JVM and Arrow do beside it on any core, and
requests to storage and catalog, which wait for each other. `--cores`: of the job's driver; EMR Serverless has workers
of 1, 2, 4, 8 and 16 vCPUs (its user guide, "Worker configurations"). `--request-ms 0`: files of this machine. Same
arguments, same output.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from benchmarks.scale_costs import AWS, FETCHES_AT_ONCE

_STEPS: Final = 20  # of a shard's commit: so often what it does changes between Python, the rest, and waiting
_READERS: Final = 8  # processes, at most (driver/reader_pool.py)
_EVENTS_A_REQUEST: Final = 2_500


@dataclass(frozen=True)
class HotCosts:
    """CPU seconds of the parts of a commit. Measured: `python -m benchmarks.shards --parts`, 200,000 changes into
    1,000,000 rows in eight shards, two cores; `request` and `in_a_row` as scale_costs.Costs has them.

    begin    to plan the range, and to load and look at each shard's table
    read     a change, by the readers: read, placed, decoded
    columns  a change, in the job: its columns come from the readers
    decide   a change, in the job
    python   a shard's commit, of Python; `beside`: of the JVM and Arrow
    change   a change in it
    """

    begin: float = 0.3
    read: float = 8.0e-6
    columns: float = 1.0e-6
    decide: float = 4.0e-6
    python: float = 0.1
    beside: float = 0.2
    change: float = 3.0e-6
    request: float = AWS.request
    in_a_row: int = AWS.in_a_row


@dataclass(frozen=True)
class Spent:
    """Seconds of one range, and what of it passes before the shards, in the lanes, and after them; CPU seconds."""

    before: float
    lanes: float
    after: float
    cpu: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.before + self.lanes + self.after


def in_lanes(shards: int, lanes: int, cores: int, python: float, beside: float, waits: float) -> float:
    """Seconds until so many lanes have committed all shards, each of which takes `python` with Python's lock and
    `beside` without, both on a core, and `waits` for others."""
    left, order = list(range(shards)), count()
    free: list[float] = [0.0] * cores
    lock = end = 0.0
    ready: list[tuple[float, int, int]] = []  # when, in order of that, and which of the steps of its shard comes
    for _ in range(min(lanes, shards)):
        left.pop()
        heappush(ready, (0.0, next(order), 0))
    while ready:
        now, _, step = heappop(ready)
        kind = step % 3
        if kind == 2:
            now += waits / _STEPS
        else:
            begun = max(now, heappop(free), lock if kind == 0 else 0.0)
            now = begun + (python, beside)[kind] / _STEPS
            lock = now if kind == 0 else lock
            heappush(free, now)
        end = max(end, now)
        if step + 1 < 3 * _STEPS:
            heappush(ready, (now, next(order), step + 1))
        elif left:
            left.pop()
            heappush(ready, (now, next(order), 0))
    return end


def spent(changes: int, shards: int, lanes: int, cores: int, costs: HotCosts) -> Spent:
    """What a range of so many changes takes, spread evenly over the shards."""
    readers, request = min(cores, _READERS), costs.request
    objects = changes / _EVENTS_A_REQUEST
    # As many shards are looked through at once as there are lanes, the rest's table and its memory before.
    looks = request * (10 + 3 * -(-shards // lanes))
    before = costs.begin + looks + objects / FETCHES_AT_ONCE / readers * request
    before += changes * (costs.read / readers + costs.columns + costs.decide) + costs.in_a_row * request / 2
    each = changes / shards * costs.change
    waits = costs.in_a_row * request
    within = in_lanes(shards, lanes, cores, costs.python, costs.beside + each, waits)
    after = costs.python + costs.beside + waits + 2 * request
    cpu = costs.begin + changes * (costs.read + costs.columns + costs.decide + costs.change)
    return Spent(before, within, after, cpu + (shards + 1) * (costs.python + costs.beside))


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A line for each number of cores and of lanes."""
    costs = replace(HotCosts(), request=given.request_ms / 1_000)
    for cores in given.cores:
        alone = spent(given.changes, given.shards, 1, cores, costs)
        for lanes in given.lanes:
            one = spent(given.changes, given.shards, lanes, cores, costs)
            yield {
                "cores": cores, "lanes": lanes, "seconds": round(one.seconds, 2), "before": round(one.before, 2),
                "in_lanes": round(one.lanes, 2), "after": round(one.after, 2), "cpu": round(one.cpu, 2),
                "by_one": round(one.seconds / alone.seconds, 2), "changes_a_second": round(given.changes / one.seconds),
            }  # fmt: skip


def main() -> None:
    """The table, or JSON."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = arguments.add_argument
    add("--shards", type=int, default=8)
    add("--changes", type=int, default=100_000)
    add("--lanes", type=int, nargs="+", default=[1, 2, 4, 8])
    add("--cores", type=int, nargs="+", default=[2, 4, 8, 16])
    add("--request-ms", type=float, default=100.0)
    add("--json", action="store_true")
    given = arguments.parse_args()
    found = list(rows(given))
    print(json.dumps(found, indent=1) if given.json else table(found))


def table(found: list[dict[str, Any]]) -> str:
    """At most 80 columns."""
    text = ["vCPUs lanes  seconds  before  shards   after   CPU s  by one lane's  changes/s"]
    for one in found:
        said = f"{one['cores']:5} {one['lanes']:5} {one['seconds']:8.1f} {one['before']:7.1f} {one['in_lanes']:7.1f}"
        said += f" {one['after']:7.1f} {one['cpu']:7.1f} {one['by_one']:14.2f} {one['changes_a_second']:10,}"
        text.append(said)
    return "\n".join(text)


if __name__ == "__main__":
    main()
