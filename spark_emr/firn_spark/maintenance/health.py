"""How a table is, measured by its metadata alone: no data file and no file of deletes is opened."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from firn.config.maintenance import Care
from firn.log.table_health import Health
from firn.maintenance import compaction_planner
from firn.maintenance.compaction_planner import Group
from firn.maintenance.health import Versions, health_of
from firn_spark.maintenance import manifests
from firn_spark.maintenance.listing import Cold, Listing, listing, names_of
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class


def measure(
    spark: SparkSession,
    table: Table,
    care: Care,
    now: datetime,
    known: Health | None = None,
    cold: Cold | None = None,
) -> tuple[Health, Listing]:
    """The table's Health as of its newest snapshot, and the live files that it was told by (compaction.compact takes
    them).

    known  the Health before: what was found and done then is kept
    cold   tells which data files are in a cold storage class; None: none is
    """
    found = listing(spark, table, cold)
    groups = planned(table, found, care)
    told = versions(spark, table)
    if found.unfit:  # compaction leaves such a table alone
        told = replace(told, rewrite_manifests=0)
    measured = health_of(
        str(table.name), now, found.files, found.deletes, groups, care.compaction, told,
        names_of(table, (group.files[0] for group in groups)), known,
    )  # fmt: skip
    return measured, found


def planned(
    table: Table, found: Listing, care: Care, *, most: int = compaction_planner.GROUP_BYTES, least: int = 0
) -> Sequence[Group]:
    """What is worth rewriting (compaction_planner.plan): nothing of a table that is unfit for it."""
    if found.unfit or table.branch is not None:
        return ()
    return compaction_planner.plan(
        found.files, care.compaction, int(table.java.spec().specId()), most=most, least=least
    )


def versions(spark: SparkSession, table: Table) -> Versions:
    """What the table's metadata says of itself: one manifest list is read, one object's size asked."""
    current = table.java.operations().current()
    snapshots, head = len(table.state.ancestry), table.head()
    # Snapshots off main count too: they are in the metadata, and expire.
    snapshots = max(snapshots, int(current.snapshots().size()))
    location = current.metadataFileLocation()
    size = int(table.java.io().newInputFile(location).getLength()) if location else 0
    if head is None:
        return Versions(0, snapshots, None, size)
    ancestors = java_class(spark, "org.apache.iceberg.util.SnapshotUtil")
    oldest = ancestors.oldestAncestor(table.java) if table.branch is None else None
    made = datetime.fromtimestamp(oldest.timestampMillis() / 1_000, UTC) if oldest is not None else None
    count = int(head.allManifests(table.java.io()).size())
    worth = sum(len(one.manifests) for one in manifests.planned(spark, table))
    return Versions(count, snapshots, made, size, table.state.kept_by_others, worth)
