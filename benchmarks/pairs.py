"""Two that are to be compared, measured in pairs by the CPU seconds of a process and all that it started.

On a machine that others use too, the clock on the wall measures them, and how fast it computes drifts. So the two of a
pair follow each other at once, each first every other time, and what counts is the ratio within a pair.
"""

import math
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

LEAST: Final = 6  # pairs that an interval takes
_UNSURE: Final = 0.05  # how often the true median may lie outside of it


def cpu() -> float:
    """Seconds that this process and all that it started have computed, by /proc."""
    parents, spent = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(place.parent.name)
        parents[pid], spent[pid] = int(told[1]), sum(map(int, told[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(spent[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds, what came of it)."""
    before = cpu()
    found = what()
    return cpu() - before, found


def in_turns(
    both: tuple[str, str], what: Callable[[str, int], Any], count: int, right: Callable[[Any], bool] = lambda _: True
) -> list[tuple[float, float]]:
    """CPU seconds of `what` of `both`, a pair for each number from 1 to `count`. Raises AssertionError where what came
    of it is not `right`."""
    found = []
    for n in range(1, count + 1):
        pair = {}
        for one in both if n % 2 else both[::-1]:  # each first every other time
            pair[one], came = timed(partial(what, one, n))
            assert right(came), (one, n, came)
        found.append((pair[both[0]], pair[both[1]]))
    return found


def ratio(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """What the second takes for each second of the first: the median of the pairs' ratios, and between which two it
    lies with 95 % confidence, whatever their distribution: the order statistics of the sign test."""
    if len(pairs) < LEAST:
        raise ValueError(f"{len(pairs)} pairs; an interval takes {LEAST}")
    found = sorted(second / first for first, second in pairs)
    count, outside, below = len(found), 0.5 ** len(found), 0
    while 2 * (outside + math.comb(count, below + 1) * 0.5**count) <= _UNSURE:
        below += 1
        outside += math.comb(count, below) * 0.5**count
    return statistics.median(found), found[below], found[count - 1 - below]
