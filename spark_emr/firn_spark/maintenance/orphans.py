"""Files below a table's location that no snapshot knows: what failed jobs and lost answers have left.

Deleting is for good, so everything here would rather leave a file than take one: only files older than any job may
become, only below the table's own folder, only where the listing shows the table's own files under the names that its
metadata has, and not without a second look at the table right before.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.config.maintenance import LEAST_ORPHAN_SECONDS
from firn.errors import TerminalError
from firn.log.store import Store, Stored, objects
from firn.maintenance import orphans as rules
from firn.tables.locations import below, spelled
from firn_spark.maintenance.listing import paths_of_all
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.java import java_class

_SAMPLE: Final = 20
_AT_ONCE: Final = 8


class CannotTell(TerminalError):
    """What is used and what is not can't be told apart with certainty: nothing is deleted."""


@dataclass(frozen=True)
class Orphans:
    """What was found, and deleted unless it was a dry run. `sample`: some of the paths, from the table's location on;
    `failed`: how many could not be deleted; `listed`: how many files there were."""

    table: str
    files: int = 0
    bytes: int = 0
    failed: int = 0
    listed: int = 0
    sample: tuple[str, ...] = ()

    def line(self) -> dict[str, Any]:
        """The numbers for a log line."""
        said = {"orphans": self.files, "orphan_bytes": self.bytes, "failed": self.failed, "listed": self.listed}
        return said | ({"sample": list(self.sample)} if self.sample else {})


def remove(
    spark: SparkSession,
    table: Table,
    store: Store,
    orphan_seconds: int,
    now: datetime,
    *,
    others: Iterable[str],
    dry_run: bool = False,
) -> Orphans:
    """Deletes the files below the table's location that nothing of it uses and that are older than `orphan_seconds`
    (a day at least).

    store   opened at the table's location: firn.log.store.open_store
    others  where other tables have files: `places_of_others`
    Raises CannotTell, StorageUnavailable, and what the catalog raises.
    """
    tables = Tables(spark)
    location = spelled(table.state.location)
    inside = _inside(table, location, others)
    listed = objects(store, "")
    used = _used(spark, table, location)
    _check(table, location, used, {one.path for one in listed})
    if (shared := rules.shared(listed, table.state.properties)) is not None:
        raise CannotTell(f"{table.name}: {shared}")
    before = now - timedelta(seconds=max(orphan_seconds, LEAST_ORPHAN_SECONDS))
    found = list(rules.orphans(listed, used, before, inside))
    if not found:
        return Orphans(str(table.name), listed=len(listed))
    _look_again(spark, tables, table, location, found)
    failed = 0 if dry_run else _delete(store, found)
    sample = tuple(one.path for one in found[:_SAMPLE])
    return Orphans(str(table.name), len(found), sum(one.size for one in found), failed, len(listed), sample)


def places_of_others(spark: SparkSession, table: Table, is_ours: Callable[[str], bool]) -> list[str]:
    """Where other tables have their files, in the table's namespace and in those that `is_ours` is true of
    (Config.feeds_namespace): what lies in further ones is not Firn's, and a job may not look at it."""
    found = Tables(spark).places(table.name.namespace, is_ours)
    return [place for name, places in found if name != table.name.identifier for place in places]


def _inside(table: Table, location: str, others: Iterable[str]) -> set[str]:
    """The folders of other tables that lie in this one's. Raises CannotTell if this one lies in another's data."""
    inside = set()
    for other in map(spelled, others):
        if other == location:
            raise CannotTell(f"another table of the catalog has its files at {table.state.location} too")
        if (path := below(location, other)) is not None:
            inside.add(path)
    return inside


@dataclass(frozen=True)
class _Used:
    """What the table names below its location, from there on: files of rows and of deletes, and all others. `content`:
    how many of the former there are wherever they lie."""

    rows: frozenset[str]
    others: frozenset[str]
    content: int

    def __contains__(self, path: object) -> bool:
        return path in self.rows or path in self.others


def _used(spark: SparkSession, table: Table, location: str) -> _Used:
    """All files that any snapshot or the metadata names."""
    util = java_class(spark, "org.apache.iceberg.ReachableFileUtil")
    named: set[str] = {str(util.versionHintLocation(table.java)), *map(str, util.statisticsFilesLocations(table.java))}
    named |= {str(table.java.operations().current().metadataFileLocation())}
    for part, column in (("all_manifests", "path"), ("snapshots", "manifest_list"), ("metadata_log_entries", "file")):
        named.update(_column(spark, f"{table.files_sql}.{part}", column))
    unread = table.unreadable is not None  # Spark opens no table of its files either
    content = set(paths_of_all(spark, table) if unread else _column(spark, f"{table.files_sql}.all_files", "file_path"))
    return _Used(_below(location, content), _below(location, named), len(content))


def _below(location: str, paths: Iterable[str]) -> frozenset[str]:
    found = (below(location, spelled(one)) for one in paths)
    return frozenset(path for path in found if path is not None)


def _column(spark: SparkSession, name: str, column: str) -> Iterator[str]:
    # Without distinct(), which would shuffle: a file stands in few manifests.
    for path in spark.table(name).select(column).where(f"{column} IS NOT NULL").toArrow()[column]:
        yield str(path.as_py())


def _check(table: Table, location: str, used: _Used, listed: Collection[str]) -> None:
    """Raises CannotTell where the listing and the metadata do not speak of the same files."""
    metadata = str(table.java.operations().current().metadataFileLocation())
    newest = below(location, spelled(metadata))
    if newest is None or newest not in used:
        raise CannotTell(f"the metadata of {table.name} names no file below {table.state.location}: {metadata}")
    if newest not in listed:
        raise CannotTell(
            f"the listing of {table.state.location} does not show the table's own metadata file {newest}: they name "
            "files in different ways, or the store is another one"
        )
    files = int(table.state.ancestry[0].get("total-data-files", 0)) if table.state.ancestry else 0
    if used.content < files:
        raise CannotTell(f"{table.name} has {files} data files, and its metadata tables name {used.content}")
    if used.rows and used.rows.isdisjoint(listed):
        raise CannotTell(f"none of the {len(used.rows)} files of {table.name} is listed in {table.state.location}")


def _look_again(spark: SparkSession, tables: Tables, table: Table, location: str, found: Iterable[Stored]) -> None:
    """Raises CannotTell if the table, as it is now, uses one of the files: then it changes in unknown ways."""
    known = str(table.java.operations().current().metadataFileLocation())
    tables.look_again(table)
    if str(table.java.operations().current().metadataFileLocation()) == known:
        return
    again = _used(spark, table, location)
    taken = [one.path for one in found if one.path in again]
    if taken or not again.others:
        raise CannotTell(
            f"{table.name} was changed meanwhile and uses {len(taken)} files that were older than that and in no "
            f"snapshot ({', '.join(taken[:3])}): raise care.expire.orphans_after above the longest job's time"
        )


def _delete(store: Store, found: Iterable[Stored]) -> int:
    """-> how many could not be deleted. What is gone already is fine."""

    def delete(one: Stored) -> bool:
        try:
            store.delete(one.path)
        except FileNotFoundError:
            return True
        except Exception:  # noqa: BLE001 (the next look finds it again; the others go)
            return False
        return True

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(not done for done in pool.map(delete, found))
