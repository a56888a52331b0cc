"""Which snapshots lie between two, along the chain of parents."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


def line(metadata: "TableMetadata", before: "Snapshot | None", after: "Snapshot | None") -> "list[Snapshot] | None":
    """The snapshots after `before` (None: from the first) up to `after`, oldest first.

    None if `before` is not an ancestor of `after`, or if the chain is broken: a snapshot between them has expired.
    """
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    end = before.snapshot_id if before else None
    found: list[Snapshot] = []
    at: Snapshot | None = after
    while at is not None and at.snapshot_id != end:
        found.append(at)
        parent = at.parent_snapshot_id
        if parent is None:
            return found[::-1] if end is None else None
        at = by_id.get(parent)
        if at is None:
            return None
    return found[::-1]


def changes_nothing(snapshot: "Snapshot") -> bool:
    """Whether it only wrote rows again, as a compaction does: Iceberg's operation `replace`."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def hops(before: "Snapshot", between: "Sequence[Snapshot]") -> "Iterator[tuple[Snapshot, Snapshot]]":
    """(from, to) pairs that lead from `before` along `between`: what a `replace` wrote again lies inside none but its
    own, which needs no reading."""
    start = end = before
    for snapshot in between:
        if changes_nothing(snapshot):
            if end is not start:
                yield start, end
            yield end, snapshot
            start = end = snapshot
        else:
            end = snapshot
    if end is not start:
        yield start, end
