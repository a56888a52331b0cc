"""Rows out and rows in, as one Iceberg snapshot: data files, position deletes and the progress, or nothing at all.

`apply` is the engine's whole interface. A MERGE would do the same with one shuffle of the whole table, and its commit
can't be fenced (docs/adr/0010-row-delta.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.metadata_columns import BEFORE, HELD, IDENTITY, OP, POSITION, SOURCE, TIME
from firn.config.model import Write
from firn.tables.outcome import Outcome
from firn_spark.merge.deciding import Shape
from firn_spark.merge.mirror import Numbers
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class
from firn_spark.tables.rewriting import kept_rows
from firn_spark.tables.writing import write_rows

_ONE_FILE = 200_000  # rows that one task writes


def apply(
    spark: SparkSession,
    table: Table,
    decided: DataFrame,
    shape: Shape,
    numbers: Numbers,
    write: Write,
    stream: str,
    properties: Mapping[str, str],
    outcome: Outcome,
) -> None:
    """Commits what `deciding.decide` gave (persisted by the caller) in one snapshot whose summary carries `properties`
    (Outcome.summary), even if no row changes. `numbers`: mirror.count of it.

    Raises fence.LostRace if the table moved (nothing was applied: look again), fence.CommitUnknown.
    """
    if not numbers.written and not numbers.removed:
        # Only stale changes: an append of nothing carries the progress.
        with outcome.stage("commit"):
            fence.commit(spark, table, table.java.newAppend(), (), properties, stream)
        return
    if write == "copy-on-write" and numbers.removed:
        _overwrite(spark, table, decided, shape, numbers, properties, stream, outcome)
    else:
        _row_delta(spark, table, decided, shape, numbers, properties, stream, outcome)


def _row_delta(
    spark: SparkSession,
    table: Table,
    decided: DataFrame,
    shape: Shape,
    numbers: Numbers,
    properties: Mapping[str, str],
    stream: str,
    outcome: Outcome,
) -> None:
    snapshot = table.head()
    with outcome.stage("write"):
        rows = _few_files(table, _rows(table, decided, shape), numbers.written)
        files = write_rows(spark, table, rows) if numbers.written else []
    with outcome.stage("deletes"):
        gone, removed = _deletes(spark, table, decided, numbers, outcome) if numbers.removed else ((), [])
    with outcome.stage("commit"):
        land(spark, table, snapshot.snapshotId() if snapshot else None, files, removed, gone, properties, stream)


def land(
    spark: SparkSession,
    table: Table,
    snapshot: int | None,
    files: Sequence[Any],
    removed: Sequence[Any],
    gone: Iterable[str],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits data files and delete files, for rows of the data files `gone` as they were in `snapshot`, in one.

    Raises fence.LostRace, fence.CommitUnknown.
    """
    update = table.java.newRowDelta()
    for file in files:
        update.addRows(file)
    for file in removed:
        update.addDeletes(file)
    if snapshot is not None:
        update = update.validateFromSnapshot(snapshot)
        paths = java_class(spark, "java.util.ArrayList")()
        for path in gone:
            paths.add(path)
        update = update.validateDataFilesExist(paths).validateDeletedFiles()
        update = update.validateNoConflictingDeleteFiles().validateNoConflictingDataFiles()
    fence.commit(spark, table, update, [*files, *removed], properties, stream)


def _deletes(
    spark: SparkSession, table: Table, decided: DataFrame, numbers: Numbers, outcome: Outcome
) -> tuple[Iterable[str], list[Any]]:
    """(the data files that lose rows, the delete files that say so)"""
    places = numbers.places
    if places is None and numbers.removed <= deletes.ON_DRIVER:
        found = decided.where("_remove").select("t_file", "t_row").toArrow()
        places = deletes.by_file(found.column(0), found.column(1))
    if places is not None:
        outcome.way |= {"deletes": "driver", "positions": numbers.removed}
        return places, deletes.write_from_driver(spark, table, places)
    outcome.way |= {"deletes": "executors", "positions": numbers.removed}
    counts = deletes.counts_by_file(decided)
    return counts, deletes.write_from_executors(spark, table, decided, counts)


def _overwrite(
    spark: SparkSession,
    table: Table,
    decided: DataFrame,
    shape: Shape,
    numbers: Numbers,
    properties: Mapping[str, str],
    stream: str,
    outcome: Outcome,
) -> None:
    """The data files that lose rows are rewritten without them."""
    snapshot = table.head()
    files = deletes.counts_by_file(decided) if numbers.places is None else numbers.places
    tasks = list(deletes.tasks_of(table, files))
    stay = sum(task.file().recordCount() for task in tasks) - numbers.removed  # and those that are deleted already
    outcome.way |= {"deletes": "rewrite", "positions": numbers.removed, "rewritten": len(tasks)}
    with outcome.stage("write"):
        rows = _rows(table, decided, shape)
        with kept_rows(spark, table, tasks, decided) as kept:
            rows = kept.unionByName(rows) if stay else rows
            added = write_rows(spark, table, _few_files(table, rows, numbers.written + stay))
    with outcome.stage("commit"):
        replace(spark, table, snapshot.snapshotId(), [task.file() for task in tasks], added, properties, stream)


def replace(
    spark: SparkSession,
    table: Table,
    snapshot: int,
    old: Iterable[Any],
    added: Sequence[Any],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits data files for those of the snapshot that are `old`, which were read as they were in it.

    Raises fence.LostRace, fence.CommitUnknown.
    """
    update = table.java.newOverwrite()
    for file in old:
        update.deleteFile(file)
    for file in added:
        update.addFile(file)
    every = java_class(spark, "org.apache.iceberg.expressions.Expressions").alwaysTrue()
    update = update.validateFromSnapshot(snapshot).conflictDetectionFilter(every)
    update = update.validateNoConflictingData().validateNoConflictingDeletes()
    fence.commit(spark, table, update, added, properties, stream)


def _rows(table: Table, decided: DataFrame, shape: Shape) -> DataFrame:
    there = {field["name"] for field in table.state.fields}
    own = [f.col(name).alias(own) for name, own in (("_held", HELD), ("_source", SOURCE)) if own in there]
    # A rebuild in place may make a mirror of what was an append table, whose columns stay.
    own += [f.lit(None).cast("string").alias(name) for name in (OP, BEFORE, IDENTITY) if name in there]
    return decided.where("_write").select(
        *(f.col(f"c{i}").alias(column.name) for i, column in enumerate(shape.columns)),
        *(f.col(f"x{i}").alias(name) for i, name in enumerate(shape.extras)),
        f.col("_order").alias(POSITION),
        f.col("_ts").alias(TIME),
        *own,
    )


def _few_files(table: Table, rows: DataFrame, count: int) -> DataFrame:
    return rows.coalesce(1) if count <= _ONE_FILE and table.java.spec().isUnpartitioned() else rows
