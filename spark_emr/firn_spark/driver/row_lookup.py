"""Rows of a table as they are in one snapshot, found without Spark: Iceberg plans the files, pyarrow reads them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn.changes.merge.fold import Key
from firn.changes.metadata_columns import HELD, POSITION, SOURCE
from firn_spark.driver import values
from firn_spark.driver.objects import Objects
from firn_spark.driver.row_group import RowGroup
from firn_spark.not_eligible import Unfit
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How much one process looks through: data files, or files of deletes; rows whose keys are looked at; rows of a
    look-up without keys; bytes of delete files, which are held as a whole."""

    files: int = 400
    rows: int = 100_000_000
    all_rows: int = 500_000
    delete_bytes: int = 64 * 1024 * 1024


ALONE = Limits()  # where Spark's tasks do the rest better
EMPTIED = Limits(4_000, 30_000_000, 30_000_000)  # the same of a table that is truncated: places of rows are held


@dataclass(frozen=True)
class Wanted:
    """Which rows: those of `keys` (None: all) of the columns `key`. `low`, `high`: files whose `_firn_pos` are all
    outside are left out. `snapshot`: as they were in it; None: in the newest. `some`: instead of keys, the values of
    each of their columns (types in values.RANGED, no nulls), of which each combination is looked for. `between`: the
    files that may hold such values are planned for, before the values are known: the least and the greatest of the
    first column, None where there is no end."""

    key: Sequence[Column]
    keys: Collection[Key] | None = None
    low: bytes | None = None
    high: bytes | None = None
    snapshot: int | None = None
    some: Sequence[pa.Array] | None = None
    between: tuple[Any, Any] | None = None

    @property
    def every(self) -> bool:
        """Whether all rows are wanted."""
        return self.keys is None and self.some is None and self.between is None

    @cached_property
    def values(self) -> list[pa.Array]:
        """The values of each of the key's columns of a type in values.RANGED, each once."""
        if self.some is not None:
            return [values.sought(one, column.type) for one, column in zip(self.some, self.key, strict=True)]
        return [
            values.sought(pa.array({key[i] for key in self.keys or ()}, values.plain_type(column.type)), column.type)
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


def plan(spark: SparkSession, table: Table, wanted: Wanted, limits: Limits | None) -> Files:
    """The files of the wanted snapshot that may hold the rows. Raises Unfit if there is more to look through than the
    limits say (None: there are none), or files are not such as are read here."""
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
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            file = task.file()
            gone.addAll(task.deletes())
            found.append(_parquet(file)[0])
            rows += file.recordCount()
            if limits is not None:
                _check(limits, wanted, len(found), rows)
    finally:
        tasks.close()
    if limits is not None and gone.size() > limits.files:
        raise Unfit(f"more than {limits.files} files of deletes to look through")
    weights = dict(map(_delete_file, gone))
    if limits is not None and sum(weights.values()) > limits.delete_bytes:
        raise Unfit(f"more than {limits.delete_bytes} bytes of deletes to look through")
    return Files(wanted, sorted(set(found)), sorted(weights))


def _check(limits: Limits, wanted: Wanted, files: int, rows: int) -> None:
    if files > limits.files:
        raise Unfit(f"more than {limits.files} files to look through")
    most = limits.all_rows if wanted.every else limits.rows
    if rows > most:
        raise Unfit(f"more than {most} rows to look at")


def read(files: Files, ids: Mapping[str, int], columns: Sequence[Column]) -> Rows:
    """The wanted rows with these columns (and those of the key); columns that the table lacks are null. `ids`:
    ids_of."""
    if not files.files:
        return no_rows([*files.wanted.key, *columns])

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> Rows:
        return _matching(file, path, files.wanted, columns, ids, gone)

    return _together(_each(files, one))


def ids_of(table: Table) -> Mapping[str, int]:
    """The ids of the table's columns."""
    return {str(one["name"]): int(one["id"]) for one in table.state.fields}


def read_columns(files: Files, ids: Mapping[str, int], column: str, low: bytes) -> list[pa.Table]:
    """The rows with the wanted values (`some`), as columns: those of the key, `column` (binary), file (a dictionary),
    row in it, and whether the row holds values. Of several key columns, rows of other combinations are among them.
    Where `column` is below `low` it may be null: a row group that says so of itself is spared the reading of its widest
    column. `ids`: ids_of."""

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> list[pa.Table]:
        with file:
            return list(_found(file, path, files.wanted, column, low, ids, gone))

    return [part for parts in _each(files, one) for part in parts]


@dataclass(frozen=True)
class Highs:
    """Up to which `_firn_pos` truncates remove rows: of all source tables (`all_sources`), or, where `unnamed` rows are
    told from others, of the source tables in `of`. None: of no rows; b"": of those without a position alone.
    `unnamed`: the source table of rows that name none, None: it isn't known, so that any truncate means them."""

    all_sources: bytes | None
    of: Mapping[str, bytes] | None = None
    unnamed: str | None = None

    def per_row(self, sources: Any, rows: int) -> Any:
        """That of each row. `sources`: which source table it names; None: there is no such column."""
        if self.of is None:
            return pa.repeat(pa.scalar(self.all_sources, pa.binary()), rows)
        known = {name: max((self.all_sources, high), key=_order_of) for name, high in self.of.items()}
        newest = max((self.all_sources, *self.of.values()), key=_order_of)
        unnamed = newest if self.unnamed is None else known.get(self.unnamed, self.all_sources)
        if sources is None:
            return pa.repeat(pa.scalar(unnamed, pa.binary()), rows)
        places = pc.index_in(sources, value_set=pa.array(known, pa.string()))
        named = pa.array(known.values(), pa.binary()).take(_whole(places))
        named = pc.if_else(pc.is_valid(places), named, pa.scalar(self.all_sources, pa.binary()))
        return pc.if_else(pc.is_null(sources), pa.scalar(unnamed, pa.binary()), named)


def _order_of(high: bytes | None) -> tuple[bool, bytes]:
    return high is not None, high or b""


def up_to(files: Files, ids: Mapping[str, int], column: str, highs: Highs) -> tuple[deletes.Places, set[Key]]:
    """The places of the rows of which `column` (binary) is at most as `highs` says, or null, and the keys (of `wanted`)
    of the others that hold values. `ids`: ids_of."""

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> tuple[str, pa.Array, set[Key]]:
        with file:
            found = list(_up_to(file, files.wanted.key, column, highs, ids, gone))
        places = pa.concat_arrays([pa.array([], pa.int64()), *(rows for rows, _ in found)])
        return path, places, {key for _, keys in found for key in keys}

    each = _each(files, one)
    places = {path: rows for path, rows, _ in each if len(rows)}
    return places, {key for _, _, keys in each for key in keys}


def _up_to(
    file: pq.ParquetFile, key: Sequence[Column], column: str, highs: Highs, ids: Mapping[str, int], gone: pa.Array
) -> Iterator[tuple[pa.Array, list[Key]]]:
    there = by_id(file)
    names = {name: there.get(ids.get(name, -1)) for name in (*(one.name for one in key), column, HELD, SOURCE)}
    first = 0
    for number in range(file.num_row_groups):
        group = RowGroup(file, number, names)
        old = _whole(_old(group, column, highs))
        held, keys = group.column(HELD), []
        if held is not None and pc.any(stay := pc.and_(pc.is_valid(held), pc.invert(old))).as_py():
            chosen = _left(pc.indices_nonzero(stay).cast(pa.int64()), first, gone)
            columns = [values.read(_column(group, one).take(chosen), one.type) for one in key]
            keys = list(zip(*columns, strict=True))
        yield pc.add(_left(pa.arange(0, group.rows).filter(old), first, gone), first), keys
        first += group.rows


def _old(group: RowGroup, column: str, highs: Highs) -> Any:
    """Which rows of the group are at most as `highs` says."""
    sources = group.column(SOURCE) if highs.of is not None else None
    limits = highs.per_row(sources, group.rows)
    if highs.of is None and highs.all_sources is not None and group.is_below(column, highs.all_sources + b"\0"):
        return pa.repeat(True, group.rows)
    position = group.column(column)
    if position is None:
        return pc.is_valid(limits)
    below = pc.fill_null(pc.less_equal(position.cast(pa.binary()), limits), False)
    return pc.and_(pc.is_valid(limits), pc.or_(pc.is_null(position), below))


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _each(files: Files, one: Callable[[pq.ParquetFile, str, pa.Array], T]) -> list[T]:
    """What `one` makes of each file, its path and the rows of it that are deleted."""
    if not files.files:
        return []
    objects = Objects(files.files[0])
    with ThreadPoolExecutor(objects.at_once) as pool:
        gone: dict[str, list[pa.Array]] = {path: [] for path in files.files}
        for parts in pool.map(lambda name: deletes.read(objects.open(name)), files.deletes):
            for path, places in parts.items():
                if path in gone:
                    gone[path].append(places)
        nothing = pa.array([], pa.int64())
        try:
            return list(
                pool.map(lambda path: one(objects.open(path), path, pa.concat_arrays([nothing, *gone[path]])), gone)
            )
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


def _matching(
    file: pq.ParquetFile,
    path: str,
    wanted: Wanted,
    columns: Sequence[Column],
    ids: Mapping[str, int],
    gone: pa.Array,
) -> Rows:
    """The wanted rows of one file, row group by row group: of most a look at the key is enough to pass them by."""
    all_columns = {each.name: each for each in (*wanted.key, *columns)}
    result = no_rows(list(all_columns.values()))
    with file:
        there = by_id(file)
        names = {name: there.get(ids.get(name, -1)) for name in all_columns}
        first = 0
        for group in range(file.num_row_groups):
            held = RowGroup(file, group, names)
            chosen = _left(pa.array(_places(wanted, held), pa.int64()), first, gone)
            places = chosen.to_pylist()
            for name, one in all_columns.items() if places else ():
                data = held.column(name)
                result.columns[name] += (
                    [None] * len(places) if data is None else values.read(data.take(chosen), one.type)
                )
            result.places += [first + place for place in places]
            first += held.rows
    result.paths = [path] * len(result.places)
    return result


def _places(wanted: Wanted, group: RowGroup) -> list[int]:
    """The rows of one row group that are wanted, deleted or not."""
    if wanted.keys is None:
        return list(range(group.rows))
    # One column at a time, by Arrow; then the few that are left as whole keys.
    found = group.candidates(wanted.key, wanted.values)
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


def _found(
    file: pq.ParquetFile,
    path: str,
    wanted: Wanted,
    column: str,
    low: bytes,
    ids: Mapping[str, int],
    gone: pa.Array,
) -> Iterator[pa.Table]:
    there = by_id(file)
    names = {name: there.get(ids.get(name, -1)) for name in (*(one.name for one in wanted.key), column, HELD)}
    first = 0
    for number in range(file.num_row_groups):
        group = RowGroup(file, number, names)
        places = group.candidates(wanted.key, wanted.values)
        if places is None:
            raise Unfit("files without the key's columns")
        places = _left(places, first, gone)
        rows = pc.add(places, first)
        first += group.rows
        if len(rows):
            arrays = [_plain(group, one, places) for one in wanted.key]
            position = None if group.is_below(column, low) else group.column(column)
            held = pa.nulls(len(rows), pa.binary()) if position is None else position.take(places).cast(pa.binary())
            # A text for each file, not for each row.
            paths = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(rows)), pa.array([path]))
            gaps = group.column(HELD)
            holds = pa.repeat(False, len(rows)) if gaps is None else pc.is_valid(gaps.take(places))
            columns = [*arrays, held, paths, rows, holds]
            yield pa.table(columns, names=[str(n) for n in range(len(columns))])


