"""Which of a stream's tables a job looks at though its range does not touch them."""

import pytest

from firn.config.names import TableName
from firn.tables.turns import MOST, in_turn

TABLES = [TableName("bank", f"accounts_{n}") for n in range(1_000)]
TURNS = len(TABLES) // MOST


@pytest.mark.parametrize("above", [0, 7, 123_456])
def test_few_tables_are_looked_at_each_time(above: int) -> None:
    assert in_turn(TABLES[:MOST], above, above + 1) == frozenset(TABLES[:MOST])
    assert in_turn((), above, above + 1) == frozenset()


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, TURNS - 1, TURNS, TURNS + 5])
@pytest.mark.parametrize("above", [0, 11, 123_456])
def test_of_many_each_has_its_turn_however_many_epochs_a_range_has(epochs: int, above: int) -> None:
    seen, rounds = set[TableName](), 0
    while rounds * epochs < TURNS:
        first = above + rounds * epochs
        seen |= in_turn(TABLES, first, first + epochs)
        rounds += 1
    assert seen == set(TABLES)


def test_about_as_many_an_epoch_as_are_looked_at_at_most() -> None:
    each = [len(in_turn(TABLES, n, n + 1)) for n in range(TURNS)]
    assert sum(each) == len(TABLES)
    assert max(each) < 2 * MOST


def test_whoever_does_a_range_again_looks_at_the_same() -> None:
    assert in_turn(TABLES, 5, 6) == in_turn(TABLES[::-1], 5, 6)
