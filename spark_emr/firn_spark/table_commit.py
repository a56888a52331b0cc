"""One table of a range of epochs, from its changes to its snapshot, whichever engine makes the one of the other."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import ChangeId, Decoding, Why
from firn.changes.decode.types import Column
from firn.changes.metadata_columns import ASKED_METADATA, SOURCE_METADATA
from firn.commit.progress_tracker import RangeProgress, silent
from firn.commit.rejects import by_table, reasons, together, write_rejects
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.errors import TransientError
from firn.log.epochs import Epoch
from firn.log.job_progress import Stage
from firn.log.store import Store
from firn.tables import bloom_filters, file_properties, joined_snapshots, map_in_log, partition_policy, shard_cut
from firn.tables.batch_facts import TableFacts
from firn.tables.failures import Failure
from firn.tables.joined_snapshots import By
from firn.tables.outcome import Outcome
from firn.tables.planning import ColumnPlan, changed
from firn.tables.renames import renames_of
from firn.tables.routing import Target, appends_of
from firn.tables.settled_plan import settled
from firn.tables.table_plan import Planned
from firn.tables.table_state import (
    INFERRED_AS,
    NAMED_KEY,
    NO_FIRST_IDENTITY,
    are_several,
    fed_by,
    source_properties,
)
from firn_spark import vended_keys
from firn_spark.failures import failure_of, was_overtaken
from firn_spark.files.retyped_files import finish_retype, retype_columns
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.merge.facts_table import facts_beside
from firn_spark.not_eligible import ForeignFiles, Unfit
from firn_spark.pipelines.feed_columns import FeedColumns
from firn_spark.pipelines.joined_table import joined_tables
from firn_spark.tables import foreign_files
from firn_spark.tables.alterations import rename, repartition, upgrade
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables
from firn_spark.tables.fence import CommitUnknown, LostRace, unmoved
from firn_sql.feed_plan import FeedPlan, plan_feeds

_TRIES = 5
_REWRITES = 5  # of files that others wrote: what the look-up meets, then what is rewritten, and what comes meanwhile
_MOST_NAMED = 500  # characters of columns' names in a log line


@dataclass(frozen=True)
class RangeContext:
    """What the commits of a range of epochs have in common.

    last     the epoch that the tables are at then
    seen     how far tables were when whoever chose the epochs looked at them
    tables   the catalog
    letters  whether dead letters are written: those of a table that is not the live one are there already
    progress  who is told how far they are
    joined   the snapshots of other tables that rows are joined with, by pipeline; None: the newest ones
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


@dataclass
class TableCommit:
    """The commit of one table, planned and not yet made. `table`: as it was found, None if there is none; `above`: the
    epoch above which changes count; `feeds`: how changes come in, where pipelines bring them; `read`: its changes as
    its engine has read them by this plan, None if it has not; `held`: what lets go of them."""

    context: RangeContext
    target: Target
    table: Table | None
    planned: Planned
    above: int
    outcome: Outcome
    feeds: FeedPlan | None = None
    read: Any = None
    held: ExitStack = field(default_factory=ExitStack)

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
        }
        create = self.context.tables.create
        return create(self.target.name, self.context.warehouse, columns, metadata, rule.partition_by, properties)

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

    def told(self, target: Target, above: int, without: frozenset[ChangeId]) -> Mapping[str, TableFacts]:
        """What the target's changes in epochs above `above`, but for these, say of their columns
        (settled_plan.Judge.told). Raises as `commit`."""


class _Reader:
    """A settled_plan.Judge: the engine, for one table. `one`: as it was read last, None if it was not."""

    def __init__(self, engine: Engine, target: Target, above: int, begun: Callable[[Planned], TableCommit]) -> None:
        self._engine = engine
        self._target = target
        self._above = above
        self._begun = begun
        self.one: TableCommit | None = None

    def rejected(self, plan: Planned) -> Mapping[ChangeId, Why]:
        self.close()
        self.one = self._begun(plan)
        return self._engine.rejected(self.one)

    def told(self, without: Collection[ChangeId]) -> Mapping[str, TableFacts]:
        return self._engine.told(self._target, self._above, frozenset(without))

    def close(self) -> None:
        """Lets go of what was read."""
        if self.one is not None:
            self.one.held.close()


