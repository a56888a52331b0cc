"""Cold files on this machine's disk, for the next read: S3 is paid once for bringing them out (`FIRN_COLD_CACHE=DIR`).

Off unless asked for. A data file whose reads S3 asks for by the byte is fetched whole at its first read, and read from
the folder from then on. Iceberg writes no data file twice, so that a path says what is in it for ever. Files of other
classes cost nothing to read, and are not kept. Pays where the same cold files are read again; who reads one column of
a wide table once is cheaper off without, for a fetch is of all of it.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile

from firn_lake.catalogs.bucket_io import BucketIO
from firn_lake.tiering.class_port import Place
from firn_lake.tiering.objects import client, look, place

_log: Final = logging.getLogger(__name__)

FOLDER: Final = "firn.cold-cache"
BYTES: Final = "firn.cold-cache-bytes"
DEFAULT_BYTES: Final = 10 * 10**9
# INTELLIGENT_TIERING asks nothing for a read, and GLACIER can't be read.
_PAID_BY_THE_BYTE: Final = frozenset({"STANDARD_IA", "ONEZONE_IA", "GLACIER_IR"})


class ColdCacheIO(BucketIO):
    """PyIceberg's own FileIO, but that data files in a cold class are read from the cache.

    Its properties are FOLDER (required) and BYTES beside those of PyArrowFileIO.
    """

    def new_input(self, location: str) -> PyArrowFile:
        """The file at `location`, by way of the cache where that is worth it."""
        found = super().new_input(location)
        where = place(location)
        if where is None or not location.endswith(".parquet"):
            return found
        folder, limit = Path(self.properties[FOLDER]), int(self.properties.get(BYTES, DEFAULT_BYTES))
        return _ColdFile(found, where, ColdCache(folder, limit))


class _ColdFile(PyArrowFile):
    def __init__(self, file: PyArrowFile, where: Place, cache: "ColdCache") -> None:
        super().__init__(file.location, file._path, file._filesystem, file._buffer_size)
        self._where, self._cache = where, cache

    def open(self, seekable: bool = True) -> InputStream:
        """From the cache, or from the storage where it is not cold or the cache can't be used."""
        kept = self._cache.fetch(self._where)
        if kept is not None:
            import pyarrow as pa

            # Who clears the folder meanwhile takes nothing from a reader.
            with contextlib.suppress(OSError):
                stream: InputStream = pa.memory_map(str(kept)) if seekable else pa.input_stream(str(kept))
                return stream
        return super().open(seekable)


class ColdCache:
    """A folder of whole objects by the hash of their place, at most `limit` bytes of them: the longest unread go first.

    Any number of processes may share it: an object is there whole or not at all.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        self._folder, self._limit = folder, limit

    def fetch(self, where: Place) -> Path | None:
        """The file with the object's content; None if it is not cold, not there or too large, or can't be kept. Never
        raises: whoever asks reads the object itself then."""
        kept = self._path(where)
        try:
            os.utime(kept)  # it was read now
            return kept
        except OSError:
            pass
        try:
            return self._bring(where, kept)
        except Exception as error:  # noqa: BLE001 - a cache that fails is none; S3's own errors come with the read
            _log.warning("%s/%s is not cached: %s", *where, error)
            return None

    def _bring(self, where: Place, kept: Path) -> Path | None:
        found = _is_cold(*where)
        if found is None or found > self._limit:
            return None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # others' data: for their reader's eyes
        self._make_room(found)
        handle, name = tempfile.mkstemp(prefix=".fetch-", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                _s3().download_fileobj(where.bucket, where.key, file)
            Path(name).replace(kept)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return kept

    def _make_room(self, size: int) -> None:
        """Removes what was not read for longest until `size` bytes more have room."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("*.parquet"):
            with contextlib.suppress(OSError):  # another process made room as well
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
        used = sum(one[1] for one in found)
        for _, bytes_, path in sorted(found):
            if used + size <= self._limit:
                return
            path.unlink(missing_ok=True)
            used -= bytes_

    def _path(self, where: Place) -> Path:
        return self._folder / f"{hashlib.sha256('/'.join(where).encode()).hexdigest()}.parquet"


@lru_cache(maxsize=100_000)
def _is_cold(bucket: str, key: str) -> int | None:
    """The object's bytes if a read of it is paid for by the byte; None else. Asked once in the life of the process."""
    found = look(_s3(), Place(bucket, key))
    return found.size if found is not None and found.kind in _PAID_BY_THE_BYTE else None


@lru_cache(maxsize=1)
def _s3() -> Any:
    return client()
