"""Which small files become one."""

from typing import Any

from firn_spark.driver.small_files import _AT_LEAST, SMALL_BYTES, _File, _worth


def files(count: int, size: int, partition: Any = None) -> list[_File]:
    return [_File(None, f"{size}-{partition}-{n}", size, 1, 0, partition) for n in range(count)]


def test_enough_of_one_size_and_partition_become_one() -> None:
    few, many = files(_AT_LEAST - 1, 1_000), files(_AT_LEAST, 100_000)
    apart = files(_AT_LEAST - 1, 5_000_000, "a") + files(_AT_LEAST - 1, 5_000_000, "b")
    assert list(_worth([*few, *many, *apart, *files(_AT_LEAST, SMALL_BYTES)], 10**9)) == [many]


def test_files_that_are_too_few_take_nothing_from_the_bytes_of_the_others() -> None:
    few, many = files(_AT_LEAST - 1, 4_000_000), files(_AT_LEAST, 1_000_000)
    assert list(_worth([*few, *many], 30_000_000)) == [many]


def test_what_is_beyond_the_bytes_waits_for_another_turn() -> None:
    [group] = _worth(files(40, 1_000_000), 20_000_000)
    assert len(group) == 20
