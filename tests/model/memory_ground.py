"""A store, a catalog and a lake in memory, as the contract and the tests of the job want them."""

from typing import Any

from obstore.store import MemoryStore

from firn.config.names import TableName
from tests.model.memory_lake import Catalog, MemoryLake


class MemoryGround:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.catalog = Catalog()
        self.lake = MemoryLake(self.store, self.catalog)

    def rows(self, table: TableName) -> list[dict[str, Any]]:
        return self.catalog.tables[table].rows()

    def snapshots(self, table: TableName) -> list[dict[str, str]]:
        return [dict(snapshot.summary) for snapshot in reversed(self.catalog.tables[table].ancestry())]

    def drop(self, table: TableName) -> None:
        self.catalog.drop(table)
