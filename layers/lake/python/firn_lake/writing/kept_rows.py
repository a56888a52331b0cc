"""Rows that are written again, into other files: in tables of format 3 each stays the row that it was.

Two columns say so, which a file has besides the table's (https://iceberg.apache.org/spec/#row-lineage): `_row_id`, and
`_last_updated_sequence_number`, of the commit that changed the row last. Null there, or without the column, a row has
the file's first row id and its place after it, and the file's own sequence number.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from firn_lake.reading.files import read_file
from firn_lake.reading.positions import NONE, without
from firn_lake.writing.lineage_snapshot import FORMAT, entries_of, first_row_id, manifests_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from firn_lake.reading.versions import Version

_FIELDS: Final = (
    NestedField(2147483540, "_row_id", LongType(), required=False),
    NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False),
)


class KeptRows:
    """The rows of a table's data files at one moment, to be written again by `write_files(…, kept=True)`."""

    def __init__(self, version: "Version") -> None:
        self._version = version

    def read(
        self, file: "DataFile", gone: pa.Array = NONE, only: pa.Array | None = None, *, changed: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """As read_file reads them, in format 3 with the two columns behind the table's. `changed`: to the table they
        are changed by the commit that writes them. Raises UnreadableFile, StorageUnavailable."""
        version = self._version
        if version.source.metadata.format_version < FORMAT:
            yield from read_file(version.source, file, version.schema, gone, only)
            return
        first, sequence = self._known.get(file.file_path, (None, None))
        places = without(pa.arange(0, file.record_count) if only is None else only, gone)
        at = 0
        for batch in read_file(version.source, file, schema_with_ids(version.schema), gone, only):
            *columns, ids, numbers = batch.columns
            here = places.slice(at, batch.num_rows)
            at += batch.num_rows
            if first is not None:
                ids = pc.coalesce(ids, pc.add(here, first))
            numbers = (
                pa.nulls(batch.num_rows, pa.int64())
                if changed
                else pc.coalesce(numbers, pa.scalar(sequence, pa.int64()))
            )
            yield pa.RecordBatch.from_arrays([*columns, ids, numbers], schema=batch.schema)

    @cached_property
    def _known(self) -> dict[str, tuple[int | None, int | None]]:
        """Of each data file, its first row id and its sequence number. Reads the manifests of the moment."""
        io, snapshot = self._version.source.io, self._version.snapshot
        return {
            entry.data_file.file_path: (first_row_id(entry.data_file), entry.sequence_number)
            for manifest in (manifests_of(io, snapshot) if snapshot is not None else ())
            if manifest.content == ManifestContent.DATA
            for entry in entries_of(io, manifest)
        }


def schema_with_ids(schema: Schema) -> Schema:
    """A table's columns, and those that tell which row is which."""
    return Schema(
        *schema.fields, *_FIELDS, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids
    )
