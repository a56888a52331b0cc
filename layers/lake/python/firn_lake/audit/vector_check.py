"""Data files of a table that have more than one live deletion vector (Iceberg's format 3).

Iceberg takes a commit that adds a second vector without removing the first. Spark can't plan such a table any more, and
other readers heed some of its vectors without a word. Firn makes none (tables.deletes.Removal); another writer may.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
)

from firn.audit.ledger_view import Difference

if TYPE_CHECKING:
    from pyiceberg.table import Table

_VERSION: Final = 3
_PLACES: Final = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[_VERSION].fields)}
_SHOWN: Final = 20  # data files of one table


def doubled_vectors(table: "Table") -> dict[str, int]:
    """Data file -> how many vectors it has in the newest snapshot, where there are several. Reads the manifests of
    files of deletes. Raises what the table's FileIO raises."""
    snapshot = table.current_snapshot()
    if snapshot is None or table.metadata.format_version < _VERSION:
        return {}
    counts = Counter(
        str(file[_PLACES["referenced_data_file"]])
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DELETES
        for file in _live(table, manifest.manifest_path)
        if file.file_format == FileFormat.PUFFIN
    )
    return {path: count for path, count in sorted(counts.items()) if count > 1}


def _live(table: "Table", manifest: str) -> Iterator[DataFile]:
    # PyIceberg's own reader of manifests leaves out what tells of which data file a vector is.
    with AvroFile[ManifestEntry](
        table.io.new_input(manifest),
        MANIFEST_ENTRY_SCHEMAS[_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as entries:
        for entry in entries:
            if entry.status != ManifestEntryStatus.DELETED:
                yield entry.data_file


def vector_differences(tables: "Mapping[str, Table]") -> list[Difference]:
    """What the audit says of such tables."""
    found = []
    for name, table in sorted(tables.items()):
        if doubled := doubled_vectors(table):
            found.append(
                Difference(
                    "doubled_vectors",
                    f"{len(doubled)} data files of {name} have more than one deletion vector: Spark can't read the "
                    "table, and others may show rows that are deleted. Another writer did this",
                    f"find who else writes {name} and stop it; then firn rebuild {name} --in-place makes it what its "
                    "log says",
                    name,
                    objects=tuple(doubled)[:_SHOWN],
                )
            )
    return found
