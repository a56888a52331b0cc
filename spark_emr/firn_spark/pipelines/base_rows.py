"""Rows of a mirror's base as they are in its newest snapshot, as a pipeline's SQL reads them, and where rows are.

Their columns are those of the base in the types of decoded changes (columns.arrow_type), and `_firn_pos`, `_firn_ts`.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION
from firn_spark.files import row_lookup, values
from firn_spark.files.held_files import HeldFiles
from firn_spark.files.row_group import RowGroup
from firn_spark.pipelines.base_delta import key_columns_of
from firn_spark.tables import deletes
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.tables.objects import Objects

_ABOVE_ALL: Final = b"\xff" * 64  # positions that are not asked for: none is as high
_PLACE: Final = "_place"
FILE: Final = "_file"  # of rows with where they are: their data file
ROW: Final = "_row"  # the same: their place in it


def all_rows(spark: SparkSession, base: Table, columns: Sequence[Column]) -> Iterator[pa.Table]:
    """All rows, a row group at a time. Raises ForeignFiles, LostRace, StorageUnavailable."""
    return every_row(spark, base, [*columns, *MIRROR_METADATA])


def every_row(
    spark: SparkSession,
    table: Table,
    columns: Sequence[Column],
    snapshot: int | None = None,
    between: tuple[Column, int | None, int | None] | None = None,
) -> Iterator[pa.Table]:
    """These columns of all rows of a table as they were in a snapshot, None: the newest. `between`: files in which no
    row has a value of this column from the one end (values.key_type) to the other may be left out. Raises as
    all_rows."""
    wanted = row_lookup.Wanted((), snapshot=snapshot)
    if between is not None:
        wanted = row_lookup.Wanted(between[:1], snapshot=snapshot, between=between[1:])
    files = row_lookup.plan(spark, table, wanted, None)
    yield from every_row_in(files, row_lookup.ids_of(table), columns)


def every_row_in(
    files: row_lookup.Files, ids: Mapping[str, int], columns: Sequence[Column], own: int = 0, of: int = 1
) -> Iterator[pa.Table]:
    """The same of files that are planned, in any process. `ids`: row_lookup.ids_of; `own`: of row groups one in so many
    (`of`), from this one on."""
    objects = Objects(files.home)
    gone = deletes.gone_in(objects, files.deletes, files.files)
    for path in files.files:
        with objects.open(path) as file:
            there, first = row_lookup.by_id(file), 0
            for number in range(file.num_row_groups):
                group = RowGroup(file, number, _names(columns, ids, there), files.defaults)
                places = row_lookup.left(pa.arange(0, group.rows), first, gone[path])
                first += group.rows
                if number % of == own:
                    yield some_rows(group, columns, places)


def rows_of_keys(
    spark: SparkSession, base: Table, columns: Sequence[Column], key: Sequence[Column], keys: pa.Table
) -> list[pa.Table]:
    """The rows of these keys (base_delta.touched). Raises as all_rows."""
    return rows_with(spark, base, _wanted(key, keys), [*columns, *MIRROR_METADATA], keys if len(key) > 1 else None)


def rows_with(
    spark: SparkSession,
    table: Table,
    wanted: row_lookup.Wanted,
    columns: Sequence[Column],
    keys: pa.Table | None = None,
    *,
    where: bool = False,
    held: HeldColumns | None = None,
    known: HeldFiles | None = None,
) -> list[pa.Table]:
    """These columns of the rows that have a value that is `wanted` in each column of the key; `keys`: of those of these
    keys (k0, k1, …) alone; `where`: with the columns FILE and ROW; `held`: what was read of files before; `known`: the
    files of tables. Raises as all_rows."""
    files = row_lookup.plan(spark, table, wanted, None) if known is None else known.plan(spark, table, wanted)
    try:
        return rows_in(replace(files, held=held), row_lookup.ids_of(table), columns, keys, where=where)
    except LostRace:  # a file is gone: whoever tries again is to ask what there is
        if known is not None:
            known.clear()
        raise


def rows_in(
    files: row_lookup.Files,
    ids: Mapping[str, int],
    columns: Sequence[Column],
    keys: pa.Table | None = None,
    *,
    where: bool = False,
    held: Callable[[int], None] = lambda _: None,
) -> list[pa.Table]:
    """The same of files that are planned, in any process. `ids`: row_lookup.ids_of; `held`: hears of the bytes of rows
    as they are found. Raises as all_rows, and what `held` raises."""
    key = files.wanted.key

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> list[pa.Table]:
        found, first = [], 0
        with file:
            there = row_lookup.by_id(file)
            for number in range(file.num_row_groups):
                group = RowGroup(file, number, _names([*key, *columns], ids, there), files.defaults)
                places = group.candidates(key, files.wanted.values)
                places = pa.arange(0, group.rows) if places is None else places  # all are null, and null is wanted
                places = row_lookup.left(places, first, gone)
                begins, first = first, first + group.rows
                if keys is not None and len(places):
                    told = key_columns_of(group, key, places).append_column(_PLACE, places)
                    places = _of_keys(told, keys)[_PLACE].combine_chunks()
                if len(places):
                    rows = some_rows(group, columns, places)
                    held(rows.nbytes)
                    found.append(_with_places(rows, path, pc.add(places, begins)) if where else rows)
        return found

    return [part for parts in row_lookup.each(files, one) for part in parts]


def _with_places(rows: pa.Table, path: str, places: pa.Array) -> pa.Table:
    paths = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(rows)), pa.array([path]))
    return rows.append_column(FILE, paths).append_column(ROW, places)


def places_of(spark: SparkSession, table: Table, key: Sequence[Column], keys: pa.Table) -> deletes.Places:
    """Where the rows of these keys (k0, k1, …) are in a table with this key. Raises as all_rows."""
    if table.state.snapshot_id is None or not len(keys):
        return {}
    files = row_lookup.plan(spark, table, _wanted(key, keys), None)
    parts = row_lookup.read_columns(files, row_lookup.ids_of(table), POSITION, _ABOVE_ALL)
    if not parts:
        return {}
    names = [*(f"k{i}" for i in range(len(key))), "there", "path", "row", "holds"]
    found = pa.concat_tables(part.rename_columns(names) for part in parts).unify_dictionaries()
    if len(key) > 1:
        numbered = found.select(names[: len(key)]).append_column(_PLACE, pa.arange(0, len(found)))
        found = found.take(_of_keys(numbered, keys)[_PLACE])
    return deletes.by_file(found["path"], found["row"])


def _of_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    return rows.join(keys, keys.column_names, join_type="left semi", use_threads=False).sort_by(_PLACE)


def _wanted(key: Sequence[Column], keys: pa.Table) -> row_lookup.Wanted:
    some = [_decoded_key(keys[f"k{i}"], one) for i, one in enumerate(key)]
    return row_lookup.Wanted(key, some=some)


def _decoded_key(column: pa.ChunkedArray, one: Column) -> pa.Array:
    """A column of keys as row_lookup is asked for it: a uuid as its text."""
    found = column.unique()
    if one.type.name != "uuid":
        return found
    return pa.array([str(uuid.UUID(bytes=told)) for told in found.to_pylist()], pa.string())


def _names(columns: Sequence[Column], ids: Mapping[str, int], there: Mapping[int, str]) -> dict[str, str | None]:
    return {one.name: there.get(ids.get(one.name, -1)) for one in columns}


def some_rows(group: RowGroup, columns: Sequence[Column], places: pa.Array) -> pa.Table:
    """These columns of some rows of a row group, in the types of decoded changes."""
    return pa.table([_cells(group, one, places) for one in columns], names=[one.name for one in columns])


def _cells(group: RowGroup, column: Column, places: pa.Array) -> Any:
    kind, data = arrow_type(column.type), group.taken(column.name, places)
    if data is None:
        return pa.nulls(len(places), kind)
    if values.differs_in_files(column.type):
        return pa.array(values.read(data, column.type), kind)
    return data if data.type == kind else data.cast(kind)
