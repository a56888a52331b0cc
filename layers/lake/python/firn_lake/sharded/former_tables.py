"""Tables that were shards and are none: which of them nothing can be read in any more, and their removal."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from firn.changes.placement.shard_map import Home
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.whole_tables import Whole
from firn.tables.shard_names import SHARD_DROPPED, SHARD_OF
from firn_lake.sharded.whole_version import Shards
from firn_lake.tables import summarize

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Former:
    """A table that was a shard. `needed`: how many snapshots of the rest's are read in it, and tags and branches that
    it has itself; it may be removed once these have gone."""

    table: str
    rows: int | None
    bytes: int
    needed: int


def former_tables(catalog: "Catalog", whole: Whole, versions: Collection[MapVersion]) -> list[Former]:
    """Those that are there and were made for this table. `versions`: of the map, from the one that the rows are under
    to the newest: jobs may bring rows to any of them. Raises NoSuchMoment and UnreadableFile if a snapshot's map can't
    be told, and what the catalog raises."""
    rest = catalog.load_table(whole.rest.identifier)
    shards = Shards(whole, catalog.load_table, rest)
    named = [frozenset(shards.cut_at(one).by_table) for one in rest.metadata.snapshots]
    now = {home.place for one in versions for home in one.map.homes.values()}
    found = []
    for name in sorted({name for one in versions for name in one.ever if Home(name).place not in now}):
        place = TableName.parse(name).identifier
        if not catalog.table_exists(place):
            continue
        table = catalog.load_table(place)
        if not _is_of(table, whole):
            continue
        size = summarize(table)
        refs = len(table.metadata.refs.keys() - {MAIN_BRANCH})
        needed = sum(name in one for one in named) + refs
        found.append(Former(name, size.rows, size.size_bytes, needed))
    return found


def _is_of(table: "Table", whole: Whole) -> bool:
    return str(whole.rest) in (table.properties.get(SHARD_OF), table.properties.get(SHARD_DROPPED))


def mark_dropped(catalog: "Catalog", whole: Whole, name: str) -> None:
    """From now on no job takes the table for a shard. Who has begun before was told so by a map that was there before:
    look at the maps again now, and only then `remove` it. Raises what the catalog raises."""
    table = catalog.load_table(TableName.parse(name).identifier)
    if SHARD_OF in table.properties:
        with table.transaction() as both:
            both.set_properties({SHARD_DROPPED: str(whole.rest)})
            both.remove_properties(SHARD_OF)


def unmark_dropped(catalog: "Catalog", whole: Whole, name: str) -> None:
    """The table may be a shard again."""
    table = catalog.load_table(TableName.parse(name).identifier)
    with table.transaction() as both:
        both.set_properties({SHARD_OF: str(whole.rest)})
        both.remove_properties(SHARD_DROPPED)


def remove(catalog: "Catalog", name: str) -> None:
    """The table and its files. Raises what the catalog raises."""
    catalog.purge_table(TableName.parse(name).identifier)
