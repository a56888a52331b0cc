"""How much the tests with real processes do, and from which seed: little in CI, much in `make soak`.

FIRN_SEED (default 1) is the first seed, FIRN_SOAK how many times more is done (default 1). A red soak run is replayed
with the FIRN_SEED that it printed.
"""

import os
from collections.abc import Sequence
from typing import Final

SEED: Final = int(os.environ.get("FIRN_SEED", "1"))
SOAK: Final = int(os.environ.get("FIRN_SOAK", "1"))
LONG: Final = SOAK > 1


def seeds(quick: int) -> Sequence[int]:
    """`quick` seeds, or `FIRN_SOAK` times as many."""
    return range(SEED, SEED + quick * SOAK)


def times(quick: int, long: int) -> int:
    """How often: `quick`, or `long` in a soak run."""
    return long if LONG else quick
