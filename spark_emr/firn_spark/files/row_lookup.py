"""Rows of a table as they are in one snapshot, found without Spark: Iceberg plans the files, pyarrow reads them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column, Type
from firn.changes.merge.fold import Key, key_of
from firn.changes.metadata_columns import HELD, POSITION
from firn_spark.files import file_bounds, readable_files, values
from firn_spark.files.file_bounds import Ends
from firn_spark.files.key_conditions import between, in_any, named_in
from firn_spark.files.key_intervals import intervals_of
from firn_spark.files.row_group import RowGroup
from firn_spark.not_eligible import ForeignFiles, Unfit, first_of
from firn_spark.parallel import each_of
from firn_spark.tables import deletes
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.evolve import Table
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.tables.java import elements, java_class
from firn_spark.tables.objects import Objects
from firn_spark.tables.planned_files import PlannedFile

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How much one process looks through: data files, or files of deletes; rows whose keys are looked at, and of a
    look-up without keys; bytes of delete files."""

    files: int = 400
    rows: int = 100_000_000
    all_rows: int = 500_000
    delete_bytes: int = 64 * 1024 * 1024


_LARGE = 400  # data files of a table: of more, those between the wanted keys are left out by more than two ends
_INTERVALS = 64  # that Iceberg is asked for: some 0.3 ms for each, and as many files that are left out are worth it
_ABOVE = b"\xff" * 16  # whatever follows a prefix is below this

ALONE = Limits()  # where Spark's tasks do the rest better
EMPTIED = Limits(4_000, 30_000_000, 30_000_000)  # the same of a table that is truncated: places of rows are held


@dataclass(frozen=True)
class Wanted:
    """Which rows: those of `keys` (None: all) of the columns `key`. `low`, `high`: files whose `_firn_pos` are outside
    are left out. `snapshot`: as they were in it; None: in the newest. `some`: instead of keys, the values of each of
    their columns (column_decoder.key_names, no nulls), of which each combination is looked for. `between`: the files
    that may hold such values are planned for before these are known: the least and the greatest of the first column
    (values.key_type), None: no end; `bounds`: what files hold is asked for even so. `prefix`: how many bytes of the
    only column of the key count. `holding`: of all rows those whose value in this column fits."""

    key: Sequence[Column]
    keys: Collection[Key] | None = None
    low: bytes | None = None
    high: bytes | None = None
    snapshot: int | None = None
    some: Sequence[pa.Array] | None = None
    between: tuple[Any, Any] | None = None
    prefix: int | None = None
    bounds: bool = False
    holding: tuple[Column, Callable[[Any], bool]] | None = None

    @property
    def every(self) -> bool:
        """Whether all rows are wanted."""
        return self.keys is None and self.some is None and self.between is None

    @cached_property
    def values(self) -> list[pa.Array]:
        """The values of each of the key's columns (values.key_type), each once."""
        if self.some is not None:
            return [values.sought(one, column.type) for one, column in zip(self.some, self.key, strict=True)]
        return [
            values.sought(values.keyed({key[i] for key in self.keys or ()}, column.type), column.type)
            for i, column in enumerate(self.key)
        ]


@dataclass(frozen=True)
class Files:
    """The data files of one snapshot that may hold the wanted rows, and the delete files that may name rows of them.
    `defaults`: defaults_in; `ends`: what bounds tell of the key's first column, before the values are known; `home`:
    where the table lies; `held`: what was read of its files before."""

    wanted: Wanted
    files: Sequence[str] = ()
    deletes: Sequence[DeleteFile] = ()
    defaults: Mapping[str, pa.Field] = field(default_factory=dict)
    ends: Mapping[str, Ends] = field(default_factory=dict)
    home: str = ""
    held: HeldColumns | None = None

    def open(self) -> Sequence[str]:
        """The data files that may hold wanted rows, by what is known by now."""
        if not self.ends or self.wanted.every or self.wanted.between is not None or self.wanted.prefix is not None:
            return self.files
        return file_bounds.holding(self.files, self.ends, self.wanted.values[0])


