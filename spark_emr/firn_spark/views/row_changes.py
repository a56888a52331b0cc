"""The rows that went and those that came between two snapshots of a table, told by the files between them.

Of each snapshot the rows of its new data files, those that its new deletes name, and those of data files that it took
out. What only rewrites files (compaction) changes no row. So the cost follows what was written, not the table's size.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn_spark.files import readable_files, row_lookup
from firn_spark.files.held_files import HeldFiles
from firn_spark.files.row_group import RowGroup
from firn_spark.not_eligible import ForeignFiles
from firn_spark.pipelines.base_delta import NoDelta, check_columns, snapshots_between
from firn_spark.pipelines.base_rows import some_rows
from firn_spark.tables import deletes
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.tables.java import elements
from firn_spark.tables.objects import Objects

_OURS: Final = "firn.format"  # in the summary of a commit of Firn's, which deletes no row twice
_NONE: Final = pa.array([], pa.int64())
_MOST_BYTES: Final = 64 * 1024 * 1024  # that are held of changes that were read, for other views


@dataclass
class RowChanges:
    """Rows of a table in the types of decoded changes: bags, of which a row that came and went again is in both."""

    gone: list[pa.Table] = field(default_factory=list)
    come: list[pa.Table] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many."""
        return sum(map(len, (*self.gone, *self.come)))


