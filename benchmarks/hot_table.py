"""What lanes save of one hot table of several shards: a simulation of its commits, from costs that were measured.

    python -m benchmarks.hot_table [--shards 8] [--changes 1000000] [--lanes 1 2 4 8] [--cores 2 4 8 16]
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

from benchmarks.scale_costs import ALONE, AWS, FETCHES_AT_ONCE

_STEPS: Final = 20  # of a shard's commit: so often what it does changes between Python, the rest, and waiting
_READERS: Final = 8  # processes, at most (driver/reader_pool.py)
_EVENTS_A_REQUEST: Final = 2_500


@dataclass(frozen=True)
class HotCosts:
    """CPU seconds of the parts of a commit. Measured: `python -m benchmarks.shards --parts`, 4,000 and 200,000 changes
    into 1,000,000 rows in eight shards, warm, two cores; `request` and `in_a_row` as scale_costs.Costs has them.

    begin   what a range costs whatever it holds
    read    a change, by the readers: read, placed, decoded. 1.3 and 0.7 of 200,000
    look    a shard that is looked through. 0.4 of eight
    decide  a change, by columns. 0.16 of 200,000
    facts   the memory of deletes
    python  a shard's commit, of Python, 0.021; `change`: a change in it, 0.033 of 25,000; `beside`: JVM and Arrow
    """

    begin: float = 0.2
    read: float = 10.0e-6
    look: float = 0.05
    decide: float = 0.8e-6
    facts: float = 0.12
    python: float = 0.02
    change: float = 1.3e-6
    beside: float = 0.14
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
    left, order = shards, count()
    free: list[float] = [0.0] * cores
    lock = end = 0.0
    ready: list[tuple[float, int, int]] = []  # when, in order of that, and which of the steps of its shard comes
    for _ in range(min(lanes, shards)):
        left -= 1
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
            left -= 1
            heappush(ready, (now, next(order), 0))
    return end


def spent(changes: int, shards: int, lanes: int, cores: int, costs: HotCosts) -> Spent:
    """What a range of so many changes takes, spread evenly over the shards."""
    request, commit = costs.request, costs.in_a_row * costs.request
    readers = min(cores, _READERS) if changes > ALONE else 1
    begin = costs.begin + 10 * request
    read = changes * costs.read / readers + changes / _EVENTS_A_REQUEST / FETCHES_AT_ONCE / readers * request
    looks = in_lanes(shards, lanes, cores, 0.0, costs.look, 3 * request)
    before = begin + read + looks + changes * costs.decide + costs.facts + commit / 2
    python = costs.python + changes / shards * costs.change
    within = in_lanes(shards, lanes, cores, python, costs.beside, commit)
    after = costs.python + costs.beside + commit + 2 * request
    cpu = costs.begin + changes * (costs.read + costs.decide) + shards * costs.look + costs.facts
    return Spent(before, within, after, cpu + (shards + 1) * (costs.python + costs.beside) + changes * costs.change)


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
    add("--changes", type=int, default=1_000_000)
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
