"""Deletion vectors as bytes, against PyIceberg's reader and against what is not one."""

import random
import zlib

import pyarrow as pa
import pytest
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from firn_spark.tables.deletion_vectors import DamagedVector, decoded, encoded, puffin

CASES = {
    "none": [],
    "the first": [0],
    "a run": list(range(100_000)),
    "few": [3, 70_000, 65_535, 65_536],
    "many": random.Random(1).sample(range(200_000), 30_000),
    "beyond 32 bits": [1, 2**32, 2**32 + 1, 2**33 + 5],
}


@pytest.mark.parametrize("case", CASES)
def test_a_vector_is_read_as_it_was_written_each_row_once(case: str) -> None:
    rows = CASES[case]
    vector, count = encoded(pa.array([*rows, *rows[:10]], pa.int64()))
    assert decoded(vector, count).to_pylist() == sorted(rows)
    assert count == len(rows)


def test_pyiceberg_reads_a_puffin_file_of_several() -> None:
    places = {f"s3://b/{name}.parquet": pa.array(rows, pa.int64()) for name, rows in CASES.items() if rows}
    body, blobs = puffin(places)
    found = deletion_vectors_from_puffin_file(PuffinFile(body))
    assert {one.referenced_data_file: one.to_vector().to_pylist() for one in found} == {
        path: sorted(rows.to_pylist()) for path, rows in places.items()
    }
    for path, blob in blobs.items():
        vector = body[blob.offset : blob.offset + blob.length]
        assert decoded(vector, blob.rows).to_pylist() == sorted(places[path].to_pylist())
        assert blob.rows == len(places[path])


def test_what_is_no_vector_or_a_damaged_one_is_told() -> None:
    vector, _ = encoded(pa.array([1, 2, 3], pa.int64()))
    inside = vector[4:8] + b"\xff" * 20
    other = len(inside).to_bytes(4, "big") + inside + zlib.crc32(inside).to_bytes(4, "big")
    with pytest.raises(DamagedVector, match="of 3 rows, where the table says 2"):
        decoded(vector, 2)
    for bad, why in [
        (b"", "no deletion vector"),
        (b"PAR1" * 5, "no deletion vector"),
        (vector[:-1], "length or checksum"),
        (vector + b"\0", "length or checksum"),
        (vector[:-6] + b"\7" + vector[-5:], "length or checksum"),
        (other, "holds no bitmap"),
    ]:
        with pytest.raises(DamagedVector, match=why):
            decoded(bad, 3)


@pytest.mark.parametrize("seed", range(5))
def test_no_bytes_of_chance_are_taken_for_rows(seed: int) -> None:
    dice = random.Random(seed)
    vector, _ = encoded(pa.array([1, 70_000], pa.int64()))
    for _ in range(200):
        bad = bytearray(vector)
        bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        with pytest.raises(DamagedVector):
            decoded(bytes(bad), 2)
