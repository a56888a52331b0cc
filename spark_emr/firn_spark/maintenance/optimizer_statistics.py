"""What optimizers are told of a table beside its manifests: how many distinct values columns have (Puffin files of
theta sketches, https://iceberg.apache.org/puffin-spec/#apache-datasketches-theta-v1-blob-type), and what each partition
holds (https://iceberg.apache.org/spec/#partition-statistics-file).

They belong to one snapshot and go with it at its expiry. No reader needs them to read right, and a file that its commit
did not name is an orphan like any other.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.config.maintenance import Statistics
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import CommitUnknown, LostRace
from firn_spark.tables.java import elements, java_class

_ERRORS: Final = "org.apache.iceberg.exceptions"


@dataclass(frozen=True)
class Computed:
    """Of which snapshot (None: the table has none); the columns, and those that were asked for and can't be counted
    (`left`); whether partitions were described; how many older files of statistics say nothing more and went."""

    snapshot: int | None = None
    columns: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    partitions: bool = False
    replaced: int = 0

    def line(self) -> dict[str, Any]:
        """The numbers for a log line."""
        said: dict[str, Any] = {"statistics_of": self.snapshot, "columns": list(self.columns)}
        more = {"left": list(self.left), "partitions": self.partitions, "replaced": self.replaced}
        return said | {name: value for name, value in more.items() if value}


def compute(spark: SparkSession, table: Table, wanted: Statistics, *, dry_run: bool = False) -> Computed:
    """Statistics of the newest snapshot: what it has already is not computed again. All values of the columns are read.

    Raises LostRace (a commit came between, and they were not added), CommitUnknown (they may have been: what was
    written stays), and what Spark and the catalog raise.
    """
    head = table.head()
    if head is None or table.branch is not None:
        return Computed()
    snapshot = int(head.snapshotId())
    columns, left = _countable(table, wanted.columns)
    partitions = wanted.partitions and not table.java.spec().isUnpartitioned()
    told = Computed(snapshot, tuple(columns), tuple(left), partitions)
    if dry_run:
        return told
    ids = {columns[name] for name in columns}
    if table.unreadable:
        raise Unfit(f"nobody can count its values: {table.unreadable}")
    actions = java_class(spark, "org.apache.iceberg.spark.actions.SparkActions").get(spark._jsparkSession)
    if ids and not any(of == snapshot and known >= ids for of, known in _counted(table)):
        names = spark.sparkContext._gateway.new_array(java_class(spark, "java.lang.String"), len(columns))
        for place, name in enumerate(columns):
            names[place] = name
        _committed(table, actions.computeTableStats(table.java).columns(names).snapshot(snapshot).execute)
    if partitions and snapshot not in _described(table):
        _committed(table, actions.computePartitionStats(table.java).snapshot(snapshot).execute)
    return Computed(
        snapshot, told.columns, told.left, partitions, _replaced(table, snapshot, ids, partitions=partitions)
    )


def _countable(table: Table, wanted: Iterable[str]) -> tuple[dict[str, int], list[str]]:
    """Name -> id of the columns of plain values, and the others that are wanted."""
    there = {str(one["name"]): int(one["id"]) for one in table.state.fields if isinstance(one["type"], str)}
    found = {name: there[name] for name in wanted if name in there}
    return found, [name for name in wanted if name not in there]


def _counted(table: Table) -> list[tuple[int, frozenset[int]]]:
    """The files of table statistics: the snapshot of each, and the columns that it counts alone; none of one that says
    anything else."""
    table.java.refresh()
    found = []
    for file in elements(table.java.statisticsFiles()):
        fields = [tuple(map(int, elements(blob.fields()))) for blob in elements(file.blobMetadata())]
        plain = all(len(one) == 1 for one in fields)
        found.append((int(file.snapshotId()), frozenset(one[0] for one in fields) if plain else frozenset()))
    return found


def _described(table: Table) -> set[int]:
    """The snapshots that have a file of partition statistics."""
    table.java.refresh()
    return {int(file.snapshotId()) for file in elements(table.java.partitionStatisticsFiles())}


def _replaced(table: Table, snapshot: int, ids: Collection[int], *, partitions: bool) -> int:
    """Takes the files of older snapshots away that say nothing but what the newest one's say. -> how many."""
    others = [of for of, known in _counted(table) if of != snapshot and known and known <= set(ids)]
    _removed(table, table.java.updateStatistics, "removeStatistics", others)
    older = [of for of in _described(table) if of != snapshot] if partitions else []
    _removed(table, table.java.updatePartitionStatistics, "removePartitionStatistics", older)
    return len(others) + len(older)


def _removed(table: Table, begun: Callable[[], Any], verb: str, snapshots: Sequence[int]) -> None:
    if snapshots:
        update = begun()
        for one in snapshots:
            update = getattr(update, verb)(one)
        _committed(table, update.commit)


def _committed(table: Table, commit: Callable[[], Any]) -> None:
    try:
        run(commit)
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), str(error.java_exception.getMessage()).splitlines()[0]
        if kind == f"{_ERRORS}.CommitFailedException":
            raise LostRace(f"{table.name}: {text}") from error
        if kind == f"{_ERRORS}.CommitStateUnknownException":
            raise CommitUnknown(f"{table.name}: {text}") from error
        raise


def run(commit: Callable[[], Any]) -> None:
    """Makes one commit of statistics."""
    commit()
