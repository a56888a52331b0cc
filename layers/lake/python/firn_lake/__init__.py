"""Tables outside Spark: catalogs, snapshots, SQL over any point in time (PyIceberg and DuckDB).

>>> import firn_lake
>>> lake = firn_lake.connect(".firn")
>>> lake.table("shop.orders").read(as_of="2026-01-31").pandas()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firn_lake.changes import Changes as Changes
    from firn_lake.connecting import connect as connect
    from firn_lake.cursor import Cursor as Cursor
    from firn_lake.federated import Lakes as Lakes
    from firn_lake.federated import together as together
    from firn_lake.lake import Lake as Lake
    from firn_lake.lake_table import LakeTable as LakeTable
    from firn_lake.partitioning import partition_by as partition_by

_WHERE = {
    "Changes": "changes",
    "Cursor": "cursor",
    "Lake": "lake",
    "LakeTable": "lake_table",
    "Lakes": "federated",
    "together": "federated",
    "connect": "connecting",
    "partition_by": "partitioning",
}


def __getattr__(name: str) -> Any:
    """Load PyIceberg and DuckDB only when asked for: functions import single modules of this package."""
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(f"firn_lake.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'firn_lake' has no attribute {name!r}")
