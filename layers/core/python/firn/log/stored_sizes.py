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
    for cut in filter(None, [cuts.last(store, stream) for stream in names]):
        sizes, at = cut.sizes.items(), cut.made_at
        found |= {name: size for name, size in sizes if name not in known or known[name].measured_at < at}
    return found
