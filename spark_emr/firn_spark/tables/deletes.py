"""Position deletes: which rows of which data files go. New files in no snapshot yet.

In Iceberg's format 2 they are Parquet files of (path, row), for as many data files as may be. Deletion vectors, of
format 3, are read here too, and written by tables/removals.py.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.errors import TerminalError
from firn_spark.parallel import each_of
from firn_spark.tables.deletion_vectors import DamagedVector, decoded
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.java import elements, java_class
from firn_spark.tables.locations import of_new_file
from firn_spark.tables.objects import Objects
from firn_spark.tables.parquet_metrics import FooterMetrics, footer_of
from firn_spark.tables.planned_files import PlannedFile

Places = Mapping[str, pa.Array]  # data file -> rows in it, from 0 (int64)
_PER_FILE = (
    1_000_000  # positions that one delete file takes before the next begins; those of one data file stay together
)
_AT_ONCE = 4  # delete files that the driver writes
_NAME_BYTES: Final = 300  # that the name of a data file takes in memory, about

# The reserved fields of position delete files: https://iceberg.apache.org/spec/#position-delete-files
FILE_PATH: Final = 2147483546
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


_PARQUET: Final = "PARQUET"
_PUFFIN: Final = "PUFFIN"


@dataclass(frozen=True, order=True)
class DeleteFile:
    """A file of position deletes, or one deletion vector in a Puffin file. Goes to other processes.

    path    of the file
    bytes   that are read of it
    names   the only data file whose rows it takes; None: it may be several
    offset  where in the file the vector is; None: it is a Parquet file
    rows    that are gone by a vector
    """

    path: str
    bytes: int
    names: str | None = None
    offset: int | None = None
    rows: int = 0


@dataclass(frozen=True)
class _Group:
    """The data files, sorted, whose positions one delete file takes: all of one partition (None: there are none)."""

    spec_id: int
    partition: Any
    files: tuple[str, ...]


def by_file(files: pa.ChunkedArray, rows: pa.ChunkedArray) -> Places:
    """Two columns of one table as `Places`; nulls are left out."""
    found: defaultdict[str, list[pa.Array]] = defaultdict(list)
    first = 0
    for names in files.chunks:
        # One text for each file, not for each row.
        coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
        numbers = rows.slice(first, len(names)).combine_chunks()
        first += len(names)
        order = pc.sort_indices(coded.indices)  # nulls come last
        numbers, place = numbers.take(order).cast(pa.int64()), 0
        for one in pc.value_counts(coded.indices.take(order)).to_pylist():
            if one["values"] is not None:
                found[coded.dictionary[one["values"]].as_py()].append(numbers.slice(place, one["counts"]))
            place += one["counts"]
    return {path: pa.concat_arrays(parts) for path, parts in found.items()}


def together(some: Iterable[Places]) -> Places:
    """Several as one, each row once."""
    found: defaultdict[str, list[pa.Array]] = defaultdict(list)
    for places in some:
        for path, rows in places.items():
            found[path].append(rows)
    return {path: parts[0] if len(parts) == 1 else pc.unique(pa.concat_arrays(parts)) for path, parts in found.items()}


def read(objects: Objects, file: DeleteFile) -> Places:
    """What a file of deletes says. Raises LostRace, StorageUnavailable, TerminalError if it is damaged."""
    held, at = objects.held, (file.path, file.offset or 0, "deletes")
    found: Places | None = None if held is None else held.get(*at)
    if found is None:
        found = _read(objects, file)
        if held is not None:
            held.put(*at, found, sum(_NAME_BYTES + int(one.nbytes) for one in found.values()))
    return found


def _read(objects: Objects, file: DeleteFile) -> Places:
    if file.offset is None:
        with objects.open(file.path) as parquet:
            found = parquet.read(columns=["file_path", "pos"])
        return by_file(found.column(0), found.column(1))
    try:
        rows = decoded(objects.part(file.path, file.offset, file.bytes), file.rows)
    except DamagedVector as why:
        raise TerminalError(
            f"{file.path} holds {why}, at byte {file.offset}; bring the file back from a backup, or make the table "
            "again out of the log: firn rebuild TABLE"
        ) from why
    return {str(file.names): rows}


def gone_in(objects: Objects, some: Iterable[DeleteFile], paths: Iterable[str]) -> dict[str, pa.Array]:
    """The rows of each of these data files that files of deletes name. Raises as `read`."""
    gone: dict[str, list[pa.Array]] = {path: [] for path in paths}
    mine = [one for one in some if one.names is None or one.names in gone]
    with ThreadPoolExecutor(objects.at_once) as pool:
        for parts in pool.map(lambda one: read(objects, one), mine):
            for path, places in parts.items():
                if path in gone:
                    gone[path].append(places)
    return {path: pa.concat_arrays([pa.array([], pa.int64()), *parts]) for path, parts in gone.items()}


def is_by_position(file: Any) -> bool:
    """Whether an org.apache.iceberg.DeleteFile is, and one that is read here."""
    return str(file.content().name()) == "POSITION_DELETES" and str(file.format().name()) in (_PARQUET, _PUFFIN)


def vectors_of(tasks: Iterable[Any]) -> list[Any]:
    """The deletion vectors (org.apache.iceberg.DeleteFile) of these tasks' data files. Whoever removes the data files
    has to name them: Iceberg 1.11.0 drops such vectors by itself, but leaves some where they are in several manifests,
    since its threads disturb each other (ManifestFilterManager.canContainDroppedFiles). Snapshots would count their
    rows as deleted for ever."""
    return vectors_among(file for task in tasks for file in elements(task.deletes()))


def vectors_among(files: Iterable[Any]) -> list[Any]:
    """Those of the files of deletes (org.apache.iceberg.DeleteFile) that are deletion vectors."""
    return [file for file in files if str(file.format().name()) == _PUFFIN]


class Descriptions:
    """What Iceberg says of a table's files, each by one call."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._parser = java_class(spark, "org.apache.iceberg.ContentFileParser")
        self._specs = table.java.specs()
        self._known: dict[int, Any] = {}

    def said(self, file: Any) -> Mapping[str, Any]:
        """An org.apache.iceberg.ContentFile as Iceberg's JSON of it."""
        number = int(file.specId())
        if number not in self._known:
            self._known[number] = self._specs.get(number)
        said: Mapping[str, Any] = json.loads(self._parser.toJson(file, self._known[number]))
        return said

    def of(self, file: Any) -> DeleteFile | None:
        """An org.apache.iceberg.DeleteFile; None for one that is not read here."""
        said = self.said(file)
        kind = str(said["file-format"]).upper()
        if str(said["content"]).upper().replace("-", "_") != "POSITION_DELETES" or kind not in (_PARQUET, _PUFFIN):
            return None
        names = said.get("referenced-data-file")
        if kind == _PUFFIN:
            place = int(said["content-size-in-bytes"]), names, int(said["content-offset"])
            return DeleteFile(said["file-path"], *place, int(said["record-count"]))
        return DeleteFile(said["file-path"], int(said["file-size-in-bytes"]), names)


