"""All tables of a lake, each with what waits for it."""

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.exceptions import NoSuchTableError

from firn.config.names import TableName
from firn.config.whole_tables import whole_tables
from firn_lake.fresh.following_table import FollowingTable
from firn_lake.fresh.fresh_rows import FreshTable
from firn_lake.fresh.fresh_shards import FreshShard, FreshShards, FreshWhole, sharded
from firn_lake.fresh.pending import Look, NotFresh

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from firn.config.views import View
    from firn.config.whole_tables import Whole
    from firn.log.store import Store
    from firn_lake.fresh.fresh_view import FreshView
    from firn_lake.reading.read_recorder import OnRead

AsItWillBe: TypeAlias = "FreshTable | FollowingTable | FreshView | FreshWhole | FreshShard"


class Fresh:
    """All tables of a lake, each with what waits for it, as of one moment: when the first one is read. `on_read` hears
    of the shards that are opened of one."""

    on_read: "OnRead | None" = None

    def __init__(self, catalog: "Catalog", store: "Store") -> None:
        """Raises ConfigError if no configuration is published, StorageUnavailable."""
        self._catalog, self._store = catalog, store
        self._look = Look(store)
        self._known: dict[tuple[str, ...], AsItWillBe] = {}
        self._shards: dict[TableName, FreshShards] = {}
        self._now = datetime.now(UTC)

    def tables(self) -> list[tuple[str, ...]]:
        """The identifiers of the tables that changes wait for: no commit need have made them yet. By a look of its own:
        that of the rows is for after their tables are loaded."""
        look = Look(self._store)
        found = look.tables()
        for one in whole_tables(look.config).values():
            if one.rest in found:
                found |= {one.name, *one.shards}
                with suppress(NotFresh):
                    found |= {*FreshShards(self._catalog, look, one, None).newest_tables().values()}
        return sorted(name.identifier for name in found)

    def table(self, identifier: tuple[str, ...]) -> AsItWillBe:
        """One table. Load all that are read together before the first is read.

        Raises NotFresh, StorageUnavailable, and what the catalog raises.
        """
        if identifier not in self._known:  # what several views read is one table
            self._known[identifier] = self._made(identifier)
        return self._known[identifier]

    def _made(self, identifier: tuple[str, ...]) -> AsItWillBe:
        view = self._look.view(TableName(*identifier)) if len(identifier) == 2 else None
        if view is not None:
            return self._view(view, identifier)
        table = self._load(identifier)  # a mirror's before its base: it may be behind that, and never ahead
        shards = sharded(self._look.config, identifier, table, self._newest)
        if shards is not None:
            whole, all_of_it = shards
            of = self._of(whole, table if identifier == whole.rest.identifier else self._load(whole.rest.identifier))
            return FreshWhole(of) if all_of_it else FreshShard(of, TableName(*identifier))
        mirror = self._look.mirror(TableName(*identifier)) if len(identifier) == 2 else None
        if mirror is None:
            return FreshTable(self._catalog, self._look, identifier, table)
        pipeline, base = mirror
        rests_on = FreshTable(self._catalog, self._look, base.identifier, self._load(base.identifier))
        return FollowingTable(pipeline, rests_on, table)

    def _view(self, view: "View", identifier: tuple[str, ...]) -> "FreshView":
        from firn_lake.fresh.fresh_view import FreshView  # with all that plans views

        sources = {}
        for name in view.sources:
            one = self.table(name.identifier)
            if isinstance(one, FreshWhole | FreshShard):
                raise NotFresh(f"the view {view.table} reads {name}, of several shards: read it without fresh")
            sources[str(name)] = one
        return FreshView(view, sources, self._load(identifier), self._now)

    def _of(self, whole: "Whole", rest: "Table | None") -> FreshShards:
        """One for all of its names: they are as of one moment."""
        if whole.rest not in self._shards:
            self._shards[whole.rest] = FreshShards(self._catalog, self._look, whole, rest, self.on_read)
        return self._shards[whole.rest]

    def _newest(self, whole: "Whole") -> Collection[TableName]:
        return FreshShards(self._catalog, self._look, whole, None).newest_tables().values()

    def _load(self, identifier: tuple[str, ...]) -> "Table | None":
        try:
            return self._catalog.load_table(identifier)
        except NoSuchTableError:
            return None