class SharedChanges:
    """The changes of tables between snapshots, for the views of a job: those that read the same ones between the same
    snapshots look at its files once, and read each of its columns once. For the next refreshes too, `held`: what else
    was read of files, and `files`: those of tables."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self.held, self.files = HeldColumns(), HeldFiles()
        self._known: OrderedDict[_Between, _Reader] = OrderedDict()

    def between(
        self, spark: SparkSession, table: Table, since: int, until: int, columns: Sequence[Column]
    ) -> RowChanges:
        """These columns of the rows that differ. Raises NoDelta if the table can't tell, or so much changed that all of
        it is read at no more cost; StorageUnavailable."""
        fields = tuple((int(one["id"]), str(one["name"]), str(one["type"])) for one in table.state.fields)
        key = (str(table.name), table.state.uuid, since, until, fields)
        try:
            reader = self._known.pop(key, None) or _looked_at(spark, table, since, until, self)
            found = reader.read(table, columns)
        except (LostRace, ForeignFiles, pa.ArrowException) as error:  # a file is gone, or none that is read here
            raise NoDelta(str(error)) from error
        self._known[key] = reader
        while self._known and sum(one.bytes for one in self._known.values()) > self._most:
            self._known.popitem(last=False)
        return found


_Between = tuple[str, str, int, int, tuple[tuple[int, str, str], ...]]


def _looked_at(spark: SparkSession, table: Table, since: int, until: int, shared: SharedChanges) -> "_Reader":
    between = snapshots_between(table, since, table.java.snapshot(until))
    check_columns(spark, table, since)
    reader = _Reader(spark, table, shared.held, shared.files)
    for snapshot in reversed(between):
        reader.add(snapshot)
    return reader


@dataclass
class _Part:
    """Rows of a file, those `without` some or those at `places` alone, and what was read of them: of each column the
    cells of each row group that has some."""

    path: str
    without: pa.Array = field(default_factory=lambda: _NONE)
    places: pa.Array | None = None
    cells: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """That it holds."""
        rows = (self.without, *(() if self.places is None else (self.places,)))
        return sum(int(one.nbytes) for some in (rows, *self.cells.values()) for one in some)

    def chosen(self, first: int, count: int) -> pa.Array:
        """The rows of a row group that begins at `first`, by their places in it."""
        if self.places is None:
            return row_lookup.left(pa.arange(0, count), first, self.without)
        inside = pc.and_(pc.greater_equal(self.places, first), pc.less(self.places, first + count))
        return pc.subtract(self.places.filter(inside), first)


class _Reader:
    """The rows of a table that went and came, and what was read of them."""

    def __init__(self, spark: SparkSession, table: Table, held: HeldColumns, files: HeldFiles) -> None:
        self._spark = spark
        self._table = table
        self._files = files
        self._objects = Objects(table.state.location, held)
        self._descriptions = deletes.Descriptions(spark, table)
        self._gone: list[_Part] = []
        self._come: list[_Part] = []

    @property
    def bytes(self) -> int:
        """That it holds."""
        return sum(one.bytes for one in (*self._gone, *self._come))

    def read(self, table: Table, columns: Sequence[Column]) -> RowChanges:
        """These columns of the rows."""
        ids, usual = row_lookup.ids_of(table), row_lookup.defaults_in(table)
        gone, come = ([part for one in some for part in self._rows(one, columns, ids, usual)] for some in self._both)
        return RowChanges(gone, come)

    @property
    def _both(self) -> tuple[list[_Part], list[_Part]]:
        return self._gone, self._come

    def add(self, snapshot: Any) -> None:
        """The changes of one snapshot (org.apache.iceberg.Snapshot)."""
        io = self._table.java.io()
        new, old = list(elements(snapshot.addedDataFiles(io))), list(elements(snapshot.removedDataFiles(io)))
        added, replaced = (
            [self._descriptions.of(one) for one in elements(some)]
            for some in (snapshot.addedDeleteFiles(io), snapshot.removedDeleteFiles(io))
        )
        if not all(map(readable_files.is_parquet, (*new, *old))) or None in (*added, *replaced):
            raise NoDelta("files that are not Parquet, or deletes that are not by position")
        named, before = (
            deletes.together(deletes.read(self._objects, one) for one in some if one is not None)
            for some in (added, replaced)
        )
        if not old and not replaced:
            self._follow(snapshot, new, [one for one in added if one is not None])
        come, went = ([str(one.location()) for one in some] for some in (new, old))
        if went or (named and snapshot.summary().get(_OURS) is None):
            # A file's rows that went with it, or that a delete names, may have gone earlier.
            before = self._deleted(snapshot.parentId(), {*went, *named})
        for path in come:
            self._come.append(_Part(path, named.get(path, _NONE)))
        for path in went:
            self._gone.append(_Part(path, before.get(path, _NONE)))
        for path, places in named.items():
            if path in come or path in went:
                continue
            fresh = places.filter(pc.invert(pc.is_in(places, value_set=before[path]))) if path in before else places
            if len(fresh):
                self._gone.append(_Part(path, places=fresh))

    def _follow(self, snapshot: Any, new: Sequence[Any], added: Sequence[DeleteFile]) -> None:
        """The files of the table in a snapshot that only adds some, for look-ups."""
        parent = snapshot.parentId() if self._files.holds(self._table) else None
        if parent is not None and self._files.holds(self._table, int(parent)):
            said = map(self._descriptions.said, new)
            self._files.follow(self._table, int(parent), int(snapshot.snapshotId()), said, added)

    def _deleted(self, parent: int | None, paths: Collection[str]) -> Mapping[str, pa.Array]:
        """Which rows of these data files are deleted in a snapshot."""
        if parent is None:
            return {}
        files = row_lookup.plan(self._spark, self._table, row_lookup.Wanted((), snapshot=int(parent)), None)
        mine = (one for one in files.deletes if one.names is None or one.names in paths)
        told = deletes.together(deletes.read(self._objects, one) for one in mine)
        return {path: places for path, places in told.items() if path in paths}

    def _rows(
        self, part: _Part, columns: Sequence[Column], ids: Mapping[str, int], usual: Mapping[str, pa.Field]
    ) -> Iterator[pa.Table]:
        names = [(one.name, str(one.type)) for one in columns]
        missing = {name: one for name, one in zip(names, columns, strict=True) if name not in part.cells}
        if missing:
            found: dict[tuple[str, str], list[Any]] = {name: [] for name in missing}
            with self._objects.open(part.path) as file:
                there, first = row_lookup.by_id(file), 0
                inside = {one.name: there.get(ids.get(one.name, -1)) for one in missing.values()}
                for number in range(file.num_row_groups):
                    group = RowGroup(file, number, inside, usual)
                    chosen = part.chosen(first, group.rows)
                    first += group.rows
                    if len(chosen):
                        rows = some_rows(group, list(missing.values()), chosen)
                        for name, cells in zip(missing, rows.columns, strict=True):
                            found[name].append(cells)
            part.cells |= found
        for cells in zip(*(part.cells[name] for name in names), strict=True):
            yield pa.table(list(cells), names=[one.name for one in columns])
