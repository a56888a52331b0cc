"""The live files of a table as its manifests tell them: no data is read.

Few files are asked of Iceberg one by one, which starts no Spark job; many are read by Spark from the metadata table
`entries`.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote_plus

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from firn.config.file_writing import NEWEST_FORMAT, OLDEST_FORMAT
from firn.maintenance.compaction_planner import DataFile, DeleteFile, spread
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import elements, java_class

Cold = Callable[[Collection[str]], Collection[str]]  # of these paths of data files, those in a cold storage class

ONE_BY_ONE: Final = 1_000  # files: some 0.5 ms for each, where a Spark job takes as long as for hundreds of thousands
_PATH: Final = 2147483546  # id of `file_path` in files of position deletes (Iceberg's reserved field ids)
_DATA, _POSITION_DELETES = 0, 1  # DataFile.content in Iceberg's manifests
_KINDS: Final = ("DATA", "POSITION_DELETES", "EQUALITY_DELETES")
_SELECTED: Final = ("file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "sort_order_id")


@dataclass(frozen=True)
class Listing:
    """The files of one snapshot (None: the table has none). `dangling`: those of `deletes` that can name no live data
    file; `unfit`: why files of this table are not to be rewritten, None if they may be."""

    snapshot: int | None
    files: tuple[DataFile, ...] = ()
    deletes: tuple[DeleteFile, ...] = ()
    dangling: tuple[DeleteFile, ...] = ()
    unfit: str | None = None


@dataclass(frozen=True)
class _Entry:
    """What both ways of reading tell of a file. `bounds`: of the data files that a delete file names."""

    content: int
    path: str
    kind: str
    spec: int
    partition: str
    rows: int
    bytes: int
    sequence: int
    bounds: tuple[str, str | None] = ("", None)

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector."""
        return self.content == _POSITION_DELETES and self.kind == "PUFFIN"


def listing(spark: SparkSession, table: Table, cold: Cold | None = None) -> Listing:
    """The live files of the table's newest snapshot, with the deleted rows of each, and whether it is `cold`."""
    snapshot = table.head()
    if snapshot is None:
        return Listing(None)
    summary = table.state.ancestry[0] if table.state.ancestry else {}
    counts = [summary.get(name) for name in ("total-data-files", "total-delete-files")]
    few = all(count is not None for count in counts) and sum(int(count or 0) for count in counts) <= ONE_BY_ONE
    told = few or table.unreadable  # Spark opens no table of metadata either of one that it does not open
    entries = list(one_by_one(spark, table, snapshot) if told else by_spark(spark, table))
    frozen = cold([one.path for one in entries if one.content == _DATA]) if cold else ()
    files = [
        DataFile(one.path, one.bytes, one.rows, one.spec, one.partition, one.sequence, 0, one.path in frozen)
        for one in entries
        if one.content == _DATA
    ]
    deletes = [
        DeleteFile(one.path, one.bytes, one.rows, one.spec, one.partition, one.sequence, *one.bounds)
        for one in entries
        if one.content != _DATA
    ]
    found, dangling = spread(files, deletes)
    unfit = _unfit(table, entries)
    # Deletes that are not by position say nothing of where rows go.
    files = files if unfit else found
    # Vectors go with their data files (deletes.vectors_of); several share a path.
    vectors = {one.path for one in entries if one.is_vector}
    dangling = [] if unfit else [one for one in dangling if one.path not in vectors]
    return Listing(int(snapshot.snapshotId()), tuple(files), tuple(deletes), tuple(dangling), unfit)


def _unfit(table: Table, entries: Iterable[_Entry]) -> str | None:
    version = int(table.java.operations().current().formatVersion())
    if not OLDEST_FORMAT <= version <= NEWEST_FORMAT:
        return f"format version {version}"
    if any(one.content not in (_DATA, _POSITION_DELETES) for one in entries):
        return "deletes that are not by position"
    if any(one.kind != "PARQUET" and not one.is_vector for one in entries):
        return "files that are not Parquet"
    named = Counter(one.bounds[0] for one in entries if one.is_vector)
    if twice := sorted(path for path, count in named.items() if count > 1):
        return f"two deletion vectors of one data file, {twice[0]}, as only a commit of another writer leaves them"
    return None


def one_by_one(spark: SparkSession, table: Table, snapshot: Any) -> Iterator[_Entry]:
    """The files of a snapshot, from its manifests."""
    io, specs = table.java.io(), table.java.specs()
    manifests = java_class(spark, "org.apache.iceberg.ManifestFiles")
    parser = java_class(spark, "org.apache.iceberg.ContentFileParser")
    selected = java_class(spark, "java.util.ArrayList")()
    for name in _SELECTED:
        selected.add(name)
    for manifest in snapshot.allManifests(io):
        spec = specs.get(manifest.partitionSpecId())
        if str(manifest.content().name()) == "DATA":
            reader = manifests.read(manifest, io, specs).select(selected)
        else:
            reader = manifests.readDeleteManifest(manifest, io, specs)
        try:
            iterator = reader.iterator()
            while iterator.hasNext():
                file = iterator.next()
                yield _told(json.loads(parser.toJson(file, spec)), int(file.dataSequenceNumber() or 0))
        finally:
            reader.close()


