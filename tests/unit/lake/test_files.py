"""Files and files of deletes by themselves: many row groups, many data files in one file of deletes, damage."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table

from firn.errors import StorageUnavailable
from firn_lake.reading.files import Source, read_file
from firn_lake.reading.positions import NONE, Positions, between, without
from firn_lake.reading.unreadable import UnreadableFile, reading
from firn_lake.reading.versions import version_at

ROWS, GROUP = 1_000, 130


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    """One file with a thousand rows in row groups of 130."""
    catalog.create_namespace_if_not_exists("shop")
    rows = pa.table({"id": range(ROWS)})
    made = catalog.create_table("shop.grouped", rows.schema)
    path = tmp_path / "grouped.parquet"
    pq.write_table(rows, path, row_group_size=GROUP)
    made.add_files([f"file://{path}"])
    return made


def ids(table: Table, gone: pa.Array = NONE, only: pa.Array | None = None) -> list[int]:
    version = version_at(table, None)
    [task] = version.files()
    batches = read_file(version.source, task.file, version.schema, gone, only)
    return [number for batch in batches for number in batch.column("id").to_pylist()]


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_left_out_and_picked_by_their_place_in_any_row_group(table: Table, seed: int) -> None:
    dice = random.Random(seed)
    some = sorted(dice.sample(range(ROWS), dice.choice((0, 1, 7, 400, ROWS))))
    others = sorted(dice.sample(range(ROWS), 300))
    places, other_places = pa.array(some, pa.int64()), pa.array(others, pa.int64())
    assert ids(table, gone=places) == [number for number in range(ROWS) if number not in set(some)]
    assert ids(table, only=places) == some
    assert ids(table, gone=other_places, only=places) == sorted(set(some) - set(others))


def test_row_groups_without_a_wanted_row_are_not_decoded(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    iterate = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda file, rows, row_groups, **how: (read.extend(row_groups), iterate(file, rows, row_groups, **how))[1],
    )
    assert ids(table, only=pa.array([5, 131, 132])) == [5, 131, 132]
    assert read == [0, 1]


def test_sorted_places_are_cut_and_taken_from_one_another() -> None:
    places = pa.array([1, 4, 9, 12])
    assert between(places, 4, 12).to_pylist() == [4, 9]
    assert between(places, 13, 20).to_pylist() == []
    assert without(places, pa.array([4, 5])).to_pylist() == [1, 9, 12]
    assert without(places, NONE).to_pylist() == [1, 4, 9, 12]


def deletes(path: Path, rows: list[tuple[str, int]]) -> DataFile:
    names, places = zip(*rows, strict=True)
    pq.write_table(pa.table({"file_path": names, "pos": pa.array(places, pa.int64())}), path, row_group_size=100)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=(),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
    )


def test_a_file_of_deletes_names_many_data_files(table: Table, tmp_path: Path) -> None:
    rows = [(f"s3://b/{number}.parquet", place) for number in range(40) for place in range(number)]
    one = deletes(tmp_path / "one.parquet", rows)
    two = deletes(tmp_path / "two.parquet", [("s3://b/7.parquet", 3), ("s3://b/7.parquet", 70)])
    positions = Positions(table.io, "shop.grouped", 1)
    assert positions.of("s3://b/7.parquet", [one, two]).to_pylist() == [*range(7), 70]
    assert positions.of("s3://b/0.parquet", [one, two]).to_pylist() == []
    assert len(positions.in_file(one)) == 39
    narrow = Positions(table.io, "shop.grouped", 1, ["s3://b/7.parquet"])
    assert set(narrow.in_file(one)) == {"s3://b/7.parquet"}


def test_a_file_of_deletes_that_is_missing_is_named(table: Table, tmp_path: Path) -> None:
    one = deletes(tmp_path / "one.parquet", [("a", 1)])
    (tmp_path / "one.parquet").unlink()
    with pytest.raises(UnreadableFile, match=r"one\.parquet, which snapshot 5 of shop\.grouped needs, is missing"):
        Positions(table.io, "shop.grouped", 5).of("a", [one])


def test_files_of_another_kind_are_refused(table: Table) -> None:
    version = version_at(table, None)
    file = DataFile.from_args(file_path="s3://b/a.orc", file_format=FileFormat.ORC, partition=(), record_count=1)
    with pytest.raises(UnreadableFile, match=r"a\.orc, .* Firn reads Parquet"):
        list(read_file(Source(table.io, table.metadata, "shop.grouped", 1), file, version.schema))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7"), StorageUnavailable),
        (OSError("AWS Error SLOW_DOWN during GetObject operation"), StorageUnavailable),
        (ConnectionResetError("reset"), StorageUnavailable),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation"), UnreadableFile),
        (pa.ArrowInvalid("Parquet magic bytes not found in footer"), UnreadableFile),
        (FileNotFoundError("s3://b/a"), UnreadableFile),
    ],
)
def test_only_what_another_try_may_mend_is_transient(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="s3://b/a, which snapshot 7 of shop"), reading("s3://b/a", "shop.t", 7):
        raise error
