"""New data files of a table, in no snapshot yet, by Iceberg's own executor writers."""

import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace


def write_rows(
    spark: SparkSession, table: Table, rows: DataFrame, options: Mapping[str, str] | None = None
) -> list[Any]:
    """Data files (org.apache.iceberg.DataFile) with `rows`, whose columns carry the table's own names. `options`: more
    of Iceberg's write options.

    An internal API of Iceberg 1.11 (what its compaction uses). If a later version did not know the option, it would
    make a plain append of this and hand back no files: then the table has moved, and LostRace is raised.
    """
    jvm: Any = spark._jvm
    spark_package = jvm.org.apache.iceberg.spark
    token = uuid.uuid4().hex
    before = table.java.currentSnapshot()
    given = {**(options or {}), spark_package.SparkWriteOptions.REWRITTEN_FILE_SCAN_TASK_SET_ID: token}
    rows.writeTo(table.files_sql).options(**given).append()
    coordinator = spark_package.FileRewriteCoordinator.get()
    files = list(coordinator.fetchNewFiles(table.java, token))
    coordinator.clearRewrite(table.java, token)
    if not files:
        table.java.refresh()
        after = table.java.currentSnapshot()
        if (after and after.snapshotId()) != (before and before.snapshotId()):
            raise LostRace(f"{table.name} moved while its files were written")
    return files
