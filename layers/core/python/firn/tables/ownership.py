"""Whose table it is: this deployment's, or that of another one which the same catalog names. Pure.

All deployments of an account share Glue's one catalog: where two name a table alike, the second finds the first's. Its
epochs would count as the second's own, and its rows as rows of the same source.
"""

from collections.abc import Sequence

from firn.config import reach
from firn.config.names import TableName
from firn.tables.locations import below, spelled
from firn.tables.table_state import EPOCH, TableState


def barred(table: TableName, databases: Sequence[str]) -> str | None:
    """Why a table lies where this deployment has no rights, by its name alone; None if it does not. `databases`:
    patterns of the namespaces that it may use, none for all."""
    why = reach.barred(table.namespace, databases)
    return None if why is None else f"{table} is left alone: {why}"


def refusal(table: TableName, state: TableState | None, warehouse: str) -> str | None:
    """Why a table that this deployment's log has not committed to is not to be touched; None if it may be.

    A table of Firn's, or one that Firn has committed to, outside of `warehouse` is another deployment's. One that Firn
    has nothing to do with yet may lie anywhere: it is adopted.
    """
    if state is None or below(spelled(warehouse), spelled(state.location)) is not None:
        return None
    committed = any(name.startswith(EPOCH) for summary in state.ancestry for name in summary)
    if state.key() is None and not committed:
        return None
    return (
        f"{table} lies at {state.location}, outside of the warehouse {warehouse}: it is another deployment's, and is "
        f"left alone. Give the tables of this one another namespace in firn.yaml, such as dev_{table.namespace} "
        "(and in GlueDatabases of template.yaml)"
    )
