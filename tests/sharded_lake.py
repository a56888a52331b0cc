"""A table of several shards as jobs leave it, by PyIceberg alone: each shard is brought to what `fold` places there,
and the rest, which names the others, comes last."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import In
from pyiceberg.table import Table

from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.placement.shard_decision import placed
from firn.changes.placement.shard_map import ShardMap
from firn.config.map_document import MapVersion
from firn.config.model import TableRule
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.config.whole_tables import Whole
from firn.log.published_configs import publish
from firn.log.store import open_store
from firn.tables.shard_cut import At, properties, summary
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("w", pa.string()), ("n", pa.int32())])


class ShardedLake:
    """`come`: all changes so far; `cuts`: what the whole has at each snapshot of the rest's that is a cut."""

    def __init__(self, folder: Path, shards: Sharding, columns: pa.Schema = COLUMNS, config: str = "") -> None:
        """`config`: firn.yaml that is published; "": none is."""
        folder.mkdir(exist_ok=True)
        self.shards, self.columns = shards, columns
        self.rule = TableRule("public.orders", str(shards.tables[shards.rest]), ("id",), shard=shards)
        self.catalog: Catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
        self.store = open_store(f"file://{folder}/staging")
        if config:
            publish(self.store, config)
        self.come: list[RowChange] = []
        self.cuts: list[tuple[int, list[dict[str, Any]]]] = []
        self.under = MapVersion(shards.map)
        self._led = 1  # the version that the rest's newest snapshot is under
        self._held: dict[TableName, dict[Key, Row]] = {}

    @property
    def whole(self) -> Whole:
        names = self.shards.tables
        return Whole(self.shards.whole_of("shop"), names[self.shards.rest], tuple(names.values()))

    @property
    def lake(self) -> Lake:
        return Lake(self.catalog, lambda: self.store)

    @property
    def rows(self) -> Mapping[Key, Row]:
        """What is specified of all changes."""
        return fold({}, self.come).rows

    def remap(self, change: Callable[[ShardMap], ShardMap]) -> None:
        """The next version of the map, under which ranges are from now on; the rest stays where it is."""
        now, after = self.under.map, change(self.under.map)
        if after is not now and after.homes[after.rest] == now.homes[now.rest]:
            self.under = self.under.next(after, "", "a test")

    def change(self, *rows: Mapping[str, Any], deleted: Sequence[int] = ()) -> None:
        """Changes that no commit has taken yet: rows as they are from now on, and keys without any."""
        for row in rows:
            self._add("u", row["id"], row)
        for key in deleted:
            self._add("d", key, None)

    def commit(self, *rows: Mapping[str, Any], deleted: Sequence[int] = (), dies_after: int | None = None) -> None:
        """One range. `dies_after`: so many shards are brought there, and the rest is not."""
        self.change(*rows, deleted=deleted)
        wanted = placed(self.under.map, self.rows)
        others = [name for name in sorted(wanted) if name != self.shards.rest]
        for count, name in enumerate(others):
            if count == dies_after:
                return
            self._bring(self.under.tables[name], wanted[name], {})
        at = {name: found for name in others if (found := self._at(name)) is not None}
        told = summary(at, self.under, self._led)
        self._bring(self.under.tables[self.shards.rest], wanted[self.shards.rest], told)
        self._led = self.under.number
        snapshot = self.table(self.shards.rest).current_snapshot()
        assert snapshot is not None
        self.cuts.append((snapshot.snapshot_id, self.told))

    @property
    def told(self) -> list[dict[str, Any]]:
        """The rows that are specified, as a read gives them."""
        found = [{name: row.values.get(name) for name in self.columns.names} for row in self.rows.values()]
        return sorted(found, key=lambda row: row["id"])

    def table(self, shard: str) -> Table:
        """The table of a shard. Raises NoSuchTableError."""
        return self.catalog.load_table(self.under.tables[shard].identifier)

    def _add(self, op: str, key: int, row: Mapping[str, Any] | None) -> None:
        position = len(self.come).to_bytes(8, "big")
        self.come.append(RowChange(op, (key,), position, position, row))  # type: ignore[arg-type]

    def _at(self, shard: str) -> At | None:
        try:
            snapshot = self.table(shard).current_snapshot()
        except NoSuchTableError:
            return None
        return None if snapshot is None else At(snapshot.snapshot_id, len(self.come), "shop")

    def _bring(self, place: TableName, rows: Mapping[Key, Row], told: Mapping[str, str]) -> None:
        held = self._held.setdefault(place, {})
        changed = {key: row for key, row in rows.items() if held.get(key) != row}
        gone = [key[0] for key in held if key not in rows or key in changed]
        if not changed and not gone and not told:
            return
        table = self._made(place)
        new = [{name: row.values.get(name) for name in self.columns.names} for row in changed.values()]
        with table.transaction() as commit:
            if gone:
                commit.delete(In("id", gone))  # type: ignore[misc]
            commit.append(self._arrow(new, table), snapshot_properties=dict(told))
        self._held[place] = dict(rows)

    def _arrow(self, rows: Sequence[Mapping[str, Any]], table: Table) -> pa.Table:
        there = {field.name for field in table.schema().fields}
        return pa.Table.from_pylist(list(rows), schema=pa.schema([one for one in self.columns if one.name in there]))

    def _made(self, name: TableName) -> Table:
        try:
            return self.catalog.load_table(name.identifier)
        except NoSuchTableError:
            self.catalog.create_namespace_if_not_exists(name.namespace)
            said = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": "shop", "firn.source": "public.orders"}
            return self.catalog.create_table(
                name.identifier, self.columns, properties=said | properties(name, self.rule)
            )
