"""Copy-on-write: the data files that lose rows are written again without them, by whatever process has their names."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn_spark.files import readable_files, row_lineage, values
from firn_spark.files.row_lineage import NO_LINEAGE, Lineage, lineage_of
from firn_spark.files.row_lookup import by_id
from firn_spark.files.write import Layout, NewFile, ordered, write_rows
from firn_spark.not_eligible import ForeignFiles, Unfit
from firn_spark.tables import deletes
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import elements
from firn_spark.tables.objects import Objects
from firn_spark.tables.removals import Removal

_ROWS = 400_000  # that are held before they are written
_BYTES = 256 * 1024 * 1024  # of them
_READ_AT_ONCE = 64 * 1024 * 1024  # bytes of files


@dataclass(frozen=True)
class OldFile:
    """A data file that is written again. Goes to other processes.

    path     of it; `bytes`: its size
    deletes  the delete files that may name rows of it
    gone     the rows that it loses now (int64)
    lineage  of its rows
    """

    path: str
    bytes: int
    deletes: tuple[DeleteFile, ...]
    gone: pa.Array
    lineage: Lineage = NO_LINEAGE


@dataclass(frozen=True)
class OldFiles:
    """Data files that are written again, and as Iceberg has them (org.apache.iceberg.DataFile); `removed`: what goes
    with them."""

    files: Sequence[OldFile]
    java: Sequence[Any]
    removed: Removal


def old_files(spark: SparkSession, table: Table, gone: deletes.Places, most: int | None = None) -> OldFiles:
    """The data files that lose these rows. Raises LostRace, ForeignFiles, and Unfit if they have more than `most`
    bytes."""
    found, java, vectors, foreign = [], [], [], {}
    descriptions = deletes.Descriptions(spark, table)
    # Not as the look-up was told of them (deletes.files_of): it leaves out equality deletes of keys that it does not
    # look for, and what is written again would be newer than those.
    for task in deletes.tasks_of(table, gone):
        file, told = task.file(), list(elements(task.deletes()))
        path = str(file.location())
        if why := readable_files.why_not(file, told):
            foreign[path] = why
        deleted = tuple(each for each in map(descriptions.of, told) if each is not None)
        found.append(OldFile(path, int(file.fileSizeInBytes()), deleted, gone[path], lineage_of(file)))
        java.append(file)
        vectors += deletes.vectors_among(told)
    if foreign:
        raise ForeignFiles(next(iter(foreign.values())), foreign)
    if most is not None and sum(one.bytes for one in found) > most:
        raise Unfit(f"more than {most} bytes of files that one process would write again")
    return OldFiles(found, java, Removal(replaced=vectors))


def rewritten(layout: Layout, old: Sequence[OldFile], new: pa.Table) -> list[NewFile]:
    """Files of what stays of the old ones, with the rows `new` (write.rows_of) among them; some thousand rows at a
    time, each time by key. What the layout has beside the columns of `new` is null in those.

    Raises ForeignFiles, LostRace, StorageUnavailable, UnknownOutcome.
    """
    there = set(new.column_names)
    columns = [new[one.name] if one.name in there else values.nothing(len(new), one) for one in layout.fields]
    new = pa.table(columns, schema=pa.schema(layout.fields))
    files: list[NewFile] = []
    for rows in _held(layout, old, new):
        files += write_rows(layout, ordered(layout, rows))
    return files


def kept(layout: Layout, old: Sequence[OldFile]) -> Iterator[pa.Table]:
    """What stays of the old files, some thousand rows at a time. Raises as `rewritten`."""
    return _held(layout, old, pa.schema(layout.fields).empty_table())


def _held(layout: Layout, old: Sequence[OldFile], new: pa.Table) -> Iterator[pa.Table]:
    held, schema = [new], pa.schema(layout.fields)
    try:
        for some in _together(old):
            for part in _stay(layout, some):
                held.append(pa.table(part.columns, schema=schema))
                if sum(map(len, held)) >= _ROWS or sum(one.nbytes for one in held) >= _BYTES:
                    yield pa.concat_tables(held)
                    held = []
        if sum(map(len, held)):
            yield pa.concat_tables(held)
    except pa.ArrowException as error:
        # Of the others nobody knows yet, and all are to be written again.
        raise readable_files.other(error, [file.path for file in old]) from error


def _together(old: Iterable[OldFile]) -> Iterator[list[OldFile]]:
    """Files that are read at once: many small ones, large ones alone."""
    some: list[OldFile] = []
    for file in old:
        if some and sum(one.bytes for one in some) + file.bytes > _READ_AT_ONCE:
            yield some
            some = []
        some.append(file)
    if some:
        yield some


def _stay(layout: Layout, some: Sequence[OldFile]) -> Iterator[pa.Table]:
    objects = Objects(layout.home)

    def parts(file: OldFile) -> Iterator[pa.Table]:
        told = (deletes.read(objects, one).get(file.path) for one in file.deletes)
        removed = pa.concat_arrays([file.gone, *(one for one in told if one is not None)])
        return kept_rows(objects, file.path, removed, layout.fields, file.lineage)

    if len(some) == 1:
        yield from parts(some[0])
        return
    with ThreadPoolExecutor(objects.at_once) as pool:
        for found in pool.map(lambda file: list(parts(file)), some):
            yield from found


def kept_rows(
    objects: Objects,
    path: str,
    removed: pa.Array | None,
    fields: Sequence[pa.Field],
    lineage: Lineage = NO_LINEAGE,
) -> Iterator[pa.Table]:
    """The rows of one file that are not `removed`, as the table's fields (values.file_field) are now, a row group at a
    time. `lineage`: the file's. Raises pa.ArrowException where they can't be."""
    ids = list(map(values.field_id, fields))
    with objects.open(path) as file:
        there = by_id(file)
        names = [there[one] for one in ids if one in there]
        first = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            data = file.read_row_group(group, columns=names)
            numbers = pa.arange(0, count)
            if removed is not None:
                numbers = numbers.filter(pc.invert(pc.is_in(pa.arange(first, first + count), value_set=removed)))
                data = data.take(numbers)
            places = pc.add(numbers, first)
            first += count

            def column(one: int, field: pa.Field, data: pa.Table = data, places: pa.Array = places) -> pa.ChunkedArray:
                if row_lineage.is_of(one):
                    return lineage.cells(data, there, one, places)
                return values.now(data, there.get(one), field) if one in there else values.lacking(len(places), field)

            columns = [column(one, field) for one, field in zip(ids, fields, strict=True)]
            yield pa.table(columns, names=[field.name for field in fields])
