"""A table that the rows of a pipeline are joined with, as it is in one snapshot: read by the values that rows touch, in
whichever process joins them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column, storable
from firn.config.pipelines import Pipeline
from firn.errors import TerminalError
from firn.tables.joined_snapshots import By, Joined
from firn_spark.files import row_lookup
from firn_spark.files.row_lookup import Files, Limits, Wanted
from firn_spark.not_eligible import ForeignFiles, Unfit
from firn_spark.pipelines.base_rows import rows_in
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Tables
from firn_sql.check import check
from firn_sql.isolation import TooLarge

_MOST_FILES: Final = 20_000
_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"  # as a column of them is read
_KEYS: Final = frozenset(
    {"boolean", "int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "uuid", "binary"}
)
_LIMITS: Final = Limits(files=_MOST_FILES, rows=2**62, all_rows=2**62, delete_bytes=512 * 1024 * 1024)


@dataclass(frozen=True)
class JoinedTable:
    """The table of one join, a firn_sql.feed_plan.JoinedRows.

    table    its name
    at       the snapshot
    columns  all that SQL may name
    ids      row_lookup.ids_of
    files    those of its snapshot
    """

    table: str
    at: Joined
    columns: tuple[Column, ...]
    ids: Mapping[str, int]
    files: Files

    def rows(self, columns: Sequence[str], keys: pa.Table, most: int) -> pa.Table:
        """As firn_sql.partners.Lookup says."""
        by, low = {one.name: one for one in self.columns}, {one.name.lower(): one for one in reversed(self.columns)}
        key = [low[name.lower()] for name in keys.column_names]
        some = [_sought(keys.column(i), one) for i, one in enumerate(key)]
        wanted = Wanted(key, some=some)
        size = 0

        def held(bytes_: int) -> None:
            nonlocal size
            size += bytes_
            if size > most:
                raise TooLarge(f"it is joined with more than {most:,} bytes of {self.table}")

        chosen = [by[name] for name in columns]
        schema = pa.schema([(one.name, arrow_type(one.type)) for one in chosen])
        try:
            found = rows_in(replace(self.files, wanted=wanted), self.ids, chosen, held=held)
        except ForeignFiles as why:
            raise TerminalError(f"{self.table}: {why.why}, such as {why.paths[0]}; compact it: firn compact") from why
        return pa.concat_tables([schema.empty_table(), *(one.select(schema.names).cast(schema) for one in found)])


def _sought(values: pa.ChunkedArray, column: Column) -> pa.Array:
    found = values.unique().cast(arrow_type(column.type))  # of several columns one may have a value twice
    if column.type.name != "uuid":  # of which only such texts are asked for; another one equals none
        return found
    return found.filter(pc.fill_null(pc.match_substring_regex(found, _UUID), False))


def joined_tables(
    spark: SparkSession, tables: Tables, recorded: By | None, pipeline: Pipeline
) -> tuple[JoinedTable, ...]:
    """The tables of a pipeline's joins, in their order. `recorded`: the snapshots that are joined; None: the newest.
    Raises TerminalError where one is not there."""
    if not pipeline.joins:
        return ()
    known = None if recorded is None else recorded.get(pipeline.name, {})
    there = {str(name): tables.load(name) for name in pipeline.joins}
    found = []
    for join in check(pipeline.sql).joins:
        table = there[join.table]
        if table is None:
            raise TerminalError(
                f"pipeline {pipeline.name}: the table {join.table}, which it joins, is not there; its rows wait here "
                "until it has been made: then firn resume"
            )
        at = Joined(table.state.uuid, table.state.snapshot_id) if known is None else known[join.table]
        columns = tuple(replace(one, type=storable(one.type)) for one in table.columns()[0])
        named = {key.column.lower() for key in join.keys}
        odd = next((one for one in columns if one.name.lower() in named and one.type.name not in _KEYS), None)
        if odd is not None:
            why = f"{join.table}.{odd.name}, which is {odd.type}: rows are not looked up by such values"
            raise TerminalError(f"pipeline {pipeline.name} joins by {why}; join by another column")
        key = next((one for one in columns if one.name.lower() == join.keys[0].column.lower()), None)
        files = Files(Wanted(()))
        if key is not None and at.snapshot is not None:  # one that is not there the SQL is refused for
            wanted = Wanted((key,), snapshot=at.snapshot, between=(None, None), bounds=True)
            try:
                files = row_lookup.plan(spark, table, wanted, _LIMITS)
            except Unfit as why:
                raise TerminalError(f"pipeline {pipeline.name} joins {join.table}: {why}; compact it") from why
        found.append(JoinedTable(join.table, at, columns, row_lookup.ids_of(table), files))
    return tuple(found)
