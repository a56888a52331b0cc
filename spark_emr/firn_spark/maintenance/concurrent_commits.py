"""What other writers committed while files were rewritten: whether it deletes any row of those.

Iceberg refuses a rewrite when any file of deletes came into its partition meanwhile, whatever data files it names.
Where commits come every few seconds no rewrite of minutes would ever land. So the files of deletes that came are read
here, and Iceberg is left to look at what comes after them.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

from firn_spark.maintenance.delete_targets import paths_in
from firn_spark.tables.deletes import Descriptions
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.java import elements
from firn_spark.tables.objects import Objects

_MOST_SNAPSHOTS: Final = 500
_MOST_BYTES: Final = 64 * 1024 * 1024  # of files of deletes that are read for this
_MOVES: Final = ("append", "replace")  # operations that delete no row


def caught_up(spark: SparkSession, table: Table, read_at: int | None, paths: Collection[str]) -> int:
    """The newest snapshot up to which no commit since the snapshot `read_at` deletes rows of the data files `paths`.

    Raises LostRace if one does, or if `read_at` is no longer in main's history. Whether the data files are still there
    is for Iceberg to say, at the commit.
    """
    head = table.head()
    objects, descriptions = Objects(table.state.location), Descriptions(spark, table)
    budget = _MOST_BYTES
    for snapshot in _since(table, head, read_at):
        if str(snapshot.operation()) in _MOVES:
            continue
        for file in elements(snapshot.addedDeleteFiles(table.java.io())):
            one = descriptions.of(file)
            if one is None:
                raise LostRace(f"{table.name} got deletes that are not by position")
            budget -= one.bytes if one.names is None else 0
            if budget < 0:
                raise LostRace(f"{table.name} got many deletes while its files were written")
            named = {one.names} if one.names is not None else paths_in(objects, one.path).keys()
            if not named.isdisjoint(paths):
                raise LostRace(f"rows of {table.name} were deleted while their files were written")
    return int(head.snapshotId())


def _since(table: Table, head: Any, read_at: int | None) -> Iterator[Any]:
    """The snapshots after `read_at`, newest first."""
    snapshot = head
    for _ in range(_MOST_SNAPSHOTS):
        if snapshot is None or read_at is None:
            break
        if int(snapshot.snapshotId()) == read_at:
            return
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.java.snapshot(parent)
    raise LostRace(f"the history of {table.name} no longer holds the snapshot that was read")
