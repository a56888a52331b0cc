"""What a table that pipelines feed is planned for: the columns of each pipeline's source, and so of its output."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from firn.changes.decode.nanoseconds import fine
from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import INFERRED, Column
from firn.config.model import StreamConfig
from firn.config.pipelines import Pipeline
from firn.errors import TerminalError
from firn.tables.batch_facts import columns_from_json, columns_to_json
from firn.tables.iceberg_format import keeps_nanoseconds
from firn.tables.joined_snapshots import By, Joined
from firn.tables.planning import ColumnPlan, TooManyColumns, check_width, plan_columns, without_others
from firn.tables.renames import renames_of
from firn.tables.routing import Target
from firn.tables.table_plan import Planned, planned, read_schemas
from firn.tables.table_state import PIPELINE_INPUT, TableState
from firn_sql.bound_sql import Bound, bound
from firn_sql.source_types import source_schema

# By pipeline the columns of its source as they were seen, [[name, type], …]. Values are decoded by them, so they must
# not depend on which epochs came together.
INPUT: Final = PIPELINE_INPUT


class JoinedRows(Protocol):
    """A table that rows are joined with, as it is in one snapshot. Goes to other processes."""

    @property
    def table(self) -> str:
        """Its name."""
        ...

    @property
    def at(self) -> Joined:
        """The snapshot."""
        ...

    @property
    def columns(self) -> Sequence[Column]:
        """All that SQL may name."""
        ...

    def rows(self, columns: Sequence[str], keys: pa.Table, most: int) -> pa.Table:
        """As firn_sql.partners.Lookup says."""
        ...


@dataclass(frozen=True)
class PipelineFeed:
    """How changes of `sources` come into a table: through the SQL of `pipeline`, or as they are ("" and no SQL).
    `decoding`: how they are decoded for that; `joined`: the tables of its joins, in their order. Goes to other
    processes."""

    pipeline: str
    sql: str
    sources: frozenset[str]
    decoding: Decoding
    joined: tuple[JoinedRows, ...] = ()

    @property
    def bound(self) -> Bound:
        """Its SQL, as it runs. Raises TerminalError."""
        return bound(self.pipeline, self.sql, source_schema(self.decoding.columns), _schemas(self.joined))

    def look_up(self, place: int, columns: Sequence[str], keys: pa.Table, most: int) -> pa.Table:
        """As firn_sql.partners.Lookup says."""
        return self.joined[place].rows(columns, keys, most)


@dataclass(frozen=True)
class FeedPlan:
    """`planned`: the table; `feeds`: how changes come into it; `properties`: what it is to remember; `unseen`: columns
    that SQL names and no event had yet."""

    planned: Planned
    feeds: tuple[PipelineFeed, ...]
    properties: Mapping[str, str]
    unseen: tuple[str, ...]

    @property
    def joined(self) -> By:
        """What rows are joined with, by pipeline and table."""
        return {feed.pipeline: {one.table: one.at for one in feed.joined} for feed in self.feeds if feed.joined}


def _schemas(joined: Sequence[JoinedRows]) -> tuple[tuple[str, pa.Schema], ...]:
    return tuple((one.table, source_schema(one.columns)) for one in joined)


def plan_feeds(
    target: Target,
    settings: StreamConfig,
    state: TableState | None,
    joined: Callable[[Pipeline], tuple[JoinedRows, ...]] = lambda _: (),
) -> FeedPlan:
    """For a target with feeds. `joined`: the tables of a pipeline's joins, in their order. Raises as table_plan.planned
    and `joined`, and TerminalError for SQL that does not bind."""
    nanoseconds = keeps_nanoseconds(state, target.rule.writing.format)
    known: dict[str, str] = json.loads(state.properties.get(INPUT, "{}")) if state else {}
    feeds: list[PipelineFeed] = []
    seen: list[Sequence[Column]] = []
    unseen: list[str] = []
    for feed in target.feeds:
        mine = target.of(feed)
        if feed.pipeline is None:
            seen += mine.seen()
            continue
        tables = joined(feed.pipeline)
        plan, decoding = input_plan(
            mine, feed.pipeline, settings, columns_from_json(known.get(feed.pipeline.name, "[]")),
            nanoseconds=nanoseconds, joined=tables,
        )  # fmt: skip
        known[feed.pipeline.name] = columns_to_json(as_seen(plan))
        one = PipelineFeed(feed.pipeline.name, feed.pipeline.sql, frozenset(feed.sources), decoding, tables)
        seen.append(one.bound.columns)
        unseen += one.bound.unseen
        feeds.append(one)
    whole = planned(target, settings, state, seen=seen)
    check_width(whole.columns, len(whole.columns.columns) - len(whole.columns.added), whole.declared)
    plain = (PipelineFeed("", "", frozenset(one.sources), whole.decoding) for one in target.feeds if not one.pipeline)
    told = json.dumps(known, ensure_ascii=False, sort_keys=True)
    return FeedPlan(whole, (*plain, *feeds), {INPUT: told}, tuple(dict.fromkeys(unseen)))


def input_plan(
    mine: Target,
    pipeline: Pipeline,
    settings: StreamConfig,
    known: Sequence[Column],
    *,
    nanoseconds: bool = False,
    joined: Sequence[JoinedRows] = (),
) -> tuple[ColumnPlan, Decoding]:
    """The columns of a pipeline's source, and how its changes are decoded. `nanoseconds`: as Decoding has it; `joined`:
    as PipelineFeed has it."""
    own = settings.rule_for(pipeline.source)
    mine = replace(mine, rule=own or replace(mine.rule, columns={}, renames={}, schema=None))
    renames = renames_of(mine.rule.renames, {})
    declared = renames.named(mine.declared(settings))
    schema = mine.rule.schema
    closed = schema is not None and schema.closed
    shown = map(fine, mine.seen()) if nanoseconds else mine.seen()
    seen = [] if closed else [renames.named(columns) for columns in shown]
    there = renames.named(known)
    plan = renames.told(plan_columns(there, declared, seen))
    if there and not _binds(pipeline, plan, joined):
        # One event must not take the SQL its meaning: what does not fit the types that are known is a dead letter.
        kept = renames.told(plan_columns(there, declared, seen, fixed=frozenset(column.name for column in there)))
        plan = kept if _binds(pipeline, kept, joined) else plan
    if closed:
        plan = without_others(plan, {column.name for column in declared})
    try:
        check_width(plan, len(known), {column.name for column in declared})
    except TooManyColumns:
        # One event must not hold the table: what inference adds this time is not there for the SQL.
        plan = renames.told(plan_columns(there, declared, ()))
    decoding = Decoding(
        columns=plan.columns,
        key=(),
        settings=settings.settings if schema is None else schema.settings(settings.settings),
        schemas=read_schemas(mine.schemas(), nanoseconds=nanoseconds),
        nanoseconds=nanoseconds,
        bad_schemas=mine.bad_schemas(),
        names=mine.names,
        unnamed=plan.unnamed,
        closed=None if schema is None else schema.others(settings.own_fields),
        snapshot_reads=pipeline.rule is None or pipeline.rule.snapshot_reads == "upsert",
    )
    return plan, decoding


def _binds(pipeline: Pipeline, plan: ColumnPlan, joined: Sequence[JoinedRows]) -> bool:
    try:
        bound(pipeline.name, pipeline.sql, source_schema(plan.columns), _schemas(joined))
    except TerminalError:
        return False
    return True


def as_seen(plan: ColumnPlan) -> list[Column]:
    """The columns with what inference has seen of them, to be kept until the next plan."""
    return [replace(one, type=INFERRED.get(plan.inferred.get(one.name, ""), one.type)) for one in plan.columns]
