"""Files of a table, where its snapshots say they are: opened and written without the JVM."""

import os
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from firn.log.store import ObjectFile, Store, put
from firn.tables.locations import below, spelled
from firn_spark import vended_keys
from firn_spark.tables.fence import LostRace
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.vended_keys import Keys

_REQUESTS_AT_ONCE = 8
_GAP = 1024 * 1024  # bytes that are read along with others that are far away, rather than by another request
_NEAR_GAP = 64 * 1024  # the same of a file that is here, where a call costs what copying so many does


class DataFile(pq.ParquetFile):  # type: ignore[misc]  # pyarrow says no types
    """A Parquet file that gives its bytes too. `gap`: so many that nobody wants are read along with those around them;
    `pages`: what files.page_index knows of it; `held`: what was read before, of it as `path`."""

    def __init__(self, source: pa.NativeFile, gap: int = 0, path: str = "", held: HeldColumns | None = None) -> None:
        super().__init__(source)
        self._source = source
        self.gap = gap
        self.bytes = int(source.size())
        self.pages: Any = None
        self.path, self.held = path, held

    def part(self, first: int, length: int) -> bytes:
        """Some bytes of it. Raises StorageUnavailable."""
        return bytes(self._source.read_at(length, first))

    def close(self, force: bool = False) -> None:
        """It is read no more."""
        super().close(force)
        self._source.close()


class Objects:
    """The files of one table, each in the store of its location: `write.data.path`, or who added files that were there
    already, may have put some into another one than the table's own. `location`: the table's; `held`: what was read of
    files before."""

    def __init__(self, location: str, held: HeldColumns | None = None) -> None:
        self._owner = location
        self.held = held
        self._stores: dict[tuple[str, Keys | None], Store] = {}
        self._is_far = not _is_here(location)

    @property
    def at_once(self) -> int:
        """How many files are best read at once: what is far away is waited for, what is here is computed."""
        return _REQUESTS_AT_ONCE if self._is_far else os.cpu_count() or 1

    def open(self, location: str) -> DataFile:
        """Raises LostRace if maintenance removed the file since its snapshot was read, StorageUnavailable."""
        try:
            if _is_here(location):
                return DataFile(pa.OSFile(_path(location)), _NEAR_GAP, location, self.held)
            return DataFile(pa.PythonFile(ObjectFile(*self._find(location)), "r"), _GAP, location, self.held)
        except FileNotFoundError as error:
            raise LostRace(f"{location} was removed while it was looked up") from error

    def part(self, location: str, first: int, length: int) -> bytes:
        """Some bytes of a file. Raises as `open`."""
        try:
            with self._bytes(location) as file:
                file.seek(first)
                return bytes(file.read(length))
        except FileNotFoundError as error:
            raise LostRace(f"{location} was removed while it was looked up") from error

    def _bytes(self, location: str) -> ObjectFile | BinaryIO:
        return Path(_path(location)).open("rb") if _is_here(location) else ObjectFile(*self._find(location))

    def write(self, location: str, data: pa.Buffer) -> None:
        """A new file, whose name nobody else has. Through the JVM its bytes would travel as text. Raises
        StorageUnavailable, UnknownOutcome, OSError."""
        if not _is_here(location):
            put(*self._find(location), data.to_pybytes())
            return
        path = Path(_path(location))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _find(self, location: str) -> tuple[Store, str]:
        """The store of a file, and its key there. Other engines may write a location with another name of the same
        storage: s3a, wasbs."""
        scheme, _, rest = location.partition("://")
        bucket, _, key = rest.partition("/")
        root = spelled(named := f"{scheme}://{bucket}")
        at = root, vended_keys.of(location, self._owner)
        if at not in self._stores:
            self._stores[at] = vended_keys.store_at(location, self._owner, root)
        return self._stores[at], key if root == named else below(root, spelled(location)) or key


def _is_here(location: str) -> bool:
    return location.startswith(("file:", "/"))


def _path(location: str) -> str:
    return location.removeprefix("file:").removeprefix("//")
