"""The rows that went and those that came between two snapshots of a table, told by the files between them.

Of each snapshot the rows of its new data files, those that its new deletes name, and those of data files that it took
out. What only rewrites files (compaction) changes no row. So the cost follows what was written, not the table's size.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn_spark.files import readable_files, row_lookup
from firn_spark.files.row_group import RowGroup
from firn_spark.not_eligible import ForeignFiles
from firn_spark.pipelines.base_delta import NoDelta, check_columns, snapshots_between
from firn_spark.pipelines.base_rows import some_rows
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.objects import Objects

_OURS: Final = "firn.format"  # in the summary of a commit of Firn's, which deletes no row twice
_NONE: Final = pa.array([], pa.int64())


@dataclass
class RowChanges:
    """Rows of a table in the types of decoded changes: bags, of which a row that came and went again is in both."""

    gone: list[pa.Table] = field(default_factory=list)
    come: list[pa.Table] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many."""
        return sum(map(len, (*self.gone, *self.come)))


def row_changes(spark: SparkSession, table: Table, since: int, until: int, columns: Sequence[Column]) -> RowChanges:
    """These columns of the rows that differ. Raises NoDelta if the table can't tell, or so much changed that all of it
    is read at no more cost; StorageUnavailable."""
    between = snapshots_between(table, since, table.java.snapshot(until))
    check_columns(spark, table, since)
    reader = _Reader(spark, table, columns)
    found = RowChanges()
    try:
        for snapshot in reversed(between):
            reader.add(snapshot, found)
    except (LostRace, ForeignFiles, pa.ArrowException) as error:  # a file is gone, or none that is read here
        raise NoDelta(str(error)) from error
    return found


class _Reader:
    def __init__(self, spark: SparkSession, table: Table, columns: Sequence[Column]) -> None:
        self._spark = spark
        self._table = table
        self._columns = columns
        self._ids, self._usual = row_lookup.ids_of(table), row_lookup.defaults_in(table)
        self._objects = Objects(table.state.location)
        self._descriptions = deletes.Descriptions(spark, table)

    def add(self, snapshot: Any, found: RowChanges) -> None:
        """The changes of one snapshot (org.apache.iceberg.Snapshot)."""
        io = self._table.java.io()
        new, old = list(snapshot.addedDataFiles(io)), list(snapshot.removedDataFiles(io))
        added, replaced = (
            [self._descriptions.of(one) for one in some]
            for some in (snapshot.addedDeleteFiles(io), snapshot.removedDeleteFiles(io))
        )
        if not all(map(readable_files.is_parquet, (*new, *old))) or None in (*added, *replaced):
            raise NoDelta("files that are not Parquet, or deletes that are not by position")
        named, before = (
            deletes.together(deletes.read(self._objects, one) for one in some if one is not None)
            for some in (added, replaced)
        )
        come, went = ([str(one.location()) for one in some] for some in (new, old))
        if went or (named and _OURS not in dict(snapshot.summary())):
            # A file's rows that went with it, or that a delete names, may have gone earlier.
            before = self._deleted(snapshot.parentId(), {*went, *named})
        for path in come:
            found.come += self._rows(path, without=named.get(path, _NONE))
        for path in went:
            found.gone += self._rows(path, without=before.get(path, _NONE))
        for path, places in named.items():
            if path in come or path in went:
                continue
            fresh = places.filter(pc.invert(pc.is_in(places, value_set=before[path]))) if path in before else places
            if len(fresh):
                found.gone += self._rows(path, places=fresh)

    def _deleted(self, parent: int | None, paths: Collection[str]) -> Mapping[str, pa.Array]:
        """Which rows of these data files are deleted in a snapshot."""
        if parent is None:
            return {}
        files = row_lookup.plan(self._spark, self._table, row_lookup.Wanted((), snapshot=int(parent)), None)
        mine = (one for one in files.deletes if one.names is None or one.names in paths)
        told = deletes.together(deletes.read(self._objects, one) for one in mine)
        return {path: places for path, places in told.items() if path in paths}

    def _rows(self, path: str, *, without: pa.Array = _NONE, places: pa.Array | None = None) -> Iterator[pa.Table]:
        """The rows of a file `without` some, or those at `places` alone."""
        with self._objects.open(path) as file:
            there, first = row_lookup.by_id(file), 0
            names = {one.name: there.get(self._ids.get(one.name, -1)) for one in self._columns}
            for number in range(file.num_row_groups):
                group = RowGroup(file, number, names, self._usual)
                if places is None:
                    chosen = row_lookup.left(pa.arange(0, group.rows), first, without)
                else:
                    inside = pc.and_(pc.greater_equal(places, first), pc.less(places, first + group.rows))
                    chosen = pc.subtract(places.filter(inside), first)
                first += group.rows
                if len(chosen):
                    yield some_rows(group, self._columns, chosen)
