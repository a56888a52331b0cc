"""A view brought to a cut, in one snapshot that says what it is of: by what changed since the last one, or as a whole.

A job that dies before its commit leaves nothing to remember: the next one sees what the view is of.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa

from firn.changes.decode.types import BINARY, STRING, Column, storable
from firn.changes.metadata_columns import IDENTITY
from firn.config.modes import VIEW
from firn.config.names import TableName
from firn.config.sql_text import SqlRefused
from firn.config.views import View
from firn.errors import TerminalError, TransientError
from firn.tables.outcome import Outcome
from firn.tables.table_state import EPOCH, MODE, REFRESHES
from firn.views.cut import Told, ViewCut, is_overtaken, moment, told
from firn.views.renamed_columns import COLUMNS, called_in_sql, meant_columns
from firn_spark.committer import tried
from firn_spark.files.write import Layout, NewFile, layout_of, ordered, write_rows
from firn_spark.merge.landing import land_rows
from firn_spark.pipelines.base_delta import NoDelta
from firn_spark.table_commit import RangeContext
from firn_spark.tables.evolve import Table
from firn_spark.views.fill_in_parts import fill_in_parts
from firn_spark.views.row_changes import RowChanges, SharedChanges
from firn_spark.views.tables_at import TableAt, TablesAt, facts_of
from firn_spark.views.view_files import cells, portions
from firn_spark.views.view_table import Remake, fits, follow, made, settled
from firn_sql.views.algebra import Plan, Scan, operators
from firn_sql.views.clock import NEVER, Moments
from firn_sql.views.fill_way import fill_way
from firn_sql.views.planner import plan
from firn_sql.views.refresh import AFTER, Refresh
from firn_sql.views.refresh_way import WAY, Way, way_of
from firn_sql.views.source_tables import source_table
from firn_sql.views.stored import Stored, stored
from firn_sql.views.sums import with_sums
from firn_sql.views.view_connection import Connection, connected, failures
from firn_sql.views.view_delta import changing, differing
from firn_sql.views.whole import whole_plan

SHAPE: Final = "firn.view.shape"  # in a snapshot's summary: Stored.shape of its rows
_QUERIES: Final = 200  # that a job remembers how to compute


@dataclass(frozen=True)
class _Query:
    """A view's query, bound to the tables that it reads."""

    plan: Plan
    stored: Stored
    needed: Mapping[str, frozenset[str]]


@dataclass
class _Work:
    """One try at a view. `tables`: what it reads, by names in lower case; `table`: its own, None if it isn't made."""

    context: RangeContext
    view: View
    tables: Mapping[str, TableAt]
    table: Table | None
    before: Told | None
    now: Told
    shared: SharedChanges
    told: dict[str, str | int] = field(default_factory=dict)


def refresh(
    context: RangeContext, view: View, at: ViewCut, shared: SharedChanges | None = None, *, whole: bool = False
) -> Outcome | None:
    """As Lake.refresh says. `context`: its `last` and `epochs` are not looked at; `shared`: the changes that the job's
    other views have read; `whole`: all of it is made again."""
    started = time.monotonic()
    outcome = Outcome(str(view.table), tuple(map(str, view.sources)), mode=VIEW)
    outcome = tried(
        outcome,
        lambda: _once(context, view, at, shared or SharedChanges(), whole) or replace(outcome, status="skipped"),
        view.sources,
    )
    if outcome.status == "skipped":
        return None
    outcome.seconds = round(time.monotonic() - started, 3)
    return outcome


