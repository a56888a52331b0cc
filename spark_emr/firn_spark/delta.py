"""Rows out and rows in, as one Iceberg snapshot: data files, position deletes and the progress, or nothing at all.

`apply` is the engine's whole interface. A MERGE would do the same with one shuffle of the whole table, and its commit
can't be fenced (docs/adr/0010-row-delta.md).
"""

from collections import defaultdict
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.jobs.planning import HELD, POSITION, TIME
from firn_spark import fence
from firn_spark.deciding import Shape
from firn_spark.evolve import Table
from firn_spark.writing import write_deletes, write_rows

_ONE_FILE = 200_000  # rows that one task writes


def apply(
    spark: SparkSession,
    table: Table,
    decided: DataFrame,
    shape: Shape,
    counts: tuple[int, int],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits what `deciding.decide` gave (persisted by the caller) in one snapshot whose summary carries `properties`,
    even if no row changes. `counts`: how many rows are written and how many removed.

    Raises fence.LostRace if the table moved (nothing was applied: look again), fence.CommitUnknown.
    """
    written, removed = counts
    snapshot = table.head()
    files = write_rows(spark, table, _rows(table, decided, shape, written)) if written else []
    gone = _removed(decided) if removed else {}
    deletes = write_deletes(spark, table, gone) if gone else []
    if not files and not deletes:
        # Only stale changes: an append of nothing carries the progress.
        fence.commit(spark, table, table.java.newAppend(), (), properties, stream)
        return
    update = table.java.newRowDelta()
    for file in files:
        update.addRows(file)
    for file in deletes:
        update.addDeletes(file)
    if snapshot is not None:
        update = update.validateFromSnapshot(snapshot.snapshotId())
        paths = spark._jvm.java.util.ArrayList()
        for path in gone:
            paths.add(path)
        update = update.validateDataFilesExist(paths).validateDeletedFiles()
        update = update.validateNoConflictingDeleteFiles().validateNoConflictingDataFiles()
    fence.commit(spark, table, update, [*files, *deletes], properties, stream)


def _rows(table: Table, decided: DataFrame, shape: Shape, written: int) -> DataFrame:
    held = [f.col("_held").alias(HELD)] if HELD in {field["name"] for field in table.state.fields} else []
    rows = decided.where("_write").select(
        *(f.col(f"c{i}").alias(column.name) for i, column in enumerate(shape.columns)),
        *(f.col(f"x{i}").alias(name) for i, name in enumerate(shape.extras)),
        f.col("_order").alias(POSITION),
        f.col("_ts").alias(TIME),
        *held,
    )
    return rows.coalesce(1) if written <= _ONE_FILE and table.java.spec().isUnpartitioned() else rows


def _removed(decided: DataFrame) -> dict[str, list[int]]:
    found = decided.where("_remove").select("t_file", "t_row").toArrow()
    places: defaultdict[str, list[int]] = defaultdict(list)
    for path, row in zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True):
        places[path].append(row)
    return dict(places)
