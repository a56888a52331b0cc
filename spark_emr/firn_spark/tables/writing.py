"""New data files of a table, in no snapshot yet, by Iceberg's own executor writers.

Rows are sorted by partition before they are written, and the sort spills to disk: a task has one file open, whatever
the number of partitions. Iceberg's default is a file for each of them at once, and a thousand fill a heap of 1 GB.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.streams.names import quoted
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace

_SORTED: Final = {"fanout-enabled": "false"}
FANOUT: Final = "write.spark.fanout.enabled"  # the same as a table property: Spark's UPDATE takes no options


def write_rows(
    spark: SparkSession, table: Table, rows: DataFrame, options: Mapping[str, str] | None = None
) -> list[Any]:
    """Data files (org.apache.iceberg.DataFile) with `rows`, whose columns carry the table's own names. `options`: more
    of Iceberg's write options.

    An internal API of Iceberg 1.11 (what its compaction uses). If a later version did not know the option, it would
    make a plain append of this and hand back no files: then the table has moved, and LostRace is raised.
    """
    given = _SORTED | dict(options or {})
    return [file for part in _by_sign(rows, signed(table)) for file in _written(spark, table, part, given)]


def signed(table: Table) -> Sequence[str]:
    """The floats among the columns that the table is or was partitioned by. Spark's sort takes 0.0 and -0.0 for one
    value, and to Iceberg they are two partitions: rows that hold both do not come by partition."""
    by = [field for field in table.state.fields if int(field["id"]) in table.state.partitioned_by]
    return [field["name"] for field in by if field["type"] in ("float", "double")]


def _by_sign(rows: DataFrame, columns: Sequence[str]) -> list[DataFrame]:
    """The rows in parts in which the zeroes of a column have one sign."""
    parts = [rows]
    for name in columns:
        below = f.coalesce(f.col(quoted(name)).cast("string") == "-0.0", f.lit(False))
        parts = [part.where(mine) for part in parts for mine in (~below, below)]
    return parts


def _written(spark: SparkSession, table: Table, rows: DataFrame, options: Mapping[str, str]) -> list[Any]:
    jvm: Any = spark._jvm
    spark_package = jvm.org.apache.iceberg.spark
    token = uuid.uuid4().hex
    before = table.java.currentSnapshot()
    given = {**options, spark_package.SparkWriteOptions.REWRITTEN_FILE_SCAN_TASK_SET_ID: token}
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
