"""How much the tests with real processes do, and from which seed: little in CI, much in `make soak` (FIRN_SOAK=1).

FIRN_SEED (default 1) is the first seed. A red run is replayed with the FIRN_SEED that it printed; CONTRIBUTING.md says
how.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from hypothesis import settings

SEED: Final = int(os.environ.get("FIRN_SEED", "1"))
_HOMES: Final = ("driver", "slices")
_SLICES_TURN: Final = 8
LONG: Final = bool(os.environ.get("FIRN_SOAK"))
MUTANTS: Final = bool(os.environ.get("FIRN_MUTANTS"))


def times(quick: int, long: int, mutant: int = 0) -> int:
    """How often: `quick`, or `long` in a soak run, or at least `mutant` times where a mistake has to be found."""
    return long if LONG else max(quick, mutant) if MUTANTS else quick


def seeds(quick: int, long: int) -> Sequence[int]:
    """As many seeds, from FIRN_SEED on."""
    return range(SEED, SEED + times(quick, long))


def examples(quick: int, mutant: int = 0) -> int:
    """How many hypothesis makes: `quick`, or as many as `make soak` asks for, or `mutant` as `times` has it."""
    soaks = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
    return settings().max_examples if soaks else max(quick, mutant) if MUTANTS else quick


# What CI has no time for: it shows more of what a quicker test beside it shows already. A mutant may name it.
long_only: Final = pytest.mark.skipif(not (LONG or MUTANTS), reason="takes long: make soak runs it")


def in_turn(tests: Iterable[pytest.Item]) -> None:
    """A test in both homes of the engine takes place in one of them in CI, by turns, and with other parameters each of
    their values does; in `make soak` and for a mutant, in both. On a Hive Metastore, which CI has none of, in both.
    Slices cost four times as much: theirs is each eighth turn.

    A home is known by its word in the test's id, whatever the parameter holds.
    """
    pairs: dict[tuple[str, str], list[tuple[str, pytest.Item]]] = {}
    for test in tests:
        given = getattr(test, "callspec", None)
        words = given.id.split("-") if given else []
        home = next((one for one in _HOMES if one in words), None)
        if home is None or "hive" in words or any(mark.name == "skipif" for mark in test.iter_markers()):
            continue
        of_both = (test.nodeid.partition("[")[0], test.name.replace(home, ""))
        pairs.setdefault(of_both, []).append((home, test))
    met: dict[str, int] = {}
    for (function, _), pair in pairs.items():
        turn = met[function] = met.get(function, -1) + 1
        for home, test in pair:
            slices = (turn + len(test.name.partition("[")[0])) % _SLICES_TURN == 1
            if len(pair) == 2 and slices != (home == "slices"):
                test.add_marker(long_only)
