"""One table, at any point in time: what `Lake.table` gives."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from firn.log.cuts import Cut
from firn.maintenance.expiry import Plan
from firn.tables.snapshot_history import AsOf
from firn_lake.changes.cursor import Cursor
from firn_lake.changes.follow import Followed, follow, one_table
from firn_lake.changes.row_changes import Changes
from firn_lake.fresh.fresh_rows import RowsToCome
from firn_lake.long_history import columns_of
from firn_lake.notebook import html_table
from firn_lake.reading.pruning import Pruned, prune
from firn_lake.reading.rows import BATCH_SIZE, Rows
from firn_lake.reading.unreadable import reading
from firn_lake.reading.versions import Version, version_at
from firn_lake.refs import branches
from firn_lake.refs import names as refs
from firn_lake.refs.expiry import expire
from firn_lake.refs.names import Ref
from firn_lake.refs.rollback import Then, roll_back
from firn_lake.schemas.compatibility import reasons_against
from firn_lake.schemas.ddl import described, statements
from firn_lake.schemas.evolution_commit import Evolution, evolve
from firn_lake.schemas.evolution_steps import NewColumn, Wishes
from firn_lake.tables import SnapshotSummary, TableNotFound, TableSummary, history, identifier_text, key_of, summarize
from firn_lake.writing import writes
from firn_lake.writing.coercion import Given, batches_of
from firn_lake.writing.partitioning import SpecChange, repartition
from firn_lake.writing.upsert import Upserted, upsert
from firn_lake.writing.version_hint import write_version_hint

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from firn.config.partitions import Partition
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
        return key_of(self.leading.metadata)

    @property
    def iceberg(self) -> "Table":
        """PyIceberg's table, as it is now: for all that is not here. Raises TableNotFound, StorageUnavailable."""
        try:
            with reading(self._iceberg.metadata_location, self.name, None):
                self._iceberg.refresh()
        except NoSuchTableError as error:
            raise TableNotFound(f"{self.name} is not in the lake any more") from error
        return self._iceberg

    @property
    def leading(self) -> "Table":
        """The Iceberg table whose snapshots, columns and key are its own."""
        return self.iceberg

    @property
    def counts_rows(self) -> bool:
        """Whether its snapshots tell how many rows it has."""
        return True

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
    ) -> Rows | RowsToCome:
        """Rows as they were at `as_of`. Nothing is read before the result is.

        columns   names, in the order to have them; None: all, and Firn's own `_firn_…` only with `metadata`
        filter    such as "status = 'paid' and total >= 10", or a pyiceberg.expressions one
        limit     at most so many rows, whichever come first
        fresh     with all that was acknowledged by now, committed or not: what the next commit will make of the table.
                  What waits is read and folded here, the rest with the result

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
        """Changes as they are committed, for ever: see `firn_lake.changes.follow.follow`.

        from_  a stored cursor; a moment; None: all rows there are first, as inserts
        poll   seconds between looks at the table
        until  a time: stop then; any other moment: stop once its snapshot is read
        """
        start = Cursor.read(from_)
        if start is None:
            moment: Moment = None if isinstance(from_, Cursor) else from_
            at = self._at(moment).id if moment is not None else None
            start = Cursor(self._followed(columns, metadata, batch_size).id, at)
        deadline = until if isinstance(until, datetime) else None
        last = self._at(until).id if until is not None and deadline is None else None
        return follow(lambda: self._followed(columns, metadata, batch_size), start, poll, deadline, last)

    def _followed(self, columns: Sequence[str] | None, metadata: bool, batch_size: int) -> Followed:
        return one_table(self.iceberg, columns, metadata, batch_size)

    def prune(self, filter: "str | BooleanExpression", as_of: Moment = None, *, footers: bool = True) -> Pruned:
        """Which files a read with this filter reads, and why the others are left out: see `reading/pruning.py`."""
        return prune(self._at(as_of), filter, footers=footers)

    def partition(self, by: "Iterable[str | Partition]", *, dry_run: bool = False) -> SpecChange:
        """Partitions what is written from now on by these entries (all of them): see `partitioning.repartition`."""
        return repartition(self.iceberg, by, dry_run=dry_run)

    def evolve(
        self,
        *,
        add: "Mapping[str, str | IcebergType | NewColumn] | None" = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        widen: "Mapping[str, str | IcebergType] | None" = None,
        reorder: Sequence[str] = (),
        make_optional: Sequence[str] = (),
        docs: Mapping[str, str] | None = None,
        dry_run: bool = False,
        despite_stream: bool = False,
    ) -> Evolution:
        """Change columns by their ids, all in one commit or none: see `firn_lake.schemas.evolution_steps.Wishes`.

        dry_run         only say what would be done
        despite_stream  drop a column although a stream feeds the table

        Raises EvolutionRefused (nothing was changed; says why and what to do), TransientError, UnknownOutcome.
        """
        wishes = Wishes(add or {}, drop, rename or {}, widen or {}, reorder, make_optional, docs or {})
        return evolve(self.iceberg, wishes, dry_run=dry_run, despite_stream=despite_stream)

    def is_compatible(self, rows: "pa.Schema | Schema | Mapping[str, str | IcebergType]") -> list[str]:
        """Why rows of this schema can't be written into the table as it is, with what to evolve; empty if they can.

        rows  a schema of Arrow or of Iceberg, or column -> type, such as {"id": "long", "tags": "list<string>"}
        """
        return reasons_against(self.iceberg.schema(), rows)

    def to_sql(self, dialect: str = "spark", *, metadata: bool = False) -> str:
        """The SQL that creates a table like this one in Spark or Trino, statements parted by `;` and an empty line.

        What the dialect can't say stands in comments. `metadata`: with Firn's own `_firn_…` columns.

        Raises NoSuchDialect, NotInDialect.
        """
        return ";\n\n".join(statements(described(self.iceberg), dialect, metadata=metadata))

    def export_metadata(self) -> str:
        """Writes `version-hint.text`, so that readers without a catalog find the table as it is now -> its folder: see
        `firn_lake.writing.version_hint`. Raises NotInItsFolder, StorageUnavailable."""
        return write_version_hint(self.iceberg)

    def snapshot(self, at: Moment = None) -> SnapshotSummary | None:
        """The snapshot at a moment, the current one if left out; None if the table has none. Raises NoSuchMoment."""
        found, table = self._at(at).id, self._iceberg
        ids = columns_of(table.metadata).ids
        return history(table, [ids.index(found)])[0] if found is not None and found in ids else None

    def refs(self) -> list[Ref]:
        """Its tags and branches, by name."""
        return refs.refs(self.iceberg.metadata)

    def tag(self, name: str, at: Moment = None, keep: timedelta | None = None) -> Ref:
        """Names a snapshot, which no expiry takes then: see `firn_lake.refs.names.tag`."""
        return refs.tag(self.iceberg, name, self._at(at).id, keep)

    def branch(self, name: str, at: Moment = None) -> Ref:
        """Begins a branch at a snapshot: see `firn_lake.refs.names.branch`."""
        return refs.branch(self.iceberg, name, self._at(at).id)

    def drop(self, name: str) -> None:
        """Takes a tag or a branch away: see `firn_lake.refs.names.drop`."""
        refs.drop(self.iceberg, name, self._lake.store)

    def fast_forward(self, branch: str, to: Moment) -> Ref:
        """Moves a branch on to a snapshot that descends from it: see `firn_lake.refs.branches.fast_forward`."""
        return branches.fast_forward(self.iceberg, branch, self._at(to).id)

    def cherry_pick(self, snapshot: int) -> int:
        """Brings what a snapshot appended elsewhere into main: see `firn_lake.refs.branches.cherry_pick`."""
        return branches.cherry_pick(self.iceberg, snapshot)

    def rollback(self, to: Moment, then: Then | None = None) -> int:
        """Gives main the rows that it had: see `firn_lake.refs.rollback.roll_back`."""
        return roll_back(self.iceberg, self._at(to).id, then)

    def expire(self, keep: timedelta = timedelta(days=5), at_least: int = 100, *, dry_run: bool = False) -> Plan:
        """Lets old snapshots go, by the care rules: see `firn_lake.refs.expiry.expire`."""
        return expire(self.iceberg, keep, at_least, datetime.now(UTC), dry_run=dry_run)

    def append(self, rows: Given, *, id: str | None = None) -> int | None:
        """Adds rows: see `firn_lake.writing.writes.append`."""
        return writes.append(self.iceberg, rows, id)

    def overwrite(
        self, rows: Given, filter: "str | BooleanExpression | None" = None, *, id: str | None = None
    ) -> int | None:
        """Puts rows in place of all, or of those that fit a filter: see `firn_lake.writing.writes.overwrite`."""
        return writes.overwrite(self.iceberg, rows, filter, id)

    def overwrite_partitions(self, rows: Given, *, id: str | None = None) -> int | None:
        """Puts rows in place of all in their partitions: see `firn_lake.writing.writes.overwrite_partitions`."""
        return writes.overwrite_partitions(self.iceberg, rows, id)

    def upsert(self, rows: Given, *, key: Sequence[str] | None = None, id: str | None = None) -> Upserted:
        """Brings whole rows in by key: see `firn_lake.writing.upsert.upsert`."""
        return upsert(self.iceberg, batches_of(rows, self._iceberg.schema(), self.name), key or self.key, id)

    def __repr__(self) -> str:
        return f"<table {self.name}: {', '.join(self.columns())}>"

    def _repr_html_(self) -> str:
        found = self.summary()
        key = f", key ({', '.join(found.key)})" if found.key else ""
        rows = "rows not counted" if found.rows is None else f"{found.rows:,} rows"
        note = f"{rows}{key}, snapshot {found.current_snapshot or '(none)'}"
        return html_table(f"table {self.name}", ["column", "type"], self.columns().items(), note)

    def _at(self, as_of: Moment) -> Version:
        moment, cut = self._lake.moment(as_of)
        return version_at(self.iceberg, moment, cut)
