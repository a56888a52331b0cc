"""Ranges of a stream that has a table of several shards are cut by how much one process decides."""

import pytest

from firn.commit import range_parts
from firn.commit.range_parts import Part, bounded, by_map, first_part


def epochs(events: list[int], most: int, ahead: int = 0) -> list[tuple[int, ...]]:
    numbered = dict(enumerate(events, 1))
    return [one.epochs for one in bounded([Part(tuple(numbered), frozenset("x"))], numbered, most, ahead)]


def test_parts_hold_so_many_events_and_one_epoch_at_least() -> None:
    assert epochs([5, 5, 5, 20, 1], 10) == [(1, 2), (3,), (4,), (5,)]
    assert epochs([5], 10) == [(1,)]
    assert epochs([5, 5, 5, 20, 1], 10, 3) == [(1, 2, 3), (4,), (5,)]


def test_a_longer_range_is_cut_where_a_shorter_one_was_or_later() -> None:
    events = [3, 4, 9, 1, 2, 8, 3, 3]
    for count in range(1, len(events)):
        short, long = epochs(events[:count], 10), epochs(events[: count + 1], 10)
        assert long[: len(short) - 1] == short[:-1]
        assert long[len(short) - 1][: len(short[-1])] == short[-1]


@pytest.mark.parametrize(
    ("events", "slow", "ahead", "upto"),
    [
        ([3, 3, 3], {1, 2, 3}, 0, 3),  # no more than is decided one by one
        ([5, 5, 5, 5], {}, 0, 4),
        ([5, 5, 5, 5], {3}, 0, 2),
        ([5, 5, 5, 5], {1}, 0, 2),
        ([20, 5, 5, 5], {1}, 0, 1),
        ([5, 5, 5, 5], {1, 2, 3, 4}, 0, 2),
        ([5, 5, 5, 5], {2}, 1, 1),
        ([5, 5, 5, 5], {2}, 3, 3),  # as far as a job has come from the same cut
        ([5, 5, 5, 5], {4}, 4, 4),
        ([5, 5, 5, 5], {}, 9, 4),
    ],
)
def test_what_is_not_decided_by_columns_is_cut_from_the_rest(
    monkeypatch: pytest.MonkeyPatch, events: list[int], slow: set[int], ahead: int, upto: int
) -> None:
    monkeypatch.setattr(range_parts, "MOST_ONE_BY_ONE", 10)
    assert first_part(dict(enumerate(events, 1)), slow, ahead) == upto


def test_a_part_is_under_one_version_of_each_map() -> None:
    found = [Part((1, 2, 3, 5), frozenset()), Part((6, 7), frozenset({"x"}))]
    versions = {1: {}, 2: {"a": 2}, 3: {"a": 2}, 5: {"a": 2, "b": 2}, 6: {"a": 2, "b": 2}, 7: {"a": 3, "b": 2}}
    assert [part.epochs for part in by_map(found, versions)] == [(1,), (2, 3), (5,), (6,), (7,)]
    assert by_map(found, {}) == tuple(found)
