"""The rows that a table has without what waits for it, as fresh reads look them up."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from firn.changes.decode.types import Column
from firn.changes.merge.fold import Key, Row, RowChange
from firn_lake.fresh.key_lookup import RowsByKey
from firn_lake.reading.versions import Version

if TYPE_CHECKING:
    from pyiceberg.table import Table


class Stored(Protocol):
    """A table, or all shards of one. `version`: with the columns that it will have; `key`: those of its key;
    `unnamed`: the source table of rows that name none."""

    version: Version
    key: Sequence[Column]
    unnamed: str | None

    def rows(
        self, columns: Sequence[Column], keys: Collection[Key] | None, at: int | None = None
    ) -> Iterable[tuple[Key, Row]]:
        """Rows as changes.merge knows them, of these keys (None: of all), with the values of `columns`. `at`: as they
        were at that snapshot, none if it has expired; None: as they are."""

    def expect(self, changes: Sequence[RowChange]) -> None:
        """These are all changes that are decided, each by the row of its own key and by nothing else."""


@dataclass
class StoredTable:
    """One table."""

    table: "Table | None"
    version: Version
    key: Sequence[Column]
    unnamed: str | None

    def rows(
        self, columns: Sequence[Column], keys: Collection[Key] | None, at: int | None = None
    ) -> Iterable[tuple[Key, Row]]:
        """As Stored says."""
        then = self.version
        if at is not None:
            snapshot = self.table.snapshot_by_id(at) if self.table is not None else None
            if snapshot is None:
                return ()
            # With the columns that only the waiting changes bring, of which the table's metadata say nothing.
            then = replace(then, snapshot=snapshot, source=replace(then.source, snapshot=at))
        names = [column.name for column in columns]
        return RowsByKey(then, self.key, names, rows=True).rows(columns, keys, self.unnamed)

    def expect(self, changes: Sequence[RowChange]) -> None:
        """As Stored says: any row is found in the one table."""
