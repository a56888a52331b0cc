"""How many tables are committed at once: of small ones eight, of large ones as many as there are cores."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from firn.config.model import TableRule
from firn.config.names import TableName
from firn.tables.batch_facts import TableFacts
from firn.tables.outcome import Outcome
from firn.tables.routing import FEW, Feed, Target
from firn_spark.parallel import at_once, each_of

SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


class Committing:
    """A commit that waits. `most`: how many there were at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, target: Target, above: int) -> Outcome:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self._lock:
            self.now -= 1
        if target.name.table == "t5":
            raise ValueError("no outcome")
        return Outcome(str(target.name), target.sources)


def targets(changes: int, count: int = 16, first: int = 10, feeds: tuple[Feed, ...] = ()) -> list[tuple[Target, int]]:
    facts = TableFacts(events={(3, "c"): changes, (1, "c"): 10**9})
    names = (f"t{n}" for n in range(first, first + count))
    return [(Target(TableName("l", name), TableRule("a", "l.t"), ("a",), (facts,), feeds=feeds), 2) for name in names]


@pytest.mark.parametrize(
    ("some", "most"),
    [
        (targets(FEW), range(3, 9)),
        (targets(FEW + 1), range(2, 3)),
        (targets(1, feeds=(Feed(None, ("a",)),)), range(2, 3)),
    ],
)
def test_small_tables_are_many_and_large_ones_few(some: list[tuple[Target, int]], most: range) -> None:
    commit = Committing()
    found = list(at_once(commit, some, SPARK))
    assert sorted(one.table for one in found) == sorted(str(target.name) for target, _ in some)
    assert commit.most in most


def test_what_a_commit_raises_comes_out_and_ends_the_others() -> None:
    with pytest.raises(ValueError, match="no outcome"):
        list(at_once(Committing(), targets(1, first=0), SPARK))


def test_one_alone_has_no_thread_of_its_own() -> None:
    threads = each_of(lambda _: threading.get_ident(), [1], 4)
    assert threads == [threading.get_ident()]
    assert each_of(lambda n: n + 1, iter([1, 2, 3]), 2) == [2, 3, 4]
    assert each_of(lambda _: threading.get_ident(), [1, 2], 2) != threads * 2
    assert each_of(str, (), 2) == []


def test_of_a_round_small_tables_go_first_and_of_these_the_one_with_most_changes() -> None:
    counts = [3 * FEW, FEW + 1, 1, FEW, 70]
    every = [target for n in counts for target, _ in targets(n, 1)]
    for one, n in zip(every, counts, strict=True):
        one.facts[0].events.clear()  # type: ignore[attr-defined]
        one.facts[0].events[3, "c"] = n  # type: ignore[index]
    assert [one.events(0) for one in sorted(every, key=lambda one: one.turn)] == [FEW, 70, 1, FEW + 1, 3 * FEW]