@dataclass
class Rows:
    """Rows found: `columns` by name, of equal length, and where each is."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def keys(self, key: Sequence[Column]) -> list[Key]:
        """The key of each row."""
        return list(map(key_of, zip(*(self.columns[column.name] for column in key), strict=True)))

    def where(self, mask: Sequence[bool]) -> "Rows":
        """Those of the rows for which `mask` is true."""
        chosen = [i for i, fits in enumerate(mask) if fits]
        columns = {name: [values[i] for i in chosen] for name, values in self.columns.items()}
        return Rows(columns, [self.paths[i] for i in chosen], [self.places[i] for i in chosen])


def no_rows(columns: Sequence[Column]) -> Rows:
    """None, of these columns."""
    return Rows({one.name: [] for one in columns})


def plan(spark: SparkSession, table: Table, wanted: Wanted, limits: Limits | None) -> Files:
    """The files of the wanted snapshot that may hold the rows. Raises Unfit if there is more to look through than the
    limits say (None: there are none), and ForeignFiles if some are not such as are read here."""
    snapshot = wanted.snapshot or table.state.snapshot_id
    if snapshot is None or (wanted.keys is not None and not wanted.keys):
        return Files(wanted)
    scan = table.java.newScan().useSnapshot(snapshot)
    key = named_in(scan.schema(), ids_of(table), wanted.key)
    scan, bounds = _bounded(spark, table, wanted, scan, key)
    for condition in _conditions(spark, table, wanted, key):
        scan = scan.filter(condition)
    tasks = scan.planFiles()
    found: list[str] = []
    gone = java_class(spark, "java.util.HashSet")()  # every task names all its delete files: too many to ask for each
    rows, foreign, ends = 0, False, dict[str, Ends]()
    descriptions = deletes.Descriptions(spark, table)
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            file, mine = task.file(), task.deletes()
            path = str(file.location())
            gone.addAll(mine)
            found.append(path)
            table.planned.keep(snapshot, path, PlannedFile(file, mine))
            foreign = foreign or not (path.endswith(".parquet") or readable_files.is_parquet(file))
            if bounds is not None and (told := file_bounds.ends_in(descriptions.said(file), *bounds)) is not None:
                ends[path] = told
            if limits is not None:
                rows += file.recordCount()
                _check(limits, wanted, len(found), rows)
    finally:
        tasks.close()
    if limits is not None and gone.size() > limits.files:
        raise Unfit(f"more than {limits.files} files of deletes to look through")
    described = [descriptions.of(file) for file in elements(gone)]
    known = sorted({one for one in described if one is not None}, key=lambda one: (one.path, one.offset or 0))
    if foreign or None in described:
        raise readable_files.others_of(scan)
    if limits is not None and sum(one.bytes for one in known) > limits.delete_bytes:
        raise Unfit(f"more than {limits.delete_bytes} bytes of deletes to look through")
    return Files(wanted, sorted(set(found)), known, defaults_in(table), ends, table.state.location)


def _bounded(
    spark: SparkSession, table: Table, wanted: Wanted, scan: Any, key: Sequence[Column | None]
) -> tuple[Any, tuple[int, Type] | None]:
    """The scan, with bounds if there is use for them: those of the field with this id and type. `key`: named_in."""
    open_ended = wanted.between is None or (wanted.between == (None, None) and not wanted.bounds)
    first = None if open_ended else key[0]
    if first is None or not file_bounds.are_told(first.type):
        return scan, None
    names = java_class(spark, "java.util.Collections").singletonList(first.name)
    return scan.includeColumnStats(names), (ids_of(table)[wanted.key[0].name], first.type)


def _check(limits: Limits, wanted: Wanted, files: int, rows: int) -> None:
    if files > limits.files:
        raise Unfit(f"more than {limits.files} files to look through")
    if rows > (most := limits.all_rows if wanted.every else limits.rows):
        raise Unfit(f"more than {most} rows to look at")


def read(files: Files, ids: Mapping[str, int], columns: Sequence[Column]) -> Rows:
    """The wanted rows with these columns and those of the key, null where the table lacks one. `ids`: ids_of."""

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> Rows:
        return _matching(file, path, files, columns, ids, gone)

    return _together(each(files, one), no_rows([*files.wanted.key, *columns]))


def every(spark: SparkSession, table: Table, columns: Sequence[Column]) -> Rows:
    """All rows of a table that Spark does not open, with these columns. Raises ForeignFiles."""
    return read(plan(spark, table, Wanted(()), None), ids_of(table), columns)


def ids_of(table: Table) -> Mapping[str, int]:
    """The ids of the table's columns."""
    return {str(one["name"]): int(one["id"]) for one in table.state.fields}


