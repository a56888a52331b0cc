"""What look-ups were told of a table's data files, kept for the commit that removes rows of them.

A commit that removes them by position has to know the partition of each data file, and the deletes that it has.
Iceberg tells that of no file by its name: it would plan all files of the table again, and the commit would cost what
the table has, not what changes (docs/adr/0088-planned-once.md).
"""

from dataclasses import dataclass
from typing import Any, Final

_MOST: Final = 20_000  # data files that are kept, some 2 KB each: of more that lose rows, Iceberg is asked again


@dataclass(frozen=True)
class PlannedFile:
    """A data file (org.apache.iceberg.DataFile) and the deletes that it has (a List of
    org.apache.iceberg.DeleteFile): those by position, and of others such as the look-up had to know."""

    java: Any
    deletes: Any


class PlannedFiles:
    """Data files of one table by the snapshot that they were planned in, which never changes, and by path. Threads
    share it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], PlannedFile] = {}

    def keep(self, snapshot: int, path: str, file: PlannedFile) -> None:
        """Remembers a file, if there are not too many yet."""
        if len(self._kept) < _MOST:
            self._kept[snapshot, path] = file

    def of(self, snapshot: int | None, path: str) -> PlannedFile | None:
        """The data file as it is in the snapshot, None if no look-up met it there."""
        return None if snapshot is None else self._kept.get((snapshot, path))
