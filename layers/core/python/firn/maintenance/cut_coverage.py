"""What the newest cuts say of a table that is to lose snapshots: what they have counted, and what they name."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from firn.config.names import TableName
from firn.log import cuts
from firn.log.store import Store
from firn.quarantine.rules import covered


@dataclass(frozen=True)
class Counted:
    """`epochs`: stream -> the epoch up to which cuts have counted the table's changes; the next cut counts what is in
    the snapshots above it (commit/cut_writer.py). `snapshots`: those that the newest cut of each stream names."""

    epochs: dict[str, int] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()


def counted(store: Store, table: TableName, streams: Iterable[str]) -> Counted:
    """What the newest cut of each of these streams, which feed the table, says of it. Two requests a stream.

    Raises StorageUnavailable.
    """
    epochs: dict[str, int] = {}
    snapshots = set()
    for stream in streams:
        cut = cuts.last(store, stream)
        if cut is None:
            epochs[stream] = 0
            continue
        epochs[stream] = cut.progress.get(str(table), 0) if covered(cut) else cut.n
        if str(table) in cut.tables:
            snapshots.add(cut.tables[str(table)])
    return Counted(epochs, frozenset(snapshots))
