"""Rows of a table as they are in one snapshot, found without Spark: Iceberg plans the files, pyarrow reads them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn.changes.merge.fold import Key
from firn.tables.planning import POSITION
from firn_spark.driver import values
from firn_spark.driver.not_eligible import Unfit
from firn_spark.driver.objects import Objects
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class

MOST_SCANNED = 100_000_000  # rows whose keys are looked at
MOST_FILES = 400
MOST_BYTES = 64 * 1024 * 1024  # of the delete files, which are held as a whole
MOST_ROWS = 500_000  # of a look-up without keys
_MOST_RUNS = 16  # of a row group that is searched rather than looked through
T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """Which rows: those of `keys` (None: all) of the columns `key`. `low`, `high`: files whose `_firn_pos` are all
    outside are left out. `snapshot`: as they were in it; None: in the newest. `some`: instead of keys, the values of
    each of their columns (types in values.RANGED, no nulls), of which each combination is looked for."""

    key: Sequence[Column]
    keys: Collection[Key] | None = None
    low: bytes | None = None
    high: bytes | None = None
    snapshot: int | None = None
    some: Sequence[pa.Array] | None = None

    @property
    def every(self) -> bool:
        """Whether all rows are wanted."""
        return self.keys is None and self.some is None

    @cached_property
    def values(self) -> list[pa.Array]:
        """The values of each of the key's columns of a type in values.RANGED, each once."""
        if self.some is not None:
            return [one.cast(values.plain_type(column.type)) for one, column in zip(self.some, self.key, strict=True)]
        return [
            pa.array({key[i] for key in self.keys or ()}, values.plain_type(column.type))
            if column.type.name in values.RANGED
            else pa.nulls(0)
            for i, column in enumerate(self.key)
        ]


@dataclass(frozen=True)
class Files:
    """The data files of one snapshot that may hold the wanted rows, and the delete files that may name rows of them. A
    position delete names its data file, so that which belong together need not be asked."""

    wanted: Wanted
    files: Sequence[str] = ()
    deletes: Sequence[str] = ()


