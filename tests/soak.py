"""How much the tests with real processes do, and from which seed: little in CI, much in `make soak` (FIRN_SOAK=1).

FIRN_SEED (default 1) is the first seed. A red run is replayed with the FIRN_SEED that it printed; CONTRIBUTING.md says
how.
"""

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from hypothesis import settings

SEED: Final = int(os.environ.get("FIRN_SEED", "1"))
_HOMES: Final = ("driver", "slices")
_SLICES_TURN: Final = 16
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


def few_cases(most: int) -> pytest.MarkDecorator:
    """Of the cases of one test `most` take place in CI, always the same ones, whichever else there are; in `make soak`
    and for a mutant, all."""
    return pytest.mark.few_cases(most)


def in_turn(tests: Iterable[pytest.Item]) -> None:
    """A test in both homes of the engine takes place in one of them in CI, by turns, and with other parameters each of
    their values does; in `make soak` and for a mutant, in both. On a Hive Metastore, which CI has none of, in both.
    Slices cost four times as much: theirs is each sixteenth turn.

    Of what is left, `few_cases` leaves as many.

    A home is known by its word in the test's id, whatever the parameter holds.
    """
    tests = list(tests)
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
    left_out: set[str] = set()
    for (function, _), pair in pairs.items():
        turn = met[function] = met.get(function, -1) + 1
        for home, test in pair:
            slices = (turn + len(test.name.partition("[")[0])) % _SLICES_TURN == 1
            if len(pair) == 2 and slices != (home == "slices"):
                left_out.add(test.nodeid)
    cases: dict[str, list[pytest.Item]] = {}
    for test in tests:
        if test.get_closest_marker("few_cases") and test.nodeid not in left_out:
            cases.setdefault(test.nodeid.partition("[")[0], []).append(test)
    for of_one in cases.values():
        of_one.sort(key=lambda test: (_is_skipped(test), zlib.crc32(test.name.encode())))
        most = of_one[0].get_closest_marker("few_cases")
        assert most is not None
        left_out.update(test.nodeid for test in of_one[most.args[0] :])
    for test in tests:
        if test.nodeid in left_out:
            test.add_marker(long_only)


def _is_skipped(test: pytest.Item) -> bool:
    return any(
        mark.name == "skip" or (mark.name == "skipif" and mark.args[:1] == (True,)) for mark in test.iter_markers()
    )
