"""What the rows of a table are to its changes: the registry of table modes.

A mode is a line here, and one for each engine that commits it (`MODES` of firn_spark.driver.engine and
firn_spark.slices.slice_engine). Planning, decoding, audits, rebuilds and fresh reads go by what the line says.
"""

from dataclasses import dataclass
from typing import Final

from firn.changes.decode.types import Column
from firn.changes.metadata_columns import APPEND_METADATA, MIRROR_METADATA, VIEW_METADATA


@dataclass(frozen=True)
class TableMode:
    """`keyed`: a row is what the newest changes of its key leave, and deletes are remembered beside the table; else
    rows are told apart by their `_firn_id`: a row is a change, or one of a query. `columns`: Firn's own, of each table
    of this mode. `fed`: changes go into it, so rules and pipelines may ask for it."""

    name: str
    columns: tuple[Column, ...]
    keyed: bool
    fed: bool = True


MODES: Final = {
    mode.name: mode
    for mode in (
        TableMode("mirror", MIRROR_METADATA, keyed=True),
        TableMode("append", APPEND_METADATA, keyed=False),
        TableMode("view", VIEW_METADATA, keyed=False, fed=False),
    )
}
VIEW: Final = "view"
KEYLESS: Final = "append"  # what a mirror is whose events name no key


def fed() -> tuple[str, ...]:
    """The modes that rules and pipelines may ask for."""
    return tuple(mode.name for mode in MODES.values() if mode.fed)
