"""Tables by their folder: what export-metadata writes, and what PyIceberg's StaticTable and DuckDB read by it."""

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import StaticTable, Table

from firn_lake.lake import Lake
from firn_lake.writing.version_hint import NotInItsFolder, write_version_hint

DUCKDB = Path(__file__).parents[3] / ".venv-duckdb" / "bin" / "python"


def test_a_reader_without_a_catalog_finds_the_table_as_it_was_exported(catalog: Catalog, orders: Table) -> None:
    table = Lake(catalog).table("shop.orders")
    folder = table.export_metadata()
    assert folder == orders.metadata.location
    assert StaticTable.from_metadata(folder).scan().count() == 5
    table.iceberg.append(pa.table({"id": [6], "amount": [1.0], "note": ["f"]}))
    assert StaticTable.from_metadata(folder).scan().count() == 5
    table.export_metadata()
    assert StaticTable.from_metadata(folder).scan().count() == 6


def test_duckdb_reads_it_by_its_folder(catalog: Catalog, orders: Table) -> None:
    if not DUCKDB.exists():
        pytest.skip("DuckDB's Iceberg extension is not here: make setup-duckdb")
    folder = Lake(catalog).table("shop.orders").export_metadata().removeprefix("file://")
    program = (
        "import duckdb, duckdb_extension_iceberg as one, pathlib\n"
        "at = next(pathlib.Path(one.__file__).parent.rglob('iceberg.duckdb_extension'))\n"
        "import duckdb_extension_avro as two\n"
        "avro = next(pathlib.Path(two.__file__).parent.rglob('avro.duckdb_extension'))\n"
        "c = duckdb.connect(config={'allow_unsigned_extensions': 'true'})\n"
        "c.execute(f\"LOAD '{avro}'\"); c.execute(f\"LOAD '{at}'\")\n"
        f"print(c.sql(\"SELECT count(*), sum(amount) FROM iceberg_scan('{folder}', "
        "version_name_format = '%s%s.metadata.json')\").fetchall())\n"
    )
    done = subprocess.run([str(DUCKDB), "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "[(5, 150.0)]\n", done.stderr


def test_a_table_whose_metadata_spark_wrote_is_in_its_folder(catalog: Catalog, orders: Table) -> None:
    """Iceberg's own FileIO calls a file `file:/x`, the warehouse says `file:///x`."""
    orders.metadata_location = orders.metadata_location.replace("file:///", "file:/")
    assert write_version_hint(orders) == orders.metadata.location


def test_metadata_that_lies_elsewhere_is_named(catalog: Catalog, orders: Table) -> None:
    orders.metadata_location = "file:///elsewhere/00001-a.metadata.json"
    with pytest.raises(NotInItsFolder, match="give readers that file"):
        write_version_hint(orders)
