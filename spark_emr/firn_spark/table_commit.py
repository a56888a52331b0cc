"""The commit of one table as it is planned: what all engines that make it know of it, and what they tell."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import ChangeId, Decoding, Why
from firn.changes.decode.types import Column
from firn.changes.metadata_columns import ASKED_METADATA, SOURCE_METADATA
from firn.commit.progress_tracker import RangeProgress, silent
from firn.commit.rejects import by_table, reasons, together, write_rejects
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.warehouses import address_of
from firn.log.epochs import Epoch
from firn.log.job_progress import Stage
from firn.log.store import Store
from firn.tables import bloom_filters, file_properties, joined_snapshots, partition_policy, shard_cut
from firn.tables.batch_facts import TableFacts
from firn.tables.joined_snapshots import By
from firn.tables.outcome import Outcome
from firn.tables.planning import ColumnPlan
from firn.tables.renames import renames_of
from firn.tables.routing import Target, appends_of
from firn.tables.shard_names import SHARD_WAREHOUSE
from firn.tables.table_plan import Planned
from firn.tables.table_state import (
    INFERRED_AS,
    NAMED_KEY,
    NO_FIRST_IDENTITY,
    are_several,
    fed_by,
    source_properties,
)
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.pipelines.feed_columns import FeedColumns
from firn_spark.tables.alterations import repartition
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables
from firn_spark.tables.fence import LostRace, unmoved
from firn_sql.feed_plan import FeedPlan


@dataclass(frozen=True)
class RangeContext:
    """What the commits of a range of epochs have in common.

    last     the epoch that the tables are at then
    seen     how far tables were when whoever chose the epochs looked at them
    tables   the catalog
    letters  whether dead letters are written: those of a table that is not the live one are there already
    progress  who is told how far they are
    joined   the snapshots of other tables that rows are joined with, by pipeline; None: the newest ones
    staging  URL of the staging area, in which no tables lie; "": nobody asks
    upto     the last epoch of which changes count, where these are a part of what was read; None: all
    """

    spark: SparkSession
    store: Store
    stream: str
    config: StreamConfig
    warehouse: str
    epochs: Mapping[int, Epoch]
    last: int
    tables: Tables
    seen: Mapping[TableName, int] = field(default_factory=dict)
    letters: bool = True
    progress: RangeProgress = field(default_factory=silent)
    joined: By | None = None
    staging: str = ""
    upto: int | None = None

    def address(self, warehouse: str) -> str:
        """Where a warehouse is, by its name, "" for the deployment's own. Raises as address_of."""
        return address_of(warehouse, self.warehouse, self.staging, os.environ)

    def up_to(self, epoch: int) -> "RangeContext":
        """The same of the epochs up to this one."""
        return replace(self, epochs={n: one for n, one in self.epochs.items() if n <= epoch}, last=epoch, upto=epoch)


