"""Which locks of a metastore are nobody's any more."""

import pytest

from firn.tables.abandoned_locks import Lock, abandoned, seconds_of

MINE = Lock(9, 1_000_000)


def test_a_lock_that_was_silent_longer_than_the_metastore_allows_is_nobodys() -> None:
    silent, just, alive = Lock(1, 699_999), Lock(2, 700_000), Lock(3, 999_000)
    assert abandoned([silent, just, alive, MINE], MINE.id, "300s") == [1]


def test_a_transactions_lock_is_left_to_the_metastore() -> None:
    assert abandoned([Lock(1, 0, transaction=7), MINE], MINE.id, "300s") == []


def test_without_ones_own_lock_there_is_no_clock_and_nothing_is_ended() -> None:
    assert abandoned([Lock(1, 0)], MINE.id, "300s") == []


def test_ones_own_lock_is_not_ended_however_old_a_part_of_it_is() -> None:
    assert abandoned([Lock(9, 0), MINE, Lock(1, 0), Lock(1, 0)], MINE.id, "1s") == [1]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300s", 300), ("300", 300), ("5m", 300), ("300000ms", 300), (" 2 H ", 7200), ("1d", 86_400)],
)
def test_the_metastores_words_for_a_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 weeks", "1e9999", "9" * 400])
def test_what_is_no_time_counts_as_the_metastores_own_default(text: str) -> None:
    assert seconds_of(text) == 300
