"""Files of a table, where its snapshots say they are: opened and written without the JVM."""

import os
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from firn.log.store import ObjectFile, open_store, put
from firn.tables.locations import below, spelled
from firn_spark.tables.fence import LostRace

_REQUESTS_AT_ONCE = 8


class Objects:
    """The files of one table, all in the store of this location."""

    def __init__(self, location: str) -> None:
        scheme, _, rest = location.partition("://")
        self._root = f"{scheme}://{rest.partition('/')[0]}/"
        self._store = None if location.startswith(("file:", "/")) else open_store(spelled(self._root))

    @property
    def at_once(self) -> int:
        """How many files are best read at once: what is far away is waited for, what is here is computed."""
        return _REQUESTS_AT_ONCE if self._store is not None else os.cpu_count() or 1

    def open(self, location: str) -> pq.ParquetFile:
        """Raises LostRace if maintenance removed the file since its snapshot was read, StorageUnavailable."""
        try:
            if self._store is not None:
                return pq.ParquetFile(ObjectFile(self._store, self._key(location)))
            return pq.ParquetFile(_path(location))
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
        if self._store is not None:
            return ObjectFile(self._store, self._key(location))
        return Path(_path(location)).open("rb")

    def write(self, location: str, data: pa.Buffer) -> None:
        """A new file, whose name nobody else has. Through the JVM its bytes would travel as text. Raises
        StorageUnavailable, UnknownOutcome, OSError."""
        if self._store is not None:
            put(self._store, self._key(location), data.to_pybytes())
            return
        path = Path(_path(location))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _key(self, location: str) -> str:
        """Other engines may write a file's location with another name of the same storage: s3a, wasbs."""
        if location.startswith(self._root):
            return location.removeprefix(self._root)
        return below(spelled(self._root), spelled(location)) or location


def _path(location: str) -> str:
    return location.removeprefix("file:").removeprefix("//")
