"""A stream of many tables of which one has shards: whatever a job looks at in turn, the shards stand in each cut as
their rest names them, former ones in none, and the map's versions are read once a look."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from firn.changes.placement.map_changes import admit, merge, move
from firn.changes.placement.shard_map import Home, ShardMap
from firn.commit import job_context
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.log import shard_maps
from firn.tables import turns
from firn.tables.shard_cut import At, properties, summary
from firn.tables.table_state import TableState
from tests.model.lake_contract import STREAM, Stream
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake
from tests.model.test_tables_in_turn import MOST, NAMES, TURNS, Looking, of

CONFIG = """
streams:
  shop:
    tables:
      app.orders: {to: '{shard}.orders', key: [id], columns: {v: string}, shard: {by: tenant(v), tenants: [a, b]}}
      '*': {to: 'lake.{table}', key: [id]}
"""
REST = TableName("rest", "orders")


class Sharded(Looking):
    """The rest says where `shards` are; each of their tables is at an epoch of its own."""

    def __init__(self, of: MemoryLake) -> None:
        super().__init__(of)
        self.told: dict[str, str] = {}
        self.shards: dict[TableName, TableState] = {}
        self.said: Mapping[str, str] = {}

    def state(self, table: TableName) -> TableState | None:
        found = super().state(table)
        if table in self.shards:
            return self.shards[table]
        if table != REST or found is None or not found.ancestry:
            return found
        ancestry = ({**found.ancestry[0], **self.told}, *found.ancestry[1:])
        return replace(found, properties={**found.properties, **self.said}, ancestry=ancestry)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Sharded:
    monkeypatch.setattr(turns, "MOST", MOST)
    return Sharded(MemoryGround().lake)


@pytest.fixture
def stream(lake: Sharded) -> Stream:
    ground = MemoryGround()
    ground.store, ground.catalog, ground.lake = lake.store, lake.catalog, lake
    made = Stream(ground, CONFIG)
    rule = made.settings.tables[0]
    lake.said = properties(REST, rule)
    made.land(of("orders", 5), *(of(name, 10 + n) for n, name in enumerate(NAMES)))
    return made


def under(stream: Stream, lake: Sharded, now: MapVersion, before: int) -> None:
    """The rest is under a map by now, and all of its shards are made."""
    places = {name: place for name, place in now.tables.items() if place != REST}
    at = {name: At(100 * now.number + n, 1, STREAM) for n, name in enumerate(sorted(places))}
    lake.told = summary(at, now, 1)
    said: Any = {"firn.shard.of": str(REST)}
    for name, place in places.items():
        lake.shards[place] = TableState("memory://", said, (), at[name].snapshot, ({f"firn.epoch.{STREAM}": "1"},))
    if now.number > 1:
        shard = stream.settings.tables[0].shard
        assert shard is not None
        assert shard_maps.put(stream.store, STREAM, str(REST), now) or now.number == before


def named(now: MapVersion) -> set[str]:
    return {str(place) for place in now.tables.values()}


def next_of(now: MapVersion, made: ShardMap) -> MapVersion:
    return now.next(made, "", "a test")


def test_shards_are_in_each_cut_as_their_rest_names_them(stream: Stream, lake: Sharded) -> None:
    shard = stream.settings.tables[0].shard
    assert shard is not None
    first = MapVersion(shard.map)
    second = next_of(first, admit(first.map, {"new": Home("new.orders")}))
    third = next_of(second, move(second.map, "a", Home("lake.big")))
    fourth = next_of(third, merge(third.map, ["b"], "rest"))
    plain = {f"lake.{name}" for name in NAMES}
    number = 1_000
    for now in (first, second, third, fourth):
        under(stream, lake, now, 1)
        for _ in range(TURNS + 1):
            lake.asked.clear()
            number += 10
            stream.land(of("t0", number))
            cut = stream.cut()
            assert cut.tables.keys() == plain | named(now)
            assert REST in lake.asked, "it stands for the others, whose turn nobody waits for"
            assert not {one for one in lake.asked if one in lake.shards}, "they are not looked at for themselves"
            at = {str(place): lake.shards[place].snapshot_id for place in now.tables.values() if place != REST}
            assert {name: cut.tables[name] for name in at} == at
            assert cut.progress.keys() == plain | {str(REST)}
    assert fourth.left == {"a.orders", "b.orders"}


def test_a_job_whose_range_has_shards_looks_at_all_that_were_ever_one(stream: Stream, lake: Sharded) -> None:
    """One that is none any more may have been left ahead, too."""
    shard = stream.settings.tables[0].shard
    assert shard is not None
    first = MapVersion(shard.map)
    second = next_of(first, move(first.map, "a", Home("lake.big")))
    under(stream, lake, first, 1)
    stream.land(of("t0", 1_000))
    under(stream, lake, second, 1)
    lake.asked.clear()
    stream.land(of("orders", 2_000))
    assert {one for one in lake.asked if one in lake.shards} == {
        TableName("a", "orders"), TableName("b", "orders"), TableName("lake", "big"),
    }  # fmt: skip


def test_maps_are_read_once_a_look(stream: Stream, lake: Sharded, monkeypatch: pytest.MonkeyPatch) -> None:
    count = []
    real = job_context.shards_beside
    monkeypatch.setattr(job_context, "shards_beside", lambda *told: count.append(1) or real(*told))
    n = stream.seal(of("t0", 1_000))
    work = job_context.look(stream.store, lake, STREAM, n, n)
    assert work.unseen
    assert len(work.unseen & {f"lake.{name}" for name in NAMES}) == len(work.unseen)
    assert len(count) == 1
