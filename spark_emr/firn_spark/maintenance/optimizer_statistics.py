"""What optimizers are told of a table beside its manifests: how many distinct values columns have (Puffin files of
theta sketches, https://iceberg.apache.org/puffin-spec/#apache-datasketches-theta-v1-blob-type), and what each partition
holds (https://iceberg.apache.org/spec/#partition-statistics-file).

They belong to one snapshot and go with it at its expiry. No reader needs them to read right, and a file that its commit
did not name is an orphan like any other. Which files were computed here a property of the table says: nobody else's are
taken away, for another engine may plan by them.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.config.maintenance import Statistics
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table, set_all
from firn_spark.tables.fence import CommitUnknown, LostRace
from firn_spark.tables.java import elements, java_class

OWN_FILES: Final = "firn.statistics"
"""Table property: the addresses, as JSON, of the table's files of statistics that were computed here."""

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
    made: list[Any] = []
    if ids and not any(of == snapshot and known >= ids for of, known in _counted(table)):
        names = spark.sparkContext._gateway.new_array(java_class(spark, "java.lang.String"), len(columns))
        for place, name in enumerate(columns):
            names[place] = name
        made.append(_committed(table, actions.computeTableStats(table.java).columns(names).snapshot(snapshot).execute))
    if partitions and snapshot not in _described(table):
        made.append(_committed(table, actions.computePartitionStats(table.java).snapshot(snapshot).execute))
    own = {str(one.statisticsFile().path()) for one in made if one.statisticsFile() is not None}
    replaced = _replaced(table, snapshot, ids, own, partitions=partitions)
    return Computed(snapshot, told.columns, told.left, partitions, replaced)


def _countable(table: Table, wanted: Iterable[str]) -> tuple[dict[str, int], list[str]]:
    """Name -> id of the columns of plain values, and the others that are wanted."""
    there = {str(one["name"]): int(one["id"]) for one in table.state.fields if isinstance(one["type"], str)}
    found = {name: there[name] for name in wanted if name in there}
    return found, [name for name in wanted if name not in there]


def _counted(table: Table) -> list[tuple[int, frozenset[int]]]:
    """The snapshots of the files of table statistics, with the columns that each counts (_columns)."""
    table.java.refresh()
    return [(int(file.snapshotId()), _columns(file)) for file in elements(table.java.statisticsFiles())]


def _columns(file: Any) -> frozenset[int]:
    """The columns that an org.apache.iceberg.StatisticsFile counts; none if it says anything else too."""
    fields = [tuple(map(int, elements(blob.fields()))) for blob in elements(file.blobMetadata())]
    return frozenset(one[0] for one in fields) if all(len(one) == 1 for one in fields) else frozenset()


def _described(table: Table) -> set[int]:
    """The snapshots that have a file of partition statistics."""
    table.java.refresh()
    return {int(file.snapshotId()) for file in elements(table.java.partitionStatisticsFiles())}


def _replaced(table: Table, snapshot: int, ids: Collection[int], made: Collection[str], *, partitions: bool) -> int:
    """Takes own files of older snapshots away that say nothing but what the newest one's say, and notes which are own:
    those of before, and `made`. -> how many went."""
    table.java.refresh()
    counts, places = list(elements(table.java.statisticsFiles())), list(elements(table.java.partitionStatisticsFiles()))
    noted = _noted(table)
    own = noted.union(made) & {str(file.path()) for file in (*counts, *places)}
    newest = table.java.snapshot(snapshot)

    def old(file: Any) -> bool:
        of = table.java.snapshot(file.snapshotId())
        return str(file.path()) in own and (of is None or of.sequenceNumber() < newest.sequenceNumber())

    counts = [file for file in counts if old(file) and (known := _columns(file)) and known <= set(ids)]
    places = [file for file in places if partitions and old(file)]
    left = own - {str(file.path()) for file in (*counts, *places)}
    if left == noted:
        return 0
    both = table.java.newTransaction()
    _removed(both.updateStatistics, "removeStatistics", counts)
    _removed(both.updatePartitionStatistics, "removePartitionStatistics", places)
    set_all(both.updateProperties(), {OWN_FILES: json.dumps(sorted(left))})
    _committed(table, both.commitTransaction)
    return len(counts) + len(places)


def _noted(table: Table) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(table.java.properties().get(OWN_FILES) or "[]")))
    except (ValueError, TypeError):  # then none is taken away for another one
        return frozenset()


def _removed(begun: Callable[[], Any], verb: str, files: Sequence[Any]) -> None:
    if files:
        update = begun()
        for one in files:
            update = getattr(update, verb)(one.snapshotId())
        update.commit()


def _committed(table: Table, commit: Callable[[], Any]) -> Any:
    try:
        return run(commit)
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), str(error.java_exception.getMessage()).splitlines()[0]
        if kind == f"{_ERRORS}.CommitFailedException":
            raise LostRace(f"{table.name}: {text}") from error
        if kind == f"{_ERRORS}.CommitStateUnknownException":
            raise CommitUnknown(f"{table.name}: {text}") from error
        raise


def run(commit: Callable[[], Any]) -> Any:
    """Makes one commit of statistics. -> what it gives."""
    return commit()
