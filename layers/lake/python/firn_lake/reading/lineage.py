"""Which snapshots lie between two, along the chain of parents."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyiceberg.table.snapshots import Operation

from firn.tables import snapshot_history
from firn_lake.long_history import parents_of, snapshots_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

FORMAT: Final = "firn.format"
"""What each snapshot of Firn's says. One of nothing says no more."""


def line(metadata: "TableMetadata", before: "Snapshot | None", after: "Snapshot | None") -> "list[Snapshot] | None":
    """As snapshot_history.line says."""
    parents = parents_of(metadata)
    found = snapshot_history.line(parents, *(one.snapshot_id if one else None for one in (before, after)))
    return None if found is None else snapshots_of(metadata, found)


def changes_nothing(snapshot: "Snapshot") -> bool:
    """Whether it only wrote rows again, as a compaction does: Iceberg's operation `replace`."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def holds_nothing(snapshot: "Snapshot") -> bool:
    """Whether it neither added nor removed anything, nor tells any progress."""
    if snapshot.summary is None or snapshot.summary.operation != Operation.APPEND:
        return False
    told = snapshot.summary.additional_properties
    counts = (name for name in told if name.startswith(("added-", "deleted-", "removed-")))
    says = (name for name in told if name.startswith("firn.") and name != FORMAT)
    return FORMAT in told and not any(counts) and not any(says)


def hops(
    before: "Snapshot", between: "Sequence[Snapshot]", nothing: "Callable[[Snapshot], bool]" = changes_nothing
) -> "Iterator[tuple[Snapshot, Snapshot]]":
    """(from, to) pairs that lead from `before` along `between`: what a `replace` (`nothing`) wrote again lies inside
    none but its own, which needs no reading."""
    start = end = before
    for snapshot in between:
        if nothing(snapshot):
            if end is not start:
                yield start, end
            yield end, snapshot
            start = end = snapshot
        else:
            end = snapshot
    if end is not start:
        yield start, end
