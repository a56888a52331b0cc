"""The table of a view: made, and given other columns in the commit that gives it other rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.changes.decode.types import storable
from firn.changes.metadata_columns import IDENTITY, VIEW_METADATA
from firn.config.file_writing import PAGE_ROWS
from firn.config.modes import VIEW
from firn.config.views import View
from firn.tables import bloom_filters, file_properties, partition_policy
from firn.tables.table_state import MODE
from firn_spark.files.held_files import HeldFiles
from firn_spark.files.write import NewFile, data_files
from firn_spark.merge.landing import land_instead
from firn_spark.merge.mirror_commit import Written
from firn_spark.table_commit import RangeContext
from firn_spark.tables import fence
from firn_spark.tables.alterations import repartition, upgrade
from firn_spark.tables.columns import iceberg_type
from firn_spark.tables.deletes import Descriptions
from firn_spark.tables.evolve import FORMAT_VERSION, Table
from firn_spark.tables.java import java_class
from firn_spark.tables.metadata_cache import KNOWN
from firn_sql.views.stored import Stored

_PAGE_ROWS: Final = "2000"  # so that of the rows that go, which refreshes look up, not nearly all pages are read


def made(context: RangeContext, view: View, how: Stored) -> Table:
    """Creates it. Raises what Tables.create raises."""
    rule = view.rule
    properties = {
        "firn.key": json.dumps([IDENTITY]), MODE: VIEW, "firn.stream": context.stream,
        **bloom_filters.properties(rule.bloom, (), how.columns, {}, rule.bloom_size),
        PAGE_ROWS: _PAGE_ROWS,
        **file_properties.first(rule.writing),
        **({FORMAT_VERSION: str(rule.writing.format)} if rule.writing.format else {}),
        **(partition_policy.asked(rule.partition_by) if rule.partition_by else {}),
    }  # fmt: skip
    create = context.tables.create
    return create(view.table, context.warehouse, how.columns, VIEW_METADATA, rule.partition_by, properties)


def settled(context: RangeContext, table: Table, view: View, how: Stored) -> Table:
    """The table as its rule says how files are written and partitioned. Raises fence.LostRace, fence.CommitUnknown,
    ValueError for a partition that it can't have."""
    spark, tables, rule, now = context.spark, context.tables, view.rule, table.state.properties
    table = upgrade(spark, tables, table, rule.writing.format)
    if table.is_partitioned_anew(rule.partition_by):
        table = repartition(spark, tables, table, rule.partition_by)
    blooms = bloom_filters.properties(rule.bloom, (), how.columns, now, rule.bloom_size)
    return fence.unmoved(
        table, tables.set_properties(table, {**blooms, **file_properties.properties(rule.writing, now)})
    )


def fits(table: Table, how: Stored) -> bool:
    """Whether the table has exactly the columns of its query, in their order."""
    there = [(one.name, storable(one.type)) for one in table.columns()[0]]
    return there == [(one.name, storable(one.type)) for one in how.columns]


def follow(spark: SparkSession, files: HeldFiles, before: Table, now: Table, written: Written) -> None:
    """The next look-up need not plan the view's files, if its newest snapshot is what was written on the one before:
    its child, with as many bytes of new files."""
    if not files.holds(before, before.state.snapshot_id) or written.old or written.removed.replaced:
        return
    head, descriptions = now.head(), Descriptions(spark, now)
    new, gone = [descriptions.said(one) for one in written.files], list(map(descriptions.of, written.removed.added))
    known = [one for one in gone if one is not None]
    size = sum(int(one["file-size-in-bytes"]) for one in new) + sum(one.bytes for one in known)
    told = int(now.state.ancestry[0].get("added-files-size") or 0)
    if head.parentId() == before.state.snapshot_id and len(known) == len(gone) and size == told:
        files.follow(now, before.state.snapshot_id, int(head.snapshotId()), new, known)


@dataclass(frozen=True)
class Remake:
    """All rows of a view, to be written again. `table`: as its files are to be written; `both`: the
    org.apache.iceberg.Transaction that gives it these columns, None if it has them."""

    context: RangeContext
    before: Table
    table: Table
    both: Any = None

    @classmethod
    def of(cls, context: RangeContext, table: Table, how: Stored) -> "Remake":
        """Of a view that is to have the columns of its query: those that are others come and go with its rows."""
        if fits(table, how):
            return cls(context, table, table)
        spark, there = context.spark, {one.name: storable(one.type) for one in table.columns()[0]}
        wanted = {one.name: storable(one.type) for one in how.columns}
        both = table.java.newTransaction()
        update = both.updateSchema()
        for name, kind in there.items():
            if wanted.get(name) != kind:
                update = update.deleteColumn(name)
        for name, kind in wanted.items():
            if there.get(name) != kind:
                update = update.addColumn(None, name, iceberg_type(spark, kind))
        for name, before in zip(wanted, [None, *wanted], strict=False):
            update = update.moveFirst(name) if before is None else update.moveAfter(name, before)
        update.commit()
        java = both.table()
        return cls(context, table, Table(table.name, java, KNOWN.state_of(spark, java)), both)

    def land(self, new: Sequence[NewFile], summary: Mapping[str, str], stream: str) -> None:
        """These files become its rows, in one snapshot. Raises fence.LostRace, fence.CommitUnknown."""
        if self.both is None:
            land_instead(self.context.spark, self.before, new, summary, stream)
            return
        spark = self.context.spark
        files = data_files(spark, self.table, new)
        every = java_class(spark, "org.apache.iceberg.expressions.Expressions").alwaysTrue()
        update = self.both.newOverwrite().overwriteByRowFilter(every)
        for file in files:
            update.addFile(file)
        fence.instead(spark, self.before, self.both, update, files, summary)
