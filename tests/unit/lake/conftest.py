from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn_lake.catalogs.catalog import open_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    yield opened
    opened.close()


@pytest.fixture
def orders(catalog: Catalog) -> Table:
    """Two snapshots: three orders of epoch 1, two more of epoch 2; the first one is tagged."""
    catalog.create_namespace_if_not_exists("shop")
    rows = pa.table({"id": [1, 2, 3], "amount": [10.0, 20.0, 30.0], "note": ["a", "b", None]})
    table = catalog.create_table(
        "shop.orders",
        rows.schema,
        properties={"firn.key": '["id"]', "firn.stream": "shop", "firn.source": "public.orders", "firn.mode": "mirror"},
    )
    table.append(rows, snapshot_properties={"firn.epoch.shop": "1", "firn.events": "3"})
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "month-end").commit()
    table.append(
        pa.table({"id": [4, 5], "amount": [40.0, 50.0], "note": ["d", "e"]}, schema=rows.schema),
        snapshot_properties={"firn.epoch.shop": "2"},
    )
    return table


@pytest.fixture
def odd(catalog: Catalog) -> Table:
    """A table whose names need every kind of quoting."""
    catalog.create_namespace_if_not_exists("shop")
    rows = pa.table({"dot.ted": [1, 2], "$d": ["x", "y"], 'quo"te': [True, False]})
    table = catalog.create_table(("shop", "Mixed Case-Table"), rows.schema)
    table.append(rows)
    return table
