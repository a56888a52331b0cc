"""PyIceberg's tables on each cloud, by Firn's own FileIO: written, raced for, read by PyIceberg and by SQL."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from firn.errors import StorageUnavailable
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.cloud_io import CloudIO
from tests.racing import together

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "kind": ["a b", "ä/ö 100%", "plain"]})


def catalog(cloud: Any, folder: Path) -> Any:
    return open_catalog(f"sqlite:///{folder}/catalog.db", cloud.url("warehouse"))


def test_rows_are_appended_read_deleted_and_the_files_are_gone_after_a_purge(cloud: Any, tmp_path: Path) -> None:
    at = catalog(cloud, tmp_path)
    at.create_namespace("shop")
    table = at.create_table("shop.orders", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    assert isinstance(table.io, CloudIO)
    assert table.location() == f"{cloud.url('warehouse')}/shop/orders"
    table.delete("id = 2")
    looked = open_catalog(f"sqlite:///{tmp_path}/catalog.db", cloud.url("warehouse"), read_only=True)
    assert len(looked.load_table("shop.orders").snapshots()) == 3
    again = at.load_table("shop.orders")
    assert sorted(again.scan(row_filter="id >= 2").to_arrow()["id"].to_pylist()) == [3, 3]
    path = next(task.file.file_path for task in again.scan().plan_files())
    assert again.io.new_input(path).exists()
    assert len(again.io.new_input(path)) == next(again.scan().plan_files().__iter__()).file.file_size_in_bytes
    again.io.delete(path)
    with pytest.raises(FileNotFoundError):
        again.io.delete(path)
    with pytest.raises(FileNotFoundError):
        again.io.new_input(path).open()


def test_of_two_writers_one_is_refused_and_no_row_is_lost(cloud: Any, tmp_path: Path) -> None:
    first, second = catalog(cloud, tmp_path), catalog(cloud, tmp_path)
    first.create_namespace("shop")
    first.create_table("shop.raced", ROWS.schema)
    one, other = first.load_table("shop.raced"), second.load_table("shop.raced")

    def append(n: int) -> bool:
        try:
            (one, other)[n].append(ROWS)
        except CommitFailedException:
            return False
        return True

    landed = together(2, append).count(True)
    found = first.load_table("shop.raced")
    assert found.scan().to_arrow().num_rows == 3 * landed


def test_what_an_error_ends_is_not_there_and_nothing_is_written_over(cloud: Any) -> None:
    io = CloudIO()
    place = cloud.url("files/a=1%2F2/x.bin")

    def fail() -> None:
        with io.new_output(place).create() as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not io.new_input(place).exists()
    with io.new_output(place).create() as file:
        file.write(b"whole")
    with pytest.raises(FileExistsError):
        io.new_output(place).create()
    with io.new_input(place).open() as opened:
        assert opened.read() == b"whole"


def test_a_bucket_that_is_not_there_is_named(cloud: Any, tmp_path: Path) -> None:
    at = open_catalog(f"sqlite:///{tmp_path}/catalog.db", cloud.url("warehouse", "nobody-made-this"))
    at.create_namespace("shop")
    with pytest.raises(StorageUnavailable, match="check that the bucket exists"):
        at.create_table("shop.orders", ROWS.schema)
