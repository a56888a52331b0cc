"""What follows from the version of Iceberg's format that a table has."""

from typing import Final

from firn.errors import TerminalError
from firn.tables.table_state import TableState

NANOSECONDS: Final = "firn.nanoseconds"
"""Table property, "true" of a table that was made in Iceberg's format 3: its columns are timestamp_ns where a source's
schema says nanoseconds. One that was upgraded has them as microseconds, and Iceberg can't make the one of the other."""
_WITH_NANOSECONDS: Final = 3


def keeps_nanoseconds(state: TableState | None, wanted: int | None) -> bool:
    """Whether what a source's schema has in nanoseconds is so in the table too. `wanted`: the format that firn.yaml
    asks for, which a table gets when it is made."""
    if state is None:
        return (wanted or 0) >= _WITH_NANOSECONDS
    return state.properties.get(NANOSECONDS) == "true"


def upgrade_due(name: str, state: TableState, wanted: int | None) -> bool:
    """Whether the table has to get Iceberg's format version `wanted` (None: whichever it has) before its next commit.
    Raises TerminalError for one that has a newer one: Iceberg has no way back."""
    if wanted is not None and wanted < state.version:
        raise TerminalError(
            f"{name} has Iceberg's format {state.version}, and firn.yaml asks for format: {wanted}; no table goes back "
            f"to an older format. Write format: {state.version} in its rule, or have the rows in format {wanted} by a "
            f"new table: another name under to:, and firn rebuild of that one. The changes wait in the log"
        )
    return wanted is not None and wanted > state.version