def _once(context: RangeContext, view: View, at: ViewCut, shared: SharedChanges, whole: bool) -> Outcome | None:
    table = context.tables.load(view.table)
    if table is not None and table.state.properties.get(MODE) != VIEW:
        raise TerminalError(
            f"{view.table} is a table already, and no view: drop it, or give the view another name under views: in "
            "firn.yaml"
        )
    tables = _Reads(context, at).of(view)
    if tables is None:
        return None
    before = told(table.state.ancestry) if table is not None else None
    # Who has all of it made again has a reason to believe the clock: a moment of another one's may lie ahead.
    now = Told(view.sha, _sources(tables), at.epochs, moment(view, at, None if whole else before))
    if before is not None and is_overtaken(now, before, lambda *of: _follows(tables, *of)):
        raise TransientError(f"{view.table} is of a newer cut already, by another job")
    by_others = table.state.rows_by_others if table is not None else 0
    if not (whole or by_others or before is None) and before.has_rows_of(now):
        return None
    meant = meant_columns(table.state.ancestry if table is not None else (), view.sha)
    work = _Work(context, view, _since(tables, before, meant), table, before, now, shared)
    progress = table.state.progress(REFRESHES) if table is not None else 0
    summary = {"firn.format": "1", **now.summary(), f"{EPOCH}{REFRESHES}": str(progress + 1)}
    landed = _landed(work, summary, whole)
    if landed is None:
        return None
    outcome = Outcome(str(view.table), tuple(map(str, view.sources)), mode=VIEW, progress=progress)
    outcome.way |= {"lookup": "view", **work.told}
    outcome.snapshot_id = landed
    return outcome


class _Reads:
    """What views read at a cut. Each table is loaded once, however many of them read it."""

    def __init__(self, context: RangeContext, at: ViewCut) -> None:
        self._context = context
        self._at = at
        self._views = {one.table: one for one in context.config.views}
        self._known: dict[TableName, TableAt | None] = {}
        self._are_of: dict[TableName, bool] = {}  # views that others read: whether they are of the cut

    def of(self, view: View) -> dict[str, TableAt] | None:
        """By names in lower case; None while some of it is not there. Raises TransientError where a view that it reads,
        itself or by way of others, is not of that cut."""
        found = {}
        for name in view.sources:
            if name not in self._known:
                self._known[name] = self._table(name)
            if (one := self._known[name]) is None:
                return None
            if (below := self._views.get(name)) is not None and not self._is_of(below, one.table):
                raise TransientError(f"{view.table} waits for {name}, which is not of that cut yet")
            found[str(name).lower()] = one
        return found

    def _table(self, name: TableName) -> TableAt | None:
        table = self._context.tables.load(name)
        if table is None or table.state.snapshot_id is None:
            return None
        is_view = name in self._views
        until = table.state.snapshot_id if is_view else _newest(table, self._at.snapshots.get(name, frozenset()))
        return None if until is None else TableAt(name, table, *_columns(table), until)

    def _is_of(self, view: View, table: Table) -> bool:
        if view.table not in self._are_of:
            before, tables = told(table.state.ancestry), self.of(view)
            self._are_of[view.table] = (
                before is not None and tables is not None and before.sql == view.sha
                and before.sources == _sources(tables)
            )  # fmt: skip
        return self._are_of[view.table]


def _sources(tables: Mapping[str, TableAt]) -> dict[TableName, tuple[str, int]]:
    """Of each its UUID and snapshot, as Told has them."""
    return {one.name: (one.table.state.uuid, one.until) for one in tables.values()}


def _newest(table: Table, snapshots: frozenset[int]) -> int | None:
    """The one of these that has the others among its ancestors."""
    if len(snapshots) <= 1:
        return next(iter(snapshots), None)
    at = table.java.currentSnapshot()
    while at is not None and int(at.snapshotId()) not in snapshots:
        parent = at.parentId()
        at = None if parent is None else table.java.snapshot(parent)
    return None if at is None else int(at.snapshotId())


def _follows(tables: Mapping[str, TableAt], name: TableName, snapshot: int, other: int) -> bool:
    """Whether a snapshot of a table has another one among its ancestors."""
    table = tables[str(name).lower()].table
    at = table.java.snapshot(snapshot)
    while at is not None and int(at.snapshotId()) != other:
        parent = at.parentId()
        at = None if parent is None else table.java.snapshot(parent)
    return at is not None