@dataclass
class Rows:
    """Rows found: `columns` by name, of equal length, and where each is."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def keys(self, key: Sequence[Column]) -> list[Key]:
        """The key of each row."""
        return list(zip(*(self.columns[column.name] for column in key), strict=True))

    def where(self, mask: Sequence[bool]) -> "Rows":
        """Those of the rows for which `mask` is true."""
        chosen = [i for i, fits in enumerate(mask) if fits]
        columns = {name: [values[i] for i in chosen] for name, values in self.columns.items()}
        return Rows(columns, [self.paths[i] for i in chosen], [self.places[i] for i in chosen])


def no_rows(columns: Sequence[Column]) -> Rows:
    """None, of these columns."""
    return Rows({column.name: [] for column in columns})


def plan(spark: SparkSession, table: Table, wanted: Wanted) -> Files:
    """The files of the wanted snapshot that may hold the rows. Raises Unfit if they are not for the driver."""
    snapshot = wanted.snapshot or table.state.snapshot_id
    if snapshot is None or (wanted.keys is not None and not wanted.keys):
        return Files(wanted)
    scan = table.java.newScan().useSnapshot(snapshot)
    for condition in _conditions(spark, table, wanted):
        scan = scan.filter(condition)
    tasks = scan.planFiles()
    found: list[str] = []
    gone = java_class(spark, "java.util.HashSet")()  # every task names all its delete files: too many to ask for each
    rows = 0
    most = MOST_ROWS if wanted.every else MOST_SCANNED
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            file = task.file()
            gone.addAll(task.deletes())
            found.append(_parquet(file)[0])
            rows += file.recordCount()
            if len(found) > MOST_FILES:
                raise Unfit(f"more than {MOST_FILES} files to look through")
            if rows > most:
                raise Unfit(f"more than {most} rows to look at")
    finally:
        tasks.close()
    if gone.size() > MOST_FILES:
        raise Unfit(f"more than {MOST_FILES} files of deletes to look through")
    weights = dict(map(_delete_file, gone))
    if sum(weights.values()) > MOST_BYTES:
        raise Unfit(f"more than {MOST_BYTES} bytes of deletes to look through")
    return Files(wanted, sorted(set(found)), sorted(weights))


def read(table: Table, files: Files, columns: Sequence[Column]) -> Rows:
    """The wanted rows with these columns (and those of the key); columns that the table lacks are null."""
    if not files.files:
        return no_rows([*files.wanted.key, *columns])
    ids = {str(one["name"]): int(one["id"]) for one in table.state.fields}

    def one(file: pq.ParquetFile, path: str, gone: Collection[int]) -> Rows:
        return _matching(file, path, files.wanted, columns, ids, gone)

    return _together(_each(files, one))


def read_columns(table: Table, files: Files, column: str, low: bytes) -> list[pa.Table]:
    """The rows with the wanted values (`some`), as columns: those of the key, `column` (binary), file (a dictionary)
    and row in it. Of several key columns, rows of other combinations are among them. Where `column` is below `low` it
    may be null: a row group that says so of itself is spared the reading of its widest column."""
    ids = {str(one["name"]): int(one["id"]) for one in table.state.fields}

    def one(file: pq.ParquetFile, path: str, gone: Collection[int]) -> list[pa.Table]:
        with file:
            return list(_found(file, path, files.wanted, column, low, ids, gone))

    return [part for parts in _each(files, one) for part in parts]


def _each(files: Files, one: Callable[[pq.ParquetFile, str, Collection[int]], T]) -> list[T]:
    """What `one` makes of each file, its path and the rows of it that are deleted."""
    if not files.files:
        return []
    objects = Objects(files.files[0])
    with ThreadPoolExecutor(objects.at_once) as pool:
        gone: dict[str, set[int]] = {}
        for paths, places in pool.map(lambda name: _deletes(objects, name), files.deletes):
            for path, place in zip(paths, places, strict=True):
                gone.setdefault(path, set()).add(place)
        try:
            return list(pool.map(lambda path: one(objects.open(path), path, gone.get(path, ())), files.files))
        except pa.ArrowException as error:
            raise Unfit(f"a file that can't be read as its table: {str(error).splitlines()[0]}") from error


def _together(parts: Any) -> Rows:
    result: Rows | None = None
    for part in parts:
        if result is None:
            result = part
            continue
        for name, more in part.columns.items():
            result.columns[name] += more
        result.paths += part.paths
        result.places += part.places
    return result or Rows()


def _deletes(objects: Objects, location: str) -> tuple[list[str], list[int]]:
    """(file, place) of each row that a position delete file removes."""
    with objects.open(location) as file:
        found = file.read(columns=["file_path", "pos"])
    return found.column(0).to_pylist(), found.column(1).to_pylist()


def _matching(
    file: pq.ParquetFile,
    path: str,
    wanted: Wanted,
    columns: Sequence[Column],
    ids: Mapping[str, int],
    gone: Collection[int],
) -> Rows:
    """The wanted rows of one file, row group by row group: of most a look at the key is enough to pass them by."""
    all_columns = {each.name: each for each in (*wanted.key, *columns)}
    result = no_rows(list(all_columns.values()))
    with file:
        there = by_id(file)
        names = {name: there.get(ids.get(name, -1)) for name in all_columns}
        first = 0
        for group in range(file.num_row_groups):
            held = _Group(file, group, names)
            places = [place for place in _places(wanted, held) if first + place not in gone]
            chosen = pa.array(places, pa.int64())
            for name, one in all_columns.items() if places else ():
                data = held.column(name)
                result.columns[name] += (
                    [None] * len(places) if data is None else values.read(data.take(chosen), one.type)
                )
            result.places += [first + place for place in places]
            first += held.rows
    result.paths = [path] * len(result.places)
    return result


class _Group:
    """One row group of a file, whose columns are read when they are asked for. `names`: column -> its name inside."""

    def __init__(self, file: pq.ParquetFile, number: int, names: Mapping[str, str | None]) -> None:
        self._file = file
        self._number = number
        self._names = names
        self._known: dict[str, pa.ChunkedArray] = {}
        self.rows = file.metadata.row_group(number).num_rows

    def is_below(self, name: str, low: bytes) -> bool:
        """Whether the file's statistics say so of all values of a column of bytes, but for nulls."""
        told = self._statistics(name)
        return told is not None and bytes(told.max) < low

    def ends(self, name: str) -> tuple[int, int] | None:
        """The least and the greatest value of a column of whole numbers; None if the file doesn't tell, or of others:
        texts may be cut short there."""
        told = self._statistics(name)
        return (told.min, told.max) if told is not None and isinstance(told.min, int) else None

    def _statistics(self, name: str) -> Any:
        group = self._file.metadata.row_group(self._number)
        chunks = (group.column(i) for i in range(group.num_columns))
        chunk = next((one for one in chunks if one.path_in_schema == self._names[name]), None)
        told = chunk.statistics if chunk is not None else None
        return told if told is not None and told.has_min_max else None

    def column(self, name: str) -> pa.ChunkedArray | None:
        """Its values; None if the file has no such column."""
        inside = self._names[name]
        if inside is not None and name not in self._known:
            self._known[name] = self._file.read_row_group(self._number, columns=[inside], use_threads=False).column(0)
        return self._known.get(name)


