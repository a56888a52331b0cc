"""Delete files that Spark wrote, as tiering sees them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, ManifestEntry, read_manifest_list

from firn.maintenance.tiering import LiveFile
from firn_lake.tiering.live import deletes_of
from tests.data.formats.old_formats import unpack

WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


def entries(table: Path) -> list[ManifestEntry]:
    """All entries of the table's newest snapshot; it lies elsewhere than where it was written."""
    io = PyArrowFileIO()
    found: list[ManifestEntry] = []
    for listed in table.glob("metadata/snap-*.avro"):
        these = []
        for manifest in read_manifest_list(io.new_input(str(listed))):
            manifest[0] = str(table / "metadata" / Path(manifest.manifest_path).name)
            these += manifest.fetch_manifest_entry(io)
        found = max(found, these, key=len)
    return found


@pytest.mark.parametrize("name", ["orders", "customers"])
def test_a_delete_file_of_spark_names_the_one_file_that_it_is_about(tmp_path: Path, name: str) -> None:
    found = entries(unpack(1, tmp_path) / "warehouse" / "shop" / name)
    files = [
        LiveFile(
            one.data_file.file_path, one.data_file.file_size_in_bytes, one.data_file.record_count, "", WRITTEN,
            sequence=one.sequence_number or 0,
        )
        for one in found
        if one.data_file.content == DataFileContent.DATA
    ]  # fmt: skip
    (deletes,) = [deletes_of(one, "", None) for one in found if one.data_file.content != DataFileContent.DATA]
    old, new = sorted(files, key=lambda one: one.sequence)
    assert (deletes.first, deletes.last, deletes.sequence) == (old.path, old.path, 2)
    assert deletes.may_name(old)
    assert not deletes.may_name(new)
