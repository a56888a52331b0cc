"""Thousands of random histories (a million by `make soak`): the specification, what a table remembers, and the small
way of a commit say the same after each batch."""

import os
import random

from firn.changes.merge.fold import RowChange, fold
from firn.changes.merge.incremental import Known, apply
from tests.property.random_histories import Case, Small, case
from tests.soak import LONG

CASES = 1_000_000 if LONG else 4_000


def check(one: Case) -> None:
    """Raises AssertionError with the seed where they differ."""
    known, small = Known(dict(one.base), sources=one.sources), Small(dict(one.base), one.sources)
    come: list[RowChange] = []
    for batch in one.batches:
        come += batch
        expected = dict(fold(one.base, come).rows)
        log = tuple(come)
        known = apply(known, batch, lambda keys, log=log: [c for c in log if c.op != "t" and c.key in keys])
        assert dict(known.rows) == expected, f"incremental differs from fold, seed {one.seed}"
        small.commit(batch)
        assert small.table == expected, f"the small way differs from fold, seed {one.seed}"


def test_the_specification_what_a_table_remembers_and_the_small_way_say_the_same() -> None:
    first = random.Random(os.environ.get("FIRN_SEED", "1")).randrange(2**40) if LONG else 0
    print(f"seeds {first} to {first + CASES}")
    for seed in range(first, first + CASES):
        check(case(seed))
