"""Who feeds a table: what its metadata says of Firn's streams. Pure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from firn.errors import TerminalError
from firn_lake.tables import epochs_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


class FedByStream(TerminalError):
    """The rows of the table come through a stream: another writer would hide, double or lose changes."""


def ancestry(metadata: "TableMetadata", newest: int | None) -> "Iterator[Snapshot]":
    """A snapshot and its ancestors as far as they are kept, newest first."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    while newest is not None and (found := by_id.get(newest)) is not None:
        yield found
        newest = found.parent_snapshot_id


def streams_of(metadata: "TableMetadata") -> tuple[str, ...]:
    """The streams that feed the table, sorted: the one that made it, and those that have committed to main."""
    found = {stream for one in ancestry(metadata, metadata.current_snapshot_id) for stream in epochs_of(one)}
    made = metadata.properties.get("firn.stream")
    return tuple(sorted(found | ({made} if made else set())))


def is_firns(metadata: "TableMetadata") -> bool:
    """Whether Firn reads progress, or facts, out of the table's history."""
    return "firn.mode" in metadata.properties or bool(streams_of(metadata))


def not_fed(metadata: "TableMetadata", name: str) -> None:
    """Raises FedByStream if the rows of the table `name` come through a stream."""
    if not is_firns(metadata):
        return
    streams = streams_of(metadata)
    if metadata.properties.get("firn.mode") == "deletes":
        raise FedByStream(f"{name} is Firn's own memory of deletes: nobody else may write it")
    if metadata.properties.get("firn.mode") == "view":
        raise FedByStream(
            f"{name} is a view: its rows are what its SQL makes of other tables, and each refresh would take others "
            "for its own. Change these tables, or its SQL (views: in firn.yaml)"
        )
    stream = streams[0] if streams else "STREAM"
    raise FedByStream(
        f"{name} is fed by {'stream ' + ', '.join(streams) if streams else 'a stream'}: rows that another writer puts "
        "into it have no position, and later changes would double or lose them. Changes come through the stream: "
        f"firn send {stream} FILE, or firn.Producer({stream!r}). To keep rows of your own, write a table beside it"
    )
