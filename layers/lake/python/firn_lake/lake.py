"""The lake from Python, at any point in time: what `firn_lake.connect` gives.

>>> lake = firn_lake.connect(".firn")
>>> orders = lake.table("shop.orders")
>>> orders.read(columns=["order_id", "status"], filter="status = 'paid'", as_of="2026-01-31").pandas()
>>> for batch in orders.changes("month-end"): ...
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from firn.errors import ConfigError
from firn.staging.cuts import Cut
from firn_lake.changes import Changes, key_of
from firn_lake.cursor import Cursor
from firn_lake.following import follow
from firn_lake.moments import AsOf, NoSuchMoment
from firn_lake.query import Limits, Parameters, query
from firn_lake.rows import BATCH_SIZE, Batches, Rows
from firn_lake.tables import (
    SnapshotSummary,
    TableNotFound,
    TableSummary,
    find_table,
    history,
    identifier_text,
    list_tables,
    summarize,
)
from firn_lake.unreadable import reading
from firn_lake.versions import Version, version_at

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from firn.staging.store import Store

Moment = AsOf | Cut | tuple[str, int]
"""A datetime or ISO time (UTC without a zone), milliseconds since 1970, a snapshot id, a tag or a branch; a Cut, or
(stream, number) of one; None: now."""


class Lake:
    """The tables of one catalog. Made by `connect`; `with` closes it.

    Nothing is cached: each call sees what is committed by then.
    """

    def __init__(self, catalog: Catalog, store: "Callable[[], Store] | None" = None) -> None:
        """`store`: how to open the staging store, which holds the cuts; None: there are no cuts to read at."""
        self.catalog = catalog
        self._store = store

    def table(self, name: str) -> "LakeTable":
        """The table `namespace.table`, or `table` alone if only one namespace has it. Raises TableNotFound."""
        return LakeTable(self, find_table(self.catalog, name))

    def tables(self) -> list[TableSummary]:
        """All tables, by name, with their size and where they come from."""
        return list_tables(self.catalog)

    def sql(
        self,
        sql: str,
        as_of: Moment = None,
        *,
        parameters: Parameters = None,
        seconds: float | None = None,
        rows: int | None = None,
        memory: str | None = None,
    ) -> Batches:
        """The result of one SELECT (DuckDB's dialect) over any tables, all as they were at `as_of`.

        Only a cut is one moment of all tables of a stream. It can't write, and reaches nothing but these tables.

        parameters  values for `?` (a list) or `$name` (a dict)
        seconds, rows, memory  what it may take ("500MB"): more is a QueryTooLarge

        Raises QueryError, TableNotFound, NoSuchMoment, UnreadableFile, StorageUnavailable.
        """
        moment, cut = self._moment(as_of)
        found = query(self.catalog, sql, moment, cut, parameters, Limits(seconds, rows, memory))
        return Batches(found.schema, lambda: iter(found.to_batches(BATCH_SIZE)))

    def cut(self, which: int | str | None = None, stream: str | None = None) -> Cut:
        """A cut: by number, by the name it was kept as, or (None) the newest. Raises NoSuchCut, ConfigError."""
        from firn.staging.kept import find

        if self._store is None:
            raise ConfigError(
                "this lake was opened by its catalog alone, and cuts are in the staging store: connect to"
            )
        return find(self._store(), None if which is None else str(which), stream)

    def close(self) -> None:
        """Close the catalog's connections."""
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lake {self.catalog.properties.get('uri', self.catalog.name)}>"

    def _moment(self, as_of: Moment) -> tuple[AsOf, Cut | None]:
        if isinstance(as_of, Cut):
            return None, as_of
        if isinstance(as_of, tuple):
            if len(as_of) != 2 or not isinstance(as_of[0], str) or not isinstance(as_of[1], int):
                raise NoSuchMoment(f"as of {as_of!r}: a cut is (stream, number), such as ('shop', 12)")
            return None, self.cut(as_of[1], as_of[0])
        return as_of, None


class LakeTable:
    """One table, at any point in time. Made by `Lake.table`."""

    def __init__(self, lake: Lake, iceberg: "Table") -> None:
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
    ) -> Rows:
        """Rows as they were at `as_of`. Nothing is read before the result is.

        columns   names, in the order to have them; None: all, and Firn's own `_firn_…` only with `metadata`
        filter    such as "status = 'paid' and total >= 10", or a pyiceberg.expressions one
        limit     at most so many rows, whichever come first

        Raises NoSuchMoment, NoSuchColumn, BadFilter; the result, UnreadableFile and StorageUnavailable.
        """
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

    def __repr__(self) -> str:
        return f"<table {self.name}: {', '.join(self.columns())}>"

    def _at(self, as_of: Moment) -> Version:
        moment, cut = self._lake._moment(as_of)
        return version_at(self.iceberg, moment, cut)
