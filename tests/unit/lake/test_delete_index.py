"""Which files of deletes belong to a data file: as PyIceberg finds it, and in time by what is found."""

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.table.delete_file_index import PATH_FIELD_ID, DeleteFileIndex
from pyiceberg.typedef import Record

from firn_lake.reading.delete_index import DeleteIndex

PATHS = [f"s3://lake/t/{name}.parquet" for name in ("", "a", "aa", "ab", "b", "é", "z", "\U0010ffff")]


def entry(
    path: str, number: int, partition: Any = None, bounds: Any = None, spec: int = 0, rows: int = 1
) -> ManifestEntry:
    """Of a data file; with `bounds` of a file of deletes, whose paths lie between them (() for none)."""
    lower, upper = ({PATH_FIELD_ID: one} for one in bounds) if bounds else (None, None)
    file = DataFile.from_args(
        content=DataFileContent.DATA if bounds is None else DataFileContent.POSITION_DELETES,
        file_path=path, file_format=FileFormat.PARQUET, partition=Record(*([] if partition is None else [partition])),
        record_count=rows, file_size_in_bytes=1, lower_bounds=lower, upper_bounds=upper,
    )  # fmt: skip
    file.spec_id = spec
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING, snapshot_id=1, sequence_number=number, file_sequence_number=number,
        data_file=file,
    )  # fmt: skip


ENDS = st.sampled_from([one.encode() for one in PATHS] + [b"", b"s3://", b"s3://lake/t/a", b"s3://lake/u", b"t"])
SPANS = st.one_of(st.just(()), st.tuples(ENDS, ENDS))
NUMBERS, PARTITIONS = st.integers(0, 4), st.sampled_from([None, "x", "y", 0])


@given(
    st.lists(st.tuples(NUMBERS, PARTITIONS, SPANS, st.integers(0, 1)), max_size=24),
    st.lists(st.tuples(st.sampled_from(PATHS), NUMBERS, PARTITIONS, st.integers(0, 1)), max_size=8),
)
def test_the_files_are_those_that_pyiceberg_finds(deletes: list[Any], files: list[Any]) -> None:
    ours, theirs = DeleteIndex(), DeleteFileIndex()
    for place, (number, partition, bounds, spec) in enumerate(deletes):
        one = entry(f"d{place}", number, partition, bounds, spec)
        ours.add(one)
        theirs.add_delete_file(one, partition_key=one.data_file.partition)
    for path, number, partition, spec in files:
        asked = entry(path, number, partition, None, spec)
        found = ours.of(asked)
        expected = theirs.for_data_file(number, asked.data_file, partition_key=asked.data_file.partition)
        assert sorted(one.file_path for one in found) == sorted(one.file_path for one in expected)


@pytest.mark.parametrize("bounds", [(), (b"a", b"z")])
def test_deletes_of_a_partition_of_not_a_number_are_found(bounds: Any) -> None:
    index = DeleteIndex()
    index.add(entry("d", 2, float("nan"), bounds))
    assert [one.file_path for one in index.of(entry("m", 1, float("nan")))] == ["d"]
    assert index.of(entry("m", 1, 1.0)) == []


def test_many_files_of_deletes_of_one_partition_cost_what_is_found() -> None:
    """PyIceberg asks 36 million pairs here."""
    dice, index, count = random.Random(1), DeleteIndex(), 6_000
    for place in range(count):
        first = dice.randrange(count)
        index.add(entry(f"d{place}", place, None, (b"%06d" % first, b"%06d" % (first + 3))))
    asked = [entry(f"{place:06d}", 0) for place in range(count)]
    began = time.process_time()
    found = sum(len(index.of(one)) for one in asked)
    assert time.process_time() - began < 5
    assert 3 * count < found < 5 * count
