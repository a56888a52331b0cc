"""The cold fence: which files compaction leaves alone, unless many of their rows are deleted (jobs/debt.py)."""

from collections.abc import Collection

from firn.staging import tiers
from firn.staging.store import Store
from firn.streams.care import Care
from firn.streams.names import TableName
from firn_spark.care.listing import Cold


def fence(store: Store, name: TableName, care: Care) -> Cold | None:
    """Tells the cold files of a table by what tiering left of it; None where nothing may be cold. One small request.

    Raises StorageUnavailable.
    """
    if not care.tiering.on:
        return None
    known = frozenset(tiers.read(store, str(name), name.slug).cold_paths)

    def cold(paths: Collection[str]) -> Collection[str]:
        return known.intersection(paths)

    return cold