def _places(wanted: Wanted, group: _Group) -> list[int]:
    """The rows of one row group that are wanted, deleted or not."""
    if wanted.keys is None:
        return list(range(group.rows))
    # One column at a time, by Arrow; then the few that are left as whole keys.
    found = _candidates(wanted, group)
    places = list(range(group.rows)) if found is None else found.to_pylist()
    if found is not None and len(wanted.key) == 1:
        return places
    chosen = pa.array(places, pa.int64())
    keys = [
        [None] * len(places) if (data := group.column(kind.name)) is None else values.read(data.take(chosen), kind.type)
        for kind in wanted.key
    ]
    matching = [key in wanted.keys for key in zip(*keys, strict=True)]
    return [place for place, fits in zip(places, matching, strict=True) if fits]


def _candidates(wanted: Wanted, group: _Group) -> pa.Array | None:
    """The rows that have wanted values in each column of the key; None if no column can tell."""
    mask = None
    for some, kind in zip(wanted.values, wanted.key, strict=True):
        if kind.type.name not in values.RANGED:
            continue
        if (ends := group.ends(kind.name)) is not None:
            some = _within(some, *ends)
            if not len(some):  # the column need not be read
                return pa.array([], pa.int64())
        if (data := group.column(kind.name)) is None:
            continue
        typed = values.plain_type(kind.type)
        plain = (data if data.type == typed else data.cast(typed)).combine_chunks()
        if len(wanted.key) == 1 and (runs := _runs(plain)) is not None:
            return pa.concat_arrays([_searched(some.drop_null(), plain.slice(*run), run[0]) for run in runs])
        told = pc.is_in(plain, value_set=some)
        mask = told if mask is None else pc.and_(mask, told)
        if not pc.any(mask).as_py():
            break
    return None if mask is None else pc.indices_nonzero(mask).cast(pa.int64())


def _within(some: pa.Array, low: Any, high: Any) -> pa.Array:
    """Those of the values that are in a range: a small set is looked into faster than a large one."""
    inside = pc.and_(pc.greater_equal(some, low), pc.less_equal(some, high))
    return some.filter(pc.fill_null(inside, True))  # a null may be wanted, and be there


