"""A store and a catalog as a commit of a table of several shards left them, by PyIceberg alone: the shards number their
columns each in its own way, and some were brought further by a job that died."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from firn.changes.merge.fold import Key, Row
from firn.changes.metadata_columns import HELD, POSITION, SOURCE, TIME
from firn.changes.placement.shard_decision import placed
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.log import cuts, epochs, shard_maps
from firn.tables.shard_cut import At, cut_in, properties, summary
from firn.tables.table_state import CREATES, EPOCH, NEWEST, TRUNCATED
from firn_lake.fresh.pending import Look
from firn_lake.fresh.pending_table import waiting
from firn_lake.lake import Lake
from tests.memory_table import MemoryTable
from tests.unit.lake.test_fresh import FACTS, NAMES, TABLE, Ground, _facts, _plain

CONFIG = """
streams:
  spec:
    tables:
      app.t:
        to: '{shard}.orders'
        key: [id]
        columns: {id: long, w: string, v: string, n: long}
        shard: SHARD
"""
REST = "rest.orders"
WHOLE = "spec.orders"


class ShardedGround(Ground):
    """`under`: the newest version of the map in the log."""

    def __init__(self, folder: Path, shard: str) -> None:
        super().__init__(folder, CONFIG.replace("SHARD", shard))
        self.rule = self.config.streams["spec"].tables[0]
        assert self.rule.shard is not None
        self.shards: Sharding = self.rule.shard
        self.under = MapVersion(self.shards.map)

    @property
    def rest(self) -> str:
        return str(self.shards.tables[self.shards.rest])

    @property
    def lake(self) -> Lake:
        return Lake(self.catalog, lambda: self.store)

    def remap(self, dice: random.Random, rows: Mapping[Key, Row]) -> bool:
        """Another map, if the dice find one that makes sense. -> whether they did"""
        from tests.property.random_shards import next_map

        for _ in range(4):
            now = self.under.map
            after = next_map(dice, now, rows, ("a", "b", "c", "z"))
            if after is not now and after.homes[after.rest] == now.homes[now.rest]:
                self.under = self.under.next(after, "2026-11-21T00:00:00.000Z", "a test")
                assert shard_maps.put(self.store, "spec", self.rest, self.under)
                return True
        return False

    def seal(self) -> int:
        """As Ground does, under the newest map."""
        found = epochs.candidates(self.store, "spec", self.now, above=cuts.newest(self.store, "spec"))
        versions = shard_maps.newest(self.store, self.config.streams["spec"])
        nonce = str(found.next_n)
        epoch = epochs.seal(
            self.store, "spec", found, now=self.now, config=self.config.sha, nonce=nonce, shards=versions
        )
        assert epoch is not None
        return epoch.n

    def folded(self) -> MemoryTable:
        """As Ground says."""
        [one] = waiting(Look(self.store), TableName.parse(self.rest), None)
        made = MemoryTable()
        made.commit([found for _, found in one.decoded() if found is not None] + one.truncates())
        return made

    def commit(self, known: MemoryTable, epoch: int) -> None:
        """All shards, and then the rest, which names them."""
        dice, by_shard = random.Random(epoch), placed(self.under.map, known.live)
        at: dict[str, At] = {}
        for name, rows in sorted(by_shard.items()):
            if name != self.shards.rest and rows:
                table = self._made(self.under.tables[name], dice)
                table.append(held_rows(rows, table), {f"{EPOCH}spec": str(epoch)})
                snapshot = table.refresh().current_snapshot()
                assert snapshot is not None
                at[name] = At(snapshot.snapshot_id, epoch, "spec")
                if dice.random() < 0.3:  # a job that died has brought it further
                    table.delete("id >= 2")
        rest = self._made(self.under.tables[self.shards.rest], dice)
        told = summary(at, self.under) | {f"{EPOCH}spec": str(epoch)}
        rest.append(held_rows(by_shard[self.shards.rest], rest), told)
        facts = [(one.key, None, one.op, one.order, one.source) for one in known.remembered]
        facts += [(key, row, "k", row.order, row.source) for key, row in known.gone]
        if facts:
            orders = [one.order for one in known.remembered]
            said = {f"{EPOCH}spec": str(epoch), NEWEST: max(orders, default=b"").hex()}
            truncates = [one.order for one in known.remembered if one.op == "t"]
            said |= {TRUNCATED: max(truncates).hex()} if truncates else {}
            said |= {CREATES: "true"} if any(one.op == "c" for one in known.remembered) else {}
            beside = self.catalog.create_table(f"{self.rest}__deletes", FACTS, properties={"firn.mode": "deletes"})
            beside.append(_facts(facts), said)
        snapshot = rest.refresh().current_snapshot()
        assert snapshot is not None
        named = {str(self.under.tables[name]): one.snapshot for name, one in at.items()} | {
            self.rest: snapshot.snapshot_id
        }
        cut = cuts.make("spec", epoch, "2026-11-21T00:00:00.000Z", named, progress={self.rest: epoch})
        assert cuts.write(self.store, cut)

    def _made(self, place: TableName, dice: random.Random) -> Table:
        self.catalog.create_namespace_if_not_exists(place.namespace)
        fields = list(TABLE)
        if str(place) != self.rest:
            dice.shuffle(fields)
        said = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": "spec", "firn.held": "2,3"}
        said |= properties(place, self.rule)
        return self.catalog.create_table(place.identifier, pa.schema(fields), properties=said)

    def whole(self, where: str | None = None) -> dict[int, Any]:
        """Fresh rows of all shards by key."""
        return by_key(self.lake, WHOLE, where)

    def by_table(self, table: str) -> dict[int, Any]:
        """Those of one table by its name."""
        return by_key(self.lake, table)

    def named(self, shard: str) -> int:
        """The snapshot of a shard that the rest names."""
        snapshot = self.catalog.load_table(self.rest).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return cut_in([snapshot.summary.additional_properties], "spec")[shard].snapshot

    def name(self, shard: str, snapshot: int, epoch: int | None = None) -> None:
        """Lets the rest name another snapshot of a shard. `epoch`: to which that brings them all."""
        rest = self.catalog.load_table(self.rest)
        now = rest.current_snapshot()
        assert now is not None
        assert now.summary is not None
        at = cut_in([now.summary.additional_properties], "spec")
        epoch = at[shard].progress if epoch is None else epoch
        told = summary(at | {shard: At(snapshot, epoch, "spec")}, self.under)
        rest.append(_schema(rest).empty_table(), told | {f"{EPOCH}spec": str(epoch)})

    def shard(self, name: str, where: str | None = None) -> dict[int, Any]:
        """Those of one by a name of the newest map."""
        return by_key(self.lake, str(self.under.tables[name]), where)


def by_key(lake: Lake, table: str, where: str | None = None) -> dict[int, Any]:
    """Fresh rows, which are the same by SQL and, of a table that is there, without."""
    text = f"SELECT id, v, w, n FROM {table}" + (f" WHERE {where}" if where else "")
    found = lake.sql(text, fresh=True).pylist()
    if lake.catalog.table_exists(REST) and (table == WHOLE or lake.catalog.table_exists(table)):
        read = lake.table(table).read(NAMES, where, fresh=True).pylist()
        assert sorted(map(repr, read)) == sorted(map(repr, found))
    assert len({row["id"] for row in found}) == len(found), "a key has one row"
    return {row["id"]: row for row in found}


def held_rows(rows: Mapping[Key, Row], table: Table) -> pa.Table:
    """As a commit writes them into a table, which has its own numbers of the columns."""
    ids = {name: table.schema().find_field(name).field_id for name in NAMES}
    told = [
        {
            **row.values, POSITION: _plain(row.order), TIME: None, SOURCE: row.source,
            HELD: [(ids[name], _plain(order) or b"") for name, order in row.held.items()] or None,
        }
        for row in rows.values()
    ]  # fmt: skip
    return pa.Table.from_pylist(told, _schema(table))


def _schema(table: Table) -> pa.Schema:
    fields = {field.name: field for field in TABLE}
    return pa.schema([fields[field.name] for field in table.schema().fields])


__all__ = ["REST", "WHOLE", "ShardedGround", "by_key"]
