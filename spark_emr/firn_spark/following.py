"""Mirrors that pipelines make follow their bases: after each commit of the base, and whatever else moved it.

What says how far one is stands in its own snapshots: the base's snapshot that it is of, and the SQL that made it. So a
job that dies between the two commits leaves nothing to remember: the next one sees that the mirror is behind.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from firn.changes.decode.types import Column, storable
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.sql_text import SqlRefused
from firn.errors import TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn.tables.table_plan import planned
from firn.tables.table_state import SEALED, TableState
from firn_spark.committer import tried
from firn_spark.files.retyped_files import finish_retype, retype_columns
from firn_spark.pipelines.mirror_rows import Mirror
from firn_spark.table_commit import RangeContext, TableCommit
from firn_spark.tables.alterations import upgrade
from firn_spark.tables.evolve import Table
from firn_sql.bound_sql import Bound, bound
from firn_sql.check import check
from firn_sql.mirrors import key_columns
from firn_sql.source_types import source_schema

BASE: Final = "firn.base"  # in a snapshot's summary: the base's snapshot that it is of
PIPELINE: Final = "firn.pipeline"  # the same: Pipeline.sha of the SQL that made it


def follow(context: RangeContext, pipeline: Pipeline, base: TableName, *, whole: bool = False) -> Outcome | None:
    """As Lake.follow says. `context`: its `last` and `epochs` are not looked at; `whole`: all of it is made again."""
    started = time.monotonic()
    outcome = Outcome(str(pipeline.target), (pipeline.source,), mode="mirror")
    outcome = tried(
        outcome, lambda: _once(context, pipeline, base, whole) or replace(outcome, status="skipped"), [base]
    )
    if outcome.status == "skipped":
        return None
    outcome.seconds = round(time.monotonic() - started, 3)
    return outcome


def _once(context: RangeContext, pipeline: Pipeline, base_name: TableName, whole: bool) -> Outcome | None:
    spark, tables, stream = context.spark, context.tables, context.stream
    name = TableName.parse(str(pipeline.target))
    base, table = tables.load(base_name), tables.load(name)
    if base is None or base.state.snapshot_id is None:
        return None
    told = _told(table.state if table else None)
    if told == (base.state.snapshot_id, pipeline.sha) and not whole:
        return None
    if table is not None:
        table = finish_retype(spark, tables, table)
    columns = _columns(base)
    sql = bound(pipeline.name, pipeline.sql, source_schema(columns))
    key, renamed = _key(pipeline, base, columns, sql)
    rule = replace(pipeline.rule, key=tuple(renamed.values())) if pipeline.rule else None
    if rule is None:
        raise TerminalError(f"pipeline {pipeline.name} has no table")
    target = Target(name, rule, (pipeline.source,), (TableFacts(),))
    plan = planned(target, context.config, table.state if table else None, seen=[sql.columns])
    if table is not None:
        table = retype_columns(spark, tables, table, plan.columns.retyped)
        table = upgrade(spark, tables, table, rule.writing.format)
    progress = table.state.progress(stream) if table else 0
    outcome = Outcome(str(name), target.sources, mode=plan.mode.name, progress=progress)
    at = replace(context, epochs={}, last=base.state.progress(stream))
    one = TableCommit(at, target, table, plan, 0, outcome)
    made = one.ready([i for i, column in enumerate(plan.columns.columns) if column.required])
    nonce = base.state.sealed(stream)
    properties = one.summary() | {BASE: str(base.state.snapshot_id), PIPELINE: pipeline.sha}
    properties |= {f"{SEALED}{stream}": nonce} if nonce else {}
    mirror = Mirror(spark, base, columns, key, sql, renamed, made, plan.columns.columns, rule.write)
    since = told[0] if told is not None and told[1] == pipeline.sha and not whole else None
    mirror.land(since, properties, stream)
    outcome.way |= {"lookup": "follow", **mirror.told}
    if sql.unseen:
        outcome.way["unseen"] = ", ".join(sql.unseen)[:500]
    outcome.snapshot_id = int(made.head().snapshotId())
    return outcome


def _told(state: TableState | None) -> tuple[int, str] | None:
    """The base's snapshot and the SQL that the table is of; None if nothing says so."""
    summaries = state.ancestry if state else ()
    return next(((int(one[BASE]), one.get(PIPELINE, "")) for one in summaries if BASE in one), None)


def _columns(base: Table) -> tuple[Column, ...]:
    return tuple(replace(column, type=storable(column.type)) for column in base.columns()[0])


def _key(
    pipeline: Pipeline, base: Table, columns: tuple[Column, ...], sql: Bound
) -> tuple[list[Column], Mapping[str, str]]:
    """The columns of the base's key, and what the target calls them. Raises TerminalError."""
    key = base.key() or base.state.named_key() or ()
    if not key:
        raise TerminalError(f"pipeline {pipeline.name}: {base.name} has no key, so no mirror can rest on it")
    try:
        renamed = key_columns(check(pipeline.sql), key)
    except SqlRefused as refused:
        raise TerminalError(f"pipeline {pipeline.name}: {refused}") from refused
    there = {one.name: one for one in columns}
    outputs = {field.name.lower(): field.name for field in sql.transform.schema}
    return [there[one] for one in key], {one: outputs[to.lower()] for one, to in renamed.items()}
