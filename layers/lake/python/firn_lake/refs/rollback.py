"""Rolling main back to an earlier snapshot.

A table that no stream feeds is set back, as Iceberg says. Main of a table that a stream feeds is never set back: its
history is the streams' progress, and jobs would apply epochs again. It goes on instead, by one snapshot that holds what
the earlier one held: the rows are back, the progress stays (docs/adr/0024-rollback.md).
"""

from typing import TYPE_CHECKING, Final, Literal

from pyiceberg.exceptions import ResolveError

from firn.errors import TerminalError, UnknownOutcome
from firn.maintenance.expiry import MAIN
from firn.tables.shard_names import shard_in
from firn_lake.changes.file_diff import difference
from firn_lake.reading.lineage import changes_nothing
from firn_lake.reading.versions import version_of
from firn_lake.refs.branches import set_branch
from firn_lake.refs.names import known
from firn_lake.tables import epochs_of, shown
from firn_lake.writing.commit import MovedOn, land_files, writable
from firn_lake.writing.data_files import remove_files, write_files
from firn_lake.writing.kept_rows import KeptRows
from firn_lake.writing.stream_ownership import FedByStream, ancestry, is_firns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Then = Literal["skip", "replay"]
BACK_TO: Final = "firn.rolled-back-to"  # in the summary of a rollback's snapshot: the one whose rows it holds
_TRIES: Final = 5


class CannotRollBack(TerminalError):
    """The table can't be rolled back there, or not so; the text says what can be done."""


def roll_back(table: "Table", to: int | None, then: "Then | None" = None) -> int:
    """Gives main the rows that it had at the snapshot `to`. -> main's newest snapshot then.

    then  of a table that a stream feeds, what becomes of the epochs since: "skip": they stay out. None is enough where
          no epoch was committed since

    Raises CannotRollBack, NoSuchRef, FedByStream (a table of delete facts), CannotWrite, UnreadableFile,
    StorageUnavailable, MovedOn (other commits always came first; nothing was done), UnknownOutcome.
    """
    if then not in (None, "skip", "replay"):
        raise CannotRollBack(f"then={then!r}: write 'skip', or nothing")
    target = known(table, to)
    for left in reversed(range(_TRIES)):
        since = _since(table, target)
        if not since:
            return target
        if _is_back(since[0], target):
            return since[0].snapshot_id
        if not is_firns(table.metadata):
            set_branch(table, MAIN, target)
            return target
        _allowed(table, since, then)
        try:
            _restore(table, since, target)
            break
        except MovedOn:
            if not left:
                raise
            table.refresh()
    return int(table.metadata.current_snapshot_id or 0)


def _since(table: "Table", target: int) -> "list[Snapshot]":
    """The snapshots of main after `target`, newest first."""
    found: list[Snapshot] = []
    for one in ancestry(table.metadata, table.metadata.current_snapshot_id):
        if one.snapshot_id == target:
            return found
        found.append(one)
    raise CannotRollBack(
        f"snapshot {target} is not in the history of main of {shown(table)}: it belongs to another branch, was rolled "
        "back, or is older than a rebuild. It can be read (as_of), and a branch can begin there"
    )


def _is_back(head: "Snapshot", target: int) -> bool:
    return head.summary is not None and head.summary.additional_properties.get(BACK_TO) == str(target)


def _allowed(table: "Table", since: "Sequence[Snapshot]", then: "Then | None") -> None:
    name = shown(table)
    if table.metadata.properties.get("firn.mode") == "deletes":
        raise FedByStream(f"{name} is Firn's own memory of deletes: without its facts, deleted rows would come back")
    if (shard := shard_in(table.metadata.properties)) is not None:
        raise CannotRollBack(f"{name} is {shard}, whose other shards may hold its rows: they can't be rolled back yet")
    if table.metadata.properties.get("firn.mode") == "view":
        raise CannotRollBack(
            f"{name} is a view, and is brought to what its tables have at each refresh: read it as it was (as_of), "
            f"roll these back, or give it other SQL. firn rebuild {name} --in-place makes all of it again"
        )
    if then == "replay":
        raise CannotRollBack(
            f"{name} is fed by a stream, whose epochs are applied again by a rebuild: firn rebuild {name} --in-place "
            "makes the table what its log says"
        )
    epochs: dict[str, list[int]] = {}
    for one in since:
        for stream, n in epochs_of(one).items():
            epochs.setdefault(stream, []).append(n)
    if epochs and then is None:
        told = "; ".join(f"epochs {min(n)} to {max(n)} of {stream}" for stream, n in sorted(epochs.items()))
        raise CannotRollBack(
            f"{name} has since got {told}: say then='skip' (--then skip) if they shall stay out of it. To have the "
            f"table as its log says, use firn rebuild {name} --in-place"
        )


def _restore(table: "Table", since: "Sequence[Snapshot]", target: int) -> None:
    if all(changes_nothing(one) for one in since):
        return  # the same rows in other files
    head, then = since[0], table.metadata.snapshot_by_id(target)
    assert then is not None  # noqa: S101 (known has seen it)
    writable(table)
    _same_columns(table, then)
    version = version_of(table, then, table.schema())
    found = difference(version.source, head, then)
    removed = [part.file for part in found.left if part.only is None]
    if len(removed) < len(found.left):
        raise CannotRollBack(
            f"files of deletes of {shown(table)} were taken away between snapshot {target} and now, and their rows "
            f"can't be told: firn rebuild {shown(table)} --in-place"
        )
    if not found.left and not found.came:
        return

    kept = KeptRows(version)

    def rows() -> "Iterator[pa.RecordBatch]":
        for part in found.came:
            yield from kept.read(part.file, part.gone, part.only, changed=True)

    try:
        added = write_files(table.metadata, table.io, rows(), kept=True)
    except ResolveError as error:
        raise CannotRollBack(
            f"rows of snapshot {target} of {shown(table)} do not fit its columns of today: {error}"
        ) from error
    _land(table, removed, added, target)


def _land(table: "Table", removed: "Sequence[DataFile]", added: "Sequence[DataFile]", target: int) -> None:
    try:
        land_files(table, removed, added, {BACK_TO: str(target)})
    except UnknownOutcome:
        raise
    except Exception:  # who is interrupted doesn't know whether the commit was made: the files stay
        remove_files(table.io, added)
        raise


def _same_columns(table: "Table", then: "Snapshot") -> None:
    """Refuses where a column of today is not the one that had its name: its earlier values would be lost."""
    schema = table.schemas().get(then.schema_id) if then.schema_id is not None else None
    before = {field.name: field.field_id for field in schema.fields} if schema else {}
    today = {field.name: field.field_id for field in table.schema().fields}
    retyped = [name for name, number in today.items() if before.get(name, number) != number]
    if retyped:
        raise CannotRollBack(
            f"{', '.join(retyped)} of {shown(table)} became another column since, of another type: the earlier values "
            "do not fit it. Read them (as_of), or rebuild the table beside it (firn rebuild TABLE --into NAME --to …)"
        )
