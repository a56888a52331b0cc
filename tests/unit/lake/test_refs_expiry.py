"""Letting snapshots go of tables that Firn does not look after."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate

from firn.errors import ConfigError
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.refs import expiry
from firn_lake.refs.names import RefRefused
from firn_lake.writing.commit import MovedOn

AT_ONCE = timedelta(0)
ROWS = pa.table({"id": [1]})


@pytest.fixture
def own(catalog: Catalog) -> Table:
    """A table with 24 snapshots on main, the first of which is tagged."""
    catalog.create_namespace("own")
    table = catalog.create_table("own.numbers", ROWS.schema)
    table.append(ROWS)
    with table.transaction() as one:
        for _ in range(23):
            one.append(ROWS)
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "first").commit()
    return table


@pytest.fixture
def table(catalog: Catalog, own: Table) -> LakeTable:
    return Lake(catalog).table("own.numbers")


def test_old_snapshots_go_and_what_is_named_or_new_stays(table: LakeTable) -> None:
    before = [one.id for one in table.snapshots()]
    told = table.expire(AT_ONCE, at_least=1, dry_run=True)
    assert len(table.snapshots()) == 24
    assert told == table.expire(AT_ONCE, at_least=1)
    assert [one.id for one in table.snapshots()] == [before[0], *before[-20:]]
    assert set(told.expired) == set(before[1:-20])
    assert told.kept[before[0]] == "tag first"
    assert table.read(as_of="first").count() == 1
    assert table.read().count() == 24


def test_no_time_means_a_snapshot_from_before_those_that_went(table: LakeTable, own: Table) -> None:
    own.refresh()
    first = own.metadata.snapshots[0]
    with own.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(_statistics(first.snapshot_id)))
    partitions = SetPartitionStatisticsUpdate.model_validate(
        {"partition-statistics": _statistics(own.metadata.snapshots[1].snapshot_id)}
    )
    own.catalog.commit_table(own, (), (partitions,))
    table.expire(AT_ONCE, at_least=1)
    metadata = table.iceberg.metadata
    # "all entries before a snapshot that has expired should be removed": iceberg.apache.org/spec, "snapshot-log"
    assert [one.snapshot_id for one in metadata.snapshot_log] == [one.snapshot_id for one in metadata.snapshots[1:]]
    with pytest.raises(NoSuchMoment):
        table.read(as_of=datetime.fromtimestamp(first.timestamp_ms / 1000, UTC))
    assert table.read(as_of="first").count() == 1
    assert [one.snapshot_id for one in metadata.statistics] == [first.snapshot_id]
    assert metadata.partition_statistics == []


def _statistics(snapshot: int) -> dict[str, object]:
    sizes = {"file-size-in-bytes": 4, "file-footer-size-in-bytes": 2}
    return {"snapshot-id": snapshot, "statistics-path": "s.puffin", "blob-metadata": [], **sizes}


def test_young_snapshots_stay(table: LakeTable) -> None:
    assert table.expire(at_least=1).expired == ()


def test_a_tag_whose_time_is_over_goes_with_its_snapshot(table: LakeTable) -> None:
    first = table.snapshots()[0].id
    table.drop("first")
    table.tag("first", first, keep=timedelta(days=1))
    done = expiry.expire(table.iceberg, AT_ONCE, 1, datetime.now(UTC) + timedelta(days=2))
    assert done.refs == ("first",)
    assert [one.name for one in table.refs()] == ["main"]
    assert first in done.expired
    assert len(table.snapshots()) == 20


def test_a_branch_that_moved_meanwhile_is_seen(table: LakeTable, own: Table) -> None:
    stale = table.iceberg
    own.refresh()
    own.append(ROWS)
    with pytest.raises(MovedOn):
        expiry.expire(stale, AT_ONCE, 1, datetime.now(UTC))
    assert len(table.snapshots()) == 25


def test_a_tag_that_is_set_meanwhile_on_what_goes_is_kept(table: LakeTable, own: Table) -> None:
    stale = own.refresh()
    late = table.snapshots()[1].id
    table.tag("late", late)
    with pytest.raises(MovedOn, match="late was set on snapshot"):
        expiry.expire(stale, AT_ONCE, 1, datetime.now(UTC))
    assert {one.name: one.snapshot for one in table.refs()}["late"] == late
    assert late not in table.expire(AT_ONCE, at_least=1).expired


def test_what_firn_looks_after_is_left_to_it(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(RefRefused, match=r"run firn expire shop\.orders \(--dry-run"):
        Lake(catalog).table("shop.orders").expire(AT_ONCE)


def test_bad_settings_are_refused(table: LakeTable) -> None:
    with pytest.raises(ConfigError, match="write keep="):
        table.expire(timedelta(days=-1))
