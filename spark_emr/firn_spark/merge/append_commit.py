"""Every change once into an append table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import STRING, Column
from firn.changes.metadata_columns import APPEND_METADATA, IDENTITY, POSITION
from firn_spark.files import row_lookup
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.files.write import write_cells
from firn_spark.merge import append_columns
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table

KEY = (Column(IDENTITY, STRING),)
_ABOVE_ALL = b"\xff" * 64  # positions that are not asked for: none is as high


def new_rows(spark: SparkSession, table: Table | None, good: pa.Table) -> pa.Table:
    """The decoded changes (AppendColumns) that the table does not have yet, each once. Raises Unfit."""
    mine = append_columns.once(good)
    if table is None or not len(mine):
        return mine
    low, high = ends_of(mine["_pos"])
    files = row_lookup.plan(spark, table, wanted(mine, low, high), row_lookup.ALONE)
    return not_in(mine, files, row_lookup.ids_of(table))


def ends_of(positions: pa.ChunkedArray) -> tuple[bytes | None, bytes | None]:
    """The least and the greatest position; none if a change has none."""
    ends = pc.min_max(positions)
    return (None, None) if positions.null_count else (ends["min"].as_py(), ends["max"].as_py())


def wanted(mine: pa.Table, low: bytes | None, high: bytes | None) -> Wanted:
    """What to look for in a table that may have these changes, whose positions are between `low` and `high`."""
    return Wanted(KEY, low=low, high=high, some=[append_columns.names_of(mine)])


def not_in(mine: pa.Table, files: Files, ids: Mapping[str, int]) -> pa.Table:
    """Those that these files of the table do not have. `ids`: row_lookup.ids_of."""
    parts = row_lookup.read_columns(files, ids, POSITION, _ABOVE_ALL)
    there = pa.chunked_array([part[0].cast(pa.string()).combine_chunks() for part in parts], pa.string())
    return append_columns.without(mine, there.combine_chunks())


def apply(
    spark: SparkSession,
    table: Table,
    new: pa.Table,
    columns: Sequence[Column],
    properties: Mapping[str, str],
    by: AppendColumns,
) -> None:
    """Appends the rows in one snapshot whose summary carries `properties`.

    Raises fence.LostRace, fence.CommitUnknown.
    """
    cells: Mapping[str, Any] = append_columns.cells(new, columns, by) if len(new) else {}
    land(spark, table, write_cells(spark, table, [*columns, *APPEND_METADATA], cells, {}), properties, by.stream)


def land(spark: SparkSession, table: Table, files: Sequence[Any], properties: Mapping[str, str], stream: str) -> None:
    """Appends data files in one snapshot. Raises as apply."""
    append = table.java.newAppend()
    for file in files:
        append.appendFile(file)
    fence.commit(spark, table, append, files, properties, stream)
