"""The snapshots of a table a page at a time: a table may keep 100,000 of them."""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from firn.errors import TerminalError
from firn_lake.long_history import columns_of
from firn_lake.snapshot_columns import SnapshotColumns
from firn_lake.tables import SnapshotSummary, history

if TYPE_CHECKING:
    from pyiceberg.table import Table

MOST_SNAPSHOTS: Final = 10_000
"""Of a page: some 3 MB of JSON."""

_CURSOR: Final = re.compile(r"(-?[0-9]{1,19})\.(-?[0-9]{1,19})\.(-?[0-9]{1,19})")  # other writers' ids may be negative


class BadCursor(TerminalError):
    """A cursor that no page gave."""


class _Place(NamedTuple):
    """Where a page ends: at this snapshot, which may be gone when the next is asked for. `time`: ms since 1970."""

    time: int
    sequence_number: int
    id: int


@dataclass(frozen=True)
class SnapshotPage:
    """`next`: the cursor of the following page, None on the last. `total`: how many snapshots the table keeps."""

    snapshots: list[SnapshotSummary]
    next: str | None
    total: int


def snapshot_page(table: "Table", cursor: str, limit: int, *, newest_first: bool = False) -> SnapshotPage:
    """At most `limit` snapshots that are still kept, from behind the cursor on ("": from the first). What is committed
    between two pages comes last, or is not seen by who reads the newest first; what is let go meanwhile moves nothing.
    Raises BadCursor, StorageUnavailable."""
    columns = columns_of(table.metadata)
    order = columns.by_age()
    if cursor:
        order = _beyond(columns, order, _place(cursor), newest_first)
    if newest_first:
        order.reverse()
    chosen = order[:limit]
    following = _cursor(columns, chosen[-1]) if len(order) > limit else None
    return SnapshotPage(history(table, chosen), following, len(columns))


def _beyond(columns: SnapshotColumns, order: list[int], end: _Place, newest_first: bool) -> list[int]:
    """What of the order, oldest first, comes behind a page's end: before it in time for who reads the newest first."""
    if end.id in columns.ids:
        at = order.index(columns.ids.index(end.id))
        return order[:at] if newest_first else order[at + 1 :]
    ages = [(columns.times[one], columns.sequence_numbers[one]) for one in order]
    # Those of the very same age, which format 1 allows, rather come twice than not at all.
    age = end.time, end.sequence_number
    return order[: bisect_right(ages, age)] if newest_first else order[bisect_left(ages, age) :]


def _cursor(columns: SnapshotColumns, place: int) -> str:
    return f"{columns.times[place]}.{columns.sequence_numbers[place]}.{columns.ids[place]}"


def _place(cursor: str) -> _Place:
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise BadCursor("cursor is none that this list gave: take `next` of a page, or leave it out")
    return _Place(*map(int, found.groups()))
