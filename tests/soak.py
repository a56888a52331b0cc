"""How much the tests with real processes do, and from which seed: little in CI, much in `make soak` (FIRN_SOAK=1).

FIRN_SEED (default 1) is the first seed. A red run is replayed with the FIRN_SEED that it printed; CONTRIBUTING.md says
how.
"""

import os
from collections.abc import Sequence
from typing import Final

import pytest

SEED: Final = int(os.environ.get("FIRN_SEED", "1"))
LONG: Final = bool(os.environ.get("FIRN_SOAK"))


def times(quick: int, long: int) -> int:
    """How often: `quick`, or `long` in a soak run."""
    return long if LONG else quick


def seeds(quick: int, long: int) -> Sequence[int]:
    """As many seeds, from FIRN_SEED on."""
    return range(SEED, SEED + times(quick, long))


# What CI has no time for: it shows more of what a quicker test beside it shows already. A mutant may name it.
long_only: Final = pytest.mark.skipif(
    not (LONG or os.environ.get("FIRN_MUTANTS")), reason="takes long: make soak runs it"
)
