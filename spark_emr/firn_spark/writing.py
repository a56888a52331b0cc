"""New files of a table, in no snapshot yet: rows by Iceberg's own executor writers, position deletes by pyarrow."""

import io
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from firn_spark.evolve import Table
from firn_spark.fence import LostRace

# The reserved fields of position delete files: https://iceberg.apache.org/spec/#position-delete-files
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def write_rows(spark: SparkSession, table: Table, rows: DataFrame) -> list[Any]:
    """Data files (org.apache.iceberg.DataFile) with `rows`, whose columns carry the table's own names.

    An internal API of Iceberg 1.11 (what its compaction uses). If a later version did not know the option, it would
    make a plain append of this and hand back no files: then the table has moved, and LostRace is raised.
    """
    jvm: Any = spark._jvm
    spark_package = jvm.org.apache.iceberg.spark
    token = uuid.uuid4().hex
    before = table.java.currentSnapshot()
    rows.writeTo(table.files_sql).option(
        spark_package.SparkWriteOptions.REWRITTEN_FILE_SCAN_TASK_SET_ID, token
    ).append()
    coordinator = spark_package.FileRewriteCoordinator.get()
    files = list(coordinator.fetchNewFiles(table.java, token))
    coordinator.clearRewrite(table.java, token)
    if not files:
        table.java.refresh()
        after = table.java.currentSnapshot()
        if (after and after.snapshotId()) != (before and before.snapshotId()):
            raise LostRace(f"{table.name} moved while its files were written")
    return files


def write_deletes(spark: SparkSession, table: Table, removed: Mapping[str, Sequence[int]]) -> list[Any]:
    """Delete files (org.apache.iceberg.DeleteFile), one for each partition, for rows of data files: file -> places.

    Raises LostRace if one of the data files is no longer in the table.
    """
    jvm: Any = spark._jvm
    java = table.java
    files: list[Any] = []
    for (spec_id, _), (partition, group) in _by_partition(table, removed).items():
        spec = java.specs().get(spec_id)
        name = f"{uuid.uuid4().hex}-deletes.parquet"
        locations = java.locationProvider()
        partitioned = spec.isPartitioned()
        path = locations.newDataLocation(spec, partition, name) if partitioned else locations.newDataLocation(name)
        data = _positions({file: removed[file] for file in group})
        out = java.io().newOutputFile(path).createOrOverwrite()
        out.write(data)
        out.close()
        api = jvm.org.apache.iceberg
        metrics = api.parquet.ParquetUtil.fileMetrics(
            java.io().newInputFile(path), api.MetricsConfig.forPositionDelete(java)
        )
        builder = api.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes().withPath(path)
        builder = builder.withFormat("parquet").withFileSizeInBytes(len(data)).withMetrics(metrics)
        files.append((builder.withPartition(partition) if partitioned else builder).build())
    return files


def _positions(removed: Mapping[str, Sequence[int]]) -> bytes:
    paths: list[str] = []
    places: list[int] = []
    for path in sorted(removed):
        paths += [path] * len(removed[path])
        places += sorted(removed[path])
    file = io.BytesIO()
    rows = pa.table([pa.array(paths, pa.string()), pa.array(places, pa.int64())], schema=_POSITIONS)
    pq.write_table(rows, file, compression="zstd", use_dictionary=["file_path"], store_schema=False)
    return file.getvalue()


def _by_partition(table: Table, removed: Mapping[str, Sequence[int]]) -> dict[tuple[int, str], tuple[Any, list[str]]]:
    """(spec id, partition as text) -> (the partition, its data files)."""
    specs = table.java.specs()
    if all(spec.isUnpartitioned() for spec in specs.values()):
        return {(table.java.spec().specId(), ""): (None, list(removed))}
    found: defaultdict[tuple[int, str], tuple[Any, list[str]]] = defaultdict(lambda: (None, []))
    missing = set(removed)
    scan = table.java.newScan()
    tasks = (scan if table.branch is None else scan.useRef(table.branch)).planFiles()
    try:
        iterator = tasks.iterator()
        while missing and iterator.hasNext():
            file = iterator.next().file()
            path = file.location()
            if path in missing:
                missing.discard(path)
                partition = file.partition().copy()
                where = (file.specId(), str(partition))
                found[where] = (partition, [*found[where][1], path])
    finally:
        tasks.close()
    if missing:
        raise LostRace(f"{table.name} was rewritten while its rows were looked up")
    return dict(found)
