"""Results that readers of some tables have asked for (log/query_results.py), and their end."""

from typing import Final

from firn.log.store import Store, objects, remove

SCOPED: Final = "results/readers"


def remove_scoped(store: Store) -> None:
    """Removes them all: whoever still may asks again. Raises StorageUnavailable."""
    remove(store, [one.path for one in objects(store, SCOPED)])
