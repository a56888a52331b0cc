"""The rows of given data files: what compaction rewrites."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.config.file_writing import OLDEST_FORMAT
from firn.config.names import OWN, quoted
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class
from firn_spark.tables.writing import LAST_UPDATED, ROW_ID

_ICEBERG_SPARK: Final = "org.apache.iceberg.spark"
# Beside all of a table's columns: no source's column is called so.
FILE: Final = f"{OWN}file"
PLACE: Final = f"{OWN}place"


def stored_names(table: Table) -> list[str]:
    """The columns that rows have which are written again: the table's, and in format 3 what tells which row is which
    (files/row_lineage.py)."""
    names = [str(field["name"]) for field in table.state.fields]
    return [*names, ROW_ID, LAST_UPDATED] if table.state.version > OLDEST_FORMAT else names


@contextmanager
def rows_of(spark: SparkSession, table: Table, tasks: Iterable[Any]) -> Iterator[DataFrame]:
    """The rows of `tasks` (deletes.tasks_of) that their delete files leave: all columns of the table under their own
    names (stored_names), and FILE and PLACE, where each is. Only these files are read. Good inside the `with` only.

    The scan of given tasks is an internal API of Iceberg 1.11, like writing.write_rows: its compaction reads so.
    """
    manager = java_class(spark, f"{_ICEBERG_SPARK}.ScanTaskSetManager").get()
    staged = java_class(spark, "java.util.ArrayList")()
    for task in tasks:
        staged.add(task)
    token = uuid.uuid4().hex
    manager.stageTasks(table.java, token, staged)
    try:
        rows = spark.read.option(java_class(spark, f"{_ICEBERG_SPARK}.SparkReadOptions").SCAN_TASK_SET_ID, token)
        names = [f.col(quoted(name)) for name in stored_names(table)]
        yield rows.table(table.files_sql).select(*names, f.col("_file").alias(FILE), f.col("_pos").alias(PLACE))
    finally:
        manager.removeTasks(table.java, token)
