"""The entries of a manifest that a plan wants, without making objects of the others.

PyIceberg reads a manifest whole and filters then. Of a manifest of many files nearly all of that time goes into
objects that are thrown away, and into Python's collector, which looks through them again and again as they get more.
Here each entry is read into a list that is used again, and becomes an entry only where its partition and its bounds
fit. PyIceberg's own readers decode it, and its own tests judge it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import SYNC_SIZE, AvroFile
from pyiceberg.avro.reader import OptionReader, StructReader
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_TYPES: Final[dict[int, Callable[..., Any]]] = {-1: ManifestEntry, 2: DataFile}
_ENUMS: Final[dict[int, Callable[..., Any]]] = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
_NAMES: Final = [field.name for field in DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields]
_PARTITION: Final = _NAMES.index("partition")


class _Step(NamedTuple):
    """A field as it comes in the file: where it belongs (None: nowhere), whether it may be null, and what reads it."""

    place: int | None
    optional: bool
    read: Callable[[Any], Any]


def sifted(
    io: "FileIO", manifest: ManifestFile, partition: Callable[[Any], bool], bounds: Callable[[DataFile], bool]
) -> list[ManifestEntry]:
    """The live entries of a manifest of whose partition (a Record) and of which as a data file these tests are true.

    Raises what PyIceberg raises of a manifest that can't be read.
    """
    return list(_fitting(io, manifest, partition, bounds))


def _fitting(
    io: "FileIO", manifest: ManifestFile, partition: Callable[[Any], bool], bounds: Callable[[DataFile], bool]
) -> Iterator[ManifestEntry]:
    schema = MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]
    with AvroFile[ManifestEntry](io.new_input(manifest.manifest_path), schema, _TYPES, _ENUMS) as file:
        fields = file.reader.field_readers  # type: ignore[attr-defined] # a StructReader, for these are structs
        at, place, inner = next(
            (at, place, one) for at, (place, one) in enumerate(fields) if isinstance(one, StructReader)
        )
        before, cells_of, after = map(_steps, (fields[:at], inner.field_readers, fields[at + 1 :]))
        for decoder, count in _blocks(file):
            for _ in range(count):
                entry, cells = [None] * len(schema.fields), [None] * len(_NAMES)
                _take(decoder, before, entry)
                _take(decoder, cells_of, cells)
                _take(decoder, after, entry)
                if entry[0] == ManifestEntryStatus.DELETED or not partition(cells[_PARTITION]):
                    continue
                data_file = DataFile(*cells)
                if bounds(data_file):
                    found = ManifestEntry(*entry)
                    found[place] = data_file
                    yield _inherit_from_manifest(found, manifest)


def _blocks(file: AvroFile[Any]) -> Iterator[tuple[Any, int]]:
    """The decoder of each block of a file, and how many records it has."""
    codec, decoder, first = file.header.compression_codec(), file.decoder, True
    while True:
        if not first and (sync := decoder.read(SYNC_SIZE)) != file.header.sync:
            raise ValueError(f"Expected sync bytes {file.header.sync!r}, but got {sync!r}")
        first = False
        try:
            count = decoder.read_int()
        except EOFError:
            return
        block = decoder.read_bytes()
        yield new_decoder(codec.decompress(block) if codec else block), count


def _steps(readers: Iterable[tuple[int | None, Any]]) -> list[_Step]:
    found = []
    for place, reader in readers:
        optional = isinstance(reader, OptionReader)
        plain = reader.option if optional else reader
        found.append(_Step(place, optional, plain.skip if place is None else plain.read))
    return found


def _take(decoder: Any, steps: list[_Step], into: list[Any]) -> None:
    read_int = decoder.read_int
    for place, optional, read in steps:
        if optional and read_int() <= 0:
            continue
        value = read(decoder)
        if place is not None:
            into[place] = value
