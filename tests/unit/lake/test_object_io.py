"""Looking at tables without pyarrow."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.object_io import ObjectIO

LOOK = """
import sys
sys.modules["pyarrow"] = None  # as where it is not installed
sys.path.insert(0, sys.argv[3])
import app  # the function, with all that it imports
from firn_lake.catalogs.catalog import open_catalog
catalog = open_catalog(sys.argv[1], sys.argv[2], {}, read_only=True)
table = catalog.load_table("shop.orders")
files = [e.data_file for m in table.current_snapshot().manifests(table.io) for e in m.fetch_manifest_entry(table.io)]
print(len(files), sum(file.record_count for file in files))
catalog.close()
"""
FUNCTION = Path(__file__).resolve().parents[3] / "functions" / "tier"


def test_the_function_and_its_catalog_need_no_pyarrow(orders: Table, tmp_path: Path) -> None:
    addresses = [f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"]
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *addresses, str(FUNCTION)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 5\n"


def test_what_is_there_is_read_and_nothing_is_written(orders: Table, catalog: Catalog, tmp_path: Path) -> None:
    reader = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {}, read_only=True)
    io = reader.load_table("shop.orders").io
    found = io.new_input(orders.metadata_location)
    data = Path(orders.metadata_location.removeprefix("file://")).read_bytes()
    assert (found.exists(), len(found)) == (True, len(data))
    with found.open() as stream:
        stream.seek(5)
        assert stream.read(7) == data[5:12]
    missing = io.new_input(orders.metadata_location + "x")
    assert not missing.exists()
    with pytest.raises(FileNotFoundError):
        missing.open()
    with pytest.raises(PermissionError, match="opened to be read"):
        io.new_output("file:///x")
    with pytest.raises(PermissionError, match="opened to be read"):
        io.delete("file:///x")
    reader.close()


def test_keys_hold_any_character(tmp_path: Path) -> None:
    odd = tmp_path / "a b?c#d=e%20+f"
    odd.write_bytes(b"x")
    assert ObjectIO().new_input(f"file://{odd}").open().read() == b"x"
    assert ObjectIO().new_input(str(odd)).open().read() == b"x"
