"""What the tables of streams take: by the newest cut where that is newer than the last look at their metadata."""

from collections.abc import Iterable

from firn.log import cuts, table_health
from firn.log.store import Store


def stored_sizes(store: Store, streams: Iterable[str]) -> dict[str, int]:
    """Bytes of live files, deletes too, by table; older snapshots' files come on top. A cut knows the tables that
    writers name; maintenance has a look at all, after each sixteenth commit to a table at the latest.

    Raises StorageUnavailable.
    """
    names = list(streams)
    known = table_health.read_all(store, names)
    found = {name: one.bytes + one.delete_bytes for name, one in known.items()}
    there = filter(None, [cuts.last(store, stream) for stream in names])
    for cut in sorted(there, key=lambda one: one.made_at):
        gone = dict.fromkeys(cut.progress.keys() - cut.tables.keys(), 0)  # it has come so far, and is not there
        told = (gone | cut.sizes).items()
        found |= {name: size for name, size in told if name not in known or known[name].measured_at < cut.made_at}
    return {name: size for name, size in found.items() if size}