def defaults_in(table: Table) -> Mapping[str, pa.Field]:
    """The columns (values.file_field) by name that are not null in a file without them, of Iceberg's format 3."""
    fields = (one for one in table.state.fields if one.get("initial-default") is not None)
    return {str(one["name"]): values.file_field(one) for one in fields}


def read_columns(files: Files, ids: Mapping[str, int], column: str, low: bytes) -> list[pa.Table]:
    """The rows with the wanted values (`some`), as columns: those of the key, `column` (binary), file (a dictionary),
    row in it, and whether the row holds values. Of several key columns, rows of other combinations are among them.
    Where `column` is below `low` it may be null: a row group that says so of itself is spared the reading of its widest
    column. `ids`: ids_of."""

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> list[pa.Table]:
        with file:
            return list(_found(file, path, files, column, low, ids, gone))

    return [part for parts in each(files, one) for part in parts]


def each(files: Files, one: Callable[[pq.ParquetFile, str, pa.Array], T]) -> list[T]:
    """What `one` makes of each file, its path and the rows of it that are deleted."""
    if not (paths := files.open()):
        return []
    objects = Objects(files.home or paths[0], files.held)
    gone = deletes.gone_in(objects, files.deletes, paths)

    def read(path: str) -> T | ForeignFiles:
        try:
            file = objects.open(path)
            by_id(file)
            return one(file, path, gone[path])
        except pa.ArrowException as error:
            return readable_files.other(error, [path])

    found = each_of(read, gone, objects.at_once)
    if foreign := [each for each in found if isinstance(each, ForeignFiles)]:
        raise first_of(foreign)
    return cast("list[T]", found)


def _together(parts: Sequence[Rows], result: Rows) -> Rows:
    for part in parts:
        for name, more in part.columns.items():
            result.columns[name] += more
        result.paths += part.paths
        result.places += part.places
    return result


def _matching(
    file: pq.ParquetFile, path: str, files: Files, columns: Sequence[Column], ids: Mapping[str, int], gone: pa.Array
) -> Rows:
    """The wanted rows of one file, row group by row group: of most a look at the key is enough to pass them by."""
    wanted = files.wanted
    all_columns = {each.name: each for each in (*wanted.key, *columns)}
    result = no_rows(list(all_columns.values()))
    with file:
        there = by_id(file)
        names = {name: there.get(ids.get(name, -1)) for name in all_columns}
        first = 0
        for group in range(file.num_row_groups):
            held = RowGroup(file, group, names, files.defaults)
            chosen = left(pa.array(_places(wanted, held), pa.int64()), first, gone)
            if wanted.holding is not None:
                fits = map(wanted.holding[1], some_values(held, wanted.holding[0], chosen))
                chosen = chosen.filter(pa.array(fits, pa.bool_()))
            places = chosen.to_pylist()
            for name, one in all_columns.items() if places else ():
                result.columns[name] += some_values(held, one, chosen)
            result.places += [first + place for place in places]
            first += held.rows
    result.paths = [path] * len(result.places)
    return result


def _places(wanted: Wanted, group: RowGroup) -> list[int]:
    """The rows of one row group that are wanted, deleted or not."""
    if wanted.keys is None:
        return list(range(group.rows))
    # One column at a time, by Arrow; then the few that are left as whole keys.
    found = group.candidates(wanted.key, wanted.values, wanted.prefix)
    places = list(range(group.rows)) if found is None else found.to_pylist()
    if found is not None and len(wanted.key) == 1:
        return places
    keys = [some_values(group, kind, pa.array(places, pa.int64())) for kind in wanted.key]
    matching = [key_of(key) in wanted.keys for key in zip(*keys, strict=True)]
    return [place for place, fits in zip(places, matching, strict=True) if fits]


