"""The map that a table of shards is under, where the snapshot that had it is gone."""

import pytest
from obstore.store import MemoryStore

from firn.changes.decode.types import STRING
from firn.changes.placement.map_changes import admit
from firn.config.map_document import MapVersion
from firn.config.model import TableRule
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.errors import TerminalError
from firn.log import shard_maps
from firn.tables.map_in_log import is_lost, map_by_rule, map_under, tables_of
from firn.tables.shard_cut import properties, summary
from firn.tables.table_state import TableState

REST = TableName("rest", "orders")
SHARDS = Sharding("tenant", "w", "{shard}.orders", most=5, kind=STRING)
FIRST = MapVersion(SHARDS.map)
SECOND = FIRST.next(admit(FIRST.map, {"a": SHARDS.home("a")}), "", "")
TOLD = summary({}, SECOND, before=1)
LOST = summary({}, SECOND, before=2)  # of a later snapshot


def state(*ancestry: dict[str, str]) -> TableState:
    said = properties(REST, TableRule("public.orders", str(REST), ("id",), shard=SHARDS))
    return TableState("file:///t", said, (), None, ancestry)


@pytest.mark.parametrize("ancestry", [(LOST, TOLD), (LOST,)])
def test_a_map_that_no_snapshot_has_any_more_is_read_from_the_log(ancestry: tuple[dict[str, str], ...]) -> None:
    store = MemoryStore()
    assert shard_maps.put(store, "shop", str(REST), SECOND)
    assert is_lost(ancestry) == (TOLD not in ancestry)
    for found in (map_under(store, "shop", state(*ancestry)), map_by_rule(store, "shop", ancestry, SHARDS)):
        assert found is not None
        assert (found.number, found.map.spread) == (2, SECOND.map.spread)
    assert tables_of(store, "shop", REST, state(*ancestry)) == (TableName("a", "orders"), REST)


def test_a_map_that_the_log_has_lost_too_is_named() -> None:
    with pytest.raises(TerminalError, match=r"rest.orders/00000000000000000002.json is not in the staging area"):
        map_under(MemoryStore(), "shop", state(LOST))


def test_the_first_map_and_a_table_without_one_need_no_log() -> None:
    found = map_under(MemoryStore(), "shop", state())
    assert found is not None
    assert found.number == 1
    other = TableState("file:///t", {}, (), None, (LOST,))
    assert (map_under(MemoryStore(), "shop", other), tables_of(MemoryStore(), "shop", REST, other)) == (None, (REST,))
