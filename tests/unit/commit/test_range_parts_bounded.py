"""Ranges of a stream that has a table of several shards are cut by how much one process decides."""

from firn.commit.range_parts import Part, bounded, by_map


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


def test_a_part_is_under_one_version_of_each_map() -> None:
    found = [Part((1, 2, 3, 5), frozenset()), Part((6, 7), frozenset({"x"}))]
    versions = {1: {}, 2: {"a": 2}, 3: {"a": 2}, 5: {"a": 2, "b": 2}, 6: {"a": 2, "b": 2}, 7: {"a": 3, "b": 2}}
    assert [part.epochs for part in by_map(found, versions)] == [(1,), (2, 3), (5,), (6,), (7,)]
    assert by_map(found, {}) == tuple(found)
