"""Durations as people write them in words: the error says how firn.yaml has them."""

import pytest

from firn.config.quantities import days, seconds


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("1 minute", "write 60s or 1m"),
        ("5 minutes", "write 300s or 5m"),
        ("90 sec", "write 90s"),
        ("2 hours", "write 2h"),
        ("1 DAY", "write 1d"),
        ("an hour", "write 1h"),
        ("1.5 hours", "write 5400s or 90m"),
        ("1h30m", "write 5400s or 90m"),
        ("1 hr and 10 secs", "write 3610s"),
        ("500ms", "write 1s"),
        ("soon", "write 60s, or use m for minutes, h for hours"),
    ],
)
def test_a_duration_in_words_is_answered_by_how_it_is_written(text: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"is not a duration; {instead}$"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("1 week", "write 7d"),
        ("2 Weeks", "write 14d"),
        ("1w", "write 7d"),
        ("1 month", "write 30d"),
        ("a year", "write 365d"),
        ("1 minute", "write 60s or 1m"),
        ("0.5d", "write 12h"),
        ("1 week, 2 days", "write 9d"),
        ("7", "write 7d, or use h for hours"),
        ("1 fathom", "write 1d, or use h for hours"),
        ("1.000.000 days", "write 5d, or use h for hours"),
    ],
)
def test_longer_ones_are_too(text: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"is not a duration; {instead}$"):
        days(text)


def test_words_that_mean_too_much_are_told_the_bounds() -> None:
    with pytest.raises(ValueError, match=r"'1 week' is not from 1s to 24h; write 60s$"):
        seconds("1 week")
    with pytest.raises(ValueError, match=r"'11 years' is not from 1s to 3650d; write 5d$"):
        days("11 years")


def test_so_is_one_of_days() -> None:
    with pytest.raises(ValueError, match=r"'1 day' is not a duration; write 1d$"):
        days("1 day")
