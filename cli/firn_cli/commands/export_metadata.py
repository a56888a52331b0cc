"""`firn export-metadata TABLE`: for readers that know no catalog."""

import typer

from firn.deployment.terminal import print_json
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable, lake_table


def command(table: OneTable, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Let others read TABLE by its folder. Writes version-hint.text beside its metadata, for DuckDB and PyIceberg.
    It says how the table is now: run it again after later commits."""
    found = lake_table(folder, table)
    place = found.export_metadata()
    if as_json:
        print_json({"table": found.name, "location": place, "metadata": found.iceberg.metadata_location})
        return
    quoted = place.removeprefix("file://").replace("'", "''")
    typer.echo(f"{place} can be read without a catalog, as {found.name} is now; run this again after later commits")
    scan = f"iceberg_scan('{quoted}', version_name_format = '%s%s.metadata.json')"
    typer.echo(f"  DuckDB: FROM {scan}")
    typer.echo(f"  Python: pyiceberg.table.StaticTable.from_metadata({place!r})")
