"""What tables' snapshots say of a stream's epochs, for the audit."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from firn.audit.ledger import History, history
from firn.config.names import TableName


def histories(catalog: Catalog, stream: str, names: Iterable[str]) -> dict[str, History]:
    """What the metadata of these tables says about the stream; tables that are not there are left out."""
    return histories_of(stream, loaded(catalog, names))


def loaded(catalog: Catalog, names: Iterable[str]) -> dict[str, Table]:
    """These tables; those that are not there are left out."""
    found = {}
    for name in names:
        with suppress(NoSuchTableError, NoSuchNamespaceError):
            found[name] = catalog.load_table(TableName.parse(name).identifier)
    return found


def histories_of(stream: str, tables: Mapping[str, Table]) -> dict[str, History]:
    """What the snapshots of these tables, by their names, say about the stream."""
    return {
        name: history(stream, table.metadata.current_snapshot_id, _snapshots(table)) for name, table in tables.items()
    }


def _snapshots(table: "Table") -> dict[int, tuple[int | None, Mapping[str, str]]]:
    return {
        one.snapshot_id: (one.parent_snapshot_id, one.summary.additional_properties if one.summary else {})
        for one in table.metadata.snapshots
    }
