"""Reads a table by an engine that others wrote. Runs in .venv-duckdb or .venv-engines, which have no Firn.

python engine_reads.py ENGINE METADATA_FILE COLUMN…   -> {"version": …, "rows": […]} as JSON
"""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any


def duckdb(metadata: str, columns: Sequence[str]) -> Any:
    """DuckDB by its Iceberg extension, and nothing of PyIceberg."""
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_iceberg

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        (file,) = Path(package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    named = ", ".join(f'"{name}"' for name in columns)
    found = connection.execute(f"SELECT {named} FROM iceberg_scan('{metadata}')").fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]


def polars(metadata: str, columns: Sequence[str]) -> Any:
    """Polars, which plans by itself and reads the files itself."""
    import polars

    return polars.scan_iceberg(metadata).select(columns).collect().to_arrow().to_pylist()


def daft(metadata: str, columns: Sequence[str]) -> Any:
    """Daft, which plans by PyIceberg and reads the files itself."""
    import daft
    from pyiceberg.table import StaticTable

    return daft.read_iceberg(StaticTable.from_metadata(metadata)).select(*columns).to_arrow().to_pylist()


ENGINES: dict[str, Callable[[str, Sequence[str]], Any]] = {"duckdb": duckdb, "polars": polars, "daft": daft}


def plain(value: Any) -> Any:
    """A value as text that any engine's own type of it gives."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return str(value) if isinstance(value, Decimal | date) else value


def plain_rows(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Rows as lists of such values, sorted."""
    return sorted([[plain(value) for value in row.values()] for row in rows], key=repr)


if __name__ == "__main__":
    engine, metadata, *columns = sys.argv[1:]
    rows = ENGINES[engine](metadata, columns)
    print(json.dumps({"version": version(engine), "rows": plain_rows(rows)}))
