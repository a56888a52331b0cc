"""Files of position deletes that nothing needs any more: they name only data files that are gone.

Those that name others too are rewritten without the places that are gone, all of a partition as one. Both are one
commit that deletes no row and validates against no writer: a data file that is gone never comes back.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.config.file_writing import OLDEST_FORMAT
from firn.maintenance.compaction_planner import DeleteFile
from firn_spark.maintenance.delete_targets import paths_in
from firn_spark.maintenance.listing import Listing
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace
from firn_spark.tables.java import java_class
from firn_spark.tables.objects import Objects

_MOST_BYTES: Final = 256 * 1024 * 1024  # of files of deletes that one sweep reads
_MOST_ROWS: Final = 2_000_000  # places that are rewritten for one partition
_MOST_FILES: Final = 1_000  # of deletes that one sweep removes: they are looked for one by one

Place = tuple[int, str]  # spec and partition, as in compaction_planner.DataFile


@dataclass(frozen=True)
class Swept:
    """Files of deletes that are gone, and new ones for them."""

    files: int = 0
    into: int = 0


@dataclass(frozen=True)
class _Partial:
    """Files of deletes of one partition that are to become one, and the data files that they name in vain."""

    files: tuple[DeleteFile, ...]
    gone: frozenset[str]


def sweep(spark: SparkSession, table: Table, stream: str, gone: Collection[str], found: Listing) -> Swept:
    """Removes what is no more needed of `found.deletes`: those that are dangling by their metadata, and those that name
    only data files which are `gone` since, or were before.

    Raises fence.CommitUnknown, StorageUnavailable. Where another writer was quicker nothing is done: the next time
    finds the same.
    """
    idle = [one.path for one in found.dangling][:_MOST_FILES]
    try:
        partial = list(_read(table, frozenset(gone), found, idle))
        if not idle and not partial:
            return Swept()
        return _commit(spark, Tables(spark).look_again(table), stream, idle, partial)
    except LostRace:
        return Swept()


def _read(table: Table, gone: frozenset[str], found: Listing, idle: list[str]) -> Iterator[_Partial]:
    """What is to be rewritten; what is not needed at all is added to `idle`."""
    # A file that another writer has removed meanwhile counts as one that is there: its deletes only stay longer.
    live = frozenset(file.path for file in found.files) - gone
    if table.state.version > OLDEST_FORMAT:  # takes no new ones, and vectors go with their data files
        return
    touched = {(file.spec, file.partition) for file in found.files if file.path in gone}
    known = set(idle)
    wanted = [one for one in found.deletes if (one.spec, one.partition) in touched and one.path not in known]
    budget = _MOST_BYTES
    mine: list[DeleteFile] = []
    for one in sorted(wanted, key=lambda one: one.bytes):
        budget -= one.bytes
        if budget >= 0 and len(mine) + len(idle) < _MOST_FILES:
            mine.append(one)
    objects = Objects(table.state.location)
    with ThreadPoolExecutor(objects.at_once) as pool:
        named = dict(zip(mine, pool.map(lambda one: paths_in(objects, one.path), mine), strict=True))
    parts: defaultdict[Place, list[DeleteFile]] = defaultdict(list)
    for one in mine:
        if live.isdisjoint(named[one]):
            idle.append(one.path)
        elif not live.issuperset(named[one]):
            parts[one.spec, one.partition].append(one)
    for files in parts.values():
        if sum(one.rows for one in files) <= _MOST_ROWS:
            yield _Partial(tuple(files), frozenset(path for one in files for path in named[one] if path not in live))


def _commit(
    spark: SparkSession, table: Table, stream: str, idle: Collection[str], partial: Sequence[_Partial]
) -> Swept:
    wanted = {*idle, *(one.path for part in partial for one in part.files)}
    java = _java(spark, table, wanted)
    # Iceberg itself drops those that are older than every data file, and a merge of small files may have taken some.
    there = [part for part in partial if all(one.path in java for one in part.files)]
    new = [_joined(spark, table, part, java) for part in there]
    taken = {*idle, *(one.path for part in there for one in part.files)}
    update = table.java.newRewrite()
    for path in taken & java.keys():
        update.deleteFile(java[path])
    for file, sequence in new:
        update.addFile(file, sequence)
    if taken & java.keys():
        fence.commit(spark, table, update, [file for file, _ in new], {"firn.format": "1"}, stream)
    return Swept(len(taken), len(new))


def _joined(spark: SparkSession, table: Table, part: _Partial, java: Mapping[str, Any]) -> tuple[Any, int]:
    """One file of deletes for all of these, and its data sequence number: the newest of theirs, so that it can't be
    taken for one that names younger data files."""
    objects = Objects(table.state.location)
    known = deletes.together(deletes.read(objects, deletes.DeleteFile(one.path, one.bytes)) for one in part.files)
    places = {path: rows for path, rows in known.items() if path not in part.gone}
    first = java[part.files[0].path]
    partition = first.partition() if first.partition().size() else None
    made = deletes.write_one(spark, table, first.specId(), partition, places)
    return made, max(one.sequence for one in part.files)


def _java(spark: SparkSession, table: Table, paths: Collection[str]) -> dict[str, Any]:
    """Those of these files of deletes that are still there, as Iceberg's objects."""
    snapshot, io, specs = table.head(), table.java.io(), table.java.specs()
    read = java_class(spark, "org.apache.iceberg.ManifestFiles").readDeleteManifest
    found: dict[str, Any] = {}
    for manifest in snapshot.deleteManifests(io):
        reader = read(manifest, io, specs)
        try:
            iterator = reader.iterator()
            while iterator.hasNext() and len(found) < len(paths):
                file = iterator.next()
                path = file.location()
                if path in paths:
                    found[path] = file.copyWithoutStats()
        finally:
            reader.close()
    return found
