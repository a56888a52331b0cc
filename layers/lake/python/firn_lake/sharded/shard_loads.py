"""What shards have, and what their columns tell of where they could be split (firn.tables.shard_rebalance)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.placement.shard_map import Home, ShardMap
from firn.changes.placement.shard_values import Comparable, comparable, text_of
from firn.config.names import TableName
from firn.tables.shard_names import SHARD_PASSED
from firn.tables.shard_rebalance import Load
from firn.tables.table_state import EPOCH
from firn_lake.sharded.placed_rows import value_of
from firn_lake.tables import summarize

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_LATELY: Final = 24 * 3600 * 1000  # milliseconds before the newest commit whose rows count
_MOST_VALUES: Final = 1_000  # of a column, that most rows have


def loads_of(catalog: "Catalog", now: ShardMap) -> dict[str, Load]:
    """What each shard of a map has; nothing of one that is not made yet. Raises what the catalog raises."""
    return {name: _load(_table(catalog, home)) for name, home in now.homes.items()}


def _table(catalog: "Catalog", home: Home) -> "Table | None":
    place = TableName.parse(home.table).identifier
    return catalog.load_table(place) if catalog.table_exists(place) else None


def _load(table: "Table | None") -> Load:
    return Load(0) if table is None else Load(summarize(table).rows or 0, written(table))


def written(table: "Table") -> float | None:
    """Rows that changes wrote to a table a second, in the last day that it has snapshots of: not what came from other
    shards, nor what is written again. None if it has too few snapshots to tell."""
    told = [
        (one.timestamp_ms, dict(one.summary.additional_properties))
        for one in table.metadata.snapshots
        if one.summary is not None and any(name.startswith(EPOCH) for name in one.summary.additional_properties)
    ]
    newest = max((at for at, _ in told), default=0)
    told = sorted(((at, one) for at, one in told if at > newest - _LATELY), key=lambda one: one[0])
    if len(told) < 2 or told[-1][0] <= told[0][0]:
        return None
    rows = sum(int(one.get("added-records", 0)) - int(one.get(SHARD_PASSED, 0)) for _, one in told[1:])
    return max(0, rows) * 1000 / (told[-1][0] - told[0][0])


class ShardColumns:
    """The column of a map in its shards' tables (shard_rebalance.Looked)."""

    def __init__(self, catalog: "Catalog", now: ShardMap, taken: Callable[[Home], object] = lambda _: None) -> None:
        """`taken`: why a home is somebody else's; None if it is nobody's."""
        self._catalog, self._map, self._taken = catalog, now, taken

    def is_free(self, home: Home) -> bool:
        """As Looked says."""
        if self._taken(home) is not None:
            return False
        return not self._catalog.table_exists(TableName.parse(home.table).identifier)

    def middle(self, shard: str) -> Comparable | None:
        """As Looked says. The column is held, as it is stored: its values have the order of the map's."""
        column = self._column(shard)
        if column is None or not len(known := column.drop_null()):
            return None
        known = known.take(pc.sort_indices(known))
        above = known.slice(len(known) // 2)
        if above[0] == known[0]:
            above = known.filter(pc.greater(known, known[0]))
        return comparable(self._map.kind, value_of(self._map.kind, above[0])) if len(above) else None

    def values(self, shard: str) -> Mapping[str, int]:
        """As Looked says."""
        column = self._column(shard)
        if column is None:
            return {}
        counts = column.drop_null().value_counts()
        order = pc.sort_indices(counts.field("counts"), sort_keys=[("", "descending")])[:_MOST_VALUES]
        found = dict[str, int]()
        for one in counts.take(order):
            value = comparable(self._map.kind, value_of(self._map.kind, one["values"]))
            if value is not None:
                found[text_of(value)] = one["counts"].as_py()
        return found

    def _column(self, shard: str) -> Any:
        table = _table(self._catalog, self._map.homes[shard])
        if table is None or all(field.name != self._map.column for field in table.schema().fields):
            return None
        column = table.scan(selected_fields=(self._map.column,)).to_arrow().column(0).combine_chunks()
        return column.storage if isinstance(column, pa.ExtensionArray) else column
