"""What a change of the map of a table's shards would move, looked at without moving it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from firn.changes.placement.map_changes import copies
from firn.changes.placement.shard_map import Listed, ShardMap
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.log.store import Store
from firn.tables.map_in_log import map_under
from firn.tables.shard_names import SHARD_DROPPED, SHARD_OF, SHARD_WAREHOUSE
from firn_lake.fresh.pending_table import state_of
from firn_lake.sharded.placed_rows import value_of
from firn_lake.tables import summarize

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_ROWS_A_SECOND: Final = 250_000  # that a job moves, by benchmarks/shard_moves.py: of six columns, on two cores
_LOOKED_AT_A_SECOND: Final = 5_000_000  # whose column it looks at


@dataclass(frozen=True)
class ShardSize:
    """A shard as it is. `values`: which of the column it has, in words; `rows`: None if only a scan can count them;
    `warehouse`: which it lies in, by its name, "" for the deployment's own."""

    shard: str
    table: str
    values: str
    rows: int | None
    files: int
    bytes: int
    warehouse: str = ""


@dataclass(frozen=True)
class Moved:
    """Rows that go from one shard to another. `bytes`: of their files, as many as their part of the rows is; `files`:
    of the source, each of which is read; `seconds`: that the commit which moves them takes more, about."""

    source: str
    target: str
    rows: int
    bytes: int
    files: int
    seconds: float = 0.0


def moved(catalog: "Catalog", before: ShardMap, after: ShardMap) -> list[Moved]:
    """By shards. Of those that are parted the column is read. Raises what the catalog raises."""
    found: list[Moved] = []
    counted: dict[str, tuple[int, Mapping[str, int]]] = {}
    for copy in copies(before, after):
        place = TableName.parse(before.homes[copy.source].table).identifier
        if not catalog.table_exists(place):
            found.append(Moved(copy.source, copy.target, 0, 0, 0))
            continue
        table = catalog.load_table(place)
        if copy.source not in counted:
            counted[copy.source] = _rows_by_shard(table, after)
        every, by_shard = counted[copy.source]
        size, rows = summarize(table), by_shard.get(copy.target, 0)
        part = size.size_bytes * rows // every if every else 0
        seconds = round(rows / _ROWS_A_SECOND + every / _LOOKED_AT_A_SECOND, 2)
        found.append(Moved(copy.source, copy.target, rows, part, size.files, seconds))
    return found


def _rows_by_shard(table: "Table", after: ShardMap) -> tuple[int, Mapping[str, int]]:
    """How many rows a table has, and how many of them would be in each shard."""
    if all(field.name != after.column for field in table.schema().fields):
        count = table.scan().count()
        return count, {after.rest: count}
    every, found = 0, dict[str, int]()
    for batch in table.scan(selected_fields=(after.column,)).to_arrow_batch_reader():
        column = batch.column(0)
        column = column.storage if isinstance(column, pa.ExtensionArray) else column
        for pair in column.value_counts():
            shard, count = after.of(value_of(after.kind, pair["values"])), pair["counts"].as_py()
            found[shard] = found.get(shard, 0) + count
            every += count
    return every, found


def shards_of(catalog: "Catalog", made: MapVersion) -> list[ShardSize]:
    """All shards of a version, the rest last."""
    found = []
    for name, place in made.tables.items():
        rows: int | None = 0
        files = size = 0
        if catalog.table_exists(place.identifier):
            told = summarize(catalog.load_table(place.identifier))
            rows, files, size = told.rows, told.files, told.size_bytes
        where = made.map.homes[name].warehouse
        found.append(ShardSize(name, str(place), _values(made.map, name), rows, files, size, where))
    return found


def _values(shards: ShardMap, name: str) -> str:
    """Which values a shard has, in words."""
    found: list[str] = []
    if isinstance(shards.spread, Listed):
        mine = sorted(text for text, one in shards.spread.values.items() if one == name)
        found = [*mine[:5], *(["…"] if len(mine) > 5 else [])]
    else:
        bounds = ["", *map(str, shards.spread.at), ""]
        pairs = zip(bounds, bounds[1:], shards.spread.shards, strict=False)
        found = [f"{low} to {high}".strip() for low, high, one in pairs if one == name]
    return ", ".join([*found, *(["all others"] if name == shards.rest else [])])


def map_of_rest(catalog: "Catalog", rest: str, store: Store, stream: str) -> MapVersion | None:
    """The map that the rows of a table are under, by the newest snapshot of its rest; None if it is not made yet.
    Raises as map_under."""
    place = TableName.parse(rest).identifier
    if not catalog.table_exists(place):
        return None
    return map_under(store, stream, state_of(catalog.load_table(place)))


def map_in_use(catalog: "Catalog", rest: str, store: Store, stream: str) -> int | None:
    """Its number; None if there is none."""
    found = map_of_rest(catalog, rest, store, stream)
    return None if found is None else found.number


def not_free(catalog: "Catalog", before: MapVersion, after: ShardMap) -> str | None:
    """Why a new table of the map can't be a shard, in words: it is there already, and somebody else's."""
    rest, now = before.map.homes[before.map.rest].table, set(before.map.homes.values())
    for home in after.homes.values():
        place = TableName.parse(home.table)
        if home in now or not catalog.table_exists(place.identifier):
            continue
        said = catalog.load_table(place.identifier).properties
        if (lies := said.get(SHARD_WAREHOUSE, "")) != home.warehouse:
            other, there = (f"the warehouse {one}" if one else "the deployment's own" for one in (home.warehouse, lies))
            return f"{place} is there already, in {there}, and would have to lie in {other}; write another name"
        if SHARD_DROPPED in said:
            return f"{place} is being removed; run firn shards remove-former {rest}, or write another name"
        if home.table not in before.ever and said.get(SHARD_OF) != rest:
            return f"{place} is there already, and no shard of {rest}; write another name"
    return None
