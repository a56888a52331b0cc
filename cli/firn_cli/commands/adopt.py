"""`firn adopt TABLE`: can a table that others made become a stream's mirror?"""

from typing import Annotated

import typer

from firn.deployment.terminal import print_json
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable


def command(
    table: OneTable,
    key: Annotated[
        list[str], typer.Option("--key", metavar="COLUMN", help="A column of the key; again for each further one.")
    ],
    source: Annotated[
        str, typer.Option("--source", metavar="SCHEMA.TABLE", help="The source table that feeds it, for the rule.")
    ] = "public.orders",
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Check whether TABLE can become a stream's mirror. For a table that another tool made: prints the rule for
    firn.yaml, or what prevents it (exit code 1). Reads the key's columns, and changes nothing."""
    from firn.deployment.target import find_stack
    from firn_lake.adoption import adoption
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.lake import Lake

    found = adoption(Lake(catalog_of(find_stack(folder, running=False))), table, key, source)
    if as_json:
        print_json(
            {"table": found.table, "rows": found.rows, "fits": found.fits, "rule": found.rule}
            | {"against": list(found.against), "beware": list(found.beware)}
        )
    else:
        rows = "" if found.rows is None else f", {found.rows:,} rows"
        typer.echo(f"{found.table}{rows}: " + ("it can be adopted" if found.fits else "it can't be adopted as it is"))
        for line in found.against:
            typer.echo(f"  no: {line}")
        for line in found.beware:
            typer.echo(f"  note: {line}")
        if found.fits:
            typer.echo(f"write into firn.yaml, under tables: of the stream, and publish:\n  {found.rule}")
    if not found.fits:
        raise typer.Exit(1)
