"""Which snapshot of a table an `--as-of` means (a time, a snapshot id, a tag or a branch), or a `--cut`."""

from typing import TYPE_CHECKING

from firn.log.cuts import Cut
from firn.tables.snapshot_history import AsOf, NoSuchMoment, SnapshotHistory
from firn_lake.long_history import log_of, parents_of

if TYPE_CHECKING:
    from pyiceberg.table import Table


def snapshot_at(table: "Table", as_of: AsOf) -> int | None:
    """The id of the snapshot that `as_of` means in `table`; None (the current one) for None. Raises NoSuchMoment."""
    if as_of is None:
        return None
    metadata = table.metadata
    return SnapshotHistory(
        _name(table),
        parents_of(metadata),
        {name: ref.snapshot_id for name, ref in metadata.refs.items()},
        log_of(metadata),
    ).at(as_of)


def snapshot_in(table: "Table", cut: Cut) -> int:
    """The id of the table's snapshot in `cut`. Raises NoSuchMoment if the cut doesn't hold the table, or it expired."""
    snapshot = cut.tables.get(_name(table))
    if snapshot is None:
        holds = ", ".join(sorted(cut.tables)) or "nothing"
        raise NoSuchMoment(f"cut {cut.n} of {cut.stream} does not hold {_name(table)}; it holds {holds}")
    if table.snapshot_by_id(snapshot) is None:
        raise NoSuchMoment(
            f"snapshot {snapshot} of {_name(table)}, which cut {cut.n} of {cut.stream} names, has expired; "
            "firn cut list shows newer cuts, and firn cut keep holds one for good"
        )
    return snapshot


def _name(table: "Table") -> str:
    return ".".join(table.name())
