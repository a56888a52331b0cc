"""Every change once into an append table: Iceberg's own writers, then one fenced commit through the Java API.

`apply` is the engine's whole interface.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.types import Column
from firn.jobs.planning import BEFORE, IDENTITY, OP, POSITION, TIME
from firn.jobs.progress import EPOCH, progress_in
from firn_spark.evolve import Table


class LostRace(Exception):
    """Another writer's commit came between. Nothing was applied: look at the table again, and start over."""


def identified(changes: DataFrame) -> DataFrame:
    """`changes` with their identity `_id`, one row for each: what was delivered twice is one change.

    The identity is a 128-bit hash of position, op and place in the transaction; where the source does not tell that
    place, of position, op, content and how many equal changes came before in the same request (the rows of one COPY
    share a position); without a position, of the batch and the place in it.
    """
    placed = f.concat_ws(":", f.hex("_pos"), "_op", f.coalesce(
        f.concat(f.lit("t"), f.col("_tx_order").cast("string")),
        f.concat(f.lit("o"), f.hex("_ord"), f.lit(":"), f.col("_occurrence").cast("string")),
    ))  # fmt: skip
    arrived = f.concat_ws(":", f.lit("b"), "_batch", f.col("_index").cast("string"))
    identity = f.md5(f.when(f.col("_pos").isNotNull(), placed).otherwise(arrived))
    return changes.withColumn("_id", identity).dropDuplicates(["_id"])


def new_rows(spark: SparkSession, table: Table, changes: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The rows that `changes` (as `identified` gives them) add to the table: those whose identity is not in it yet.

    The columns carry the table's own names. Looks only at rows of the positions that the changes span.
    """
    low, high = changes.agg(f.min("_pos"), f.max("_pos")).first() or (None, None)
    there = spark.table(table.sql).select(f.col(IDENTITY).alias("there"), f.col(POSITION).alias("at"))
    near = f.lit(False) if low is None else f.col("at").between(f.lit(low), f.lit(high))
    there = there.where(near | f.col("at").isNull()).select("there")
    new = changes.join(there, f.col("_id") == f.col("there"), "left_anti")
    return new.select(
        *(f.col(f"c{i}").alias(column.name) for i, column in enumerate(columns)),
        f.col("_op").alias(OP),
        f.col("_pos").alias(POSITION),
        f.timestamp_millis("_ts").alias(TIME),
        f.col("_before").alias(BEFORE),
        f.col("_id").alias(IDENTITY),
    )


def apply(spark: SparkSession, table: Table, rows: DataFrame, properties: Mapping[str, str], stream: str) -> None:
    """Appends `rows` (names as in the table) in one snapshot whose summary carries `properties`.

    The commit holds only if the stream's progress in the table's ancestry is still the one that `table` shows: Iceberg
    refreshes its base inside a commit, so a check before it would not do. Raises LostRace if it is not.
    """
    before = table.java.currentSnapshot()
    files = _written(spark, table, rows)
    if not files:
        table.java.refresh()
        after = table.java.currentSnapshot()
        if (after and after.snapshotId()) != (before and before.snapshotId()):
            raise LostRace(f"{table.name} moved while its files were written")
    append = table.java.newAppend()
    for file in files:
        append.appendFile(file)
    for name, value in properties.items():
        append.set(name, value)
    ensure_callback_server_started(spark.sparkContext._gateway)
    append.validateWith(_ProgressUnchanged(stream, table.state.progress(stream)))
    try:
        append.commit()
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        if kind in (f"{_ERRORS}.ValidationException", f"{_ERRORS}.CommitFailedException"):
            _remove(table, files)
            raise LostRace(f"{table.name}: {error.java_exception.getMessage()}") from error
        raise  # CommitStateUnknownException above all: the files may be in the table


_ERRORS = "org.apache.iceberg.exceptions"


def _written(spark: SparkSession, table: Table, rows: DataFrame) -> list[Any]:
    """Data files with `rows`, written by Iceberg's executor writers, in no snapshot yet.

    An internal API of Iceberg 1.11 (what its compaction uses). If a later version did not know the option, it would
    make a plain append of this and hand back no files: `apply` looks.
    """
    jvm: Any = spark._jvm
    spark_package = jvm.org.apache.iceberg.spark
    token = uuid.uuid4().hex
    name = table.sql
    rows.writeTo(name).option(spark_package.SparkWriteOptions.REWRITTEN_FILE_SCAN_TASK_SET_ID, token).append()
    coordinator = spark_package.FileRewriteCoordinator.get()
    files = list(coordinator.fetchNewFiles(table.java, token))
    coordinator.clearRewrite(table.java, token)
    return files


def _remove(table: Table, files: Sequence[Any]) -> None:
    """Deletes files that no snapshot has taken, and none will: the commit was refused."""
    for file in files:
        table.java.io().deleteFile(file.location())


class _ProgressUnchanged:
    """Iceberg calls this inside the commit with the ancestry that the new snapshot would get."""

    def __init__(self, stream: str, expected: int) -> None:
        self._stream = stream
        self._expected = expected

    def validate(self, snapshots: Any) -> bool:
        """Whether the highest `firn.epoch.{stream}` of the snapshots (an Iterable<Snapshot>) is the expected one."""
        name = EPOCH + self._stream
        found = []
        iterator = snapshots.iterator()
        while iterator.hasNext():
            value = iterator.next().summary().get(name)
            if value is not None:
                found.append({name: value})
        return progress_in(self._stream, found) == self._expected

    def errorMessage(self) -> str:
        """What Iceberg says when the commit is refused."""
        return f"{EPOCH}{self._stream} is no longer {self._expected}: another job was quicker"

    class Java:
        """py4j's declaration of the interface."""

        implements: ClassVar[list[str]] = ["org.apache.iceberg.SnapshotAncestryValidator"]
