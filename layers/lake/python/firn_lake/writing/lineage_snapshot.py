"""A snapshot of a table in Iceberg's format 3: manifests and their list, with the ids of rows.

PyIceberg 0.12 writes none. Its readers of manifests also leave out what format 3 added: here entries and lists are read
and written with all fields. Sources: https://iceberg.apache.org/spec/#row-lineage, #first-row-id-assignment,
#manifest-lists, #manifests; as Iceberg 1.11.0 does it where they leave a choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.table.update.snapshot import _FastAppendFiles, _new_manifest_list_file_name

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Transaction

FORMAT: Final = 3
_FILE: Final = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[FORMAT].fields)}
_LINE: Final = {field.name: place for place, field in enumerate(MANIFEST_LIST_FILE_SCHEMAS[FORMAT].fields)}


class LineageSnapshot(_FastAppendFiles):
    """Takes data files out of main, with their deletion vectors, and puts others in, whose rows get ids.

    removed  each must be live in main; commit() raises ValidationException if one is not
    """

    def __init__(
        self,
        transaction: "Transaction",
        removed: Sequence[DataFile],
        added: Sequence[DataFile],
        properties: Mapping[str, str],
    ) -> None:
        operation = Operation.OVERWRITE if removed else Operation.APPEND
        io = transaction._table.io
        super().__init__(operation, transaction, io, snapshot_properties=dict(properties), branch=MAIN_BRANCH)
        self._added_data_files = [_widened(file) for file in added]
        self._removed = {file.file_path for file in removed}

    def _commit(self) -> Any:
        metadata = self._transaction.table_metadata
        gone: list[DataFile] = []
        manifests = [*self._new(), *self._left(gone)]
        if missing := self._removed - {file.file_path for file in gone}:
            raise ValidationException(f"{min(missing)} is not in the table any more")
        self._deleted_data_files = gone  # type: ignore[assignment]  # a set would take the vectors of one file for one
        first = getattr(metadata, "next_row_id", None) or 0
        lines, rows = numbered(manifests, first)
        told = {
            "snapshot-id": self._snapshot_id,
            "parent-snapshot-id": self._parent_snapshot_id,
            "manifest-list": self._listed(lines, first),
            "sequence-number": metadata.next_sequence_number(),
            "summary": self._summary(self.snapshot_properties),
            "schema-id": metadata.current_schema_id,
            "first-row-id": first,
            "added-rows": rows,
        }
        main = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": self._snapshot_id}
        there = metadata.refs.get(MAIN_BRANCH)
        if there is not None:  # its own retention stays as it is
            main |= there.model_dump(include={"max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"})
        fence = {"ref": MAIN_BRANCH, "snapshot-id": None if there is None else there.snapshot_id}
        updates = (AddSnapshotUpdate(snapshot=Snapshot.model_validate(told)), SetSnapshotRefUpdate.model_validate(main))
        return updates, (AssertRefSnapshotId.model_validate(fence),)

    def _new(self) -> Iterator[ManifestFile]:
        if self._added_data_files:
            with self._writer(self._transaction.table_metadata.spec(), ManifestContent.DATA) as writer:
                for file in self._added_data_files:
                    entry = {"status": ManifestEntryStatus.ADDED, "snapshot_id": self._snapshot_id, "data_file": file}
                    writer.add_entry(ManifestEntry.from_args(FORMAT, **entry))
            yield writer.to_manifest_file()

    def _left(self, gone: list[DataFile]) -> Iterator[ManifestFile]:
        """The manifests of main, those with files to remove written again. Adds to `gone` what is removed."""
        parent = self._transaction.table_metadata.snapshot_by_name(MAIN_BRANCH)
        for manifest in () if parent is None else manifests_of(self._io, parent):
            if not (manifest.has_added_files() or manifest.has_existing_files()):
                continue
            entries = entries_of(self._io, manifest) if self._removed else []
            out = [entry for entry in entries if self._goes(entry.data_file)]
            if not out:
                yield manifest
                continue
            gone += [entry.data_file for entry in out]
            with self._writer(self.spec(manifest.partition_spec_id), manifest.content) as writer:
                for entry in entries:
                    (writer.delete if self._goes(entry.data_file) else writer.existing)(entry)
            yield writer.to_manifest_file()

    def _goes(self, file: DataFile) -> bool:
        """Whether it is one of the files, or a deletion vector of one."""
        if file.content == DataFileContent.DATA:
            return file.file_path in self._removed
        return file.file_format == FileFormat.PUFFIN and file[_FILE["referenced_data_file"]] in self._removed

    def _listed(self, lines: list[ManifestFile], first: int) -> str:
        """Where the list of manifests was written."""
        name = _new_manifest_list_file_name(snapshot_id=self._snapshot_id, attempt=0, commit_uuid=self.commit_uuid)
        path: str = self._transaction._table.location_provider().new_metadata_location(name)
        self._written_manifest_lists.append(path)
        sequence = self._transaction.table_metadata.next_sequence_number()
        output = self._io.new_output(path)
        written = _List(output, self._snapshot_id, self._parent_snapshot_id, sequence, self._compression)
        written._meta |= {"format-version": str(FORMAT), "first-row-id": str(first)}
        with written:
            written.add_manifests(lines)
        return path

    def _writer(self, spec: PartitionSpec, content: ManifestContent) -> "_Manifest":
        """Of the columns of today; where one that an earlier spec is of has been dropped, of the last ones with it."""
        of, columns = {field.source_id for field in spec.fields}, self._transaction.table_metadata.schemas
        known = [one for one in (*columns, self.schema()) if of <= one._lazy_id_to_field.keys()] or [self.schema()]
        output = self.new_manifest_output()
        return _Manifest(spec, known[-1], output, self._snapshot_id, self._compression).of(content)


class _Manifest(ManifestWriterV2):
    _content = ManifestContent.DATA

    def of(self, content: ManifestContent) -> "_Manifest":
        self._content = content
        return self

    def content(self) -> ManifestContent:
        return self._content

    @property
    def version(self) -> Any:
        return FORMAT

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "data" if self._content == ManifestContent.DATA else "deletes"}

    def __enter__(self) -> "_Manifest":
        super().__enter__()
        return self

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(FORMAT)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", schema, self._meta)

    def to_manifest_file(self) -> ManifestFile:
        return _line(super().to_manifest_file())


class _List(ManifestListWriterV2):
    def __enter__(self) -> "_List":
        schema = MANIFEST_LIST_FILE_SCHEMAS[FORMAT]
        self._writer = AvroOutputFile(self._output_file, schema, "manifest_file", schema, self._meta)
        self._writer.__enter__()
        return self


def manifests_of(io: "FileIO", snapshot: Snapshot) -> Sequence[ManifestFile]:
    """The lines of a snapshot's list of manifests, with what format 3 has in them."""
    with AvroFile[ManifestFile](
        io.new_input(snapshot.manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[FORMAT],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as lines:
        return list(lines)


def entries_of(io: "FileIO", manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """The live entries of a manifest of `manifests_of`, with the first row ids that its files inherit."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[FORMAT],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as entries:
        live = [_inherit_from_manifest(one, manifest) for one in entries if one.status != ManifestEntryStatus.DELETED]
    first, place = manifest[_LINE["first_row_id"]], _FILE["first_row_id"]
    for file in (one.data_file for one in live if manifest.content == ManifestContent.DATA):
        if first is None:
            file[place] = None
        elif file[place] is None:
            file[place], first = first, first + file.record_count
    return live


def first_row_id(file: DataFile) -> int | None:
    """Of a file of `entries_of`."""
    found: int | None = file[_FILE["first_row_id"]]
    return found


def numbered(manifests: Sequence[ManifestFile], first: int) -> tuple[list[ManifestFile], int]:
    """The manifests, those of data that have no first row id yet with one, from `first` on; how many ids that took."""
    after, place = first, _LINE["first_row_id"]
    found = []
    for one in manifests:
        line = _line(one)
        if line.content == ManifestContent.DATA and line[place] is None:
            line[place] = after
            after += (line.existing_rows_count or 0) + (line.added_rows_count or 0)
        found.append(line)
    return found, after - first


def _line(manifest: ManifestFile) -> ManifestFile:
    """A line of PyIceberg's, with room for what format 3 has more."""
    return ManifestFile.from_args(FORMAT, **{name: manifest[at] for name, at in _LINE.items() if at < len(manifest)})


def _widened(file: DataFile) -> DataFile:
    """A file of PyIceberg's, with room for what format 3 has more."""
    return DataFile.from_args(FORMAT, **{name: file[at] for name, at in _FILE.items() if at < len(file)})
