"""New data files of a table, in no snapshot yet, by Iceberg's own executor writers.

Rows are sorted by partition before they are written, and the sort spills to disk: a task has one file open, whatever
the number of partitions. Iceberg's default is a file for each of them at once, and a thousand fill a heap of 1 GB.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.config.names import quoted
from firn_spark.session import CATALOG
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.java import elements, java_class

_ICEBERG_SPARK: Final = "org.apache.iceberg.spark"
# Whatever others write into the table: look-ups read no other format.
_SORTED: Final = {"fanout-enabled": "false", "write-format": "parquet"}
_AS_THEY_COME: Final = {"use-table-distribution-and-ordering": "false", "distribution-mode": "none"}
ROW_ID: Final = "_row_id"  # Iceberg's own, of tables in format 3
LAST_UPDATED: Final = "_last_updated_sequence_number"
FANOUT: Final = "write.spark.fanout.enabled"  # the same as a table property: Spark's UPDATE takes no options


def write_rows(
    spark: SparkSession, table: Table, rows: DataFrame, options: Mapping[str, str] | None = None
) -> list[Any]:
    """Data files (org.apache.iceberg.DataFile) with `rows`, whose columns carry the table's own names. `options`: more
    of Iceberg's write options; with them the rows are written as they come.

    An internal API of Iceberg 1.11 (what its compaction uses). If a later version did not know the option, it would
    make a plain append of this and hand back no files: then the table has moved, and LostRace is raised.
    """
    given = _SORTED | dict(options or {})
    order = () if options else own_order(table)
    if order:
        rows = rows.repartition(*order).sortWithinPartitions(*order)
        given |= _AS_THEY_COME
    return _written(spark, table, rows, given)


def own_order(table: Table) -> Sequence[Column]:
    """What tells the table's partitions apart, where Iceberg's own sort in Spark does not: to Spark 0.0 and -0.0 are
    one value, and its bucket of a UUID is that of a text. () where Iceberg's sort does."""
    kinds = {int(field["id"]): (str(field["name"]), field["type"]) for field in table.state.fields}
    if not any(kinds[one][1] in ("float", "double", "uuid") for one in table.state.partitioned_by if one in kinds):
        return ()
    fields = [(str(one.transform().toString()), int(one.sourceId())) for one in elements(table.java.spec().fields())]
    return [_partition(transform, *kinds[source]) for transform, source in fields if source in kinds]


def _partition(transform: str, name: str, kind: Any) -> Column:
    """The value by which rows share a partition: of a float its text, for that has the sign of zero."""
    value = quoted(name)
    if transform in ("identity", "void"):
        return f.col(value).cast("string") if kind in ("float", "double") else f.col(value)
    function, _, size = transform.rstrip("]").partition("[")
    if size:
        value = f"unhex(replace({value}, '-', ''))" if kind == "uuid" else value
        return f.expr(f"{CATALOG}.system.{function}({size}, {value})")
    return f.expr(f"{CATALOG}.system.{function}s({value})")


def _written(spark: SparkSession, table: Table, rows: DataFrame, options: Mapping[str, str]) -> list[Any]:
    token = uuid.uuid4().hex
    before = table.java.currentSnapshot()
    given = {**options, java_class(spark, f"{_ICEBERG_SPARK}.SparkWriteOptions").REWRITTEN_FILE_SCAN_TASK_SET_ID: token}
    # So Iceberg's own compaction calls the table where Spark is to take the columns that tell which row is which.
    name = f"{table.files_sql}.rewrite" if ROW_ID in rows.columns else table.files_sql
    rows.writeTo(name).options(**given).append()
    coordinator = java_class(spark, f"{_ICEBERG_SPARK}.FileRewriteCoordinator").get()
    files = list(elements(coordinator.fetchNewFiles(table.java, token)))
    coordinator.clearRewrite(table.java, token)
    if not files:
        table.java.refresh()
        after = table.java.currentSnapshot()
        if (after and after.snapshotId()) != (before and before.snapshotId()):
            raise LostRace(f"{table.name} moved while its files were written")
    return files
