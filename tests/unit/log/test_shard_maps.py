"""The versions of maps of shards in the log: created once, and which of them each epoch is under."""

from datetime import UTC, datetime

import obstore
import pytest
from obstore.store import MemoryStore

from firn.changes.placement.map_changes import admit
from firn.config.map_document import MapVersion
from firn.config.reader import parse
from firn.errors import TerminalError
from firn.log import epochs, shard_maps
from firn.log.epochs import Candidates, Epoch

TEXT = """
streams:
  shop:
    tables:
      public.orders: {to: '{shard}.orders', key: [id], columns: {w: string}, shard: {by: tenant(w), most: 5}}
      public.lots: {to: 'x.{shard} Lots', key: [id], columns: {w: string}, shard: {by: hash(w), count: 2}}
      public.plain: {to: shop.plain}
"""
SHOP = parse(TEXT).streams["shop"]
RULE = SHOP.tables[0]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def version(name: str) -> MapVersion:
    assert RULE.shard is not None
    first = MapVersion(RULE.shard.map)
    return first.next(admit(first.map, {name: RULE.shard.home(name)}), "", "")


def test_a_version_is_made_once_and_epochs_name_the_newest() -> None:
    store = MemoryStore()
    assert RULE.shard is not None
    assert shard_maps.newest(store, SHOP) == {}
    assert shard_maps.put(store, "shop", RULE.to, version("a"))
    assert shard_maps.put(store, "shop", RULE.to, version("a")), "an answer that was lost is asked again"
    assert not shard_maps.put(store, "shop", RULE.to, version("b"))
    assert shard_maps.newest(store, SHOP) == {"rest.orders": 2}
    assert shard_maps.read(store, "shop", RULE.to, RULE.shard, 2).map.of("a") == "a"
    assert shard_maps.read(store, "shop", RULE.to, RULE.shard, 1).map == RULE.shard.map
    assert shard_maps.ever(store, SHOP) == {"a.orders", "rest.orders"}
    every = shard_maps.of_others(store, parse(TEXT), "none")
    assert every == {"rest.orders": {"a.orders", "rest.orders"}, "x.rest Lots": frozenset()}
    assert shard_maps.of_others(store, parse(TEXT), RULE.to).keys() == {"x.rest Lots"}
    for path in (
        "shards/shop/rest.orders/x.json",
        "shards/shop/other.t/00000000000000000009.json",
        "shards/shop/9.json",
    ):
        obstore.put(store, path, b"{}")
    assert shard_maps.newest(store, SHOP) == {"rest.orders": 2}, "what is none of this stream's tables is left alone"
    sealed = epochs.seal(
        store, "shop", Candidates(1, [], []), now=NOW, config="c", nonce="n", shards=shard_maps.newest(store, SHOP)
    )
    assert sealed is not None
    found = epochs.read(MemoryStore(), "shop", 1), epochs.read(store, "shop", 1)
    assert found == (None, sealed)
    assert sealed.shards == {"rest.orders": 2}


def test_what_is_lost_or_overwritten_says_which_object() -> None:
    store = MemoryStore()
    assert RULE.shard is not None
    with pytest.raises(TerminalError, match=r"rest.orders/00000000000000000007.json is not in the staging area"):
        shard_maps.read(store, "shop", RULE.to, RULE.shard, 7)
    obstore.put(store, "shards/shop/rest.orders/00000000000000000007.json", b'{"format": 1}')
    with pytest.raises(TerminalError, match=r"00000000000000000007.json is no version of a map of shards: .*; put it"):
        shard_maps.read(store, "shop", RULE.to, RULE.shard, 7)


def epoch(n: int, **shards: int) -> Epoch:
    return Epoch(1, "shop", n, "n", "2026-01-01T00:00:00.000Z", "c", [], {}, shards)


def test_no_map_comes_back_whoever_seals_late() -> None:
    found = shard_maps.under({4: epoch(4, b=2), 1: epoch(1), 2: epoch(2, a=3), 3: epoch(3, a=2)})
    assert {n: one.shards for n, one in found.items()} == {1: {}, 2: {"a": 3}, 3: {"a": 3}, 4: {"a": 3, "b": 2}}
    assert b'"shards"' not in epochs.encode(epoch(1)), "epochs without are as they always were"


def test_a_job_serves_what_it_was_started_for_but_for_tenants_that_appear() -> None:
    key = {"rest.orders": 2}
    assert shard_maps.may_serve(SHOP, epoch(1), epoch(2, **key))
    assert not shard_maps.may_serve(SHOP, epoch(1), epoch(2, **{"x.rest Lots": 2}))
    assert shard_maps.may_serve(None, epoch(1), epoch(2, **{"x.rest Lots": 2}))
