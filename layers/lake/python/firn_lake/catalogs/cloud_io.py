"""PyIceberg's FileIO for tables on Azure and Google: by obstore, as everything else of Firn, with its identities and
waits, and with no library of a cloud (docs/adr/0079-azure-and-google.md)."""

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from firn.log import store as objects
from firn_lake.catalogs.object_io import find


class CloudIO(FileIO):
    """Reads and writes objects. Identity and endpoint come from the environment, by firn.log.store.open_store."""

    def new_input(self, location: str) -> "CloudFile":
        """The object at `location`, which need not be there."""
        return CloudFile(location)

    def new_output(self, location: str) -> "CloudFile":
        """The object at `location`, to be written."""
        return CloudFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove the object. Raises FileNotFoundError where there is none, StorageUnavailable."""
        path = location if isinstance(location, str) else location.location
        if not CloudFile(path).exists():
            raise FileNotFoundError(path)
        store, key = find(path)
        objects.remove(store, [key])


class CloudFile(InputFile, OutputFile):
    """One object. Its methods raise StorageUnavailable, UnknownOutcome, and FileNotFoundError where there is none."""

    def __len__(self) -> int:
        """Bytes."""
        with self.open() as opened:
            return opened.seek(0, 2)

    def exists(self) -> bool:
        """Whether there is such an object."""
        store, path = find(self.location)
        return objects.exists(store, path)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - it always is
        """To be read from, each read one request."""
        return objects.ObjectFile(*find(self.location))

    def create(self, overwrite: bool = False) -> OutputStream:
        """To be written to: it is there once it is closed. Raises FileExistsError if it is there and not to be
        replaced. Who writes metadata names it by a UUID: nobody else has that name."""
        if not overwrite and self.exists():
            raise FileExistsError(self.location)
        return _Writing(*find(self.location))

    def to_input_file(self) -> "CloudFile":
        """The same, to be read."""
        return CloudFile(self.location)


class _Writing(OutputStream):
    """What PyIceberg and pyarrow call on a file that they write. What an error ends is not there afterwards."""

    closed = False

    def __init__(self, store: objects.Store, path: str) -> None:
        self._file = objects.ObjectWriter(store, path)
        self._bytes = 0

    def write(self, b: bytes) -> int:
        self._file.write(bytes(b))
        self._bytes += len(b)
        return len(b)

    def flush(self) -> None:
        """Nothing of it is there before it is closed."""

    def tell(self) -> int:
        return self._bytes

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def __enter__(self) -> "_Writing":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
        self.closed = True
