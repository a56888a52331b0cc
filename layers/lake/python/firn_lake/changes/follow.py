"""A table's changes as they are committed, for consumers that stop and go on."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn_lake.changes.cursor import BadCursor, Cursor
from firn_lake.changes.row_changes import Changes
from firn_lake.reading.lineage import changes_nothing, hops, line
from firn_lake.reading.rows import BATCH_SIZE
from firn_lake.reading.versions import version_of
from firn_lake.tables import shown

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Followed:
    """A table as it is now, for who follows it.

    name     for people
    id       what its cursors say
    table    whose snapshots its moments are
    between  the changes from one of them to another
    standing whether a snapshot is a moment of it
    nothing  whether a snapshot only wrote rows again
    """

    name: str
    id: str
    table: "Table"
    between: "Callable[[Snapshot | None, Snapshot], Changes]"
    standing: "Callable[[Snapshot], bool]" = lambda _: True
    nothing: "Callable[[Snapshot], bool]" = changes_nothing


def one_table(
    table: "Table", columns: Sequence[str] | None = None, metadata: bool = False, batch_size: int = BATCH_SIZE
) -> Followed:
    """One Iceberg table, all its changes in one schema, that of now: as a query after the step would see its rows."""

    def between(before: "Snapshot | None", after: "Snapshot") -> Changes:
        return Changes(before, version_of(table, after, table.schema()), columns, metadata, False, batch_size)

    return Followed(shown(table), str(table.metadata.table_uuid), table, between)


def follow(
    load: Callable[[], Followed],
    start: Cursor,
    poll: float = 1.0,
    deadline: datetime | None = None,
    last: int | None = None,
) -> Iterator[Changes]:
    """Changes after `start`, as they are committed. Each `Changes` leads to its `cursor`; one may be empty, when rows
    were only rewritten, and its cursor is worth storing all the same.

    >>> for changes in table.follow(stored):
    ...     with database.transaction():
    ...         for batch in changes:
    ...             apply(batch)
    ...         store(changes.cursor.json())

    load      what is followed, as it is now
    poll      seconds between looks at it
    deadline  when to stop; None: never
    last      the snapshot to stop at, which exists already; None: none

    A step holds what several commits changed, net, if the consumer was slower than they. After a rollback of the table
    a step holds what it took back. Raises BadCursor, and what reading raises.
    """
    at = start.snapshot
    end = deadline if deadline is None or deadline.tzinfo else deadline.replace(tzinfo=UTC)
    while True:
        followed = load()
        for before, after in _ahead(followed, start, at, last):
            yield followed.between(before, after)
            at = after.snapshot_id
        if last is not None:
            return
        left = poll if end is None else min(poll, (end - datetime.now(UTC)).total_seconds())
        if left <= 0:
            return
        time.sleep(left)


def _ahead(
    followed: Followed, start: Cursor, at: int | None, last: int | None
) -> "Iterator[tuple[Snapshot | None, Snapshot]]":
    """The steps from `at` to where the table stands."""
    name, table = followed.name, followed.table
    if followed.id != start.table:
        raise BadCursor(
            f"the cursor is of another table than {name} is now (it was dropped and recreated, or the cursor is not "
            "its own): start without one, which gives all rows as inserts first"
        )
    head = table.current_snapshot() if last is None else table.snapshot_by_id(last)
    while head is not None and not followed.standing(head):
        head = None if head.parent_snapshot_id is None else table.snapshot_by_id(head.parent_snapshot_id)
    if head is None or head.snapshot_id == at:
        return
    if at is None:
        yield None, head
        return
    before = table.snapshot_by_id(at)
    if before is None:
        kept = min(table.metadata.snapshots, key=lambda one: one.timestamp_ms)
        since = datetime.fromtimestamp(kept.timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
        raise BadCursor(
            f"snapshot {at} of {name}, where the cursor stands, has expired: the oldest kept one is {kept.snapshot_id} "
            f"of {since}. What changed before can't be told any more: empty your copy and start without a cursor, "
            "which gives all rows as inserts first. To let a consumer lag longer, keep snapshots "
            "longer (care: in firn.yaml)"
        )
    if last not in (None, table.metadata.current_snapshot_id) and line(table.metadata, head, before) is not None:
        return  # the cursor is beyond it; of the table's newest that would be a rollback, which is told
    between = line(table.metadata, before, head)
    if between is None:
        yield before, head
    else:
        yield from hops(before, [one for one in between if followed.standing(one)], followed.nothing)
