"""How tables are cut into chunks."""

import pytest

from firn.backfill.chunking import Ways, chunk_count, edges_of, page_ranges, way


@pytest.mark.parametrize(
    ("rows", "size", "count"), [(0, 0, 1), (1, 1, 1), (200_000, 0, 1), (200_001, 0, 2), (10, 100_000_000, 3)]
)
def test_a_chunk_has_so_many_rows_and_bytes_at_most(rows: int, size: int, count: int) -> None:
    assert chunk_count(rows, size, 200_000, 48_000_000) == count


@pytest.mark.parametrize(("pages", "count"), [(0, 1), (1, 5), (7, 3), (1_000, 7), (3, 3)])
def test_ranges_of_pages_are_the_whole_table_each_page_once(pages: int, count: int) -> None:
    ranges = list(page_ranges(pages, count))
    assert len(ranges) == max(1, min(pages, count))
    assert ranges[0][0] == 0
    assert ranges[-1][1] is None  # what is added meanwhile
    assert [end for _, end in ranges[:-1]] == [first for first, _ in ranges[1:]]
    assert all(first < end for first, end in ranges if end is not None)


def test_keys_that_cut_a_sample_are_in_order_and_each_there_once() -> None:
    sample = [("a",), ("a",), ("a",), ("b",), ("c",), ("d",)]
    assert edges_of(sample, 3) == [("a",), ("c",)]
    assert edges_of(sample, 6) == [("a",), ("b",), ("c",), ("d",)]
    assert edges_of([], 4) == []
    assert edges_of(sample, 1) == []


@pytest.mark.parametrize(
    ("asked", "key", "places", "toasted", "found"),
    [
        ("auto", True, True, False, "ctid"),
        # A row that is moved while chunks are read comes with the stream, but not its unchanged values out of line.
        ("auto", True, True, True, "key"),
        ("auto", False, True, True, "whole"),
        ("auto", True, False, False, "key"),
        ("auto", False, False, False, "whole"),
        ("ctid", True, True, True, "ctid"),
        ("ctid", True, False, True, "key"),
        ("key", True, True, False, "key"),
        ("key", False, True, False, "whole"),
    ],
)
def test_a_table_is_cut_by_what_is_safe(asked: str, key: bool, places: bool, toasted: bool, found: str) -> None:
    assert way(asked, Ways(key=key, places=places, toasted=toasted)) == found  # type: ignore[arg-type]
