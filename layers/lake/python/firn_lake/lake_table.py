"""One table, at any point in time: what `Lake.table` gives."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from firn.staging.cuts import Cut
from firn_lake.changes import Changes, key_of
from firn_lake.cursor import Cursor
from firn_lake.following import follow
from firn_lake.fresh import FreshRows
from firn_lake.moments import AsOf
from firn_lake.partitioning import SpecChange, repartition
from firn_lake.pruning import Pruned, prune
from firn_lake.rows import BATCH_SIZE, Rows
from firn_lake.tables import SnapshotSummary, TableNotFound, TableSummary, history, identifier_text, summarize
from firn_lake.unreadable import reading
from firn_lake.versions import Version, version_at

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from firn.streams.partitions import Partition
    from firn_lake.lake import Lake

Moment = AsOf | Cut | tuple[str, int]
"""A datetime or ISO time (UTC without a zone), milliseconds since 1970, a snapshot id, a tag or a branch; a Cut, or
(stream, number) of one; None: now."""


class LakeTable:
    """One table, at any point in time. Made by `Lake.table`."""

    def __init__(self, lake: "Lake", iceberg: "Table") -> None:
        self._lake = lake
        self._iceberg = iceberg

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return identifier_text(self._iceberg.name())

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart; empty if none do, as in an append table."""
        return key_of(self.iceberg.metadata)

    @property
    def iceberg(self) -> "Table":
        """PyIceberg's table, as it is now: for all that is not here. Raises TableNotFound, StorageUnavailable."""
        try:
            with reading(self._iceberg.metadata_location, self.name, None):
                self._iceberg.refresh()
        except NoSuchTableError as error:
            raise TableNotFound(f"{self.name} is not in the lake any more") from error
        return self._iceberg

    def summary(self) -> TableSummary:
        """Its rows, size and origin."""
        return summarize(self.iceberg)

    def snapshots(self) -> list[SnapshotSummary]:
        """The snapshots that are still kept, oldest first."""
        return history(self.iceberg)

    def columns(self, as_of: Moment = None) -> dict[str, str]:
        """Column -> Iceberg type, as they were; Firn's own `_firn_…` columns left out. Raises NoSuchMoment."""
        version = self._at(as_of)
        return {field.name: str(field.field_type) for field in version.select(None, metadata=False).fields}

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
    ) -> Rows | FreshRows:
        """Rows as they were at `as_of`. Nothing is read before the result is.

        columns   names, in the order to have them; None: all, and Firn's own `_firn_…` only with `metadata`
        filter    such as "status = 'paid' and total >= 10", or a pyiceberg.expressions one
        limit     at most so many rows, whichever come first
        fresh     with all that was acknowledged by now, committed or not: what the next commit will make of the table

        Raises NoSuchMoment, NoSuchColumn, BadFilter, NotFresh; the result, UnreadableFile and StorageUnavailable.
        """
        if fresh:
            now = self._lake.fresh(as_of).table(self._iceberg.name())
            return now.read(now.version.select(columns, metadata), filter, batch_size, limit)
        version = self._at(as_of)
        return Rows(version, version.select(columns, metadata), filter, batch_size, limit)

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
        """What changed from one moment to another (None: from the empty table; to now): see `Changes`.

        Raises NoSuchMoment, NoSuchColumn, BadColumn, NotOneLine (steps between snapshots of two branches).
        """
        after = self._at(to)
        before = self._at(from_).snapshot if from_ is not None else None
        return Changes(before, after, columns, metadata, steps, batch_size)

    def follow(
        self,
        from_: "Cursor | str | Moment" = None,
        *,
        poll: float = 1.0,
        until: Moment = None,
        columns: Sequence[str] | None = None,
        metadata: bool = False,
        batch_size: int = BATCH_SIZE,
    ) -> Iterator[Changes]:
        """Changes as they are committed, for ever: see `firn_lake.following.follow`.

        from_  a stored cursor; a moment; None: all rows there are first, as inserts
        poll   seconds between looks at the table
        until  a time: stop then; any other moment: stop once its snapshot is read
        """
        start = Cursor.read(from_)
        if start is None:
            moment: Moment = None if isinstance(from_, Cursor) else from_
            at = self._at(moment).id if moment is not None else None
            start = Cursor(str(self._iceberg.metadata.table_uuid), at)
        deadline = until if isinstance(until, datetime) else None
        last = self._at(until).id if until is not None and deadline is None else None
        return follow(lambda: self.iceberg, start, poll, deadline, last, columns, metadata, batch_size)

    def prune(self, filter: "str | BooleanExpression", as_of: Moment = None, *, footers: bool = True) -> Pruned:
        """Which files a read with this filter reads, and why the others are left out: see `firn_lake.pruning.prune`."""
        return prune(self._at(as_of), filter, footers=footers)

    def partition(self, by: "Iterable[str | Partition]", *, dry_run: bool = False) -> SpecChange:
        """Partitions what is written from now on by these entries (all of them): see `partitioning.repartition`."""
        return repartition(self.iceberg, by, dry_run=dry_run)

    def __repr__(self) -> str:
        return f"<table {self.name}: {', '.join(self.columns())}>"

    def _at(self, as_of: Moment) -> Version:
        moment, cut = self._lake.moment(as_of)
        return version_at(self.iceberg, moment, cut)
