"""A view with what waits for the tables that it reads: its query over these tables as they will be.

The rule is that of a refresh (firn_sql.views), so that rows, their order within groups and their `_firn_id` are those
that the next refresh gives.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema

from firn.changes.decode.iceberg_fields import column_of
from firn.changes.decode.types import Column, storable
from firn.changes.metadata_columns import IDENTITY, METADATA
from firn.config.sql_text import SqlRefused
from firn.config.views import View
from firn.errors import TerminalError
from firn.views.cut import ViewCut, moment, told
from firn.views.renamed_columns import called_in_sql, meant_columns
from firn_lake.fresh.following_table import FollowingTable
from firn_lake.fresh.fresh_rows import FreshTable, RowsToCome
from firn_lake.fresh.pending import NotFresh
from firn_lake.fresh.pending_table import state_of
from firn_lake.reading.rows import BATCH_SIZE, Rows
from firn_lake.reading.versions import Version, version_at
from firn_lake.schemas.arrow_types import arrow_schema, cast
from firn_lake.tables import key_of
from firn_sql.result_batches import batches_of
from firn_sql.views.algebra import Plan, Scan, operators, quoted
from firn_sql.views.clock import Moments
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, Refresh
from firn_sql.views.refresh_port import Within, listed
from firn_sql.views.source_tables import source_table
from firn_sql.views.stored import Stored, stored
from firn_sql.views.sums import with_sums
from firn_sql.views.view_connection import connected
from firn_sql.views.whole import whole_plan

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

MOST_ROWS: Final = 5_000_000  # of the tables of one view: from here on a refresh is quicker than a look
_BATCH: Final = 10_000


class FreshView:
    """As FreshTable. `sources`: the tables that the view reads, by name; `now`: the moment at which it is read."""

    def __init__(
        self,
        view: View,
        sources: "Mapping[str, FreshTable | FollowingTable | FreshView]",
        table: "Table | None",
        now: datetime,
    ) -> None:
        self._view, self._sources, self._table, self._now = view, sources, table, now

    @property
    def moments(self) -> Moments:
        """What now() is in its SQL: never before what it is in the view as it is stored."""
        before = told(state_of(self._table).ancestry) if self._table is not None else None
        now = moment(self._view, ViewCut({}, {}, self._now), before) or self._now
        return now, now

    @property
    def table(self) -> "Table | None":
        """Its own; None: no refresh has made it."""
        return self._table

    @cached_property
    def is_as_stored(self) -> bool:
        """Whether its table has the rows that it would have now. Raises NotFresh, StorageUnavailable."""
        if self._table is None or self._table.metadata.properties.get("firn.mode") != "view":
            raise NotFresh(f"the view {self._view.table} is not made yet: run firn flush, and read it then")
        state = state_of(self._table)
        before = told(state.ancestry)
        if (
            self._view.by_clock
            or state.rows_by_others
            or before is None
            or before.sql != self._view.sha
            or set(before.sources) != set(self._view.sources)
        ):
            return False
        at = {str(name): one for name, one in before.sources.items()}
        return all(_is_at(one, *at[name]) for name, one in self._sources.items())

    @cached_property
    def version(self) -> Version:
        """Its table, whose columns it has fresh too. Raises NotFresh, StorageUnavailable."""
        if not self.is_as_stored:
            self._check_columns()
        assert self._table is not None  # noqa: S101 (is_as_stored says so)
        return version_at(self._table, None)

    def read(
        self,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
    ) -> "Rows | FreshViewRows":
        """As FreshTable says."""
        if self.is_as_stored:
            return Rows(self.version, schema, where, batch_size, limit)
        return FreshViewRows(self, schema, where, batch_size, limit)

    @cached_property
    def checked(self) -> "Mapping[str, FreshTable | FollowingTable | FreshView]":
        """The tables that it reads, by their names in lower case: all are there, and not too large. Raises NotFresh."""
        rows = 0
        for name, one in self._sources.items():
            if one.table is None:
                raise NotFresh(
                    f"the view {self._view.table} reads {name}, which no commit has made: run firn flush, and read it "
                    "then"
                )
            snapshot = one.version.snapshot
            summary = snapshot.summary if snapshot is not None else None
            told_rows = summary.additional_properties.get("total-records", "") if summary is not None else ""
            rows += int(told_rows) if told_rows.isdecimal() else 0
        if rows > MOST_ROWS:
            raise NotFresh(
                f"the view {self._view.table} reads tables of {rows:,} rows, and at most {MOST_ROWS:,} are "
                "read to show it with what waits: read it without fresh, or refresh it (firn flush)"
            )
        return {name.lower(): one for name, one in self._sources.items()}

    def bound(self, connection: duckdb.DuckDBPyConnection) -> tuple[Plan, Stored, Mapping[str, SourceTable]]:
        """The query over the tables with what waits for them. Raises NotFresh."""
        try:
            tables = {}
            for name, one in self._sources.items():
                assert one.table is not None  # noqa: S101 (checked says so)
                key, called = key_of(one.table.metadata), self.called[name.lower()]
                tables[name.lower()] = _source(one.version, key, called)
            if self._view.full:
                found = whole_plan(self._view.sql, tables, connection)
            else:
                found, _ = with_sums(plan(self._view.sql, tables), tables, connection)
            return found, stored(str(self._view.table), found, tables, connection), tables
        except (SqlRefused, TerminalError) as error:
            raise NotFresh(f"the view {self._view.table} can't be shown with what waits: {error}") from error

    @cached_property
    def called(self) -> Mapping[str, Mapping[str, str]]:
        """Of each table, by its name in lower case, what the SQL calls columns that were renamed since."""
        ancestry = state_of(self._table).ancestry if self._table is not None else ()
        meant = meant_columns(ancestry, self._view.sha)
        return {
            name.lower(): called_in_sql(_fields(one.version.schema), meant.get(name, {}))
            for name, one in self._sources.items()
        }

    def _check_columns(self) -> None:
        assert self._table is not None  # noqa: S101 (is_as_stored says so)
        _ = self.checked
        with connected() as connection:
            _, how, _ = self.bound(connection)
        there = {one.name: storable(one.type) for one in _columns(self._table.schema()) if one.name != IDENTITY}
        if there != {one.name: storable(one.type) for one in how.columns}:
            raise NotFresh(
                f"the next refresh gives the view {self._view.table} other columns: run firn flush, and read it then"
            )


class FreshViewRows(RowsToCome):
    """The rows of a view with what waits for its tables."""

    def __init__(
        self,
        view: FreshView,
        schema: Schema,
        where: "str | BooleanExpression | None",
        batch_size: int,
        limit: int | None,
    ) -> None:
        super().__init__(view.version, schema, where, batch_size, limit)
        self._view = view

    def _all(self) -> Iterator[pa.RecordBatch]:
        view, name = self._view, self._version.name
        every = self._version.select(None, metadata=True)
        kinds = arrow_schema(every)
        keep = None if isinstance(self._bound, AlwaysTrue) else expression_to_pyarrow(self._bound, every)
        with connected() as connection:
            found, how, tables = view.bound(connection)
            try:
                sources = _Tables(connection, found, tables, view.checked, view.called)
                relation = connection.sql(how.rows(Refresh(connection, found, sources, view.moments).whole(AFTER)))
                for batch in batches_of(relation.to_arrow_reader(_BATCH)):
                    rows = cast([batch.column(one) for one in kinds.names], kinds)
                    rows = rows if keep is None else rows.filter(keep)
                    if rows.num_rows:
                        yield rows.select(self.schema.names)
            except (duckdb.Error, pa.ArrowException) as error:
                said = str(error).partition("\n")[0][:300]
                raise NotFresh(
                    f"the view {name} can't be shown with what waits: {said}; read it without fresh. firn status says "
                    "whether its next refresh fails too"
                ) from error


class _Tables:
    """A firn_sql.views.refresh_port.Sources of tables as they will be: of one cut, all that a whole view asks for.
    `called`: as FreshView.called."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        found: Plan,
        tables: Mapping[str, SourceTable],
        sources: "Mapping[str, FreshTable | FollowingTable | FreshView]",
        called: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._connection, self._numbers = connection, count()
        needed: dict[str, dict[str, None]] = {name: {} for name in tables}
        for one in operators(found.root):
            if isinstance(one, Scan):
                needed[one.source.lower()].update(dict.fromkeys(one.names[each] for each in one.every))
        now = {name: {in_sql: there for there, in_sql in called[name].items()} for name in tables}
        self._names = {name: self._made(sources[name], tables[name], list(needed[name]), now[name]) for name in tables}

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:  # noqa: ARG002
        """As the port says."""
        names = [quoted(one) for one in columns]
        if within is not None:
            return within.semi_join(f"SELECT * FROM {self._names[source]}", names)  # noqa: S608
        return f"SELECT {listed(names)} FROM {self._names[source]}"  # noqa: S608

    def changes(self, source: str, columns: Sequence[str]) -> None:
        """Nothing is known of before."""

    def held(self, columns: Sequence[str], within: Within) -> str:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is held")

    def all_held(self, columns: Sequence[str]) -> str | None:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is held")

    def count(self, source: str) -> int:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is looked up")

    def _made(
        self,
        of: "FreshTable | FollowingTable | FreshView",
        table: SourceTable,
        columns: Sequence[str],
        now: Mapping[str, str],
    ) -> str:
        """A table of the connection with these columns of all rows. `now`: what columns are called by now that SQL
        calls otherwise. Raises what reading them raises."""
        name = f"firn_rows_{next(self._numbers)}"
        some = columns or list(table.columns)[:1]
        there = [now.get(one, one) for one in some]
        rows = of.read(of.version.select(there, metadata=True))
        self._connection.register("firn_reader", rows.reader())
        cells = [
            f"CAST({quoted(of_table)} AS {table.columns[one]}) AS {quoted(one)}"
            for one, of_table in zip(some, there, strict=True)
        ]
        try:
            asked = f"SELECT {', '.join(cells)} FROM firn_reader"  # noqa: S608
            self._connection.execute(f"CREATE TEMP TABLE {name} AS {asked}")
        except duckdb.Error as error:
            raise rows.failed or error from error
        finally:
            self._connection.unregister("firn_reader")
        return name


