"""Manifests that this process has read before: they never change, and to decode one takes longer than to ask it.

A plan that meets a manifest for the first time takes out of it what it wants (manifest_sieve); the next one decodes it
whole, and it is kept, if all that the plan reads fits: else each plan would throw out what the next one looks for. What
is kept is bounded by the bytes of the manifests as they are stored, and by their entries,
which may be alike and compress well; in memory an entry takes about 4 KB. The least recently used go first.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.table.delete_file_index import _referenced_data_file_path
from pyiceberg.typedef import Record
from pyiceberg.utils.concurrent import ExecutorFactory

from firn_lake.reading.delete_index import DeleteIndex, partition_key
from firn_lake.reading.manifest_sieve import sifted

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

MOST_BYTES: Final = 4 * 1024 * 1024  # about 60 MB in memory: 16,000 files of a table with ten columns
_LISTED: Final = 64  # bytes of a manifest's line in a list of manifests
_ENTRY: Final = 250  # bytes that an entry counts for at least
_MET: Final = 10_000  # paths of manifests that are remembered, though not what is in them


class Known:
    """What was read by path, up to `most` bytes in all. Safe in threads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[int, Sequence[Any]]] = OrderedDict()
        self._met: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def entries(self, io: "FileIO", manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The live entries of a manifest. Raises what PyIceberg raises of one that can't be read."""
        return self._of(manifest.manifest_path, lambda: manifest.fetch_manifest_entry(io), manifest.manifest_length)

    def fitting(
        self,
        io: "FileIO",
        manifest: ManifestFile,
        partition: Callable[[Record], bool],
        bounds: Callable[[DataFile], bool],
        *,
        keep: bool = True,
    ) -> list[ManifestEntry]:
        """Those of them of whose partition and of which as files these tests are true. `keep`: whether to keep the
        manifest if it is met again. Raises as `entries`."""
        if self._is_first(manifest, keep=keep):
            return sifted(io, manifest, partition, bounds)
        entries = self.entries(io, manifest)
        return [one for one in entries if partition(one.data_file.partition) and bounds(one.data_file)]

    def fit(self, manifests: Iterable[ManifestFile]) -> bool:
        """Whether all of these can be kept."""
        return sum(map(_size, manifests)) <= self._most

    def _is_first(self, manifest: ManifestFile, *, keep: bool) -> bool:
        """Whether the manifest is met for the first time, or is not to be kept."""
        path = manifest.manifest_path
        with self._lock:
            if path in self._kept:
                return False
            met = path in self._met
            self._met[path] = None
            self._met.move_to_end(path)
            while len(self._met) > _MET:
                self._met.popitem(last=False)
        return not met or not keep

    def listed(self, io: "FileIO", snapshot: "Snapshot") -> Sequence[ManifestFile]:
        """The manifests of a snapshot."""
        return self._of(snapshot.manifest_list, lambda: snapshot.manifests(io))

    def _of(self, path: str, read: Callable[[], Sequence[Any]], stored: int | None = None) -> Sequence[Any]:
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path][1]
        found = read()
        taken = len(found) * _LISTED if stored is None else _taken(len(found), stored)
        if taken <= self._most:
            with self._lock:
                if path not in self._kept:
                    self.bytes += taken
                    self._kept[path] = (taken, found)
                while self.bytes > self._most:
                    self.bytes -= self._kept.popitem(last=False)[1][0]
        return found


def _taken(entries: int, stored: int) -> int:
    return max(stored, entries * _ENTRY)


def _size(manifest: ManifestFile) -> int:
    count = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    return _taken(count, manifest.manifest_length)


KNOWN: Final = Known()


class Planner(ManifestGroupPlanner):
    """PyIceberg's planning of a scan, of manifests that are read once."""

    def plan_manifest_entries(self, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
        """The entries of each manifest that the filter leaves, as PyIceberg finds them: first those of data files, then
        of the files of deletes those that may belong to one of them."""
        asked = Asked(self)
        some = [one for one in manifests if asked.manifest(one)]
        pool, own, keep = ExecutorFactory.get_or_create(), _Touched(), KNOWN.fit(some)

        def fitting(manifest: ManifestFile) -> list[ManifestEntry]:
            spec = manifest.partition_spec_id
            by_partition = partial(asked.of_partition, spec)
            return KNOWN.fitting(self.io, manifest, by_partition, asked.bounds, keep=keep)

        for found in pool.map(fitting, [one for one in some if one.content == ManifestContent.DATA]):
            own.add(found)
            yield found
        for found in pool.map(fitting, [one for one in some if own.may_have(one)]):
            yield [entry for entry in found if own.has(entry)]

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


class _Touched:
    """The data files that a plan has found, as far as it tells which deletes may be theirs."""

    def __init__(self) -> None:
        self._partitions: set[tuple[Any, ...]] = set()
        self._paths: set[str] = set()
        self._least: int | None = None

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        """Notes entries of data files."""
        for entry in entries:
            number = entry.sequence_number or 0
            self._least = number if self._least is None else min(self._least, number)
            self._partitions.add(partition_key(entry.data_file))
            self._paths.add(entry.data_file.file_path)

    def may_have(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may hold deletes of them: none that are older than all."""
        deletes = manifest.content == ManifestContent.DELETES
        return deletes and self._least is not None and (manifest.sequence_number or 0) >= self._least

    def has(self, entry: ManifestEntry) -> bool:
        """Whether a file of deletes may be of one of them. By equality any may be: they are not read here."""
        file = entry.data_file
        if self._least is None or (entry.sequence_number or 0) < self._least:
            return False
        if file.content != DataFileContent.POSITION_DELETES:
            return True
        path = _referenced_data_file_path(file)
        return path in self._paths if path else partition_key(file) in self._partitions


class _OfPartition(NamedTuple):
    """Of a data file, what PyIceberg's test of partitions looks at."""

    partition: Record


class Asked:
    """PyIceberg's own tests of manifests and files, made once for a filter."""

    def __init__(self, planner: ManifestGroupPlanner) -> None:
        self._planner = planner
        self._manifests: dict[int, Callable[[ManifestFile], bool]] = {}
        self._partitions: dict[int, Callable[[Any], bool]] = {}
        self._known: dict[tuple[Any, ...], bool] = {}
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
        return self.of_partition(spec, file.partition)

    def of_partition(self, spec: int, partition: Record) -> bool:
        """Whether files of this partition are left. Each is judged once: there are many files of one."""
        key = spec, *partition._data
        known = self._known.get(key)
        if known is None:
            if spec not in self._partitions:
                self._partitions[spec] = self._planner._build_partition_evaluator(spec)
            known = self._known[key] = self._partitions[spec](_OfPartition(partition))
        return known

    def projected(self, spec: int) -> BooleanExpression:
        """What the filter asks of the partitions of a spec, by their names."""
        return self._planner.partition_filters[spec]
