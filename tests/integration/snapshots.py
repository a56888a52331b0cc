"""What the snapshots of a table say, as PyIceberg reads them."""

from pyiceberg.table import Table


def epochs_of(table: Table, stream: str) -> list[int]:
    """The epochs of `stream` that the snapshots of the table's ancestry name, oldest first, as far back as it goes."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    found = []
    at = table.metadata.current_snapshot_id
    while at is not None and at in by_id:
        summary = by_id[at].summary
        said = dict(summary.additional_properties) if summary else {}
        if f"firn.epoch.{stream}" in said:
            found.append(int(said[f"firn.epoch.{stream}"]))
        at = by_id[at].parent_snapshot_id
    return found[::-1]