def _is_at(one: "FreshTable | FollowingTable | FreshView", uuid: str, snapshot: int) -> bool:
    """Whether a table is what it was for the view's last refresh, and nothing waits for it."""
    if one.table is None or (str(one.table.metadata.table_uuid), one.table.metadata.current_snapshot_id) != (
        uuid,
        snapshot,
    ):
        return False
    return one.is_as_stored


def _fields(schema: Schema) -> list[dict[str, Any]]:
    """As Iceberg's JSON has them."""
    import json

    fields: list[dict[str, Any]] = json.loads(schema.model_dump_json())["fields"]
    return fields


def _columns(schema: Schema) -> list[Column]:
    """The columns that SQL may name, and `_firn_id`."""
    return [
        column
        for one in _fields(schema)
        if one["name"] not in METADATA or one["name"] == IDENTITY
        if (column := column_of(one)) is not None
    ]


def _source(version: Version, key: Sequence[str], called: Mapping[str, str]) -> SourceTable:
    """`called`: what SQL calls columns that have another name now."""
    columns = _columns(version.schema)
    own = (IDENTITY,) if any(one.name == IDENTITY for one in columns) else tuple(key)
    in_sql = [replace(one, name=called.get(one.name, one.name)) for one in columns]
    return source_table(in_sql, [called.get(one, one) for one in own])
