"""A table for Spark as it was, and what was appended to it since."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.metadata_columns import METADATA
from firn.config.names import TableName, quoted
from firn.errors import TerminalError
from firn.tables.snapshot_history import AsOf
from firn_spark.sources.moments import NotAppended, Timeline
from firn_spark.tables.evolve import Table, Tables

Partitions = Mapping[str, Any]
"""Column -> its value, or a list of values that it may have."""


class NoSuchTable(TerminalError):
    """The catalog has no such table."""


class NoSuchColumn(TerminalError):
    """The table has no such column then; the text names those it has."""


def batch(
    spark: SparkSession,
    table: str,
    as_of: AsOf = None,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    partitions: Partitions | None = None,
    metadata: bool = False,
) -> DataFrame:
    """The rows of `table` ("shop.orders") as they were at `as_of` (see moments).

    columns     names, in the order to have them; None: all, and Firn's own `_firn_…` only with `metadata`
    where       a condition; Iceberg leaves out the files that can hold no row for it
    partitions  values of columns, for a table that is partitioned by them

    A branch, and None, are read with the columns of today; all else with those of its snapshot.
    Raises NoSuchTable, NoSuchMoment, NoSuchColumn.
    """
    found, timeline = opened(spark, table)
    snapshot = timeline.at(as_of)
    named = found.files_sql
    if as_of is not None and snapshot is not None:
        is_branch = timeline.is_branch(as_of)
        named += f".{quoted(f'branch_{as_of}'.strip()) if is_branch else f'snapshot_id_{snapshot.id}'}"
    return _shaped(spark.table(named), table, columns, where, partitions, metadata)


def appended(
    spark: SparkSession,
    table: str,
    from_: AsOf,
    to: AsOf = None,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    partitions: Partitions | None = None,
    metadata: bool = False,
) -> DataFrame:
    """The rows that were appended after `from_` (None: from the first snapshot) up to `to`, with the columns of today.

    Only for a line of snapshots that only append and merge small files. Iceberg's own incremental read says nothing
    where rows were changed or deleted in between; this raises NotAppended, and `changes` tells them.
    Raises also NoSuchTable, NoSuchMoment, NoSuchColumn, NotOneLine.
    """
    found, timeline = opened(spark, table)
    first, last = timeline.at(from_) if from_ is not None else None, timeline.at(to)
    line = timeline.line(first, last)
    other = [one for one in line if one.operation not in ("append", "replace")]
    if other:
        raise NotAppended(
            f"snapshot {other[0].id} of {table} changed or deleted rows ({other[0].operation}): what was appended "
            "since is not all that happened. firn_spark.sources.changes tells it"
        )
    if last is None or not any(one.operation == "append" for one in line):
        rows = spark.table(found.files_sql).limit(0)
    elif first is None:
        # Iceberg's incremental read begins after a snapshot: all that there was at `to` was appended.
        rows = spark.read.option("snapshot-id", last.id).table(found.files_sql)
    else:
        read = spark.read.option("start-snapshot-id", first.id).option("end-snapshot-id", last.id)
        rows = read.table(found.files_sql)
    return _shaped(rows, table, columns, where, partitions, metadata)


def opened(spark: SparkSession, table: str) -> tuple[Table, Timeline]:
    """The table as the catalog has it now, and its snapshots. Raises NoSuchTable."""
    tables = Tables(spark, read_only=True)
    found = tables.load(TableName.parse(table))
    if found is None:
        raise NoSuchTable(f"the catalog has no table {table}")
    if found.unreadable:
        raise TerminalError(f"{table} can't be read by Spark: {found.unreadable}. firn_lake reads it")
    return found, Timeline(table, json.loads(tables.metadata(found)))


def _shaped(
    rows: DataFrame,
    table: str,
    columns: Sequence[str] | None,
    where: str | Column | None,
    partitions: Partitions | None,
    metadata: bool,
) -> DataFrame:
    there = rows.columns
    for name in [*(columns or ()), *(partitions or ())]:
        if name not in there:
            raise NoSuchColumn(f"{table} has no column {name!r} then; it has {', '.join(there)}")
    for name, value in (partitions or {}).items():
        values = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
        rows = rows.where(f.col(quoted(name)).isin(values))
    if where is not None:
        rows = rows.where(where)
    wanted = columns if columns is not None else [name for name in there if metadata or name not in METADATA]
    return rows.select(*(f.col(quoted(name)) for name in wanted))