def _runs(column: pa.Array) -> list[tuple[int, int]] | None:
    """The runs (first place, length) in which each value is above the one before; None if they are many or hold nulls.
    Rows that were written in the order of their key are a run: to find values in it costs no look at each row."""
    if column.null_count or not len(column):
        return None
    falls = pc.indices_nonzero(pc.greater_equal(column.slice(0, len(column) - 1), column.slice(1)))
    if len(falls) >= _MOST_RUNS:
        return None
    firsts = [0, *(place + 1 for place in falls.to_pylist()), len(column)]
    return [(first, end - first) for first, end in pairwise(firsts)]


def _searched(some: pa.Array, run: pa.Array, first: int) -> pa.Array:
    """Where some of the values are, of a run that begins at the place `first`."""
    inside = _within(some, run[0], run[-1])
    places = pc.search_sorted(run, inside).cast(pa.int64())
    return pc.add(places.filter(pc.equal(run.take(places), inside)), first)


def _found(
    file: pq.ParquetFile,
    path: str,
    wanted: Wanted,
    column: str,
    low: bytes,
    ids: Mapping[str, int],
    gone: Collection[int],
) -> Iterator[pa.Table]:
    there = by_id(file)
    names = {name: there.get(ids.get(name, -1)) for name in (*(one.name for one in wanted.key), column)}
    deleted = pa.array(sorted(gone), pa.int64())
    first = 0
    for number in range(file.num_row_groups):
        group = _Group(file, number, names)
        places = _candidates(wanted, group)
        if places is None:
            raise Unfit("files without the key's columns")
        rows = pc.add(places, first)
        if len(deleted) and len(rows):
            left = pc.invert(pc.is_in(rows, value_set=deleted))
            places, rows = places.filter(left), rows.filter(left)
        first += group.rows
        if len(rows):
            arrays = [_plain(group, one, places) for one in wanted.key]
            position = None if group.is_below(column, low) else group.column(column)
            held = pa.nulls(len(rows), pa.binary()) if position is None else position.take(places).cast(pa.binary())
            # A text for each file, not for each row.
            paths = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(rows)), pa.array([path]))
            yield pa.table(
                [*arrays, held, paths, rows],
                names=[str(n) for n in range(len(arrays) + 3)],
            )


def _plain(group: _Group, column: Column, places: pa.Array) -> Any:
    data = group.column(column.name)
    if data is None:
        raise Unfit("files without the key's columns")
    return data.take(places).cast(values.plain_type(column.type))


def by_id(file: pq.ParquetFile) -> dict[int, str]:
    """Field id -> name in the file."""
    found = {}
    for one in file.schema_arrow:
        number = (one.metadata or {}).get(b"PARQUET:field_id")
        if number is None:
            raise Unfit("files without field ids")
        found[int(number)] = one.name
    return found


def _conditions(spark: SparkSession, table: Table, wanted: Wanted) -> Iterator[Any]:
    """What Iceberg is asked by the bounds of its files."""
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    buffer = java_class(spark, "java.nio.ByteBuffer")
    there = {one["name"] for one in table.state.fields}
    for some, column in zip(wanted.values, wanted.key, strict=True) if not wanted.every else ():
        if column.name in there and column.type.name in values.RANGED and len(some) and not some.null_count:
            ends = pc.min_max(some)
            yield expressions.greaterThanOrEqual(column.name, ends["min"].as_py())
            yield expressions.lessThanOrEqual(column.name, ends["max"].as_py())
    if wanted.low is not None:
        yield expressions.greaterThanOrEqual(POSITION, buffer.wrap(wanted.low))
    if wanted.high is not None:
        yield expressions.lessThanOrEqual(POSITION, buffer.wrap(wanted.high))


def _parquet(file: Any) -> tuple[str, int]:
    if str(file.format().name()) != "PARQUET":
        raise Unfit("files that are not Parquet")
    return file.location(), int(file.fileSizeInBytes())


def _delete_file(file: Any) -> tuple[str, int]:
    if str(file.content().name()) != "POSITION_DELETES":
        raise Unfit("deletes that are not by position")
    return _parquet(file)
