"""The cold fence: what compaction leaves alone, unless many of their rows are deleted (compaction_planner.py)."""

from collections.abc import Collection

from firn.config.maintenance import Care
from firn.config.names import TableName
from firn.log import tiering_state
from firn.log.store import Store
from firn_spark.maintenance.listing import Cold


def fence(store: Store, name: TableName, care: Care) -> Cold | None:
    """Tells the cold files of a table by what tiering left of it; None where nothing may be cold. One small request.

    Raises StorageUnavailable.
    """
    if not care.tiering.on:
        return None
    known = frozenset(tiering_state.read(store, str(name), name.slug).cold_paths)

    def cold(paths: Collection[str]) -> Collection[str]:
        return known.intersection(paths)

    return cold
