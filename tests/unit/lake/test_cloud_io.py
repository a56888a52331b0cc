"""Tables by the FileIO of clouds, in memory: what is written is there once it is closed, and a write that dies or whose
answer is lost leaves the table as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from firn.errors import StorageUnavailable, UnknownOutcome
from firn.log.store import ObjectWriter, open_store, paths
from firn_lake.catalogs.catalog import CLOUDS, open_catalog
from firn_lake.catalogs.cloud_io import CloudIO

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def catalog(folder: Path) -> SqlCatalog:
    told = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"memory://{folder.name}", "py-io-impl": CLOUDS}
    return SqlCatalog("firn", **told)


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_which_warehouses_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    address = f"sqlite:///{tmp_path}/catalog.db"
    for warehouse in ("abfss://lake@acme.dfs.core.windows.net/w", "gs://acme-lake/w"):
        assert open_catalog(address, warehouse, {}).properties["py-io-impl"] == CLOUDS
        assert open_catalog(address, warehouse, {"FIRN_COLD_CACHE": "/x"}).properties["py-io-impl"] == CLOUDS
    for warehouse in ("s3://acme-lake/w", "file:///lake"):
        told = open_catalog(address, warehouse, {"AWS_REGION": "eu-central-1"}).properties
        assert "py-io-impl" not in told


def before(write: Callable[[ObjectWriter], None], file: ObjectWriter) -> None:
    raise StorageUnavailable("gone before")


def after(write: Callable[[ObjectWriter], None], file: ObjectWriter) -> None:
    write(file)
    raise UnknownOutcome("the answer was lost")


@pytest.mark.parametrize("dies", [before, after])
@pytest.mark.parametrize("number", range(4))  # the data file, the manifest, its list, the metadata
def test_a_write_that_dies_leaves_the_table_as_it_was_and_the_next_one_goes_on(
    dies: Callable[..., None], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = catalog(tmp_path)
    at.create_namespace("shop")
    table = at.create_table("shop.orders", ROWS.schema)
    table.append(ROWS)
    real, count = ObjectWriter.close, iter(range(100))

    def close(file: ObjectWriter) -> None:
        dies(real, file) if next(count) == number else real(file)

    monkeypatch.setattr(ObjectWriter, "close", close)
    with pytest.raises((StorageUnavailable, UnknownOutcome)):
        at.load_table("shop.orders").append(ROWS)
    assert next(count) > number
    monkeypatch.undo()
    again = at.load_table("shop.orders")
    assert ids(again) == [1, 2]
    again.append(ROWS)
    assert ids(at.load_table("shop.orders")) == [1, 1, 2, 2]


def test_what_is_half_written_is_not_there_and_nothing_is_written_over(tmp_path: Path) -> None:
    io, place = CloudIO(), f"memory://{tmp_path.name}/a=1%2F2/x ?#.bin"

    def fail() -> None:
        with io.new_output(place).create() as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not io.new_input(place).exists()
    with io.new_output(place).create() as file:
        file.write(b"whole")
        assert file.tell() == 5
    assert paths(open_store(f"memory://{tmp_path.name}"), "") == ["a=1%2F2/x ?#.bin"]
    with pytest.raises(FileExistsError):
        io.new_output(place).create()
    with io.new_input(place).open() as opened:
        opened.seek(1)
        assert opened.read(2) == b"ho"
    assert len(io.new_input(place)) == 5
    io.delete(io.new_input(place))
    with pytest.raises(FileNotFoundError):
        io.delete(place)
