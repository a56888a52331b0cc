"""When a table's small files are worth a look: told by its snapshots alone, which the job has read anyway."""

from collections.abc import Mapping
from typing import Final

from firn.tables.table_state import TableState

# Commits between two looks: each adds a data file and a file of deletes, and a look-up reads them all (some 4 ms).
EVERY: Final = 16


def is_due(state: TableState | None) -> bool:
    """Whether so many commits came since small files were last made into fewer, or since they were last looked at.

    Without a memory of its own: every sixteenth commit after a merge is a turn, whether the one before was taken.
    """
    commits = since_merge(state.ancestry) if state else 0
    return commits > 0 and commits % EVERY == 0


def since_merge(ancestry: tuple[Mapping[str, str], ...]) -> int:
    """Snapshots since the newest that only moved rows (Iceberg's operation `replace`)."""
    return next((n for n, one in enumerate(ancestry) if one.get("operation") == "replace"), len(ancestry))
