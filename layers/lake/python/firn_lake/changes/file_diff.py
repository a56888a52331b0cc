"""Which rows of which files differ between two snapshots of a table: from manifests, and files of deletes.

Manifests that both snapshots have are not read (but to find a data file in them that lost rows), nor are data files
that both have, but for those rows. So the cost follows what was written in between.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile

from firn_lake.reading.delete_index import DeleteIndex
from firn_lake.reading.files import Source
from firn_lake.reading.positions import NONE, Place, Positions, place, without
from firn_lake.reading.unreadable import reading
from firn_lake.reading.versions import equality_deletes

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Part:
    """Rows of one data file: those of `only` (None: all) that are not in `gone`; sorted places in the file."""

    file: DataFile
    only: pa.Array | None = None
    gone: pa.Array = field(default_factory=lambda: NONE)


@dataclass(frozen=True)
class Difference:
    """`left`: what the earlier snapshot has and the later one has not, at its place; `came`: the reverse. Rows that
    were only rewritten are in both."""

    left: tuple[Part, ...] = ()
    came: tuple[Part, ...] = ()


def difference(source: Source, before: "Snapshot | None", after: "Snapshot | None") -> Difference:
    """How the files of two snapshots differ; None: a table without rows.

    Raises UnreadableFile (a file is missing, or another writer's equality deletes), StorageUnavailable.
    """
    positions = Positions(source.io, source.table, after.snapshot_id if after else None)
    old, new = _Side(source, before, positions), _Side(source, after, positions)
    old_files, new_files = old.files_not_in(new), new.files_not_in(old)
    left = [entry for path, entry in sorted(old_files.items()) if path not in new_files]
    came = [entry for path, entry in sorted(new_files.items()) if path not in old_files]
    moved = {entry.data_file.file_path for entry in (*left, *came)}
    touched = _touched(old, new, positions) - moved
    positions.narrow(touched | moved)
    gone = [Part(entry.data_file, None, old.deleted(entry)) for entry in left]
    back = [Part(entry.data_file, None, new.deleted(entry)) for entry in came]
    for entry in _entries(touched, [old_files, new_files], old, new):
        then, now = old.deleted(entry), new.deleted(entry)
        gone.append(Part(entry.data_file, without(now, then)))
        back.append(Part(entry.data_file, without(then, now)))
    return Difference(tuple(filter(_any, gone)), tuple(filter(_any, back)))


class _Side:
    """One of the two snapshots."""

    def __init__(self, source: Source, snapshot: "Snapshot | None", positions: Positions) -> None:
        self._source = source
        self._id = snapshot.snapshot_id if snapshot else None
        self._positions = positions
        self.data: dict[str, ManifestFile] = {}
        self.deletes: dict[str, ManifestFile] = {}
        if snapshot is not None:
            with reading(snapshot.manifest_list, source.table, self._id):
                for one in snapshot.manifests(source.io):
                    kind = self.data if one.content == ManifestContent.DATA else self.deletes
                    kind[one.manifest_path] = one

    def files_not_in(self, other: "_Side") -> dict[str, ManifestEntry]:
        """The live data files, by path, of the manifests that only this side has."""
        mine = [one for path, one in self.data.items() if path not in other.data]
        return {entry.data_file.file_path: entry for one in mine for entry in self.entries(one)}

    def deletes_not_in(self, other: "_Side") -> dict[Place, DataFile]:
        """The live files of deletes of the manifests that only this side has."""
        mine = [one for path, one in self.deletes.items() if path not in other.deletes]
        return {place(entry.data_file): entry.data_file for one in mine for entry in self.entries(one)}

    def deleted(self, entry: ManifestEntry) -> pa.Array:
        """The rows of a data file that are deleted on this side."""
        file = entry.data_file
        return self._positions.of(file.file_path, self._index.of(entry))

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """What is live of a manifest."""
        with reading(manifest.manifest_path, self._source.table, self._id):
            return manifest.fetch_manifest_entry(self._source.io, discard_deleted=True)

    @cached_property
    def _index(self) -> DeleteIndex:
        index = DeleteIndex()
        for manifest in self.deletes.values():
            for entry in self.entries(manifest):
                if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                    raise equality_deletes(self._source.table, self._id)
                index.add(entry)
        return index


def _touched(old: _Side, new: _Side, positions: Positions) -> set[str]:
    """The data files that files of deletes name which only one side has."""
    olds, news = old.deletes_not_in(new), new.deletes_not_in(old)
    found: set[str] = set()
    for one in olds.keys() ^ news.keys():
        file = olds.get(one) or news[one]
        if file.content == DataFileContent.EQUALITY_DELETES:
            raise equality_deletes(positions.table, positions.snapshot)
        found.update(positions.in_file(file))
    return found


def _entries(
    wanted: Collection[str], known: Iterable[dict[str, ManifestEntry]], old: _Side, new: _Side
) -> Iterable[ManifestEntry]:
    """The entries of data files that both sides have. A path that is in no manifest is of a file that is no more."""
    missing = set(wanted)
    first, second = known
    for path in sorted(missing & first.keys() & second.keys()):
        missing.discard(path)
        yield second[path]
    # Deletes are mostly of young rows: the newest manifests first.
    common = [one for path, one in new.data.items() if path in old.data]
    for manifest in sorted(common, key=lambda one: -one.sequence_number):
        if not missing:
            return
        for entry in new.entries(manifest):
            if entry.data_file.file_path in missing:
                missing.discard(entry.data_file.file_path)
                yield entry


def _any(part: Part) -> bool:
    return part.only is None or len(part.only) > 0