def _columns(table: Table) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns that SQL may name and those that tell rows apart."""
    columns = tuple(replace(one, type=storable(one.type)) for one in table.columns()[0])
    if own := next((one for one in table.state.fields if one["name"] == IDENTITY), None):
        return (*columns, Column(IDENTITY, BINARY if own["type"] == "binary" else STRING)), (IDENTITY,)
    return columns, table.key() or table.state.named_key() or ()


def _since(
    tables: Mapping[str, TableAt], before: Told | None, meant: Mapping[str, Mapping[str, int]]
) -> dict[str, TableAt]:
    """The tables with the snapshot that the view is of, and what SQL calls their columns."""
    known = before.sources if before is not None else {}
    found = {}
    for low, one in tables.items():
        uuid, snapshot = known.get(one.name, ("", None))
        since = snapshot if uuid == one.table.state.uuid else None
        called = called_in_sql(one.table.state.fields, meant.get(str(one.name), {}))
        found[low] = replace(one, since=since, called=called)
    return found


def _landed(work: _Work, summary: Mapping[str, str], whole: bool) -> int | None:
    """Commits the view. -> its snapshot; None if only time has passed, and changes nothing: then it still is what its
    newest snapshot says. Raises what the commit of any table raises."""
    query = _query(str(work.view.table), work.view.sql, work.view.full, _as_planned(work.tables))
    summary = {**summary, SHAPE: query.stored.shape, COLUMNS: _columns_of(work, query)}
    why = "asked for" if whole else _why_whole(work, query)
    if work.table is not None and fits(work.table, query.stored):
        work.table = settled(work.context, work.table, work.view, query.stored)
    if not why and work.table is not None:
        try:
            with connected() as connection:
                found = _with_changes(work, query, connection, work.table, summary)
                return None if found is None else _snapshot(found)
        except NoDelta as error:
            why = str(error)
    work.told["whole"] = why[:200]
    with connected() as connection:
        return _snapshot(_as_whole(work, query, connection, summary))


def _columns_of(work: _Work, query: _Query) -> str:
    found = {}
    for low, one in work.tables.items():
        ids = {str(field["name"]): int(field["id"]) for field in one.table.state.fields}
        needed = one.needed(query.needed[low])
        found[str(one.name)] = {one.in_sql(each.name): ids[each.name] for each in needed if each.name in ids}
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


def _snapshot(table: Table) -> int:
    return int(table.head().snapshotId())


def _why_whole(work: _Work, query: _Query) -> str:
    """Why all of the view is made again; "" if what changed will do."""
    if work.table is None or work.before is None:
        return "new"
    if work.view.full:
        return "refresh: full"
    if work.before.sql != work.view.sha:
        return "its SQL is another one"
    if query.plan.by_clock and work.before.now is None:
        return "it does not say of which moment it is"
    if work.table.state.rows_by_others:
        return "others wrote rows into it"
    shape = next((one[SHAPE] for one in work.table.state.ancestry if SHAPE in one), None)
    if shape != query.stored.shape or not fits(work.table, query.stored):
        return "its columns are others"
    if any(one.since is None for one in work.tables.values()):
        return "a table that it reads is another one"
    return ""


_Planned = tuple[tuple[str, tuple[Column, ...], tuple[str, ...]], ...]
"""Tables by their names in lower case, with the columns and the key by which a query over them is planned."""


def _as_planned(tables: Mapping[str, TableAt]) -> _Planned:
    return tuple(
        (
            low,
            tuple(Column(one.in_sql(each.name), each.type) for each in one.columns),
            tuple(map(one.in_sql, one.key)),
        )
        for low, one in tables.items()
    )


@lru_cache(_QUERIES)
def _query(name: str, sql: str, full: bool, planned: _Planned) -> _Query:
    """The query of the view `name`; `full`: as View has it. Raises TerminalError, which names it and the place."""
    with connected() as connection:
        return _bound(name, sql, full, planned, connection)


def _bound(name: str, sql: str, full: bool, planned: _Planned, connection: Connection) -> _Query:
    try:
        tables = {low: source_table(columns, key) for low, columns, key in planned}
        if full:
            found = whole_plan(sql, tables, connection)
        else:
            found, _ = with_sums(plan(sql, tables), tables, connection)
    except SqlRefused as refused:
        raise TerminalError(f"view {name}: {refused}") from refused
    needed: dict[str, set[str]] = {low: set() for low in tables}
    for one in operators(found.root):
        if isinstance(one, Scan):
            needed[one.source.lower()].update(one.names[each] for each in one.every)
    every = {low: frozenset(some) for low, some in needed.items()}
    return _Query(found, stored(name, found, tables, connection), every)


def _with_changes(
    work: _Work, query: _Query, connection: Connection, table: Table, summary: Mapping[str, str]
) -> Table | None:
    """Raises NoDelta. None if nothing but the moment is another."""
    spark, between, changed = work.context.spark, work.shared.between, dict[str, RowChanges]()
    for low, one in work.tables.items():
        if one.since is not None and one.since != one.until:
            found = between(spark, one.table, one.since, one.until, one.needed(query.needed[low]))
            if found.rows:
                changed[low] = found
    work.told["changes"] = sum(found.rows for found in changed.values())
    moments, way = _moments(work), None
    if changed or (query.plan.by_clock and moments[0] != moments[1]):
        way = _way(work, query, table, changed)
        work.told["by"] = way.told
        summary = {**summary, WAY: way.told}
    held, some = work.shared.held, {} if way is not None and way.whole else changed
    sources = TablesAt(spark, connection, work.tables, query.needed, some, table, query.stored, held, work.shared.files)
    with failures(str(work.view.table)):
        delta = None
        if way is not None:
            run = Refresh(connection, query.plan, sources, moments)
            if way.whole:
                delta = differing(query.stored, run, sources.view_rows(), connection)
            else:
                delta = changing(query.stored, run)
        rows, gone = None, pa.table({"id": pa.array([], pa.binary())})
        if delta is not None:
            gone = sources.who(*delta.gone)
            rows = connection.sql(delta.come).to_arrow_table()
    if delta is None and work.before is not None and work.before.sources == work.now.sources:
        return None
    places = sources.places_of(table, gone)
    if sum(map(len, places.values())) != len(gone):
        raise NoDelta(f"{len(gone)} of its rows were to go, and it has {sum(map(len, places.values()))} of these")
    work.told |= {"gone": len(gone), "come": 0 if rows is None else len(rows)}
    come = cells(layout_of(table), query.stored, rows)
    written = land_rows(spark, table, come, places, work.view.rule.write, summary, REFRESHES)
    now = work.context.tables.look_again(table)
    follow(spark, work.shared.files, table, now, written)
    return now


def _way(work: _Work, query: _Query, table: Table, changed: Mapping[str, RowChanges]) -> Way:
    facts = {low: one.facts for low, one in work.tables.items()}
    counts = {low: max(sum(map(len, one.gone)), sum(map(len, one.come))) for low, one in changed.items()}
    return way_of(query.plan, facts, counts, facts_of(table, _snapshot(table)), query.stored.casts.values())


def _moments(work: _Work) -> Moments:
    now = work.now.now or NEVER[1]
    return (work.before.now if work.before is not None else None) or now, now


def _as_whole(work: _Work, query: _Query, connection: Connection, summary: Mapping[str, str]) -> Table:
    context = work.context
    work.shared.held.clear()  # a fill needs the memory
    table = work.table
    if table is None:
        table = made(context, work.view, query.stored)
    remake = Remake.of(context, table, query.stored)
    layout = layout_of(remake.table)
    new, work.told["rows"] = _filled(work, query, connection, layout)
    remake.land(new, summary, REFRESHES)
    return context.tables.look_again(table)


def _filled(work: _Work, query: _Query, connection: Connection, layout: Layout) -> tuple[list[NewFile], int]:
    """The files of all rows of a view, and how many rows they have."""
    spark, owner, moments = work.context.spark, str(work.view.table), _moments(work)
    known = {low: source_table(columns, key) for low, columns, key in _as_planned(work.tables)}
    way = fill_way(query.plan, known, {low: one.facts for low, one in work.tables.items()}, connection)
    if way.parts is not None:
        work.told["parts"] = way.count
        of = (work.tables, query.stored, layout, connection, moments)
        return fill_in_parts(spark, owner, way.parts, way.count, *of)
    sources = TablesAt(spark, connection, work.tables, query.needed, None, None, query.stored)
    new, count = list[NewFile](), 0
    with failures(owner):
        rows = query.stored.rows(Refresh(connection, query.plan, sources, moments).whole(AFTER))
        for some in portions(connection, layout, query.stored, rows):
            count += len(some)
            new += write_rows(layout, ordered(layout, some))
    return new, count