def write_from_driver(spark: SparkSession, table: Table, places: Places) -> list[Any]:
    """Delete files (org.apache.iceberg.DeleteFile): for each partition one for every million of positions.

    Raises LostRace if one of the data files is no longer in the table.
    """
    groups = _groups(table, {file: len(rows) for file, rows in places.items()})
    writer = _Writer(spark, table)
    return each_of(lambda group: writer.write(group, places), groups, _AT_ONCE)


def write_one(spark: SparkSession, table: Table, spec_id: int, partition: Any, places: Places) -> Any:
    """One delete file for data files of one partition (None in an unpartitioned spec), whether they are still there."""
    return _Writer(spark, table).write(_Group(spec_id, partition, tuple(sorted(places))), places)


def _body(files: Sequence[str], parts: Iterable[tuple[pa.Array, pa.Array]]) -> pa.Buffer:
    """One delete file: (numbers of files, rows), sorted by both."""
    numbers, rows = zip(*parts, strict=True)
    names = pa.array(files, pa.string())
    paths = [pa.DictionaryArray.from_arrays(part, names) for part in numbers]
    table = pa.table([pa.chunked_array(paths), pa.chunked_array(rows)], names=_POSITIONS.names)
    # As dictionary codes: as text, a path a row, it would take a hundred times the memory.
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = _POSITIONS.set(0, _POSITIONS.field(0).with_type(kind))
    file = pa.BufferOutputStream()
    pq.write_table(table.cast(schema), file, compression="zstd", use_dictionary=["file_path"], store_schema=False)
    return file.getvalue()


