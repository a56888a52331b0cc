"""A commit of rows and files of position deletes in one, as the commit job makes it, without Spark."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _RowDelta(_FastAppendFiles):
    """`removed`: the files of position deletes."""

    removed: list[DataFile]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        with _DeleteManifest(
            self.spec(0), self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        ) as writer:
            for file in self.removed:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=file
                    )
                )
        return [*manifests, writer.to_manifest_file()]


def row_delta(
    table: Table, folder: Path, gone: Mapping[str, list[int]], rows: pa.Table | None, properties: dict[str, str]
) -> None:
    """Deletes the rows at places `gone` of data files (by path), appends `rows`, and commits both in one snapshot."""
    path = folder / f"{uuid.uuid4()}-deletes.parquet"
    places = [(name, place) for name, them in sorted(gone.items()) for place in them]
    names, numbers = zip(*places, strict=True)
    pq.write_table(pa.table({"file_path": names, "pos": pa.array(numbers, pa.int64())}), path)
    told: dict[str, Any] = {
        "content": DataFileContent.POSITION_DELETES, "file_path": f"file://{path}", "file_format": FileFormat.PARQUET,
        "partition": (), "record_count": len(places), "file_size_in_bytes": path.stat().st_size,
    }  # fmt: skip
    deletes = DataFile.from_args(**told)
    deletes.spec_id = 0
    counts = {"added-position-deletes": str(len(places)), "added-delete-files": "1"}
    with table.transaction() as transaction:
        update = _RowDelta(Operation.OVERWRITE, transaction, table.io, snapshot_properties=properties | counts)
        update.removed = [deletes]
        if rows is not None:
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                update.append_data_file(file)
        update.commit()


def data_files(table: Table) -> list[str]:
    """The paths of the live data files, oldest first."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = [
        entry
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    return [entry.data_file.file_path for entry in sorted(found, key=lambda one: one.sequence_number or 0)]
