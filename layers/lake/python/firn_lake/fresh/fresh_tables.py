"""All tables of a lake, each with what waits for it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.exceptions import NoSuchTableError

from firn.config.names import TableName
from firn_lake.fresh.following_table import FollowingTable
from firn_lake.fresh.fresh_rows import FreshTable
from firn_lake.fresh.pending import Look

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from firn.log.store import Store
    from firn_lake.fresh.fresh_view import FreshView

AsItWillBe: TypeAlias = "FreshTable | FollowingTable | FreshView"


class Fresh:
    """All tables of a lake, each with what waits for it, as of one moment: when the first one is read."""

    def __init__(self, catalog: "Catalog", store: "Store") -> None:
        """Raises ConfigError if no configuration is published, StorageUnavailable."""
        self._catalog, self._store = catalog, store
        self._look = Look(store)
        self._known: dict[tuple[str, ...], AsItWillBe] = {}
        self._now = datetime.now(UTC)

    def tables(self) -> list[tuple[str, ...]]:
        """The identifiers of the tables that changes wait for: no commit need have made them yet. By a look of its own:
        that of the rows is for after their tables are loaded."""
        return sorted(name.identifier for name in Look(self._store).tables())

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
            from firn_lake.fresh.fresh_view import FreshView  # with all that plans views

            sources = {str(name): self.table(name.identifier) for name in view.sources}
            return FreshView(view, sources, self._load(identifier), self._now)
        mirror = self._look.mirror(TableName(*identifier)) if len(identifier) == 2 else None
        if mirror is None:
            return FreshTable(self._catalog, self._look, identifier, self._load(identifier))
        pipeline, base = mirror
        table = self._load(identifier)  # before its base: it may be behind that, and never ahead
        rests_on = FreshTable(self._catalog, self._look, base.identifier, self._load(base.identifier))
        return FollowingTable(pipeline, rests_on, table)

    def _load(self, identifier: tuple[str, ...]) -> "Table | None":
        try:
            return self._catalog.load_table(identifier)
        except NoSuchTableError:
            return None
