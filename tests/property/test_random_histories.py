"""Thousands of random histories (a million by `make soak`): the specification, and the row engine on what a table
remembers, say the same after each batch."""

import os
import random

from firn.changes.merge.fold import RowChange, fold
from tests.memory_table import MemoryTable
from tests.property.random_histories import Case, case
from tests.soak import LONG, times

CASES = times(2_000, 1_000_000, 4_000)


def check(one: Case) -> None:
    """Raises AssertionError with the seed where they differ."""
    table = MemoryTable(dict(one.base), one.sources)
    come: list[RowChange] = []
    for batch in one.batches:
        come += batch
        table.commit(batch)
        assert table.live == dict(fold(one.base, come).rows), f"the engine differs from fold, seed {one.seed}"


def test_the_specification_and_the_engine_say_the_same() -> None:
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG else 0
    print(f"seeds {first} to {first + CASES}")
    for seed in range(first, first + CASES):
        check(case(seed))
