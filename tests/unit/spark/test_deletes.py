"""Position delete files."""

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq

from firn_spark.tables import deletes


def test_a_delete_file_says_what_iceberg_asks_for() -> None:
    body = deletes._body(["b"], [(pa.array([0], pa.int32()), pa.array([7], pa.int64()))])
    schema = pq.ParquetFile(io.BytesIO(body)).schema_arrow
    ids = [field.metadata[b"PARQUET:field_id"] for field in schema]
    assert (schema.names, ids) == (["file_path", "pos"], [b"2147483546", b"2147483545"])
    assert not any(field.nullable for field in schema)
    assert schema.types == [pa.string(), pa.int64()]


def test_rows_are_gathered_by_file_over_chunks_and_those_without_a_file_left_out() -> None:
    files = pa.chunked_array([["a", None, "b"], ["b", "a"]])
    rows = pa.chunked_array([[3, None, 1], [0, 2]])
    found = deletes.by_file(files, rows)
    assert {path: rows.to_pylist() for path, rows in found.items()} == {"a": [3, 2], "b": [1, 0]}
    twice = deletes.together([found, {"a": pa.array([2, 7])}])
    assert {path: rows.to_pylist() for path, rows in twice.items()} == {"a": [3, 2, 7], "b": [1, 0]}


def test_a_position_costs_a_few_bytes() -> None:
    """Many deletes must fit the driver."""
    dice = random.Random(1)
    rows = sorted(dice.sample(range(10_000_000), 100_000))
    paths = [f"s3://bucket/warehouse/namespace/table/data/0000{n}-{'x' * 60}.parquet" for n in range(10)]
    parts = [(pa.array([n] * 10_000, pa.int32()), pa.array(rows[n * 10_000 :][:10_000], pa.int64())) for n in range(10)]
    assert len(deletes._body(paths, parts)) < 5 * 100_000
