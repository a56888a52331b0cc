"""All shards of a table as one: what `Lake.table` gives for the name that they are read by."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firn.config.whole_tables import Whole
from firn.errors import TerminalError
from firn_lake.changes.follow import Followed
from firn_lake.changes.row_changes import Changes
from firn_lake.fresh.fresh_rows import RowsToCome
from firn_lake.lake_table import LakeTable, Moment
from firn_lake.reading.pruning import Pruned
from firn_lake.reading.rows import BATCH_SIZE, Rows
from firn_lake.reading.unreadable import reading
from firn_lake.reading.versions import Version, version_at
from firn_lake.sharded.whole_changes import WholeChanges, all_shards
from firn_lake.sharded.whole_summary import summary_of
from firn_lake.sharded.whole_version import Shards, WholeRows, WholeVersion
from firn_lake.tables import SnapshotSummary, TableSummary, history, identifier_text, uncounted

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from firn_lake.lake import Lake


class SeveralTables(TerminalError):
    """What is asked is of one table, and this is the shards of one; the text says which to ask."""


class WholeTable(LakeTable):
    """All shards, at any moment that their rest has: each of its snapshots names one of each other shard. It is read as
    a table is, and followed; whatever writes, or is of one Iceberg table raises SeveralTables."""

    def __init__(self, lake: "Lake", whole: Whole) -> None:
        """Raises TableNotFound if no commit has made it yet."""
        super().__init__(lake, lake.catalog.load_table(whole.rest.identifier))
        self._whole = whole
        self._shards()

    @property
    def name(self) -> str:
        """What they are read as: `namespace.table`."""
        return identifier_text(self._whole.name.identifier)

    @property
    def iceberg(self) -> "Table":
        """Raises SeveralTables."""
        raise SeveralTables(
            f"{self._whole.name} is the shards of a table, and no Iceberg table itself: ask one of them for this, such "
            f"as {self._whole.rest}"
        )

    @property
    def leading(self) -> "Table":
        """PyIceberg's table of the rest, which leads, as it is now."""
        with reading(self._iceberg.metadata_location, str(self._whole.rest), None):
            self._iceberg.refresh()
        return self._iceberg

    @property
    def counts_rows(self) -> bool:
        """False: the rest's snapshots tell of the rest alone."""
        return False

    def summary(self) -> TableSummary:
        """Their rows, size and origin."""
        return summary_of(self.whole_at(None))

    def snapshots(self) -> list[SnapshotSummary]:
        """The rest's that are still kept, oldest first. How many rows of all they added, nobody has counted."""
        return [uncounted(one) for one in history(self.leading)]

    def snapshot(self, at: Moment = None) -> SnapshotSummary | None:
        """The snapshot at a moment, the current one if left out; None if there is none. Raises NoSuchMoment."""
        found = super().snapshot(at)
        return None if found is None else uncounted(found)

    def read(
        self,
        columns: Sequence[str] | None = None,
        filter: "str | BooleanExpression | None" = None,
        as_of: Moment = None,
        *,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
        metadata: bool = False,
        fresh: bool = False,
    ) -> Rows | RowsToCome:
        """As for a table. Shards that the filter does not need are not opened; with `fresh` only to look for newer rows
        of keys that waiting changes would bring into its rows."""
        if fresh:
            now = self._lake.fresh(as_of).table(self._whole.name.identifier)
            return now.read(now.version.select(columns, metadata), filter, batch_size, limit)
        whole = self.whole_at(as_of)
        return WholeRows(whole, whole.version.select(columns, metadata), filter, batch_size, limit)

    def changes(
        self,
        from_: Moment,
        to: Moment = None,
        *,
        steps: bool = False,
        columns: Sequence[str] | None = None,
        metadata: bool = False,
        batch_size: int = BATCH_SIZE,
    ) -> Changes:
        """As for a table. A row that left one shard and came into another is an update."""
        before = self._at(from_).snapshot if from_ is not None else None
        return WholeChanges(before, self.whole_at(to), columns, metadata, steps, batch_size)

    def _followed(self, columns: Sequence[str] | None, metadata: bool, batch_size: int) -> Followed:
        return all_shards(self._shards(), self.leading, columns, metadata, batch_size)

    def prune(self, filter: "str | BooleanExpression", as_of: Moment = None, *, footers: bool = True) -> Pruned:
        """Which shards, and which of their files, a read with this filter reads: see `PrunedWhole`."""
        return self.whole_at(as_of).prune(filter, footers=footers)

    def whole_at(self, as_of: Moment) -> WholeVersion:
        """All shards at a moment. Raises NoSuchMoment, NoSuchCut."""
        moment, cut = self._lake.moment(as_of)
        return WholeVersion(self._shards(), version_at(self.leading, moment, cut))

    def _at(self, as_of: Moment) -> Version:
        return self.whole_at(as_of).version

    def _shards(self) -> Shards:
        return Shards(self._whole, self._lake.catalog.load_table, self._iceberg)
