"""Which files of position deletes may name rows of a data file: those of its path, and those of its partition between
whose least and greatest path it is, that are no older than it.

PyIceberg's index asks every file of deletes of a partition for every data file there, and makes a test for each pair: a
minute for 2,000 of each. Here the intervals of paths are a tree, and an answer takes time by what it holds.
"""

from typing import Any, Final

from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.table.delete_file_index import PATH_FIELD_ID, _referenced_data_file_path

_Key = tuple[Any, ...]


class DeleteIndex:
    """Add all files of deletes first, then ask."""

    def __init__(self) -> None:
        self._by_path: dict[str, list[tuple[int, DataFile]]] = {}
        self._whole: dict[_Key, list[tuple[int, DataFile]]] = {}
        self._spans: dict[_Key, _Spans] = {}

    def add(self, entry: ManifestEntry) -> None:
        """Notes a file of position deletes."""
        file, number = entry.data_file, entry.sequence_number or 0
        if path := _referenced_data_file_path(file):
            self._by_path.setdefault(path, []).append((number, file))
            return
        least, greatest = ((one or {}).get(PATH_FIELD_ID) for one in (file.lower_bounds, file.upper_bounds))
        if least is None or greatest is None:
            self._whole.setdefault(partition_key(file), []).append((number, file))
        else:
            self._spans.setdefault(partition_key(file), _Spans()).add(least, greatest, number, file)

    def of(self, entry: ManifestEntry) -> list[DataFile]:
        """The files of deletes of a data file."""
        file, number = entry.data_file, entry.sequence_number or 0
        key = partition_key(file)
        found = [
            one
            for some in (self._by_path.get(file.file_path, ()), self._whole.get(key, ()))
            for added, one in some
            if added >= number
        ]
        spans = self._spans.get(key)
        return found if spans is None else found + spans.of(file.file_path.encode(), number)


class _Spans:
    """Intervals of paths, as a balanced tree in a sorted list: the node of a range is its middle, which knows the
    greatest path and the highest number of its range."""

    def __init__(self) -> None:
        self._all: list[tuple[bytes, bytes, int, DataFile]] = []
        self._ready = False
        self._reach: list[bytes] = []
        self._newest: list[int] = []

    def add(self, least: bytes, greatest: bytes, number: int, file: DataFile) -> None:
        self._all.append((least, greatest, number, file))

    def of(self, path: bytes, number: int) -> list[DataFile]:
        """Those that hold the path and are not older."""
        if not self._ready:
            self._all.sort(key=lambda one: one[0])
            self._reach, self._newest = [b""] * len(self._all), [0] * len(self._all)
            self._summarize(0, len(self._all))
            self._ready = True
        found: list[DataFile] = []
        ranges = [(0, len(self._all))]
        while ranges:
            first, end = ranges.pop()
            middle = (first + end) // 2
            if first >= end or self._reach[middle] < path or self._newest[middle] < number:
                continue
            least, greatest, added, file = self._all[middle]
            ranges.append((first, middle))
            if least <= path:  # what is behind it begins later
                ranges.append((middle + 1, end))
                if path <= greatest and added >= number:
                    found.append(file)
        return found

    def _summarize(self, first: int, end: int) -> tuple[bytes, int]:
        if first >= end:
            return b"", 0
        middle = (first + end) // 2
        _, greatest, number, _ = self._all[middle]
        sides = (self._summarize(first, middle), self._summarize(middle + 1, end))
        self._reach[middle] = max(greatest, *(reach for reach, _ in sides))
        self._newest[middle] = max(number, *(newest for _, newest in sides))
        return self._reach[middle], self._newest[middle]


_NAN: Final = "nan"


def partition_key(file: DataFile) -> _Key:
    """Spec and partition; NaN, which equals nothing, is one partition."""
    return file.spec_id or 0, *(_NAN if value != value else value for value in file.partition._data)
