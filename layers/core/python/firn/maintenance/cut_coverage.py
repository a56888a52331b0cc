"""What the newest cuts say of a table that is to lose snapshots: what they have counted, and what they name."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from firn.config.names import TableName
from firn.log import cuts
from firn.log.store import Store
from firn.maintenance.expiry import MAIN, Snapshots
from firn.quarantine.rules import covered
from firn.tables.shard_cut import cut_in
from firn.tables.shard_names import SHARDS_AT
from firn.tables.table_state import progress_in


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


def of_shard(rest: Snapshots, mine: Snapshots, streams: Iterable[str]) -> Counted:
    """What the snapshots of the rest say of another shard (docs/adr/0104-shards.md). Each that is there names one of
    the shard's (`mine`), which stays as long: the whole is read there, and what a delete took away. What has come to
    the shard since the one that the newest names is a job's that goes on, or has died: the next one asks what it was.
    Pure."""
    cut = {one.id: cut_in([one.summary], "") for one in rest.all.values() if SHARDS_AT in one.summary}
    named = {at.snapshot for found in cut.values() for at in found.values()}.intersection(mine.all)
    main = next((ref.snapshot for ref in rest.refs if ref.name == MAIN), None)
    newest = next((cut[one.id] for one in rest.chain(main) if one.id in cut), {})
    at = next((one.snapshot for one in newest.values() if one.snapshot in named), None)
    told = [one.summary for one in mine.chain(at)]
    epochs = {stream: progress_in(stream, told) for stream in streams}
    return Counted(epochs, frozenset(named))
