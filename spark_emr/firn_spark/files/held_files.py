"""The files of tables in their newest snapshots, held by a job for its next look-up: what a snapshot adds is known from
its own manifests, or from who wrote it, and Iceberg need not read all the others again."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.changes.decode.types import Column, Type
from firn_spark.files import file_bounds, row_lookup
from firn_spark.files.file_bounds import Ends
from firn_spark.files.row_lookup import Files, Limits, Wanted
from firn_spark.not_eligible import Unfit
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.evolve import Table

_LIMITS: Final = Limits(400, 1 << 62, 1 << 62)  # of a table with more files those are planned for that may be wanted
_MOST_FILES: Final = 4_000  # of all snapshots, some 1 KB each
_Version = tuple[str, int]


@dataclass(frozen=True)
class _Known:
    """The data files of a snapshot, what bounds tell of columns (by field id, with the type that they were asked for
    in), and the files of deletes that may name rows of them."""

    paths: frozenset[str]
    deletes: frozenset[DeleteFile]
    ends: Mapping[int, tuple[Type, Mapping[str, Ends]]]

    @property
    def count(self) -> int:
        """Of its files."""
        return len(self.paths) * (1 + len(self.ends)) + len(self.deletes)


class HeldFiles:
    """Files of tables by snapshot, which never changes. The least recently used go first. Threads share it.

    Of tables without partitions alone: in others Iceberg leaves out deletes of partitions that nobody looks at.
    """

    def __init__(self, most: int = _MOST_FILES) -> None:
        self._most = most
        self._known: OrderedDict[_Version, _Known] = OrderedDict()
        self._large: set[str] = set()  # tables of too many files
        self._lock = Lock()

    def plan(self, spark: SparkSession, table: Table, wanted: Wanted) -> Files:
        """As row_lookup.plan, of rows that have some values; files that the snapshot's bounds can't leave out are among
        them. Raises ForeignFiles."""
        snapshot = wanted.snapshot or table.state.snapshot_id
        if snapshot is None or wanted.some is None or not self._may_hold(table, wanted.key[0]):
            return row_lookup.plan(spark, table, wanted, None)
        try:
            known = self._all(spark, table, snapshot, wanted.key[0])
        except Unfit:
            self._large.add(table.state.uuid)
            return row_lookup.plan(spark, table, wanted, None)
        gone = sorted(known.deletes, key=lambda one: (one.path, one.offset or 0))
        ends, usual = known.ends[row_lookup.ids_of(table)[wanted.key[0].name]][1], row_lookup.defaults_in(table)
        return Files(wanted, sorted(known.paths), gone, usual, ends, table.state.location)

    def follow(
        self,
        table: Table,
        before: int | None,
        snapshot: int,
        new: Iterable[Mapping[str, Any]],
        deletes: Iterable[DeleteFile],
    ) -> None:
        """A snapshot of the table has those of the one `before`, data files that are new (Iceberg's JSON of them) and
        files of deletes beside them."""
        found = None if before is None else self._of(table.state.uuid, before)
        if found is None:
            return
        said = {str(one["file-path"]): one for one in new}
        ends = {number: (kind, {**known, **_ends(said, number, kind)}) for number, (kind, known) in found.ends.items()}
        now = _Known(found.paths | said.keys(), found.deletes | set(deletes), ends)
        if max(len(now.paths), len(now.deletes)) <= _LIMITS.files:
            self._keep((table.state.uuid, snapshot), now)

    def holds(self, table: Table, snapshot: int | None = None) -> bool:
        """Whether it knows the files of a snapshot of the table; None: of any."""
        if snapshot is not None:
            return (table.state.uuid, snapshot) in self._known
        with self._lock:
            return any(uuid == table.state.uuid for uuid, _ in self._known)

    def clear(self) -> None:
        """Holds nothing any more."""
        with self._lock:
            self._known.clear()

    def _may_hold(self, table: Table, by: Column) -> bool:
        """Whether files of the table are held for look-ups by a column: where its bounds are told to be of use, which
        Iceberg would go by."""
        count = int(table.state.ancestry[0].get("total-data-files") or 0) if table.state.ancestry else 0
        large = count > _LIMITS.files or table.state.uuid in self._large or table.state.partitioned_by
        return not large and file_bounds.are_told(by.type) and by.name in row_lookup.ids_of(table)

    def _all(self, spark: SparkSession, table: Table, snapshot: int, by: Column) -> _Known:
        """The files of a snapshot, with what bounds tell of a column. Raises Unfit, ForeignFiles."""
        uuid, number = table.state.uuid, row_lookup.ids_of(table)[by.name]
        known = self._of(uuid, snapshot)
        if known is not None and number in known.ends and known.ends[number][0] == by.type:
            return known
        every = Wanted([by], snapshot=snapshot, between=(None, None), bounds=True)
        files = row_lookup.plan(spark, table, every, _LIMITS)
        ends = {**({} if known is None else known.ends), number: (by.type, files.ends)}
        found = _Known(frozenset(files.files), frozenset(files.deletes), ends)
        self._keep((uuid, snapshot), found)
        return found

    def _of(self, uuid: str, snapshot: int) -> _Known | None:
        with self._lock:
            if (found := self._known.get((uuid, snapshot))) is not None:
                self._known.move_to_end((uuid, snapshot))
            return found

    def _keep(self, version: _Version, known: _Known) -> None:
        with self._lock:
            self._known.pop(version, None)
            self._known[version] = known
            while sum(one.count for one in self._known.values()) > self._most:
                self._known.popitem(last=False)


def _ends(said: Mapping[str, Mapping[str, Any]], number: int, kind: Type) -> dict[str, Ends]:
    told = {path: file_bounds.ends_in(one, number, kind) for path, one in said.items()}
    return {path: ends for path, ends in told.items() if ends is not None}
