"""Rows out and rows in, as one Iceberg snapshot: data files, position deletes and the progress, or nothing at all.

A MERGE would do the same with one shuffle of the whole table, and its commit can't be fenced
(docs/adr/0010-row-delta.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from firn_spark.tables import fence
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class
from firn_spark.tables.removals import Removal


def land(
    spark: SparkSession,
    table: Table,
    snapshot: int | None,
    files: Sequence[Any],
    removed: Removal,
    gone: Iterable[str],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits data files and delete files, for rows of the data files `gone` as they were in `snapshot`, in one.

    Raises fence.LostRace, fence.CommitUnknown, TerminalError where a data file would have two deletion vectors.
    """
    removed.check(snapshot)
    update = table.java.newRowDelta()
    for file in files:
        update.addRows(file)
    for file in removed.added:
        update.addDeletes(file)
    for file in removed.replaced:
        update.removeDeletes(file)
    if snapshot is not None:
        # Without it Iceberg takes each vector of the table's history for one that came meanwhile.
        update = update.validateFromSnapshot(snapshot)
        paths = java_class(spark, "java.util.ArrayList")()
        for path in {*gone, *removed.vectors}:
            paths.add(path)
        update = update.validateDataFilesExist(paths).validateDeletedFiles()
        update = update.validateNoConflictingDeleteFiles().validateNoConflictingDataFiles()
    fence.commit(spark, table, update, [*files, *removed.added], properties, stream)


def replace(
    spark: SparkSession,
    table: Table,
    snapshot: int,
    old: Sequence[Any],
    removed: Removal,
    added: Sequence[Any],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits data files for those of the snapshot that are `old`, which were read as they were in it, and whose
    vectors are `removed`.

    Raises fence.LostRace, fence.CommitUnknown.
    """
    update = table.java.newOverwrite()
    data = java_class(spark, "org.apache.iceberg.util.DataFileSet").create()
    vectors = java_class(spark, "org.apache.iceberg.util.DeleteFileSet").create()
    for file in old:
        data.add(file)
    for file in removed.replaced:
        vectors.add(file)
    update.deleteFiles(data, vectors)
    for file in added:
        update.addFile(file)
    every = java_class(spark, "org.apache.iceberg.expressions.Expressions").alwaysTrue()
    update = update.validateFromSnapshot(snapshot).conflictDetectionFilter(every)
    update = update.validateNoConflictingData().validateNoConflictingDeletes()
    fence.commit(spark, table, update, added, properties, stream)
