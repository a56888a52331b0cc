"""`version-hint.text` beside a table's metadata, for readers that know the table's folder and no catalog.

The file names the metadata file that is current, without its ending, as DuckDB's `iceberg_scan(folder)` and PyIceberg's
`StaticTable.from_metadata(folder)` read it. Hadoop's tables have a number there, for files that are called by it; these
are called as the catalog calls them, so Spark's tables by path do not take it. It says how the table was when it was
written: a later commit does not change it.
"""

from typing import TYPE_CHECKING, Final

from firn.errors import TerminalError
from firn.maintenance.orphans import VERSION_HINT
from firn.tables.locations import spelled
from firn_lake.reading.unreadable import reading
from firn_lake.tables import shown

if TYPE_CHECKING:
    from pyiceberg.table import Table

_ENDINGS: Final = (".gz.metadata.json", ".metadata.json")


class NotInItsFolder(TerminalError):
    """The table's metadata is not in the folder of the table, where readers by path look for it."""


def write_version_hint(table: "Table") -> str:
    """Writes or replaces the file -> the table's folder, to give to readers.

    Raises NotInItsFolder, StorageUnavailable.
    """
    folder = table.metadata.location.rstrip("/")
    within, _, name = table.metadata_location.rpartition("/")
    ending = next((one for one in _ENDINGS if name.endswith(one)), None)
    if spelled(within) != spelled(f"{folder}/metadata") or ending != _ENDINGS[1]:
        raise NotInItsFolder(
            f"{shown(table)} has its metadata in {table.metadata_location}: give readers that file, since they look "
            f"for a .metadata.json in {folder}/metadata alone"
        )
    place = f"{folder}/{VERSION_HINT}"
    with reading(place, shown(table), None), table.io.new_output(place).create(overwrite=True) as out:
        out.write(name.removesuffix(ending).encode())
    return folder
