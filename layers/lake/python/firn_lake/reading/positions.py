"""Rows of data files that delete files take away, by their place in the file."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _read_deletes
from pyiceberg.manifest import DataFile, FileFormat

from firn_lake.reading.unreadable import reading

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

NONE: Final = pa.array([], pa.int64())
"""No row of a file."""

Place = tuple[str, int | None]
"""What one file of deletes is known by: its path, and where in it a deletion vector begins."""


def place(file: DataFile) -> Place:
    """What tells files of deletes apart: a Puffin file holds many deletion vectors."""
    return file.file_path, getattr(file, "content_offset", None)


class Positions:
    """The positions that files of deletes hold, each of which is read once, when it is first asked for.

    Holds 8 bytes for each deleted row of the data files that are asked for.
    """

    def __init__(self, io: "FileIO", table: str, snapshot: int | None, wanted: Collection[str] | None = None) -> None:
        """`wanted`: the paths of the data files that will be asked for; None: any."""
        self._io = io
        self.table = table
        self.snapshot = snapshot
        self._wanted = None if wanted is None else frozenset(wanted)
        self._read: dict[Place, dict[str, list[pa.Array]]] = {}

    def narrow(self, wanted: Collection[str]) -> None:
        """From here on only these data files will be asked for: of files not yet read, no others are kept."""
        self._wanted = frozenset(wanted)

    def of(self, path: str, deletes: Iterable[DataFile]) -> pa.Array:
        """The rows of the data file `path` that these files of deletes name: sorted, each once.

        Raises UnreadableFile, StorageUnavailable.
        """
        parts = [array for file in deletes for array in self.in_file(file).get(path, ())]
        if not parts:
            return NONE
        rows = pc.unique(pa.concat_arrays(parts))
        return rows.take(pc.sort_indices(rows))

    def in_file(self, file: DataFile) -> dict[str, list[pa.Array]]:
        """Data file -> rows, as this file of deletes has them. Raises UnreadableFile, StorageUnavailable."""
        known = self._read.get(place(file))
        if known is None:
            with reading(file.file_path, self.table, self.snapshot):
                known = {
                    path: rows
                    for path, rows in _read(self._io, file).items()
                    if self._wanted is None or path in self._wanted
                }
            self._read[place(file)] = known
        return known


def without(rows: pa.Array, others: pa.Array) -> pa.Array:
    """The rows that are not among `others`, in their order."""
    if not len(rows) or not len(others):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows, value_set=others)))


def between(rows: pa.Array, first: int, end: int) -> pa.Array:
    """Of sorted rows, those from `first` to before `end`."""
    low = bisect_left(rows, first, key=pa.Int64Scalar.as_py)
    return rows.slice(low, bisect_left(rows, end, lo=low, key=pa.Int64Scalar.as_py) - low)


def _read(io: "FileIO", file: DataFile) -> dict[str, list[pa.Array]]:
    if file.file_format != FileFormat.PARQUET:
        return {path: _chunks(rows) for path, rows in _read_deletes(io, file).items()}
    found: defaultdict[str, list[pa.Array]] = defaultdict(list)
    with io.new_input(file.file_path).open() as source:
        parquet = pq.ParquetFile(source, read_dictionary=["file_path"])
        for batch in parquet.iter_batches(1_000_000, columns=["file_path", "pos"]):
            # PyIceberg's own reader filters the whole file once for each data file that it names: with many, minutes.
            for path, first, count in _runs(batch.column(0)):
                found[path].append(batch.column(1).slice(first, count).cast(pa.int64()))
    return found


def _runs(paths: pa.DictionaryArray) -> Iterator[tuple[str, int, int]]:
    """(path, first row, rows) of each run of one path: files of deletes are sorted by it."""
    encoded = pc.run_end_encode(paths.indices)
    names = paths.dictionary
    first = 0
    for code, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield names[code].as_py(), first, end - first
        first = end


def _chunks(rows: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    chunks = rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]
    return [chunk.cast(pa.int64()) for chunk in chunks]
