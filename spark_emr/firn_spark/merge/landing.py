"""Rows that come and rows that go, brought into a table by one snapshot: what every commit does that is not of changes
of a stream's own."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.config.model import Write
from firn_spark.files import copy_on_write
from firn_spark.files.row_lineage import with_lineage
from firn_spark.files.write import NewFile, data_files, layout_of, ordered, write_rows
from firn_spark.merge import mirror_commit
from firn_spark.merge.mirror_commit import Written
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class


def land_rows(
    spark: SparkSession,
    table: Table,
    rows: pa.Table,
    gone: deletes.Places,
    write: Write,
    properties: Mapping[str, str],
    stream: str,
) -> Written:
    """Rows (write.rows_of) come and those at the places `gone` go, in one snapshot. -> the files of it. Raises
    fence.LostRace, fence.CommitUnknown, ForeignFiles, StorageUnavailable, UnknownOutcome."""
    layout = layout_of(table)
    if gone and write == "copy-on-write":
        old, again = copy_on_write.old_files(spark, table, gone), with_lineage(layout, table)
        files = data_files(spark, table, copy_on_write.rewritten(again, old.files, rows))
        written = Written(files, old.removed, gone, old.java)
    else:
        written = mirror_commit.joined(spark, table, lambda: write_rows(layout, ordered(layout, rows)), gone)
    mirror_commit.land(spark, table, written, table.state.snapshot_id, properties, stream)
    return written


def land_instead(
    spark: SparkSession, table: Table, new: Sequence[NewFile], properties: Mapping[str, str], stream: str
) -> None:
    """New files take the place of all rows, in one snapshot. Raises fence.LostRace, fence.CommitUnknown."""
    replace_all(spark, table, data_files(spark, table, new), properties, stream)


def replace_all(
    spark: SparkSession, table: Table, files: Sequence[Any], properties: Mapping[str, str], stream: str
) -> None:
    """land_instead of files as Iceberg has them (org.apache.iceberg.DataFile)."""
    if table.state.snapshot_id is None:
        update = table.java.newAppend()
        for file in files:
            update.appendFile(file)
    else:
        every = java_class(spark, "org.apache.iceberg.expressions.Expressions").alwaysTrue()
        update = table.java.newOverwrite().overwriteByRowFilter(every)
        for file in files:
            update.addFile(file)
        update = update.validateFromSnapshot(table.state.snapshot_id).conflictDetectionFilter(every)
        update = update.validateNoConflictingData().validateNoConflictingDeletes()
    fence.commit(spark, table, update, files, properties, stream)
