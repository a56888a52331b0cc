"""Many small files of a table into few, without Spark: what keeps frequent commits cheap between epochs.

Files of about one size become one, eight times as large, and those become one in their turn: a row is rewritten once
for each power of eight. Larger ones are left alone. A merge is a snapshot that changes no row and names no progress,
and lands only if no other commit has deleted from the files that it replaces: it yields to whoever writes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.config.file_writing import NEWEST_FORMAT, OLDEST_FORMAT
from firn_spark.files import readable_files
from firn_spark.files.copy_on_write import kept_rows
from firn_spark.files.row_lineage import lineage_of, with_lineage
from firn_spark.files.write import layout_of, ordered, write_arrays
from firn_spark.not_eligible import Unfit
from firn_spark.tables import deletes, fence
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class
from firn_spark.tables.objects import Objects

_AT_LEAST = 8  # files of one size that are worth making one of
SMALL_BYTES = 16 * 1024 * 1024  # of a file: from here on it is none of the small ones
_MOST_BYTES = 32 * 1024 * 1024  # of the data files that one merge takes
_MOST_ENTRIES = 1_000  # files of a manifest that is read: the small files are in the small manifests
_MOST_MANIFESTS = 200
_MOST_DELETES = 1_000  # files of deletes that a table may have: of more, to find those of a file takes too long
_MOST_DELETE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Merged:
    """How many data files and files of deletes became how many, and the bytes of those that are no more needed."""

    files: int
    into: int
    delete_files: int
    delete_into: int
    bytes: int

    def line(self) -> dict[str, int]:
        """The numbers for a log line."""
        return asdict(self)


@dataclass(frozen=True)
class _File:
    """`java`: org.apache.iceberg.DataFile or DeleteFile; `partition`: None in an unpartitioned spec; `deletes`: how a
    file of deletes is read."""

    java: Any
    path: str
    size: int
    rows: int
    spec_id: int
    partition: Any
    deletes: DeleteFile | None = None


def merge(spark: SparkSession, table: Table, stream: str) -> Merged | None:
    """Makes few files of a table's many small ones, in one snapshot. None if there are not enough of a size.

    Raises Unfit (not for this process, or not without Spark), fence.LostRace (another commit came between: nothing was
    done), fence.CommitUnknown, StorageUnavailable, UnknownOutcome.
    """
    snapshot = table.head()
    if snapshot is None or table.branch is not None or not OLDEST_FORMAT <= table.state.version <= NEWEST_FORMAT:
        return None
    io, specs = table.java.io(), table.java.specs()
    gone = _delete_files(spark, table, snapshot, io, specs)
    groups = list(_worth(_data_files(spark, table, snapshot, io, specs), _MOST_BYTES))
    # One vector a data file: there is nothing to join, and with its data file it goes.
    delete_groups = list(_worth(gone, _MOST_BYTES)) if table.state.version == OLDEST_FORMAT else []
    if not groups and not delete_groups:
        return None
    objects = Objects(table.state.location)
    taken = {file.path for group in groups for file in group}
    named = {one: deletes.read(objects, one) for one in _about(gone, groups, delete_groups)}
    removed = deletes.together(named.values())
    added = [new for group in groups for new in _rewritten(spark, table, objects, group, removed)]
    fewer = [new for group in delete_groups if (new := _joined(spark, table, group, named, taken)) is not None]
    old = [file for group in (*groups, *delete_groups) for file in group]
    update = table.java.newRewrite().validateFromSnapshot(snapshot.snapshotId())
    vectors = [one for one in gone if one.deletes and one.deletes.offset is not None and one.deletes.names in taken]
    for file in (*old, *vectors):  # deletes.vectors_of
        update.deleteFile(file.java)
    for new in (*added, *fewer):
        update.addFile(new)
    fence.commit(spark, table, update, [*added, *fewer], {"firn.format": "1"}, stream)
    count = sum(map(len, groups))
    return Merged(count, len(added), len(old) - count, len(fewer), sum(file.size for file in old))


def _data_files(spark: SparkSession, table: Table, snapshot: Any, io: Any, specs: Any) -> list[_File]:
    """The data files of the current spec in the manifests that are small."""
    manifests = [one for one in snapshot.dataManifests(io) if _entries(one) <= _MOST_ENTRIES]
    current = table.java.spec().specId()
    read = java_class(spark, "org.apache.iceberg.ManifestFiles").read
    mine = (one for one in manifests[:_MOST_MANIFESTS] if one.partitionSpecId() == current)
    return [file for one in mine for file in _listed(read(one, io, specs)) if readable_files.is_parquet(file.java)]


def _delete_files(spark: SparkSession, table: Table, snapshot: Any, io: Any, specs: Any) -> list[_File]:
    """All files of deletes. Raises Unfit if they are too many, or not all by position."""
    manifests = list(snapshot.deleteManifests(io))
    if sum(map(_entries, manifests)) > _MOST_DELETES or len(manifests) > _MOST_MANIFESTS:
        raise Unfit(f"more than {_MOST_DELETES} files of deletes")
    read = java_class(spark, "org.apache.iceberg.ManifestFiles").readDeleteManifest
    descriptions = deletes.Descriptions(spark, table)
    listed = (file for one in manifests for file in _listed(read(one, io, specs)))
    found = [replace(file, deletes=descriptions.of(file.java)) for file in listed]
    if any(file.deletes is None for file in found):
        raise Unfit("deletes that are not by position")
    return found


def _entries(manifest: Any) -> int:
    return int(manifest.addedFilesCount() or 0) + int(manifest.existingFilesCount() or 0)


def _listed(reader: Any) -> Iterator[_File]:
    try:
        iterator = reader.iterator()
        while iterator.hasNext():
            file = iterator.next().copyWithoutStats()
            partition = file.partition() if file.partition().size() else None
            yield _File(
                file, file.location(), int(file.fileSizeInBytes()), int(file.recordCount()), file.specId(), partition
            )
    finally:
        reader.close()


def _worth(files: Iterable[_File], most: int) -> Iterator[list[_File]]:
    """Those that become one: at least eight of one partition and about one size, of at most `most` bytes in all."""
    sizes: defaultdict[tuple[int, Any, int], list[_File]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_BYTES:
            # Each class is eight times as large as the one before. Partitions are compared by Iceberg.
            sizes[file.spec_id, file.partition, file.size.bit_length() // 3].append(file)
    for alike in sizes.values():
        group: list[_File] = []
        left = most
        for file in sorted(alike, key=lambda one: one.size):
            if file.size <= left:
                group.append(file)
                left -= file.size
        if len(group) >= _AT_LEAST:  # what is not merged takes nothing from what is
            most = left
            yield group


def _about(
    gone: Sequence[_File], groups: Sequence[Sequence[_File]], delete_groups: Sequence[Sequence[_File]]
) -> list[DeleteFile]:
    """The files of deletes that are to be read: those to be joined, and those that may name rows of the data files."""
    joined = {file.path for group in delete_groups for file in group}
    places = {(group[0].spec_id, group[0].partition) for group in groups}
    taken = {file.path for group in groups for file in group}
    about = [file.deletes for file in gone if file.path in joined or (file.spec_id, file.partition) in places]
    found = [one for one in about if one is not None and (one.offset is None or one.names in taken)]
    if sum(one.bytes for one in found) > _MOST_DELETE_BYTES:
        raise Unfit(f"more than {_MOST_DELETE_BYTES} bytes of deletes")
    return found


def _rewritten(
    spark: SparkSession, table: Table, objects: Objects, group: Sequence[_File], removed: deletes.Places
) -> list[Any]:
    """The rows of the files that are not removed, in new files, in the order of the key."""
    layout = with_lineage(layout_of(table), table)
    try:
        parts = [
            part
            for file in group
            for part in kept_rows(
                objects, file.path, removed.get(file.path), layout.fields, lineage=lineage_of(file.java)
            )
        ]
        rows = ordered(layout, pa.concat_tables(parts))
    except pa.ArrowException as error:
        raise Unfit(f"files that can't be read as their table: {str(error).splitlines()[0]}") from error
    return write_arrays(spark, table, pa.table(rows.columns, schema=pa.schema(layout.fields)), group[0].partition)


def _joined(
    spark: SparkSession,
    table: Table,
    group: Sequence[_File],
    named: Mapping[DeleteFile, deletes.Places],
    taken: Collection[str],
) -> Any:
    """One file of deletes for all of the group's, without the rows of data files that are `taken`; None if it would be
    empty."""
    known = deletes.together(named[file.deletes] for file in group if file.deletes is not None)
    places = {path: rows for path, rows in known.items() if path not in taken}
    if not places:
        return None
    return deletes.write_one(spark, table, group[0].spec_id, group[0].partition, places)