class _Writer:
    """Writes delete files of one table. What they share is asked of the JVM once, as for new data files."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._java, self._state, self._specs = table.java, table.state, table.java.specs()
        self._objects = Objects(table.state.location)
        config = java_class(spark, "org.apache.iceberg.MetricsConfig").forPositionDelete(table.java)
        self._metrics = FooterMetrics(spark, config)
        self._files = java_class(spark, "org.apache.iceberg.FileMetadata")

    def write(self, group: _Group, places: Places) -> Any:
        """A file, as an org.apache.iceberg.DeleteFile."""
        parts = [
            (pa.repeat(pa.scalar(number, pa.int32()), len(rows)), rows.take(pc.sort_indices(rows)))
            for number, rows in enumerate(places[file] for file in group.files)
        ]
        body, spec = _body(group.files, parts), self._specs.get(group.spec_id)
        partition = group.partition if group.partition is not None and spec.isPartitioned() else None
        path = of_new_file(self._java, self._state, f"{uuid.uuid4().hex}-deletes.parquet", spec, partition)
        self._objects.write(path, body)
        metrics = self._metrics.of(footer_of(body))
        builder = self._files.deleteFileBuilder(spec).ofPositionDeletes().withPath(path).withFormat("parquet")
        builder = builder.withFileSizeInBytes(body.size).withMetrics(metrics)
        return (builder.withPartition(partition) if partition is not None else builder).build()


def _groups(table: Table, counts: Mapping[str, int]) -> list[_Group]:
    """The data files, with the number of their positions, as they share delete files."""
    groups = []
    for spec_id, partition, files in _by_partition(table, counts):
        mine: list[str] = []
        size = 0
        for file in sorted(files):
            if mine and size + counts[file] > _PER_FILE:
                groups.append(_Group(spec_id, partition, tuple(mine)))
                mine, size = [], 0
            mine.append(file)
            size += counts[file]
        groups.append(_Group(spec_id, partition, tuple(mine)))
    return groups


def _by_partition(table: Table, counts: Mapping[str, int]) -> list[tuple[int, Any, list[str]]]:
    """(spec id, partition, its data files). Partitions are compared by Iceberg: a null and the text "null" differ."""
    if not table.state.partitioned_by:
        return [(table.java.spec().specId(), None, list(counts))]
    found: defaultdict[tuple[int, Any], list[str]] = defaultdict(list)
    for one in files_of(table, counts):
        file = one.java
        found[file.specId(), file.partition().copy()].append(file.location())
    return [(spec_id, partition, files) for (spec_id, partition), files in found.items()]


def files_of(table: Table, paths: Iterable[str]) -> Iterator[PlannedFile]:
    """These data files, and the deletes by position that they have, in the snapshot that was looked at (`table.state`)
    or a newer one: as look-ups were told, or else as Iceberg plans the whole table.

    Raises LostRace if one of them is no longer in the table.
    """
    missing = []
    for path in paths:
        known = table.planned.of(table.state.snapshot_id, path)
        if known is None:
            missing.append(path)
        else:
            yield known
    if missing:
        yield from (PlannedFile(task.file(), task.deletes()) for task in tasks_of(table, missing))


def tasks_of(table: Table, files: Iterable[str]) -> Iterator[Any]:
    """The org.apache.iceberg.FileScanTask of each of these data files: the file and the deletes that it has.

    Raises LostRace if one of them is no longer in the table.
    """
    missing = set(files)
    scan = table.java.newScan()
    tasks = (scan if table.branch is None else scan.useRef(table.branch)).planFiles()
    try:
        iterator = tasks.iterator()
        while missing and iterator.hasNext():
            task = iterator.next()
            path = task.file().location()
            if path in missing:
                missing.discard(path)
                yield task
    finally:
        tasks.close()
    if missing:
        raise LostRace(f"{table.name} was rewritten while its rows were looked up")
