"""A catalog to read by: tables with very many snapshots open at once (firn_lake/long_history.py says how).

A catalog reads a table's metadata through its FileIO. The one here hands it a large file without the snapshots, and
`load_table` puts them back as columns. What such a catalog loads can't be written, so it has none of the calls that
write. REST catalogs send metadata themselves: there nothing is taken out.
"""

import gzip
import io
import re
import zlib
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, load_file_io
from pyiceberg.table import Table, Transaction

from firn_lake.long_history import MARK, LongHistory, LongLog, Split, inflated, split, with_history

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

LEAST_BYTES: Final = 1_000_000
"""Of a metadata file that is taken apart: smaller ones take PyIceberg 30 ms."""

MOST_BYTES: Final = 32_000_000
"""Of columns that are kept: some 300,000 snapshots. One table may have more."""

_IMPL: Final = "py-io-impl"
_INNER: Final = "firn.reading.py-io-impl"
_READS: Final = frozenset(
    {"name", "properties", "list_namespaces", "list_tables", "load_namespace_properties", "table_exists",
     "namespace_exists", "supports_server_side_planning", "plan_scan", "close"}
)  # fmt: skip


_UNIQUE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*$")
"""A name that no second file gets. Hadoop's tables have v1, v2, …: one that is made anew has them again."""


class Splits:
    """Metadata files that this process has taken apart, by location: they never change. The longest unread go first.
    Safe in threads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[str, Split] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, location: str) -> Split | None:
        """The file, if it was read before."""
        with self._lock:
            if location in self._kept:
                self._kept.move_to_end(location)
            return self._kept.get(location)

    def keep(self, location: str, parts: Split) -> None:
        """Keeps what was read just now, whatever its size."""
        with self._lock:
            if location not in self._kept:
                self.bytes += parts.bytes
            self._kept[location] = parts
            while self.bytes > self._most and len(self._kept) > 1:
                self.bytes -= self._kept.popitem(last=False)[1].bytes


KNOWN: Final = Splits()


class SplittingIO(FileIO):
    """The FileIO that the properties call for, but for large metadata files, which come without their snapshots."""

    def new_input(self, location: str) -> InputFile:
        """The file at `location`."""
        found = self.at(location).new_input(location)
        return _MetadataInput(found) if location.endswith(".metadata.json") else found

    def new_output(self, location: str) -> OutputFile:
        """Raises PermissionError."""
        raise PermissionError(f"{location} can't be written here: this catalog was opened to be read")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Raises PermissionError."""
        raise PermissionError(f"{location} can't be removed here: this catalog was opened to be read")

    def at(self, location: str) -> FileIO:
        """What reads files at such a location, as they are."""
        properties = {name: value for name, value in self.properties.items() if name not in (_IMPL, _INNER)}
        if inner := self.properties.get(_INNER):
            properties[_IMPL] = inner
        return load_file_io(properties, location)


class _MetadataInput(InputFile):
    def __init__(self, file: InputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - it always is
        parts = KNOWN.find(self.location)
        if parts is None:
            content = _read(self._file)
            parts = _taken_apart(content, self.location)
            if parts is None:
                return io.BytesIO(content)
        packed = self.location.endswith(".gz.metadata.json")
        return io.BytesIO(gzip.compress(parts.rest, 1) if packed else parts.rest)


class _ReadTable(Table):
    def transaction(self) -> Transaction:
        """Raises PermissionError: nothing is written before it is known that it can't be committed."""
        raise PermissionError(f"{'.'.join(self.name())} can't be written here: it was opened to be read")


class ReadingCatalog:
    """Another catalog, of which tables can be loaded and listed, and nothing else be done."""

    def __init__(self, catalog: "Catalog") -> None:
        self._catalog = catalog

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        """The table, to be read. Raises what the catalog raises."""
        found = self._catalog.load_table(identifier)
        location, metadata = found.metadata_location, found.metadata
        files = found.io.at(location) if isinstance(found.io, SplittingIO) else found.io
        if MARK in metadata.properties:
            parts = KNOWN.find(location) or _taken_apart(_read(files.new_input(location)), location)
            if parts is not None:
                metadata = with_history(metadata, LongHistory(files, location, parts), LongLog(parts))
        return _ReadTable(found.name(), metadata, location, files, cast("Catalog", self), found.config)

    def __getattr__(self, name: str) -> Any:
        if name not in _READS:
            raise AttributeError(f"{name}: this catalog was opened to be read")
        return getattr(self._catalog, name)


def to_read(catalog: "Catalog") -> "Catalog":
    """The catalog for whoever only reads: it is theirs from now on."""
    properties = catalog.properties
    properties |= {_INNER: properties.get(_IMPL, ""), _IMPL: f"{__name__}.{SplittingIO.__name__}"}
    return cast("Catalog", ReadingCatalog(catalog))


def _read(file: InputFile) -> bytes:
    with file.open(seekable=False) as stream:
        return stream.read()


def _taken_apart(content: bytes, location: str) -> Split | None:
    """A metadata file without its snapshots, and these; None for a small one, and for one that is not as it should be:
    PyIceberg says how."""
    try:
        text = inflated(content, location)
    except (OSError, EOFError, zlib.error):
        return None
    parts = split(text) if len(text) >= LEAST_BYTES else None
    if parts is not None and _UNIQUE.search(location):
        KNOWN.keep(location, parts)
    return parts
