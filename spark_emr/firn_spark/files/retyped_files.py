"""Another type for columns of a table that Spark does not open: its data files are written again in this process, with
the values as the new columns have them (tables/retype.py, whose last step gives these their names)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.changes.decode.texts import retyped
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import HELD
from firn.config.names import RETYPED
from firn_spark.files import copy_on_write, row_lookup, values
from firn_spark.files.row_lineage import with_lineage
from firn_spark.files.write import NewFile, data_files, layout_of, ordered, write_rows
from firn_spark.tables import retype, row_delta
from firn_spark.tables.evolve import Table


def _rewrite(
    spark: SparkSession, table: Table, columns: Sequence[tuple[Column, Type]], moved: Mapping[int, int], name: str
) -> None:
    """As retype.Rewrite says. Raises fence.LostRace, fence.CommitUnknown, ForeignFiles."""
    snapshot = table.state.snapshot_id
    if snapshot is None:
        return
    layout = with_lineage(layout_of(table), table)
    none = pa.array([], pa.int64())
    old = copy_on_write.old_files(spark, table, dict.fromkeys(_all_files(spark, table), none))
    new: list[NewFile] = []
    for rows in copy_on_write.kept(layout, old.files):
        new += write_rows(layout, ordered(layout, _changed(rows, columns, moved)))
    added, stream = data_files(spark, table, new), table.state.properties.get("firn.stream", "")
    said = {"firn.format": "1", name: "true"}
    row_delta.replace(spark, table, snapshot, old.java, old.removed, added, said, stream)


def _all_files(spark: SparkSession, table: Table) -> Sequence[str]:
    return row_lookup.plan(spark, table, row_lookup.Wanted(()), None).files


def _changed(rows: pa.Table, columns: Sequence[tuple[Column, Type]], moved: Mapping[int, int]) -> pa.Table:
    """The rows, with the values of columns in those that are to be too."""
    for column, was in columns:
        change = retyped(was, column.type)
        found = [None if one is None else change(one) for one in values.read(rows[column.name], was)]
        rows = _with(rows, column.name + RETYPED, found, column.type)
    if HELD in rows.column_names:
        told = rows[HELD].to_pylist()
        held = [None if one is None else [(moved.get(number, number), at) for number, at in one] for one in told]
        field = rows.schema.field(HELD)
        rows = rows.set_column(rows.schema.get_field_index(HELD), field, pa.array(held, field.type))
    return rows


def _with(rows: pa.Table, name: str, found: Sequence[Any], kind: Type) -> pa.Table:
    field = rows.schema.field(name)
    return rows.set_column(rows.schema.get_field_index(name), field, values.written(found, kind, field))


retype_columns: Final = partial(retype.retype, rewrite=_rewrite)
"""tables.retype.retype of whatever table."""
finish_retype: Final = partial(retype.finish, rewrite=_rewrite)
"""tables.retype.finish of whatever table."""
