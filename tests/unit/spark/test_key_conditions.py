"""Iceberg is asked by halves for what it would be asked for one by one, and finds the same files in fewer steps."""

import random
from typing import Any

import pytest

from firn.changes.decode.types import Column, Type
from firn_spark.files import key_conditions
from firn_spark.files.key_conditions import in_any

ID = Column("id", Type("long"))


class Expressions:
    """Iceberg's, evaluated as it evaluates them: and, or end as soon as they may. A file is what its bounds say."""

    steps = 0

    def __getattr__(self, name: str) -> Any:
        return {"and": lambda one, other: lambda file: one(file) and other(file),
                "or": lambda one, other: lambda file: one(file) or other(file)}[name]  # fmt: skip

    def greaterThanOrEqual(self, _: str, value: Any) -> Any:
        return lambda file: self._step(file[1] >= value)

    def lessThanOrEqual(self, _: str, value: Any) -> Any:
        return lambda file: self._step(file[0] <= value)

    def _step(self, found: bool) -> bool:
        self.steps += 1
        return found


def asked(expressions: Expressions, ends: list[tuple[int, int]], column: Column = ID) -> Any:
    return next(in_any(expressions, None, column, ends), None)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_is_found_if_it_reaches_into_an_interval(seed: int) -> None:
    dice = random.Random(seed)
    places = sorted(dice.sample(range(1_000), 2 * dice.randrange(1, 65)))
    ends = list(zip(places[::2], places[1::2], strict=True))
    condition = asked(Expressions(), ends)
    for _ in range(300):
        low = dice.randrange(-10, 1_010)
        file = low, low + dice.choice((0, 3, 40, 400))
        assert condition(file) == any(file[0] <= high and file[1] >= low for low, high in ends)


def test_most_files_are_told_to_hold_nothing_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [(n * 1_000, n * 1_000 + 1) for n in range(64)]
    files = [(n * 10 + 2, n * 10 + 9) for n in range(6_400)]
    halves, one_by_one = Expressions(), Expressions()
    by_halves = asked(halves, ends)
    monkeypatch.setattr(key_conditions, "_SIDE_BY_SIDE", 64)
    assert [by_halves(file) for file in files] == list(map(asked(one_by_one, ends), files))
    assert halves.steps < one_by_one.steps / 4


def test_nothing_is_asked_where_one_interval_can_not_be() -> None:
    moments = [(n * 2**32, n * 2**32 + 1) for n in range(40)]  # Iceberg takes an int for no moment
    assert asked(Expressions(), moments, Column("at", Type("timestamp"))) is None
    assert asked(Expressions(), moments[1:], Column("at", Type("timestamp"))) is not None
