"""`firn demo`: real change events in, Iceberg tables out, compared with the source."""

from typing import Annotated

import typer


def command(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up afterwards, to look around.")] = False,
    storage: Annotated[
        str,
        typer.Option(metavar="NAME", help="Where its data is: s3 (in memory), file, versitygw (make setup-versitygw)."),
    ] = "s3",
) -> None:
    """Commit 55,462 real events, and compare every row. Takes a minute, and needs Java."""
    from firn_demo.demonstration import demonstrate

    raise typer.Exit(demonstrate(keep, storage=storage))
