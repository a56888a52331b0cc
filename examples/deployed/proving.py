"""Is every event that was acknowledged where it belongs? By the tables' rows, and by the log's own account."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from firn.audit.ledger import read
from firn.audit.verdict import Audit, audit
from firn.deployment.stack import Stack
from firn_demo.comparing import Comparison
from firn_demo.corpus import compare_all
from firn_lake.audit.table_histories import histories
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.tables import TableNotFound


@dataclass(frozen=True)
class Proof:
    """The tables against PostgreSQL's final state, and the audit of each stream."""

    tables: list[Comparison]
    audits: list[Audit]

    @property
    def holds(self) -> bool:
        """All rows are equal, nothing waits or is dead, and each account balances."""
        accounted = all(one.balanced and not one.pending and not one.dead for one in self.audits)
        return accounted and all(one.ok for one in self.tables)


def prove(stack: Stack, streams: tuple[str, ...]) -> Proof:
    """Compare and count. Raises StorageUnavailable, TableNotFound."""
    catalog, store = catalog_of(stack), stack.store()
    audits = [audit(read(store, name, partial(histories, catalog, name)), datetime.now(UTC)) for name in streams]
    return Proof(list(compare_all(catalog)), audits)


def all_is_in(stack: Stack) -> bool:
    """Whether the tables are there and equal already."""
    try:
        return all(one.ok for one in compare_all(catalog_of(stack)))
    except TableNotFound:
        return False
