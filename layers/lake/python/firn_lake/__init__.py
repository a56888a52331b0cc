"""Tables outside Spark: catalogs, snapshots, SQL over any point in time (PyIceberg and DuckDB).

>>> import firn_lake
>>> lake = firn_lake.connect(".firn")
>>> lake.table("shop.orders").read(as_of="2026-01-31").pandas()
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from firn_lake.changes.cursor import Cursor as Cursor
    from firn_lake.changes.row_changes import Changes as Changes
    from firn_lake.connection import connect as connect
    from firn_lake.federated import Lakes as Lakes
    from firn_lake.federated import together as together
    from firn_lake.lake import Lake as Lake
    from firn_lake.lake_table import LakeTable as LakeTable
    from firn_lake.schemas.arrow_schemas import to_arrow as to_arrow
    from firn_lake.schemas.arrow_schemas import to_iceberg as to_iceberg
    from firn_lake.schemas.arrow_values import to_stored as to_stored
    from firn_lake.schemas.evolution_steps import NewColumn as NewColumn
    from firn_lake.writing.partitioning import bucket as bucket
    from firn_lake.writing.partitioning import day as day
    from firn_lake.writing.partitioning import hour as hour
    from firn_lake.writing.partitioning import identity as identity
    from firn_lake.writing.partitioning import month as month
    from firn_lake.writing.partitioning import partition_by as partition_by
    from firn_lake.writing.partitioning import spec_for as spec_for
    from firn_lake.writing.partitioning import truncate as truncate
    from firn_lake.writing.partitioning import year as year

WHERE: Final = {
    "Changes": "changes.row_changes",
    "Cursor": "changes.cursor",
    "Lake": "lake",
    "LakeTable": "lake_table",
    "Lakes": "federated",
    "NewColumn": "schemas.evolution_steps",
    "connect": "connection",
    "to_arrow": "schemas.arrow_schemas",
    "to_iceberg": "schemas.arrow_schemas",
    "to_stored": "schemas.arrow_values",
    "together": "federated",
    **dict.fromkeys(
        ("bucket", "day", "hour", "identity", "month", "partition_by", "spec_for", "truncate", "year"),
        "writing.partitioning",
    ),
}


def __getattr__(name: str) -> Any:
    """Load PyIceberg and DuckDB only when asked for: functions import single modules of this package. Raises
    MissingExtra where they are not installed."""
    if name in WHERE:
        import importlib

        try:
            return getattr(importlib.import_module(f"firn_lake.{WHERE[name]}"), name)
        except ModuleNotFoundError as error:
            from firn.extras import missing

            raise missing(error) or error from error
    raise AttributeError(f"module 'firn_lake' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names above, for a notebook's completion."""
    return sorted(WHERE)
