"""Writing without Spark: for small tables, and tables of one's own beside those that streams feed.

One commit each, all of it or nothing. With an id it is done once, however often it is called.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import expression_to_pyarrow

from firn.errors import TransientError, UnknownOutcome
from firn_lake.reading.positions import Positions
from firn_lake.reading.versions import version_at
from firn_lake.tables import shown
from firn_lake.writing.coercion import Given, batches_of
from firn_lake.writing.commit import CannotWrite, MovedOn, land_files, writable
from firn_lake.writing.data_files import remove_files, write_files
from firn_lake.writing.kept_rows import KeptRows
from firn_lake.writing.stream_ownership import ancestry, not_fed

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

WRITE_ID: Final = "firn.write-id"
"""Snapshot property: the caller's id of the write."""

_TRIES: Final = 10


@dataclass(frozen=True)
class Change:
    """Files that a write takes out of main, and files that were written in their place, with the rows that stay."""

    removed: "Sequence[DataFile]" = ()
    added: "Sequence[DataFile]" = ()


def append(table: "Table", rows: Given, id: str | None = None) -> int | None:
    """Adds rows. -> the snapshot that has them; main's newest if there is nothing to add.

    rows  Arrow, a DataFrame or dictionaries; read once, at most some files' worth in memory
    id    names this write: where main's history has one of that name, nothing is done (while its snapshot is kept)

    Raises BadRows, FedByStream, CannotWrite, MovedOn (other commits always came first: nothing was done),
    UnknownOutcome, StorageUnavailable.
    """
    if (done := begun(table, id)) is not None:
        return done
    return write(table, _files_of(table, rows), Change, id)


def overwrite(
    table: "Table", rows: Given, filter: "str | BooleanExpression | None" = None, id: str | None = None
) -> int | None:
    """Puts `rows` in place of all rows, or of those that fit `filter`. Without rows they are deleted.

    Raises as `append` does, and BadFilter, UnreadableFile.
    """
    if (done := begun(table, id)) is not None:
        return done
    version_at(table, None).bound(filter)  # before anything is written
    return write(table, _files_of(table, rows), lambda: _without(table, filter), id)


def overwrite_partitions(table: "Table", rows: Given, id: str | None = None) -> int | None:
    """Puts `rows` in place of all rows of the partitions that they belong to; other partitions stay as they are.

    Raises as `append` does; CannotWrite for a table without partitions, or with files of an earlier partitioning.
    """
    if (done := begun(table, id)) is not None:
        return done
    spec = table.spec()
    if spec.is_unpartitioned():
        raise CannotWrite(f"{shown(table)} has no partitions: overwrite(rows, filter=…) replaces rows, or all of them")
    files = _files_of(table, rows)
    partitions = {_partition(file) for file in files}

    def replaced() -> Change:
        live = [task.file for task in version_at(table, None).files()]
        if any(file.spec_id != spec.spec_id for file in live):
            raise CannotWrite(
                f"{shown(table)} has files of an earlier partitioning, which may hold rows of any of these partitions: "
                "overwrite(rows, filter=…) replaces rows by their values"
            )
        return Change([file for file in live if _partition(file) in partitions])

    return write(table, files, replaced, id)


def write(
    table: "Table", files: "Sequence[DataFile]", change: Callable[[], Change], id: str | None = None
) -> int | None:
    """Commits data files, and what `change` says of main as it then is, as one snapshot.

    change  asked again each time another commit came first

    Files that are not committed are removed, unless the outcome is unknown. Raises MovedOn, UnknownOutcome, and what
    `change` raises.
    """
    properties = {} if id is None else {WRITE_ID: id}
    before = _shape(table.metadata)
    try:
        for left in reversed(range(_TRIES)):
            now = change()
            if not files and not now.removed and not now.added and id is None:
                return table.metadata.current_snapshot_id
            try:
                land_files(table, now.removed, [*files, *now.added], properties)
                return table.metadata.current_snapshot_id
            except TransientError as error:
                remove_files(table.io, now.added)
                if not left or not isinstance(error, MovedOn):
                    raise
            time.sleep(random.uniform(0, 0.05 * 2 ** min(_TRIES - left, 5)))
            table.refresh()
            if (done := _written(table.metadata, id)) is not None:
                remove_files(table.io, files)
                return done
            if _shape(table.metadata) != before:
                raise MovedOn(f"{shown(table)} got other columns or partitions while this was written: run it again")
    except UnknownOutcome:
        raise
    except Exception:  # who is interrupted doesn't know whether a commit was made: the files stay
        remove_files(table.io, files)
        raise
    raise AssertionError("unreachable")


def _without(table: "Table", filter: "str | BooleanExpression | None") -> Change:
    """The files with rows that fit, and what else is in them."""
    version = version_at(table, None)
    tasks = list(version.files(filter))
    if filter is None:
        return Change([task.file for task in tasks])
    fits = expression_to_pyarrow(version.bound(filter), version.schema)
    positions, rows = Positions(version.source.io, version.name, version.id), KeptRows(version)
    removed: list[DataFile] = []
    added: list[DataFile] = []
    try:
        for task in tasks:
            gone = positions.of(task.file.file_path, task.delete_files)
            kept = _Kept(rows.read(task.file, gone), fits)
            written = write_files(table.metadata, table.io, kept, kept=True)
            if kept.left_out:
                removed.append(task.file)
                added += written
            else:
                remove_files(table.io, written)
    except BaseException:
        remove_files(table.io, added)
        raise
    return Change(removed, added)


class _Kept:
    """The rows of batches that do not fit; `left_out`: how many do."""

    def __init__(self, batches: "Iterable[pa.RecordBatch]", fits: pc.Expression) -> None:
        self._batches = batches
        self._fits = fits
        self.left_out = 0

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        for batch in self._batches:
            numbered = batch.append_column("", pa.arange(0, batch.num_rows))
            gone = numbered.filter(self._fits).column(batch.num_columns)  # neither false nor null fits
            self.left_out += len(gone)
            yield batch.filter(pc.invert(pc.is_in(numbered.column(batch.num_columns), value_set=gone)))


def may_write(table: "Table") -> None:
    """Raises FedByStream, CannotWrite."""
    not_fed(table.metadata, shown(table))
    writable(table)


def begun(table: "Table", id: str | None) -> int | None:
    """The snapshot of the write of this id, if it has been done. Raises FedByStream, CannotWrite."""
    may_write(table)
    if id is not None and not (isinstance(id, str) and id):
        raise CannotWrite(f"id={id!r}: write a text that names this write, such as 'orders-2026-01-31'")
    return _written(table.metadata, id)


def _written(metadata: "TableMetadata", id: str | None) -> int | None:
    if id is None:
        return None
    for one in ancestry(metadata, metadata.current_snapshot_id):
        if one.summary is not None and one.summary.additional_properties.get(WRITE_ID) == id:
            return one.snapshot_id
    return None


def _files_of(table: "Table", rows: Given) -> "list[DataFile]":
    return write_files(table.metadata, table.io, batches_of(rows, table.schema(), shown(table)))


def _partition(file: "DataFile") -> tuple[object, ...]:
    """The partition's values. PyIceberg has a UUID as bytes before it is written, and as a UUID when it is read."""
    values = (file.partition[place] for place in range(len(file.partition)))
    return tuple(value.bytes if isinstance(value, UUID) else value for value in values)


def _shape(metadata: "TableMetadata") -> tuple[object, ...]:
    return metadata.table_uuid, metadata.current_schema_id, metadata.default_spec_id
