"""Which epochs one process takes."""

from firn.log.epochs import Epoch, EpochBatch
from firn_spark.driver.range import MOST_BYTES, MOST_EVENTS, small


def epochs(*batches: tuple[int, int]) -> dict[int, Epoch]:
    some = [EpochBatch(f"b{i}", f"b{i}", size, events) for i, (events, size) in enumerate(batches)]
    return {1: Epoch(1, "s", 1, "", "2026-01-01T00:00:00.000Z", "", some, {})}


def test_one_process_takes_few_changes_of_few_bytes() -> None:
    assert small(epochs((MOST_EVENTS - 1, 10), (1, MOST_BYTES - 10)))
    assert not small(epochs((MOST_EVENTS, 10), (1, 10)))
    assert not small(epochs((9, MOST_BYTES), (1, 1)))
    assert not small(epochs((12, 10)), most_events=11)


def test_the_few_changes_of_a_table_are_few_whatever_others_are_beside_them() -> None:
    """An epoch of a backlog that was sealed before the stream had a table of several shards."""
    large = epochs((20 * MOST_EVENTS, 20 * MOST_BYTES))
    assert not small(large)
    assert small(large, events=MOST_EVENTS)
    assert not small(large, events=MOST_EVENTS + 1)
    assert not small(epochs((100, 2 * MOST_BYTES)), events=51), "large ones count for more"
    assert small({}, events=0)
