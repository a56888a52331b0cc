"""The map that a table of shards is under, also where a catalog has expired the snapshot that had it: by the log."""

from collections.abc import Mapping, Sequence

from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.log import shard_maps
from firn.log.store import Store
from firn.tables.shard_cut import first_of, map_in, map_of, version_in
from firn.tables.shard_names import SHARDS_MAP
from firn.tables.table_state import TableState


def is_lost(ancestry: Sequence[Mapping[str, str]]) -> bool:
    """Whether none of these summaries of the rest's snapshots has the map that they are under."""
    return version_in(ancestry) > 1 and not any(SHARDS_MAP in one for one in ancestry)


def map_under(store: Store, stream: str, state: TableState) -> MapVersion | None:
    """As shard_cut.map_of. Raises ValueError, StorageUnavailable, and TerminalError where the log has none either."""
    first = first_of(state)
    if first is None or not is_lost(state.ancestry):
        return map_of(state)
    return _of_log(store, stream, first, state.ancestry)


def tables_of(store: Store, stream: str, name: TableName, state: TableState) -> tuple[TableName, ...]:
    """The tables of all shards by the name of their rest's, which is the last; of another table itself. Raises as
    map_under."""
    found = map_under(store, stream, state)
    return (name,) if found is None else tuple(found.tables.values())


def map_by_rule(store: Store, stream: str, ancestry: Sequence[Mapping[str, str]], of: Sharding) -> MapVersion:
    """As shard_cut.map_in. Raises as map_under."""
    return _of_log(store, stream, of, ancestry) if is_lost(ancestry) else map_in(ancestry, of)


def _of_log(store: Store, stream: str, of: Sharding, ancestry: Sequence[Mapping[str, str]]) -> MapVersion:
    return shard_maps.read(store, stream, str(of.tables[of.rest]), of, version_in(ancestry))
