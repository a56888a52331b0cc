"""All of a view made by Spark's tasks, in parts (firn_sql.views.view_parts): each runs the view's own query over its
rows, in its own DuckDB. What comes back are files, which the job commits as one that made them all itself would."""

import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from firn_spark.arrow import map_in_arrow
from firn_spark.files import row_lookup
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.files.write import Layout, NewFile
from firn_spark.slices import by_partition
from firn_spark.slices.decoding import labels_of
from firn_spark.slices.tasks import worked
from firn_spark.tables.columns import arrow_type
from firn_spark.views.fill_task import CUT, ROWS, Fill, PartInput, Share, Written, adding, cutting, filling, numbers_of
from firn_spark.views.tables_at import TableAt
from firn_sql.views.algebra import Group, quoted
from firn_sql.views.clock import Moments
from firn_sql.views.refresh import AFTER, Refresh
from firn_sql.views.refresh_port import Within, listed
from firn_sql.views.stored import Stored
from firn_sql.views.view_connection import Connection
from firn_sql.views.view_parts import Input, Parts

_SUMS: Final = "firn_sums"
_READS: Final = "task int, reads binary"
_CUT: Final = "slice int, input int, body binary, failure binary"


def fill_in_parts(
    spark: SparkSession,
    owner: str,
    parts: Parts,
    count: int,
    tables: Mapping[str, TableAt],
    stored: Stored,
    layout: Layout,
    connection: Connection,
    moments: Moments,
) -> tuple[list[NewFile], int]:
    """The files of all rows of the view `owner`, in no snapshot yet, and how many rows they have.

    parts   how its query is run in parts; count: so many
    tables  that it reads, by their names in lower case
    layout  of the view's table

    Raises TerminalError, Unfit, LostRace, and what Spark raises.
    """
    fill = _fill(spark, owner, parts, count, tables, connection, moments)
    mine = _cut(spark, fill, parts, count).repartition(count, "slice")
    if parts.sums is None:
        fill = replace(fill, rows=stored.rows(fill.rows))
    else:
        into = _adding_up(spark, fill, parts, count if _group(parts).ids else 1, stored, connection)
        mine = map_in_arrow(mine, adding(fill, into), CUT).union(_named(spark, into))
        fill, count = into, len(into.parts)
        mine = mine.repartition(count, "slice")
    how = Written(stored, layout, by_partition.WORTH if layout.partition and count > 1 else 0)
    bodies, more = worked(mine, filling(fill, how), layout if how.worth else None, 2 * count)
    found = [pickle.loads(one) for one in bodies]  # noqa: S301 (our own executors wrote it)
    return [*(file for some, _ in found for file in some), *more], sum(number for _, number in found)


def _fill(
    spark: SparkSession,
    owner: str,
    parts: Parts,
    count: int,
    tables: Mapping[str, TableAt],
    connection: Connection,
    moments: Moments,
) -> Fill:
    """What is run over the tables: `rows` of Plan.stored, or sums of groups."""
    files = _planned(spark, {one.source for one in parts.inputs}, tables)
    inputs = [_input(one, tables[one.source], files[one.source]) for one in parts.inputs]
    uncut = [_shared_out(one, inputs[i], i, count) for i, one in enumerate(parts.inputs) if not one.by]
    of_parts = {
        label: (number, [each for one in uncut for each in one[number]])
        for number, label in enumerate(_labels(spark, count))
    }
    run = Refresh(connection, parts.plan, _Names(), moments)
    rows = run.whole(AFTER) if parts.sums is None else run.rows_of(_group(parts))
    return Fill(owner, inputs, rows, of_parts)


def _group(parts: Parts) -> Group:
    if (group := parts.plan.group) is None:
        raise AssertionError("sums of no groups")
    return group


