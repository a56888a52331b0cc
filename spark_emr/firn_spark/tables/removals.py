"""How rows leave a table: files of position deletes in Iceberg's format 2, deletion vectors in format 3.

A data file has one vector. What took rows of it before is merged in, and leaves in the same commit (docs/format-3.md).
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.config.file_writing import OLDEST_FORMAT
from firn.errors import TerminalError
from firn_spark.tables.deletes import FILE_PATH, DeleteFile, Descriptions, Places, files_of, read, write_from_driver
from firn_spark.tables.deletion_vectors import Blob, puffin
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.java import elements, java_class
from firn_spark.tables.objects import Objects
from firn_spark.tables.planned_files import PlannedFile


@dataclass(frozen=True)
class Removal:
    """What a commit adds so that rows leave, and what it takes away for that.

    added     files of deletes in no snapshot yet (org.apache.iceberg.DeleteFile)
    replaced  those of the table whose rows are among the added ones' (org.apache.iceberg.DeleteFile)
    vectors   data file -> the deletion vectors it has, for each that gets a new one; `taken`: those among `replaced`
    snapshot  the one that was looked at, in which they are
    """

    added: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    vectors: Mapping[str, Sequence[DeleteFile]] = field(default_factory=dict)
    taken: frozenset[DeleteFile] = frozenset()
    snapshot: int | None = None

    def check(self, since: int | None) -> None:
        """Raises TerminalError where a data file would have two vectors: Iceberg takes that for a valid commit, and
        then Spark can't plan the table any more, while others read some of the vectors without a word. `since`: the
        snapshot after which Iceberg looks for vectors that came meanwhile."""
        for path, there in self.vectors.items():
            if left := sorted(set(there) - self.taken):
                raise TerminalError(
                    f"{path} has a deletion vector already, in {left[0].path}, which this commit would leave beside a "
                    "new one; nothing was committed. This is a mistake in Firn: please report it"
                )
        if self.vectors and self.snapshot != since:
            raise TerminalError(
                f"deletion vectors were looked up in snapshot {self.snapshot}, and this commit would take no notice of "
                f"those that came up to {since}; nothing was committed. This is a mistake in Firn: please report it"
            )


NOTHING: Final = Removal()
_WORDS: Final = ("NaN", "Infinity", "-Infinity")  # that JSON has no numbers for


def removal_of(spark: SparkSession, table: Table, places: Places) -> Removal:
    """Files of deletes for these rows, written. Raises LostRace if one of the data files is no longer in the table,
    StorageUnavailable, UnknownOutcome, TerminalError for a damaged vector."""
    if table.state.version <= OLDEST_FORMAT:
        return Removal(write_from_driver(spark, table, places))
    before = _Before(spark, table, places)
    body, blobs = puffin(before.merged(places))
    name = str(table.java.locationProvider().newDataLocation(f"{uuid.uuid4().hex}-deletes.puffin"))
    Objects(table.state.location).write(name, pa.py_buffer(body))
    return Removal(
        _added(spark, table, name, len(body), before, blobs),
        list(before.java.values()),
        {path: [one for one in files if one.offset is not None] for path, files in before.files.items()},
        frozenset(before.java),
        table.state.snapshot_id,
    )


class _Before:
    """What data files have that lose rows: `files` of deletes by data file, as Iceberg has those (`java`), and what it
    says of the data files; `odd`: their partitions (org.apache.iceberg.StructLike) that JSON has no numbers for.

    Files of position deletes from before an upgrade name many data files. All of those get vectors then, so that the
    files can go: Iceberg counts each of their rows as deleted, and so a row must not be in a vector too.
    """

    def __init__(self, spark: SparkSession, table: Table, places: Places) -> None:
        self.files: dict[str, list[DeleteFile]] = {}
        self.java: dict[DeleteFile, Any] = {}
        self.said: dict[str, Mapping[str, Any]] = {}
        self.odd: dict[str, Any] = {}
        self._table = table
        self._descriptions = Descriptions(spark, table)
        self._objects = Objects(table.state.location)
        self._rows: dict[DeleteFile, Places] = {}
        asked = set(places)
        self._take(files_of(table, asked))
        while more := {path for rows in self._rows.values() for path in rows} - asked:
            asked |= more
            self._take(_there(table, more), beside=True)

    def _take(self, files: Iterable[PlannedFile], *, beside: bool = False) -> None:
        new: dict[DeleteFile, Any] = {}
        for one in files:
            said = self._descriptions.said(one.java)
            known = [(self._descriptions.of(file), file) for file in elements(one.deletes)]
            if any(file is None for file, _ in known):  # of another kind when the rows were looked up
                raise LostRace(f"{self._table.name} got deletes that are not by position while rows were looked up")
            mine = {file: java for file, java in known if file is not None}
            if beside and any(file.offset is not None for file in mine):
                continue  # its vector holds what other files say of it
            self.said[said["file-path"]] = said
            if _numbers(said) != said.get("partition", {}):
                self.odd[said["file-path"]] = one.java.partition().copy()
            self.files[said["file-path"]] = list(mine)
            new |= {file: java for file, java in mine.items() if file not in self.java}
        self.java |= new
        with ThreadPoolExecutor(self._objects.at_once) as pool:
            self._rows |= zip(new, pool.map(lambda one: read(self._objects, one), new), strict=True)

    def merged(self, places: Places) -> dict[str, pa.Array]:
        """All rows that are gone of each data file, with these."""
        none = pa.array([], pa.int64())
        return {
            path: pa.concat_arrays([places.get(path, none), *(self._rows[one].get(path, none) for one in files)])
            for path, files in sorted(self.files.items())
        }


def _numbers(said: Mapping[str, Any]) -> Any:
    """The partition of a data file with null for words: Iceberg writes NaN and infinity so, and doesn't read them."""
    values = said.get("partition", {})
    if isinstance(values, dict):
        return {name: None if value in _WORDS else value for name, value in values.items()}
    return [None if value in _WORDS else value for value in values]


def _there(table: Table, paths: Iterable[str]) -> Iterator[PlannedFile]:
    """Those of the data files that the table has."""
    with suppress(LostRace):
        yield from files_of(table, paths)


def _added(
    spark: SparkSession, table: Table, name: str, size: int, before: _Before, blobs: Mapping[str, Blob]
) -> list[Any]:
    """The vectors of a Puffin file as Iceberg has them."""
    parser, specs = java_class(spark, "org.apache.iceberg.ContentFileParser"), table.java.specs()
    mapper = java_class(spark, "org.apache.iceberg.util.JsonUtil").mapper()
    files = java_class(spark, "org.apache.iceberg.FileMetadata")

    def added(path: str, blob: Blob) -> Any:
        # Readers that don't know of `referenced-data-file` tell by bounds which data file it is about.
        bound = {"keys": [FILE_PATH], "values": [path.encode().hex().upper()]}
        told = {
            "content": "position-deletes",
            "file-path": name,
            "file-format": "puffin",
            "spec-id": before.said[path]["spec-id"],
            "partition": _numbers(before.said[path]),
            "file-size-in-bytes": size,
            "record-count": blob.rows,
            "lower-bounds": bound,
            "upper-bounds": bound,
            "referenced-data-file": path,
            "content-offset": blob.offset,
            "content-size-in-bytes": blob.length,
        }
        file = parser.fromJson(mapper.readTree(json.dumps(told)), specs)
        if path not in before.odd:
            return file
        return files.deleteFileBuilder(specs.get(file.specId())).copy(file).withPartition(before.odd[path]).build()

    return [added(path, blob) for path, blob in blobs.items()]
