"""A pipeline's mirror with what waits for its base: its own rows, but for those of keys that waiting changes decide."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from firn.changes.decode.types import Column, storable
from firn.config.modes import MODES, TableMode
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.errors import TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.planning import ColumnPlan, KeyChanged, TooManyColumns
from firn.tables.routing import Target
from firn.tables.table_plan import planned
from firn_lake.fresh.fresh_rows import FreshRows, FreshTable
from firn_lake.fresh.merge_pending import Result, mirrored
from firn_lake.fresh.pending import NotFresh
from firn_lake.fresh.pending_table import OWN, Waiting, as_it_will_be, state_of
from firn_lake.reading.rows import BATCH_SIZE, Rows
from firn_lake.reading.versions import Version, version_at

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from firn_lake.fresh.through_sql import Following


@dataclass(frozen=True)
class _Coming:
    """What as_it_will_be asks of what waits."""

    plan: ColumnPlan
    mode: TableMode = MODES["mirror"]
    due: dict[str, str] = field(default_factory=dict)
    metadata: tuple[Column, ...] = ()

    def nulls(self) -> set[str]:
        """No column is required."""
        return set()


class FollowingTable:
    """As FreshTable. `base`: the table that it rests on."""

    def __init__(self, pipeline: Pipeline, base: FreshTable, table: "Table | None") -> None:
        self._pipeline, self._base, self._table = pipeline, base, table
        self._name = TableName.parse(str(pipeline.target))
        self._state = state_of(table) if table is not None else None

    @property
    def table(self) -> "Table | None":
        """Its own; None: no commit has made it."""
        return self._table

    @property
    def is_as_stored(self) -> bool:
        """Whether nothing waits for it. Raises NotFresh, StorageUnavailable."""
        return self._waiting is None

    @cached_property
    def _waiting(self) -> Waiting | None:
        return next(iter(self._base.waits), None)

    def _last(self, waiting: Waiting) -> Pipeline:
        """The pipeline in the last configuration of what waits: its commit leaves the table as that one makes it."""
        name, target = self._pipeline.name, self._pipeline.target
        for one in waiting.pending.newest.pipelines:
            if one.is_mirror and (one.name, one.target) == (name, target):
                return one
        raise NotFresh(f"the configuration of what waits knows no pipeline that makes {target}: run firn flush")

    @cached_property
    def _following(self) -> "Following":
        from firn_lake.fresh.through_sql import following  # with DuckDB, which most tables can do without

        waiting = self._waiting
        if waiting is None or self._base.table is None:
            raise NotFresh(f"{self._name} rests on a table that no commit has made: run firn flush")
        key = [column.name for column in waiting.key]
        columns = [replace(one, type=storable(one.type)) for one in waiting.plan.columns]
        return following(self._last(waiting), self._base.table.metadata, columns, key, self._state)

    @cached_property
    def _plan(self) -> ColumnPlan:
        waiting, of = self._waiting, self._following
        rule = self._last(waiting).rule if waiting is not None else None
        if rule is None or waiting is None:
            raise NotFresh(f"{self._name} is no table")
        rule = replace(rule, key=tuple(of.renamed.values()))
        target = Target(self._name, rule, (self._pipeline.source,), (TableFacts(),))
        try:
            plan = planned(target, waiting.pending.settings, self._state, seen=[of.sql.columns]).columns
        except (KeyChanged, TooManyColumns, TerminalError) as error:
            raise NotFresh(f"{self._name}: {error}") from error
        if plan.retyped:
            raise NotFresh(f"changes wait that give columns of {self._name} another type: run firn flush")
        return plan

    @cached_property
    def version(self) -> Version:
        """As FreshTable says."""
        now = version_at(self._table, None) if self._table is not None else None
        if self._waiting is None:
            if now is None:
                raise NotFresh(f"nothing waits for {self._name}, and no commit has made it")
            return now
        return as_it_will_be(self._name, now, [_Coming(self._plan)])

    def read(
        self,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
    ) -> Rows | FreshRows:
        """As FreshTable says."""
        waiting, base = self._waiting, self._base
        if waiting is None:
            return Rows(self.version, schema, where, batch_size, limit)
        made = mirrored(base.catalog, base.table, base.state, waiting, base.version, None)
        stored = [replace(one, type=storable(one.type)) for one in waiting.plan.columns]
        columns = {one.name: one for one in self._plan.columns}
        rows = self._following.rows(made.rows, stored, self._plan.columns)
        key = [columns[self._following.renamed[one.name]] for one in made.key]
        there = self._state is not None and self._state.snapshot_id is not None
        result = Result(rows, columns | OWN, key, made.replaced, made.truncates, made.unnamed, there)
        return FreshRows(self.version, schema, where, result, batch_size, limit)