def _adding_up(
    spark: SparkSession, fill: Fill, parts: Parts, count: int, stored: Stored, connection: Connection
) -> Fill:
    """What is run over the sums that `fill` gives: the view's rows."""
    for one in fill.inputs:
        connection.register(f"{one.name}_none", one.schema.empty_table())
        connection.execute(f"CREATE TEMP TABLE {one.name} AS SELECT * FROM {one.name}_none")
    schema = connection.sql(f"SELECT * FROM ({fill.rows}) LIMIT 0").to_arrow_table().schema
    ids = _group(parts).ids
    numbers = f"SELECT {f'hash({listed(ids)})' if ids else '0'} AS n FROM {ROWS}"
    labels = _labels(spark, count)
    rows = stored.rows(parts.added_up(f"SELECT * FROM {_SUMS}"))
    return Fill(fill.owner, [PartInput(_SUMS, schema, numbers)], rows, {one: (n, ()) for n, one in enumerate(labels)})


def _labels(spark: SparkSession, count: int) -> list[int]:
    return labels_of(spark.range(0, 1, 1, 1), count)


def _planned(spark: SparkSession, names: Collection[str], tables: Mapping[str, TableAt]) -> dict[str, Files]:
    """The files of each table at its snapshot. Raises ForeignFiles, LostRace."""
    return {
        one: row_lookup.plan(spark, tables[one].table, Wanted((), snapshot=tables[one].until), None) for one in names
    }


def _input(one: Input, at: TableAt, files: Files) -> PartInput:
    columns = at.needed(set(one.scan.names.values()))
    schema = pa.schema([pa.field(at.in_sql(each.name), arrow_type(each.type)) for each in columns])
    numbers = numbers_of(one.scan.names, one.number) if one.by else ""
    return PartInput(one.scan.source, schema, numbers, files, row_lookup.ids_of(at.table), columns)


def _shared_out(one: Input, mine: PartInput, number: int, count: int) -> Sequence[Sequence[tuple[int, Share]]]:
    """What each part reads of an input that is not cut."""
    paths = mine.files.files
    return [[(number, share)] for share in ([(paths, 0, 1)] * count if one.whole else shares(paths, count))]


def shares(paths: Sequence[str], count: int) -> list[Share]:
    """All row groups of files in so many shares: whole files, if there are enough."""
    files = len(paths)
    if not files or files >= count:
        return [(paths[number::count], 0, 1) for number in range(count)]
    return [([paths[n % files]], n // files, (count - n % files - 1) // files + 1) for n in range(count)]


def _cut(spark: SparkSession, fill: Fill, parts: Parts, count: int) -> DataFrame:
    """The rows of inputs that are cut, by parts (fill_task.CUT), and each part's name once."""
    reads = [
        (number, share)
        for number, one in enumerate(parts.inputs) if one.by
        for share in shares(fill.inputs[number].files.files, count) if share[0]
    ]  # fmt: skip
    if not reads:
        return _named(spark, fill)
    rows = spark.createDataFrame([(task, pickle.dumps(one)) for task, one in enumerate(reads)], _READS)
    each = rows.repartitionByRange(len(reads), "task").select("reads")
    return map_in_arrow(each, cutting(fill), CUT).union(_named(spark, fill))


def _named(spark: SparkSession, fill: Fill) -> DataFrame:
    return spark.createDataFrame([(label, None, None, None) for label in fill.parts], _CUT)


class _Names:
    """Sources (refresh_port.Sources) that are tables by the names of a plan's inputs, all at one cut."""

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:  # noqa: ARG002
        """Those of the part, which is all that is there."""
        return f"SELECT {listed([quoted(one) for one in columns])} FROM {source}"

    def changes(self, source: str, columns: Sequence[str]) -> None:
        """Nothing changes."""

    def held(self, columns: Sequence[str], within: Within) -> str:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is held")

    def all_held(self, columns: Sequence[str]) -> None:
        """Nothing is held."""

    def count(self, source: str) -> int:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is looked up")