def paths_of_all(spark: SparkSession, table: Table) -> Iterator[str]:
    """The paths of the files of all snapshots, from their manifests; of some more than once."""
    io, specs = table.java.io(), table.java.specs()
    manifests = java_class(spark, "org.apache.iceberg.ManifestFiles")
    known: set[str] = set()
    for snapshot in table.java.snapshots():
        for manifest in snapshot.allManifests(io):
            if str(manifest.path()) in known:
                continue
            known.add(str(manifest.path()))
            is_data = str(manifest.content().name()) == "DATA"
            reader = (manifests.read if is_data else manifests.readDeleteManifest)(manifest, io, specs)
            try:
                for file in elements(reader):
                    yield str(file.location())
            finally:
                reader.close()


def _told(said: Mapping[str, Any], sequence: int) -> _Entry:
    """A file as Iceberg's ContentFileParser writes it."""
    content = str(said["content"]).upper().replace("-", "_")
    one = _Entry(
        _KINDS.index("DATA" if content == "DATA" else content),
        said["file-path"],
        str(said["file-format"]).upper(),
        int(said["spec-id"]),
        json.dumps(said["partition"], sort_keys=True) if said.get("partition") else "",
        int(said["record-count"]),
        int(said.get("content-size-in-bytes") or said["file-size-in-bytes"]),
        sequence,
    )
    if one.content == _DATA:
        return one
    named = said.get("referenced-data-file")
    if named:
        return replace(one, bounds=(named, named))
    ends = [_bound(said.get(name)) for name in ("lower-bounds", "upper-bounds")]
    return replace(one, bounds=(ends[0] or "", ends[1]))


def _bound(said: Any) -> str | None:
    """The path among a delete file's bounds."""
    if not isinstance(said, Mapping):
        return None
    found = dict(zip(said.get("keys", ()), said.get("values", ()), strict=False)).get(_PATH)
    return None if found is None else bytes.fromhex(found).decode(errors="replace")


def by_spark(spark: SparkSession, table: Table) -> Iterator[_Entry]:
    """The files of the newest snapshot, by one Spark job over its manifests."""
    entries = spark.table(f"{table.files_sql}.entries").where("status < 2")
    known = set(entries.schema["data_file"].dataType.fieldNames())
    partition = f.to_json("data_file.partition") if "partition" in known else f.lit("")
    named = f.col("data_file.referenced_data_file") if "referenced_data_file" in known else f.lit(None).cast("string")
    content, whole = f.col("data_file.content"), f.col("data_file.file_size_in_bytes")
    size = f.coalesce("data_file.content_size_in_bytes", whole) if "content_size_in_bytes" in known else whole

    def end(bounds: str) -> Column:
        told = f.element_at(f"data_file.{bounds}", f.lit(_PATH)).cast("string")
        return f.when(content != _DATA, f.coalesce(named, told))

    rows = entries.select(
        content.alias("content"),
        f.col("data_file.file_path").alias("path"),
        f.upper("data_file.file_format").alias("kind"),
        f.col("data_file.spec_id").alias("spec"),
        f.nullif(partition, f.lit("{}")).alias("partition"),
        f.col("data_file.record_count").alias("rows"),
        size.alias("bytes"),
        f.coalesce("sequence_number", f.lit(0)).alias("sequence"),
        end("lower_bounds").alias("low"),
        end("upper_bounds").alias("high"),
    )
    for row in rows.toArrow().to_pylist():
        bounds = row.pop("low") or "", row.pop("high")
        yield _Entry(**row | {"partition": row["partition"] or ""}, bounds=bounds)


def names_of(table: Table, files: Iterable[DataFile]) -> dict[tuple[int, str], str]:
    """Partitions as people know them, by spec and text: as they stand in the paths of their files, such as
    `day=2026-01-31`. A partition whose path does not tell it is missing."""
    found: dict[tuple[int, str], str] = {}
    for file in files:
        place = file.spec, file.partition
        if file.partition and place not in found:
            folders = file.path.removeprefix(table.state.location).split("/")[:-1]
            told = "/".join(unquote_plus(folder) for folder in folders if "=" in folder)
            if told:
                found[place] = told
    return found


def checked(found: Listing, table: Table) -> Listing:
    """The listing, of a table whose files may be rewritten. Raises Unfit with the reason if they may not."""
    if table.branch is not None:
        raise Unfit("a branch that is being rebuilt")
    if found.unfit:
        raise Unfit(found.unfit)
    return found
