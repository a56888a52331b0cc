"""PyIceberg's FileIO by obstore, to read metadata with: who only looks at tables needs no pyarrow (110 MB) for it."""

import io
from functools import lru_cache
from urllib.parse import urlsplit

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from firn.log import store as objects
from firn.log.store import Store
from firn.tables.locations import spelled


class ObjectIO(FileIO):
    """Reads whole objects, which metadata files are small enough for. Writes nothing: it is for looking only.

    Credentials, region and endpoint come from the AWS_* environment, as everywhere in Firn.
    """

    def new_input(self, location: str) -> "ObjectInput":
        """The object at `location`, which need not be there."""
        return ObjectInput(location)

    def new_output(self, location: str) -> OutputFile:
        """Raises PermissionError."""
        raise PermissionError(f"{location} can't be written here: this catalog was opened to be read")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Raises PermissionError."""
        raise PermissionError(f"{location} can't be removed here: this catalog was opened to be read")


class ObjectInput(InputFile):
    """One object. Its methods raise StorageUnavailable, and FileNotFoundError where there is none."""

    def __len__(self) -> int:
        """Bytes."""
        return len(self._content())

    def exists(self) -> bool:
        """Whether there is such an object."""
        store, path = find(self.location)
        return objects.exists(store, path)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - it always is
        """All of it, as a stream."""
        return io.BytesIO(self._content())

    def _content(self) -> bytes:
        store, path = find(self.location)
        found = objects.get(store, path)
        if found is None:
            raise FileNotFoundError(self.location)
        return found


def find(location: str) -> tuple[Store, str]:
    """The store that a file lies in, and its path there. Raises what open_store raises."""
    parts = urlsplit(location)
    if not parts.scheme or parts.scheme == "file":
        return _store("file:///"), location.removeprefix("file://").lstrip("/")
    # What is left is the key as it is written: it may hold ? and #.
    return _store(spelled(f"{parts.scheme}://{parts.netloc}")), location.partition("://")[2].partition("/")[2]


@lru_cache(maxsize=32)
def _store(url: str) -> Store:
    return objects.open_store(url)