def _found(
    file: pq.ParquetFile,
    path: str,
    files: Files,
    column: str,
    low: bytes,
    ids: Mapping[str, int],
    gone: pa.Array,
) -> Iterator[pa.Table]:
    there, wanted = by_id(file), files.wanted
    names = {name: there.get(ids.get(name, -1)) for name in (*(one.name for one in wanted.key), column, HELD)}
    if any(names[one.name] is None and one.name not in files.defaults for one in wanted.key):
        return  # all are null there, and no null is wanted
    first = 0
    for number in range(file.num_row_groups):
        group = RowGroup(file, number, names, files.defaults)
        places = group.candidates(wanted.key, wanted.values)
        places = left(pa.array([], pa.int64()) if places is None else places, first, gone)
        rows = pc.add(places, first)
        first += group.rows
        if len(rows):
            arrays = [_found_keys(group, one, places) for one in wanted.key]
            position = None if group.is_below(column, low) else group.taken(column, places)
            held = pa.nulls(len(rows), pa.binary()) if position is None else position.cast(pa.binary())
            # A text for each file, not for each row.
            paths = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(rows)), pa.array([path]))
            gaps = group.taken(HELD, places)
            holds = pa.repeat(False, len(rows)) if gaps is None else pc.is_valid(gaps)
            columns = [*arrays, held, paths, rows, holds]
            yield pa.table(columns, names=[str(n) for n in range(len(columns))])


def left(places: pa.Array, first: int, gone: pa.Array) -> pa.Array:
    """Those of the places of a row group, which begins at `first`, that are not deleted."""
    if not len(gone) or not len(places):
        return places
    return places.filter(pc.invert(pc.is_in(pc.add(places, first), value_set=gone)))


def _found_keys(group: RowGroup, column: Column, places: pa.Array) -> pa.ChunkedArray:
    data = group.taken(column.name, places)
    if data is None:
        return pa.chunked_array([pa.nulls(len(places), values.key_type(column.type))])
    return values.found(data, column.type)


def some_values(group: RowGroup, column: Column, places: pa.Array) -> list[Any]:
    """Some values of a column, null if the file lacks it."""
    data = group.taken(column.name, places)
    return [None] * len(places) if data is None else values.read(data, column.type)


def by_id(file: pq.ParquetFile) -> dict[int, str]:
    """Field id -> name in the file. Raises pa.ArrowInvalid if it has none."""
    found = {}
    for one in file.schema_arrow:
        number = (one.metadata or {}).get(b"PARQUET:field_id")
        if number is None:
            raise pa.ArrowInvalid("its columns have no field ids")
        found[int(number)] = one.name
    return found


def _conditions(spark: SparkSession, table: Table, wanted: Wanted, key: Sequence[Column | None]) -> Iterator[Any]:
    """What Iceberg is asked by the bounds of its files. `key`: named_in."""
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    buffer = java_class(spark, "java.nio.ByteBuffer")
    there = {one["name"] for one in table.state.fields}
    if wanted.between is not None and key[0] is not None:
        yield from between(expressions, buffer, key[0], *wanted.between)
    for some, column in zip(wanted.values, key, strict=True) if not (wanted.every or wanted.between) else ():
        if column is not None and len(some) and not some.null_count:
            ends = intervals_of(some, _INTERVALS if _is_large(table) else 1)
            ends = [(low, high if wanted.prefix is None else high + _ABOVE) for low, high in ends]
            yield from in_any(expressions, buffer, column, ends)
    if POSITION not in there:
        return
    if wanted.low is not None:
        yield expressions.greaterThanOrEqual(POSITION, buffer.wrap(wanted.low))
    if wanted.high is not None:
        yield expressions.lessThanOrEqual(POSITION, buffer.wrap(wanted.high))


def _is_large(table: Table) -> bool:
    """Whether its data files are so many that it is worth a closer look which of them are read."""
    summary = table.state.ancestry[0] if table.state.ancestry else {}
    return int(summary.get("total-data-files") or 0) > _LARGE