class Committer:
    """Commits the tables of a range, each behind its fence. A dead letter that a try wrote is no news to the next one:
    what is new is counted over all tries."""

    def __init__(
        self, context: RangeContext, engine: Engine, otherwise: Callable[[Target, int], Outcome] | None = None
    ) -> None:
        """`otherwise`: one try at a table that the engine is not made for."""
        self._context = context
        self._engine = engine
        self._otherwise = otherwise
        self._seen = dict(context.seen)  # the progress that a table had when this job looked first
        self._buried: dict[TableName, dict[str, dict[str, int]]] = {}  # new dead letters of a try that failed

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Brings the table up to the range's last epoch, with the epochs above `above` that it lacks. Never raises: a
        failure is in the outcome."""
        started = time.monotonic()
        outcome = tried(Outcome(str(target.name), target.sources), lambda: self.once(target, above))
        outcome.seconds = round(time.monotonic() - started, 3)
        self._context.progress.done(str(target.name))
        return outcome

    def once(self, target: Target, above: int = 0) -> Outcome:
        """The same in one try, which raises. Files that are not read here are rewritten first."""
        count = 0
        for left in reversed(range(_REWRITES + 1)):
            try:
                outcome = self._fitting(target, above)
                break
            except ForeignFiles as why:
                if not left:
                    raise foreign_files.unreadable(target.name, why, _REWRITES) from why
                count += self._rewritten(target, why)
        if count:
            outcome.way["foreign_files"] = count
        return outcome

    def _rewritten(self, target: Target, why: ForeignFiles) -> int:
        spark, tables = self._context.spark, self._context.tables
        table = tables.load(target.name)
        if table is None:
            raise LostRace(f"{target.name} was dropped while its rows were looked up") from why
        places = map_in_log.tables_of(self._context.store, self._context.stream, target.name, table.state)
        some = [one for one in (facts_beside(tables, table), *map(tables.load, places)) if one is not None]
        return foreign_files.rewrite(spark, tables, some, self._context.stream, why.paths)

    def _fitting(self, target: Target, above: int) -> Outcome:
        try:
            return self._once(target.above(above), above)
        except ForeignFiles:
            raise
        except Unfit as why:
            if self._otherwise is None:
                raise
            outcome = self._otherwise(target, above)
            outcome.way[self._engine.name] = str(why)
            outcome.dead_new = together(self._buried.pop(target.name, {}), outcome.dead_new)
            return outcome

    def _once(self, target: Target, above: int) -> Outcome:
        spark, tables, stream = self._context.spark, self._context.tables, self._context.stream
        table = tables.load(target.name)
        shard_cut.check(target.name, target.rule, table.state if table else None)
        if table is not None:
            table = finish_retype(spark, tables, table)
        progress = table.state.progress(stream) if table else 0
        if progress < self._seen.setdefault(target.name, progress):
            # What it lacks is not all in this range: the next job looks at that first.
            raise TransientError(f"{target.name} was set back or made again while a job was at it")
        outcome = Outcome(str(target.name), target.sources, progress=progress)
        outcome.events = target.events(progress)
        if outcome.events == 0:
            outcome.status = "skipped"
            outcome.snapshot_id = table.state.snapshot_id if table else None
            return outcome
        if table is not None and table.state.rows_by_others:
            outcome.way["rows_by_others"] = table.state.rows_by_others
        outcome.dead_new = self._buried.get(target.name, {})
        above = max(above, progress)

        def begun(plan: Planned) -> TableCommit:
            return TableCommit(self._context, target, table, plan, above, outcome)

        reader = _Reader(self._engine, target, above, begun)
        try:
            self._committed(target.above(progress), table, reader, above, outcome)
        except Exception:
            self._buried[target.name] = outcome.dead_new
            raise
        finally:
            reader.close()
        return outcome

    def _committed(self, target: Target, table: Table | None, reader: _Reader, above: int, outcome: Outcome) -> None:
        spark, tables, state = self._context.spark, self._context.tables, table.state if table else None
        exact = all(n > above for n in self._context.epochs)
        joined = partial(joined_tables, spark, tables, self._context.joined)
        feeds = plan_feeds(target, self._context.config, state, joined) if target.feeds else None
        plan = feeds.planned if feeds else settled(target, self._context.config, state, reader, exact=exact)
        if feeds and feeds.unseen:
            outcome.way["unseen"] = ", ".join(feeds.unseen)[:_MOST_NAMED]
        if table is not None and plan.renames:
            # Before its facts: the table remembers the names, so that whoever comes after a crash goes on with them.
            table = rename(spark, tables, table, plan.due, plan.renames.properties())
        if table is not None:
            # Before its rows are looked up: they have the new types then.
            columns, _ = table.columns()
            outcome.retyped = changed(columns, plan.columns.retyped)
            outcome.widened = changed(columns, plan.columns.widened)
            table = retype_columns(spark, tables, table, plan.columns.retyped)
            table = upgrade(spark, tables, table, target.rule.writing.format)
        target = replace(target, rule=plan.renames.rule(target.rule))
        outcome.mode = plan.mode.name
        one = TableCommit(self._context, target, table, plan, above, outcome, feeds)
        if reader.one is not None and reader.one.planned is plan:
            one.read, one.held = reader.one.read, reader.one.held
        with one.held:
            self._engine.commit(one)


def tried(outcome: Outcome, once: Callable[[], Outcome], reads: Sequence[TableName] = ()) -> Outcome:
    """What `once` gives, tried again where another writer was quicker; else `outcome`, with the failure in it. `reads`:
    other tables that it reads."""
    try:
        for left in reversed(range(_TRIES)):
            try:
                return once()
            except Exception as error:
                # Another writer won: nothing was applied, and a fresh look decides what is left to do.
                if not left or not (isinstance(error, LostRace | CommitUnknown) or was_overtaken(error)):
                    raise
    except Exception as error:  # noqa: BLE001 (one bad table must not stop the others)
        found = failure_of(error)
        why = vended_keys.ended([outcome.table, *map(str, reads)], str(error), time.time())
        if why is not None:  # the next job's keys end as these did
            found = Failure("terminal", f"{why}. {found.text}")
        outcome.status, outcome.error, outcome.failure = "failed", found.text, found.kind
    return outcome
