"""`firn demo`: real change events in, Iceberg tables out, compared with the source."""

from typing import Annotated

import typer


def command(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up afterwards, to look around.")] = False,
) -> None:
    """Commit 55,462 real events, and compare every row. Takes a minute, and needs Java."""
    from firn_demo.demonstration import demonstrate

    raise typer.Exit(demonstrate(keep))