@dataclass
class TableCommit:
    """The commit of one table, planned and not yet made. `table`: as it was found, None if there is none; `above`: the
    epoch above which changes count; `feeds`: how changes come in, where pipelines bring them; `read`: its changes as
    its engine has read them by this plan, None if it has not; `held`: what lets go of them; `warehouse`: which it is
    made in, by its name, "" for the deployment's own."""

    context: RangeContext
    target: Target
    table: Table | None
    planned: Planned
    above: int
    outcome: Outcome
    feeds: FeedPlan | None = None
    read: Any = None
    held: ExitStack = field(default_factory=ExitStack)
    warehouse: str = ""

    @property
    def appending(self) -> AppendColumns | FeedColumns:
        """How its changes become rows of an append table."""
        state, stream = self.table.state if self.table else None, self.context.stream
        known = state is not None and stream in state.first_identity
        tables = appends_of(self.context.config, self.target.sources)
        own = AppendColumns(stream, known, self.target.rule.metadata, tables)
        return FeedColumns(own, self.feeds.feeds, self.context.letters) if self.feeds else own

    @property
    def plan(self) -> ColumnPlan:
        """The columns."""
        return self.planned.columns

    @property
    def decoding(self) -> Decoding:
        """How its changes become rows."""
        return self.planned.decoding

    @property
    def sources(self) -> tuple[str | None, ...]:
        """The source tables that feed it (table_state.fed_by)."""
        return fed_by(self.table.state if self.table else None, self.target.fed)

    def at(self, stage: Stage) -> None:
        """Tells how far it is."""
        self.context.progress.enter(str(self.target.name), stage)

    def summary(self) -> dict[str, str]:
        """The properties of its snapshot."""
        context, counted = self.context, not self.target.back
        told = self.outcome.summary(context.stream, context.epochs, context.last, counted=counted)
        return told | (joined_snapshots.summary(self.outcome.progress, self.feeds.joined) if self.feeds else {})

    def bury(self, rows: Sequence[Mapping[str, Any]], count: int) -> None:
        """Writes dead letters (rejects.write_rejects) for `count` changes, before all else: if the job dies then, the
        rerun finds them."""
        context, outcome = self.context, self.outcome
        outcome.dead += count
        if rows:
            outcome.dead_by = together(outcome.dead_by, by_table(reasons(rows)))
            if context.letters:
                written = write_rejects(context.store, context.stream, self.target.name, context.epochs, rows)
                outcome.dead_new = together(outcome.dead_new, by_table(written))

    def is_empty(self, good: int) -> bool:
        """Whether there is no table and nothing that one could be made from: `good` changes. The outcome says so."""
        if self.table is not None or good or (self.feeds is not None and self.feeds.joined):
            return False  # what rows were joined with is told though none was found
        self.outcome.status = "empty"
        self.outcome.ignored = self.outcome.events - self.outcome.dead
        return True

    def ready(self, nulls: Sequence[int]) -> Table:
        """The table with all columns that the changes need, made if there is none. `nulls`: the required ones that hold
        a null. Raises LostRace if it is not what was planned for."""
        state = self.table.state if self.table else None
        relaxed = [self.plan.columns[i].name for i in nulls]
        if state is not None:  # new rows have nothing there
            relaxed += [one["name"] for one in state.fields if one["required"] and one["name"] in self.plan.unwritable]
        mode, metadata = self.planned.mode, self.planned.mode.columns
        fed = source_properties(state, self.target.fed) if mode.keyed else {}
        fed |= self.feeds.properties if self.feeds else {}
        if mode.keyed and are_several(self.sources):
            metadata = (*metadata, SOURCE_METADATA)
        metadata = (*metadata, *(ASKED_METADATA[word] for word in self.target.rule.metadata if not mode.keyed))
        seen_as = {INFERRED_AS: json.dumps(self.plan.inferred, ensure_ascii=False, sort_keys=True)}
        if self.table is not None:
            return self._evolved(self.table, metadata, relaxed, fed, seen_as)
        rule, key = self.target.rule, self.planned.key
        columns = [replace(c, required=c.required and c.name not in relaxed) for c in self.plan.columns]
        properties = {
            "firn.key": json.dumps(key, ensure_ascii=False),
            "firn.mode": mode.name,
            "firn.stream": self.context.stream,
            "firn.source": ", ".join(self.target.sources),
            **fed,
            **(seen_as if self.plan.inferred else {}),
            **({} if mode.keyed else NO_FIRST_IDENTITY),
            **bloom_filters.properties(rule.bloom, key, columns, {}, rule.bloom_size),
            **file_properties.first(rule.writing),
            **({FORMAT_VERSION: str(rule.writing.format)} if rule.writing.format else {}),
            **(partition_policy.asked(rule.partition_by) if rule.partition_by else {}),
            **renames_of(rule.renames, {}).properties(),
            **shard_cut.properties(self.target.name, rule),
            **({SHARD_WAREHOUSE: self.warehouse} if self.warehouse else {}),
        }
        create, where = self.context.tables.create, self.context.address(self.warehouse)
        return create(self.target.name, where, columns, metadata, rule.partition_by, properties)

    def _evolved(
        self,
        table: Table,
        metadata: Sequence[Column],
        relaxed: Sequence[str],
        fed: Mapping[str, str],
        seen_as: Mapping[str, str],
    ) -> Table:
        spark, tables, rule, key = self.context.spark, self.context.tables, self.target.rule, self.planned.key
        table = unmoved(table, tables.evolve(table, self.plan, metadata, relaxed))
        if table.branch is None and table.is_partitioned_anew(rule.partition_by):
            table = repartition(spark, tables, table, rule.partition_by)
        now = table.state.properties
        wanted: dict[str, str | None] = {
            **bloom_filters.properties(rule.bloom, key, self.plan.columns, now, rule.bloom_size),
            **file_properties.properties(rule.writing, now),
        }
        # A branch is not the table's main, whose rows the property is about.
        wanted |= {} if self.planned.mode.keyed or table.branch is not None else table.state.identities
        if table.key() is None and rule.key is None and rule.keyed:
            wanted = wanted | {NAMED_KEY: json.dumps(key, ensure_ascii=False)}
        wanted |= {**fed, **(seen_as if self.plan.inferred != table.state.inferred else {})}
        table = unmoved(table, tables.set_properties(table, wanted))
        if table.state.progress(self.context.stream) != self.outcome.progress:
            raise LostRace(f"{table.name} moved while its columns were made ready")
        return table


class Engine(Protocol):
    """What makes of a table's changes its snapshot. `name`: for the log."""

    name: str

    def commit(self, one: TableCommit) -> None:
        """Commits the table as its mode asks. Raises what storage and catalog raise, and Unfit, before anything is
        committed, for what it is not made for."""

    def rejected(self, one: TableCommit) -> Mapping[ChangeId, Why]:
        """Reads the changes by the table's plan (`one.read`, which `commit` then takes): which are dead letters. Raises
        as `commit`."""

    def told(
        self, target: Target, above: int, without: frozenset[ChangeId], upto: int | None
    ) -> Mapping[str, TableFacts]:
        """What the target's changes in epochs above `above` and up to `upto`, but for these, say of their columns
        (settled_plan.Judge.told). Raises as `commit`."""
