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
        ("3 DAYS", "write 3d"),
        ("soon", "write 60s, or use m for minutes, h for hours"),
    ],
)
def test_a_duration_in_words_is_answered_by_how_it_is_written(text: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"is not a duration; {instead}$"):
        seconds(text)


def test_so_is_one_of_days() -> None:
    with pytest.raises(ValueError, match=r"'1 day' is not a duration; write 1d$"):
        days("1 day")
