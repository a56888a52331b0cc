"""Whose table it is: this deployment's, or that of another one which the same catalog names.

All deployments of an account share Glue's one catalog: where two name a table alike, the second finds the first's. Its
epochs would count as the second's own, and its rows as rows of the same source.
"""

from collections.abc import Iterable, Sequence

from firn.config import reach
from firn.config.modes import VIEW
from firn.config.names import TableName
from firn.log import cuts, epochs
from firn.log.store import Store
from firn.tables.locations import below, spelled
from firn.tables.table_state import EPOCH, MODE, TableState


def barred(table: TableName, databases: Sequence[str]) -> str | None:
    """Why a table lies where this deployment has no rights, by its name alone; None if it does not. `databases`:
    patterns of the namespaces that it may use, none for all."""
    why = reach.barred(table.namespace, databases)
    return None if why is None else f"{table} is left alone: {why}"


def refusal(
    store: Store, streams: Iterable[str], table: TableName, state: TableState | None, warehouse: str
) -> str | None:
    """Why a table is not to be touched; None if it may be. `streams`: all of this deployment.

    A table of Firn's, or one that Firn has committed to, outside of `warehouse` is another deployment's, unless this
    one's log has committed to it. One that Firn has nothing to do with yet may lie anywhere: it is adopted. Raises
    StorageUnavailable, UnreadableBatch.
    """
    if state is None or below(spelled(warehouse), spelled(state.location)) is not None:
        return None
    committed = any(name.startswith(EPOCH) for summary in state.ancestry for name in summary)
    if (state.key() is None and not committed) or _is_ours(store, tuple(streams), table, state):
        return None
    return _elsewhere(table, state, warehouse)


def _elsewhere(table: TableName, state: TableState, warehouse: str) -> str:
    return (
        f"{table} lies at {state.location}, outside of the warehouse {warehouse}: it is another deployment's, and is "
        f"left alone. Give the tables of this one another namespace in firn.yaml, such as dev_{table.namespace} "
        "(and in GlueDatabases of template.yaml)"
    )


def refusal_of_view(table: TableName, state: TableState | None, warehouse: str, *, made: bool) -> str | None:
    """Why a view is not to be made of the table that is there under its name; None if it may be. Pure. `made`: whether
    this deployment has refreshed it before. A view takes the place of no other table: its rows would be lost."""
    if state is None:
        return None
    if state.properties.get(MODE) != VIEW:
        return (
            f"{table} is there, and is no view: its rows are not replaced by those of a query. Give the view another "
            "name in firn.yaml, or drop the table"
        )
    if made or below(spelled(warehouse), spelled(state.location)) is not None:
        return None
    return _elsewhere(table, state, warehouse)


def _is_ours(store: Store, streams: Sequence[str], table: TableName, state: TableState) -> bool:
    """By the nonce of an epoch, which no other log has: a name in a cut may be another table's by now. A table that
    tells no nonce was last committed to by an older version: there the cut has to do."""
    told = {stream: nonce for stream in streams if (nonce := state.sealed(stream)) is not None}
    if not told:
        return cuts.have(store, streams, str(table))
    found = {stream: epochs.read(store, stream, state.progress(stream)) for stream in told}
    return any(epoch is not None and epoch.nonce == told[stream] for stream, epoch in found.items())
