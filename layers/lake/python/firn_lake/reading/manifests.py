"""Manifests that this process has read before: they never change, and to decode one takes longer than to ask it.

What is kept is bounded by the bytes of the manifests as they are stored; in memory an entry takes about fifteen times
its own. The least recently used go first.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.utils.concurrent import ExecutorFactory

from firn_lake.reading.delete_index import DeleteIndex

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

MOST_BYTES: Final = 4 * 1024 * 1024  # about 60 MB in memory: 16,000 files of a table with ten columns
_LISTED: Final = 64  # bytes of a manifest's line in a list of manifests


class Known:
    """What was read by path, up to `most` bytes in all. Safe in threads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[int, Sequence[Any]]] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def entries(self, io: "FileIO", manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The live entries of a manifest. Raises what PyIceberg raises of one that can't be read."""
        return self._of(manifest.manifest_path, lambda: manifest.fetch_manifest_entry(io), manifest.manifest_length)

    def listed(self, io: "FileIO", snapshot: "Snapshot") -> Sequence[ManifestFile]:
        """The manifests of a snapshot."""
        return self._of(snapshot.manifest_list, lambda: snapshot.manifests(io))

    def _of(self, path: str, read: Callable[[], Sequence[Any]], stored: int | None = None) -> Sequence[Any]:
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path][1]
        found = read()
        taken = len(found) * _LISTED if stored is None else stored
        if taken <= self._most:
            with self._lock:
                if path not in self._kept:
                    self.bytes += taken
                    self._kept[path] = (taken, found)
                while self.bytes > self._most:
                    self.bytes -= self._kept.popitem(last=False)[1][0]
        return found


KNOWN: Final = Known()


class Planner(ManifestGroupPlanner):
    """PyIceberg's planning of a scan, of manifests that are read once."""

    def plan_manifest_entries(self, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
        """The entries of each manifest that the filter leaves, as PyIceberg finds them."""
        asked = Asked(self)
        some = [one for one in manifests if asked.manifest(one)]
        first = min((one.min_sequence_number or 0 for one in some if one.content == ManifestContent.DATA), default=0)
        wanted = [one for one in some if self._check_sequence_number(first, one)]

        def fitting(manifest: ManifestFile) -> list[ManifestEntry]:
            return [
                entry
                for entry in KNOWN.entries(self.io, manifest)
                if asked.partition(manifest.partition_spec_id, entry.data_file) and asked.bounds(entry.data_file)
            ]

        return ExecutorFactory.get_or_create().map(fitting, wanted)

    def plan_files(
        self, manifests: Iterable[ManifestFile], manifest_entry_filter: Callable[[ManifestEntry], bool] = lambda _: True
    ) -> Iterable[FileScanTask]:
        """The data files that the filter leaves, each with its files of deletes, by one look at each of both. Raises
        ValueError for deletes by equality."""
        data: list[ManifestEntry] = []
        deletes = DeleteIndex()
        for entry in chain.from_iterable(self.plan_manifest_entries(manifests)):
            if not manifest_entry_filter(entry):
                continue
            match entry.data_file.content:
                case DataFileContent.DATA:
                    data.append(entry)
                case DataFileContent.POSITION_DELETES:
                    deletes.add(entry)
                case _:
                    raise ValueError("equality deletes are not read")
        # What is left of the filter within a partition nobody asks: rows are filtered by the whole of it. PyIceberg
        # 0.12 fails (TypeError) to tell it of a comparison within a partition whose value is null.
        return [FileScanTask(one.data_file, cast("set[DataFile]", deletes.of(one)), self.row_filter) for one in data]


class Asked:
    """PyIceberg's own tests of manifests and files, made once for a filter."""

    def __init__(self, planner: ManifestGroupPlanner) -> None:
        self._planner = planner
        self._manifests: dict[int, Callable[[ManifestFile], bool]] = {}
        self._partitions: dict[int, Callable[[DataFile], bool]] = {}
        self.bounds: Callable[[DataFile], bool] = planner._build_metrics_evaluator()
        """Whether the file's bounds leave it."""

    def manifest(self, manifest: ManifestFile) -> bool:
        """Whether the manifest's summary of its partitions leaves it."""
        spec = manifest.partition_spec_id
        if spec not in self._manifests:
            self._manifests[spec] = self._planner._build_manifest_evaluator(spec)
        return self._manifests[spec](manifest)

    def partition(self, spec: int, file: DataFile) -> bool:
        """Whether the file's partition leaves it."""
        if spec not in self._partitions:
            self._partitions[spec] = self._planner._build_partition_evaluator(spec)
        return self._partitions[spec](file)

    def projected(self, spec: int) -> BooleanExpression:
        """What the filter asks of the partitions of a spec, by their names."""
        return self._planner.partition_filters[spec]
