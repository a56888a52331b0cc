"""A snapshot of nothing on main, as a tag and an expiry put one there on REST catalogs: no row is another one by it."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn_lake.fresh.through_sql import _is_of
from firn_lake.lake import Lake
from firn_lake.refs.branches import NotAhead


def nothing(table: Table, **more: str) -> None:
    with (
        table.transaction() as both,
        both.update_snapshot(snapshot_properties={"firn.format": "1", **more}).fast_append(),
    ):
        pass


def test_a_mirror_is_of_its_base_though_something_was_tagged(orders: Table) -> None:
    made_of = orders.metadata.current_snapshot_id
    assert made_of is not None
    nothing(orders)
    nothing(orders)
    assert _is_of(orders.metadata, made_of)
    orders.append(orders.scan().to_arrow())
    nothing(orders)
    assert not _is_of(orders.metadata, made_of)


def test_a_branch_moves_over_nothing_and_over_nothing_else(catalog: Catalog) -> None:
    catalog.create_namespace("own")
    rows = pa.table({"id": [1, 2]})
    own = catalog.create_table("own.t", rows.schema)
    own.append(rows)
    table = Lake(catalog).table("own.t")
    for name in ("one", "two"):
        table.branch(name)
        own.refresh().append(rows, branch=name)
    nothing(own.refresh())
    table.fast_forward("main", "one")
    assert table.read().count() == 4
    with pytest.raises(NotAhead):
        table.fast_forward("main", "two")


def test_a_branch_does_not_move_over_what_tells_something(catalog: Catalog) -> None:
    catalog.create_namespace("own")
    rows = pa.table({"id": [1, 2]})
    own = catalog.create_table("own.t", rows.schema)
    own.append(rows)
    table = Lake(catalog).table("own.t")
    table.branch("one")
    own.refresh().append(rows, branch="one")
    nothing(own.refresh(), **{"firn.schema": "1"})
    with pytest.raises(NotAhead):
        table.fast_forward("main", "one")
