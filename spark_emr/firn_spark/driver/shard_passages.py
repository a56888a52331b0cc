"""Rows that change their shard by another map, and that no change of the range names: they pass by columns, a few at a
time, into files that are in no snapshot until their shard's commit takes them in (placement.shard_decision.Passage).

Each shard is read once, row group by row group, and all its columns only where rows of it go. What is held are the rows
that no file has yet, and eight bytes of each row that leaves.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn.changes.merge.fold import Key, key_of
from firn.changes.metadata_columns import HELD, OTHERS_ID
from firn.changes.placement.shard_decision import Passage
from firn.changes.placement.shard_map import ShardMap
from firn_spark.driver.shard_places import places_of, whole
from firn_spark.files import readable_files, row_lookup, values
from firn_spark.files.write import Layout, NewFile, ordered, rows_of, write_rows
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge.delete_memory import earlier_rows
from firn_spark.merge.earlier import is_retyped
from firn_spark.merge.mirror_commit import METADATA
from firn_spark.tables import deletes
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table
from firn_spark.tables.objects import DataFile, Objects

_ROWS: Final = 400_000  # of a new file
_BYTES: Final = 128 * 1024 * 1024  # of rows that are held before the largest part of them is written
_AT_ONCE: Final = 2  # files that are read
_BATCH: Final = 65_536  # rows


@dataclass(frozen=True)
class Source:
    """A shard that rows come from. `snapshot`: in which they are read; `stays`: what it is called by the map, if rows
    that are not of it leave it."""

    name: str
    table: Table
    snapshot: int
    stays: str | None = None


@dataclass(frozen=True)
class MovedRows:
    """What passed into a shard and out of it. `anew`: as Passage has it."""

    files: Sequence[NewFile] = ()
    gone: deletes.Places = field(default_factory=dict)
    anew: bool = False


@dataclass(frozen=True)
class DecidedKeys:
    """The keys that are decided: their rows don't pass. `keys`: one by one; `others`: by columns, as they are found in
    files."""

    key: Sequence[Column]
    keys: Collection[Key]
    others: pa.Table | None = None

    @cached_property
    def _sought(self) -> list[pa.Array]:
        some = ({key[i] for key in self.keys} for i in range(len(self.key)))
        return [values.sought(values.keyed(one, of.type), of.type) for one, of in zip(some, self.key, strict=True)]

    def among(self, columns: Sequence[pa.ChunkedArray]) -> pa.Array:
        """Which rows have one of the keys. `columns`: theirs (values.key_type)."""
        columns = [whole(one) for one in columns]
        found = self._one_by_one(columns) if self.keys else pa.repeat(pa.scalar(False), len(columns[0]))
        if not self.others:
            return found
        rows = pa.table(list(columns), names=self.others.column_names)
        return pc.or_(found, whole(by_columns.among(rows, self.others)))

    def _one_by_one(self, columns: Sequence[pa.Array]) -> pa.Array:
        found = pc.is_in(columns[0], value_set=self._sought[0])
        if len(self.key) == 1:
            return found
        for column, some in zip(columns[1:], self._sought[1:], strict=True):
            found = pc.and_(found, pc.is_in(column, value_set=some))
        places = pc.indices_nonzero(found)
        told = [_keys(pa.chunked_array([one.take(places)]), of) for one, of in zip(columns, self.key, strict=True)]
        fits = [key_of(key) in self.keys for key in zip(*told, strict=True)]
        return pc.is_in(pa.arange(0, len(found)), value_set=places.cast(pa.int64()).filter(pa.array(fits, pa.bool_())))


def _keys(column: pa.ChunkedArray, of: Column) -> list[Any]:
    """The values of a column (values.key_type) as keys have them."""
    if of.type.name != "uuid":
        return values.keys(column, of.type)
    return [None if one is None else str(UUID(bytes=one)) for one in column.to_pylist()]


class ShardFiles:
    """The new files of one shard, which several threads fill. `layout`: of its table, with all columns that the rows
    need."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._ids = {one.name: values.field_id(one) for one in layout.fields}
        self.files: list[NewFile] = []
        self.parts: list[pa.Table] = []

    @property
    def rows(self) -> int:
        """That are held."""
        return sum(map(len, self.parts))

    @property
    def bytes(self) -> int:
        """Of them."""
        return sum(part.nbytes for part in self.parts)

    def taken(self) -> pa.Table:
        """What is held, which is held no more."""
        rows, self.parts = pa.concat_tables(self.parts), []
        return rows

    def fitting(self, rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
        """Rows of another shard, whose table has these fields, as this one has them."""
        there = {one.name: one for one in fields}

        def cells(mine: pa.Field) -> Any:
            if mine.name not in there:
                return values.untold(len(rows), mine)
            column = rows[mine.name]
            if mine.name == HELD:
                return self.held(column, fields)
            return column if column.type == mine.type else column.cast(mine.type)

        return pa.table([cells(one) for one in self.layout.fields], schema=pa.schema(self.layout.fields))

    def held(self, column: pa.ChunkedArray, fields: Sequence[pa.Field]) -> Any:
        """The held values of such rows: each table numbers its columns by itself."""
        mine = next(one for one in self.layout.fields if one.name == HELD)
        if column.null_count == len(column):
            return values.nothing(len(column), mine)
        ids = {values.field_id(one): self._ids[one.name] for one in fields if one.name in self._ids}
        ids[OTHERS_ID] = OTHERS_ID
        told = (None if row is None else [(ids[of], at) for of, at in row if of in ids] for row in column.to_pylist())
        return pa.array(told, mine.type)


class RowMover:
    """All that passes by one change of a map. `columns`: of the whole; `into`: the shards that rows come to, by name;
    `passing`: what becomes of each shard."""

    def __init__(
        self,
        spark: SparkSession,
        shards: ShardMap,
        columns: Sequence[Column],
        decided: DecidedKeys,
        into: Mapping[str, ShardFiles],
        passing: Mapping[str, Passage],
    ) -> None:
        self._spark = spark
        self._shards = shards
        self._columns = columns
        self._decided = decided
        self._passing = passing
        self._into = into
        self._gone: defaultdict[str, dict[str, list[pa.Array]]] = defaultdict(lambda: defaultdict(list))
        self._lock = Lock()

    def read(self, sources: Sequence[Source]) -> Mapping[str, MovedRows]:
        """-> what passed, by shard. Raises LostRace, ForeignFiles, StorageUnavailable, UnknownOutcome."""
        for source in sources:
            into = frozenset(name for name, one in self._passing.items() if source.name in one.sources)
            if into or source.stays is not None:
                self._read(source, into)
        for one in self._into.values():
            self._write(one, 1)
        return {
            name: MovedRows(
                self._into[name].files if name in self._into else (),
                {path: pa.concat_arrays(parts) for path, parts in self._gone[name].items()},
                one.anew,
            )
            for name, one in self._passing.items()
        }

    def _read(self, source: Source, into: frozenset[str]) -> None:
        if source.snapshot != source.table.state.snapshot_id and is_retyped(
            self._spark, source.table, source.snapshot, self._columns
        ):
            self._read_earlier(source, into)
            return
        wanted = row_lookup.Wanted(self._decided.key, snapshot=source.snapshot)
        files = row_lookup.plan(self._spark, source.table, wanted, None)
        objects = Objects(source.table.state.location)
        fields = [values.file_field(one) for one in source.table.state.fields]

        def one(path: str, gone: pa.Array) -> None:
            try:
                with objects.open(path) as file:
                    self.read_file(file, path, gone, fields, into, source.stays)
            except pa.ArrowException as error:
                raise readable_files.other(error, [path]) from error

        gone_in = deletes.gone_in(objects, files.deletes, files.files)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(one, gone_in.keys(), gone_in.values()))

    def read_file(
        self,
        file: DataFile,
        path: str,
        gone: pa.Array,
        fields: Sequence[pa.Field],
        into: frozenset[str],
        stays: str | None,
    ) -> None:
        """A data file. `gone`: the rows of it that are deleted; `fields`: of its table (values.file_field); `into`: the
        shards that rows of it may come to; `stays`: as Source has it."""
        there, first = row_lookup.by_id(file), 0
        for number in range(file.num_row_groups):
            group = _Group(file, number, there, fields)
            left = row_lookup.left(pa.arange(0, group.rows), first, gone)
            place, passes = self._places_in(group, left)
            if stays is not None and len(places := left.filter(pc.and_(passes, pc.not_equal(place, stays)))):
                with self._lock:
                    self._gone[stays][path].append(pc.add(places, first))
            wanted = pc.indices_nonzero(pc.and_(passes, pc.is_in(place, value_set=pa.array(sorted(into), pa.string()))))
            if len(wanted):
                # By the place in the row group: null where a row goes nowhere.
                at = pc.index_in(pa.arange(0, group.rows), value_set=left.take(wanted))
                self._take(group, place.take(wanted).take(at))
            first += group.rows

    def _places_in(self, group: "_Group", left: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Of each row that is left its shard by the map, and whether it passes there if that is another one."""
        place = self._places(group.column(self._shards.column, left), len(left))
        if not len(left) or not (self._decided.keys or self._decided.others):
            return place, pa.repeat(pa.scalar(True), len(left))
        key = [self._keyed(group.column(one.name, left), one, len(left)) for one in self._decided.key]
        return place, pc.invert(self._decided.among(key))

    def _places(self, column: pa.ChunkedArray | None, rows: int) -> pa.Array:
        shards = self._shards
        if column is None:
            return pa.repeat(pa.scalar(shards.rest), rows)
        kind = next((one.type for one in self._columns if one.name == shards.column), shards.kind)
        return places_of(shards, _decoded(column, Column(shards.column, kind)), kind)

    @staticmethod
    def _keyed(column: pa.ChunkedArray | None, of: Column, rows: int) -> pa.ChunkedArray:
        kind = values.key_type(of.type)
        return pa.chunked_array([pa.nulls(rows, kind)]) if column is None else values.found(column, of.type)

    def _take(self, group: "_Group", goes: pa.Array) -> None:
        """The rows of a row group, each to the shard to which it `goes`."""
        first = 0
        for rows in group.all_rows():
            mine = goes.slice(first, len(rows))
            first += len(rows)
            for name in pc.unique(mine).drop_null().to_pylist():
                some = group.now(rows.filter(pc.equal(mine, name)))
                self._hold(name, self._into[name].fitting(some, group.fields))

    def _read_earlier(self, source: Source, into: frozenset[str]) -> None:
        """Of a table whose columns have other types since: by a Spark job, all of it at once. This is rare: a job died
        after it had committed the shard, and the next one's changes are of other types."""
        wanted = row_lookup.Wanted(self._decided.key, snapshot=source.snapshot)
        rows = earlier_rows(self._spark, source.table, source.snapshot, self._columns, wanted)
        place = self._places(rows[self._shards.column], len(rows))
        key = [
            (values.formed if one.type.name in values.FORMED else values.sought)(rows[one.name], one.type)
            for one in self._decided.key
        ]
        passes = pc.invert(self._decided.among(key))
        fields = [values.file_field(one) for one in source.table.state.fields]
        for name in sorted(into):
            mine = rows.filter(pc.and_(passes, pc.equal(place, name)))
            arrays = {one: mine[one] for one in mine.column_names if one != HELD}
            made = rows_of(self._into[name].layout, [*self._columns, *METADATA], arrays, {})
            if HELD in mine.column_names and HELD in made.column_names:
                number = made.schema.get_field_index(HELD)
                held = self._into[name].held(mine[HELD], fields)
                made = made.set_column(number, made.schema.field(number), held)
            if len(made):
                self._hold(name, made)

    def _hold(self, name: str, rows: pa.Table) -> None:
        mine = self._into[name]
        with self._lock:
            mine.parts.append(rows)
        self._write(mine, _ROWS)
        if sum(one.bytes for one in self._into.values()) > _BYTES:
            self._write(max(self._into.values(), key=lambda one: one.bytes), 1)

    def _write(self, one: ShardFiles, least: int) -> None:
        """What is held for a shard, if it is so many rows."""
        with self._lock:
            rows = one.taken() if one.rows >= least else None
        if rows is not None:
            files = write_rows(one.layout, ordered(one.layout, rows))
            with self._lock:
                one.files += files


class _Group:
    """A row group of a data file. `fields`: of the table as it is now."""

    def __init__(self, file: DataFile, number: int, there: Mapping[int, str], fields: Sequence[pa.Field]) -> None:
        self._file, self._number, self._there = file, number, there
        self.fields = fields
        self.rows = int(file.metadata.row_group(number).num_rows)

    def column(self, name: str, places: pa.Array) -> pa.ChunkedArray | None:
        """Some cells of a column; None: the table has none of this name."""
        of = next((one for one in self.fields if one.name == name), None)
        if of is None:
            return None
        inside = self._there.get(values.field_id(of))
        if inside is None:
            return values.lacking(len(places), of)
        data = self._file.read_row_group(self._number, columns=[inside])
        return values.now(data if len(data) == len(places) else data.take(places), inside, of)

    def all_rows(self) -> Iterator[pa.Table]:
        """Some at a time, as they are in the file."""
        wanted = set(map(values.field_id, self.fields))
        names = [name for number, name in self._there.items() if number in wanted]
        for batch in self._file.iter_batches(_BATCH, row_groups=[self._number], columns=names):
            yield pa.Table.from_batches([batch])

    def now(self, rows: pa.Table) -> pa.Table:
        """Such rows as the table has them now."""
        ids = map(values.field_id, self.fields)
        cells = [values.now(rows, self._there.get(one), of) for one, of in zip(ids, self.fields, strict=True)]
        return pa.table(cells, names=[one.name for one in self.fields])


def _decoded(column: pa.ChunkedArray, of: Column) -> pa.ChunkedArray:
    """A column of a file as decoding gives it."""
    if values.differs_in_files(of.type):
        return pa.chunked_array([values.typed(values.read(column, of.type), of.type)])
    kind = arrow_type(of.type)
    return column if column.type == kind else column.cast(kind)
