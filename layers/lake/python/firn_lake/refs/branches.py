"""Moving branches: forward to what descends from them, and single appends from one to main."""

from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from firn.errors import TerminalError
from firn.maintenance.expiry import MAIN
from firn_lake.reading.lineage import changes_nothing, holds_nothing
from firn_lake.refs.names import Ref, RefRefused, known, listed, manage, not_the_rebuilds, ref_of, refs
from firn_lake.tables import epochs_of, shown
from firn_lake.writing.commit import land_files, writable
from firn_lake.writing.stream_ownership import ancestry, not_fed

if TYPE_CHECKING:
    from pyiceberg.table import Table


class NotAhead(TerminalError):
    """The branch has snapshots that the other one does not: it can't be moved there without losing them."""


def fast_forward(table: "Table", name: str, to: int | None) -> Ref:
    """Moves the branch `name` on to a snapshot that descends from its newest one. There already: nothing to do.

    Raises NoSuchRef, NotAhead, RefRefused (a tag; a rebuild's branch), FedByStream (main would get rows that came by no
    stream), MovedOn, UnknownOutcome.
    """
    there = ref_of(table.metadata, name)
    not_the_rebuilds(name)
    target = known(table, to)
    if there.kind == "tag":
        raise RefRefused(f"{name} is a tag, which never moves; branches: {listed(refs(table.metadata), 'branch')}")
    reached = _with_what_is_below_nothing(table, there.snapshot)
    between = []
    for one in ancestry(table.metadata, target):
        if one.snapshot_id in reached:
            break
        between.append(one)
    else:
        raise NotAhead(
            f"snapshot {target} does not descend from {name}, which is at {there.snapshot}: moving there would lose "
            f"what {name} has got since. Take over single appends by cherry-pick, or begin the branch again"
        )
    if not between:
        return there
    if name == MAIN and not all(epochs_of(one) or changes_nothing(one) for one in between):
        not_fed(table.metadata, shown(table))
    set_branch(table, name, target)
    return ref_of(table.metadata, name)


def _with_what_is_below_nothing(table: "Table", newest: int) -> set[int]:
    """A snapshot, and the one below it if it holds nothing, and so on: to go on from any of these loses nothing. On a
    REST catalog each tag and each expiry puts such a one on main (docs/adr/0076-expiry-on-rest-catalogs.md)."""
    found = set()
    for one in ancestry(table.metadata, newest):
        found.add(one.snapshot_id)
        if not holds_nothing(one):
            break
    return found


def cherry_pick(table: "Table", snapshot: int) -> int:
    """Brings the rows that a snapshot of another branch appended into main. Each is taken once, however often it is
    picked. -> the snapshot of main that has them.

    Raises NoSuchRef, RefRefused (it is not an append, or its files are of another partitioning), FedByStream, MovedOn,
    UnknownOutcome.
    """
    metadata, name = table.metadata, shown(table)
    not_fed(metadata, name)
    picked = metadata.snapshot_by_id(known(table, snapshot))
    assert picked is not None  # noqa: S101 (_known has seen it)
    for one in ancestry(metadata, metadata.current_snapshot_id):
        told = one.summary.additional_properties if one.summary else {}
        if one.snapshot_id == snapshot or told.get("source-snapshot-id") == str(snapshot):
            return one.snapshot_id
    if picked.parent_snapshot_id == metadata.current_snapshot_id:
        set_branch(table, MAIN, snapshot)
        return snapshot
    if picked.summary is None or picked.summary.operation != Operation.APPEND:
        kind = picked.summary.operation.value if picked.summary else "unknown"
        raise RefRefused(
            f"snapshot {snapshot} of {name} is not an append but {kind}: what it deletes or replaces was found in rows "
            "that main may not have. Do the same again on main, or fast-forward main if it has not moved"
        )
    files = [
        entry.data_file
        for manifest in picked.manifests(table.io)
        if manifest.added_snapshot_id == snapshot
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.snapshot_id == snapshot
    ]
    if any(file.spec_id != metadata.default_spec_id for file in files):
        raise RefRefused(
            f"snapshot {snapshot} of {name} was written under another partitioning: read its rows (as_of) and "
            "append them"
        )

    writable(table)
    land_files(table, (), files, {"source-snapshot-id": str(snapshot)})
    return int(table.metadata.current_snapshot_id or 0)


def set_branch(table: "Table", name: str, snapshot: int) -> None:
    """Sets a branch to a snapshot, if it still is where it was. Its own retention stays as it is."""
    there = table.metadata.refs[name]
    manage(
        table,
        name,
        lambda managed: managed.create_branch(
            snapshot, name, there.max_ref_age_ms, there.max_snapshot_age_ms, there.min_snapshots_to_keep
        ),
    )
