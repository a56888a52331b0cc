"""What comes in, and how old it is when it can be read: of benchmarks/simulate.py, and of the run it is held to."""

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

ACTIVE, HOT, WINDOW = 40, 50, 10.0  # tables of the anchor in each window of seconds; what the first sends by another
_BIN: Final = 0.05  # seconds


def windows(tables: int, count: int) -> list[list[int]]:
    """The anchor's tables that change in each ten seconds; the first always does."""
    dice = random.Random(7)
    return [[0, *dice.sample(range(1, tables), min(ACTIVE, tables) - 1)] for _ in range(count)]


class Load:
    """Changes of tables over time, each table's as regular as its rate allows. `rates`: changes a second, from each of
    `times` to the next; a table that is not named has none."""

    def __init__(self, times: Sequence[float], rates: Sequence[dict[int, float]], seed: int) -> None:
        dice = random.Random(seed)
        self.tables = sorted({table for some in rates for table in some})
        self.seconds = times[-1]
        self._times, self._rates, self._seed = times, rates, seed
        self._offset = {table: dice.random() for table in self.tables}
        sums: dict[int, float] = dict.fromkeys(self.tables, 0.0)
        self._before = []  # of each span, what came before it
        for (begin, end), some in zip(pairwise(times), rates, strict=True):
            self._before.append(dict(sums) if len(rates) > 1 else {})
            for table, rate in some.items():
                sums[table] += rate * (end - begin)

    def longer(self, seconds: float) -> "Load":
        """A steady load for so long."""
        return Load((0.0, seconds), self._rates, self._seed)

    def hashed(self, tables: int) -> "Load":
        """A steady load in so few tables: the changes of each in the one that a hash gives it."""
        dice, found = random.Random(self._seed), dict[int, float]()
        for _, rate in sorted(self._rates[0].items()):
            place = dice.randrange(tables)
            found[place] = found.get(place, 0.0) + rate
        return Load(self._times, [found], self._seed)

    def upto(self, tables: Sequence[int], time: float) -> list[int]:
        """How many changes of each table have come by then."""
        time = min(max(time, 0.0), self.seconds)
        at = max(0, sum(begin <= time for begin in self._times[:-1]) - 1)
        before, rates, passed = self._before[at], self._rates[at], time - self._times[at]
        return [
            math.floor(before.get(table, 0.0) + rates.get(table, 0.0) * passed + self._offset[table])
            for table in tables
        ]


def zipf(tenants: int, changes: float, skew: float, seconds: float, seed: int) -> Load:
    """A steady load: changes a second, by tenants of which the n-th has 1 / n^skew of the first."""
    weights = [1 / n**skew for n in range(1, tenants + 1)]
    whole = sum(weights)
    return Load((0.0, seconds), [{n: changes * w / whole for n, w in enumerate(weights)}], seed)


def anchored(tables: int, changes: float, seconds: float, seed: int = 7) -> Load:
    """The load of benchmarks/tenants.py."""
    times = [min(n * WINDOW, seconds) for n in range(math.ceil(seconds / WINDOW) + 1)]
    shown = windows(tables, len(times))
    part = changes / (HOT + min(ACTIVE, tables) - 1)
    return Load(times, [{t: part * (HOT if t == 0 else 1) for t in some} for some in shown[: len(times) - 1]], seed)


class Ages:
    """How old changes were when they could be read: those of a range are spread evenly over it."""

    def __init__(self) -> None:
        self._steps, self._points, self.count = dict[int, float](), dict[int, int](), 0

    def add(self, least: float, most: float, changes: int) -> None:
        """So many changes, from `least` to `most` seconds old."""
        first, last = (int(one / _BIN) for one in (least, most))
        self.count += changes
        if first == last:
            self._points[first] = self._points.get(first, 0) + changes
        else:
            each = changes / (last - first)
            self._steps[first] = self._steps.get(first, 0.0) + each
            self._steps[last] = self._steps.get(last, 0.0) - each

    def take(self, other: "Ages") -> None:
        """Those of another, too."""
        self.count += other.count
        for place, step in other._steps.items():
            self._steps[place] = self._steps.get(place, 0.0) + step
        for place, changes in other._points.items():
            self._points[place] = self._points.get(place, 0) + changes

    def quantile(self, share: float) -> float:
        """The age that so many had at most; 0 without any."""
        left, level, place = share * self.count, 0.0, 0
        for edge in sorted(self._steps.keys() | self._points.keys()):
            if level > 1e-9 and left <= level * (edge - place):
                return round((place + left / level) * _BIN, 2)
            left -= level * (edge - place) + self._points.get(edge, 0)
            if left <= 0:
                return round(edge * _BIN, 2)
            level, place = level + self._steps.get(edge, 0.0), edge
        return round(place * _BIN, 2)
