"""When a table's small files are worth a look: told by its snapshots alone, which the job has read anyway."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from firn.config.names import TableName
from firn.log.table_health import Health, age_seconds
from firn.tables.table_state import TableState
from firn.tables.turns import own_number

# Commits between two looks: each adds a data file and a file of deletes, and a look-up reads them all (some 4 ms).
EVERY: Final = 16
# A look lists all files of a table: of more than so many it takes longer than the commits, and is had once an hour.
MANY_FILES: Final = 10_000
_HOUR: Final = 3_600


def is_due(table: TableName, state: TableState | None) -> bool:
    """Whether so many commits came since small files were last made into fewer, or since they were last looked at.

    Without a memory of its own: the first turn after a merge is some half of EVERY earlier or later, by a number of the
    table's own, and then every sixteenth commit is one, whether the one before was taken. Else all tables that are
    committed together would have their turns together, and one round would care for all of them.
    """
    commits = since_merge(state.ancestry) if state else 0
    first = first_turn(table)
    return commits >= first and (commits - first) % EVERY == 0


def first_turn(table: TableName) -> int:
    """How many commits after a merge a table has its turn first: EVERY on average over tables."""
    return EVERY - EVERY // 2 + own_number(table) % EVERY


def since_merge(ancestry: tuple[Mapping[str, str], ...]) -> int:
    """Snapshots since the newest that only moved rows (Iceberg's operation `replace`)."""
    return next((n for n, one in enumerate(ancestry) if one.get("operation") == "replace"), len(ancestry))


def may_look(state: TableState, known: Health | None, now: datetime) -> bool:
    """Whether a commit job may list all files of a table that it has committed to. `known`: the last look."""
    told = state.ancestry[0] if state.ancestry else {}
    files = sum(int(told.get(name, 0)) for name in ("total-data-files", "total-delete-files"))
    return files <= MANY_FILES or known is None or age_seconds(known.measured_at, now) >= _HOUR
