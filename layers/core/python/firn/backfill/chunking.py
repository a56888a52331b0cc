"""How a table is cut into chunks. Pure, but for the places in its key, which come in as texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

SAMPLES: Final = 40  # keys looked at for each chunk: a chunk is a sixth larger or smaller than meant, seldom more
MOST_CHUNKS: Final = 100_000


def chunk_count(rows: int, size: int, chunk_rows: int, chunk_bytes: int) -> int:
    """How many chunks so many rows in `size` bytes make, one at least."""
    return min(MOST_CHUNKS, max(1, -(-rows // chunk_rows), -(-size // chunk_bytes)))


def page_ranges(pages: int, count: int) -> Iterator[tuple[int, int | None]]:
    """Ranges of pages, the last without an end: pages that are added meanwhile hold rows that the stream brings."""
    count = max(1, min(count, pages))
    edges = [pages * n // count for n in range(count)]
    yield from zip(edges, [*edges[1:], None], strict=True)


def edges_of(sample: Sequence[tuple[str, ...]], count: int) -> list[tuple[str, ...]]:
    """`count` - 1 keys that cut a sorted sample of a table's keys into parts of one size, each once."""
    found: list[tuple[str, ...]] = []
    for n in range(1, count):
        at = len(sample) * n // count
        if 0 < at < len(sample) and (not found or sample[at] != found[-1]):
            found.append(sample[at])
    return found


@dataclass(frozen=True)
class Ways:
    """What is known of a table that decides how it may be cut.

    key        whether it has a primary key
    places     whether ranges of places in its file can be read (PostgreSQL 14, a heap)
    toasted    whether updates may leave values out of the stream, because they are stored out of line
    """

    key: bool
    places: bool
    toasted: bool


def way(asked: Literal["auto", "key", "ctid"], ways: Ways) -> Literal["key", "ctid", "whole"]:
    """By what a table is cut.

    A row that an update moves to another place while chunks are read may be in none of them. The stream brings it, but
    not those of its values that are out of line and did not change: such a table is cut by its key, which stays.
    """
    if asked == "ctid" or (asked == "auto" and ways.places and not ways.toasted):
        return "ctid" if ways.places else "key" if ways.key else "whole"
    return "key" if ways.key else "whole"