def _left(places: pa.Array, first: int, gone: pa.Array) -> pa.Array:
    """Those of the places of a row group, which begins at `first`, that are not deleted."""
    if not len(gone) or not len(places):
        return places
    return places.filter(pc.invert(pc.is_in(pc.add(places, first), value_set=gone)))


def _plain(group: RowGroup, column: Column, places: pa.Array) -> Any:
    return values.found(_column(group, column).take(places), column.type)


def _column(group: RowGroup, column: Column) -> pa.ChunkedArray:
    data = group.column(column.name)
    if data is None:
        raise Unfit("files without the key's columns")
    return data


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
    if wanted.between is not None and wanted.key[0].name in there:
        yield from _between(expressions, wanted.key[0], *wanted.between)
    for some, column in zip(wanted.values, wanted.key, strict=True) if not (wanted.every or wanted.between) else ():
        if column.name in there and column.type.name in values.RANGED and len(some) and not some.null_count:
            ends = pc.min_max(some)
            yield from _between(expressions, column, ends["min"].as_py(), ends["max"].as_py())
    if wanted.low is not None:
        yield expressions.greaterThanOrEqual(POSITION, buffer.wrap(wanted.low))
    if wanted.high is not None:
        yield expressions.lessThanOrEqual(POSITION, buffer.wrap(wanted.high))


def _between(expressions: Any, column: Column, low: Any, high: Any) -> Iterator[Any]:
    """`low`, `high`: as values.key_type has them; None: no end."""
    low, high = (None if one is None else values.literal(one, column.type) for one in (low, high))
    yield from () if low is None else (expressions.greaterThanOrEqual(column.name, low),)
    yield from () if high is None else (expressions.lessThanOrEqual(column.name, high),)


def _parquet(file: Any) -> tuple[str, int]:
    if str(file.format().name()) != "PARQUET":
        raise Unfit("files that are not Parquet")
    return file.location(), int(file.fileSizeInBytes())


def _delete_file(file: Any) -> tuple[str, int]:
    if str(file.content().name()) != "POSITION_DELETES":
        raise Unfit("deletes that are not by position")
    return _parquet(file)
