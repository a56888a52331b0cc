"""`firn follow TABLE`: its changes as they are committed, a line of JSON each."""

import sys
from typing import Annotated

import typer

from firn.deployment.terminal import print_json_line
from firn_cli.commands.diff import told
from firn_cli.options import DEFAULT_DIR, Dir, OneTable, lake_table


def command(
    table: OneTable,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="A cursor, or a moment as in firn diff (main: now). Left out: all rows first."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Stop at this snapshot, tag or branch; main: at what there is.")
    ] = None,
    poll: Annotated[float, typer.Option(help="Seconds between looks at the table.", min=0.05)] = 1.0,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Print the changes of TABLE as they are committed. One JSON object a line, with the cursor after each step;
    runs until Ctrl-C."""
    followed = lake_table(folder, table)
    try:
        for changes in followed.follow(from_, until=until, poll=poll):
            for batch in changes:
                for row in batch.to_pylist():
                    print_json_line(told(row, changes.key))
            print_json_line({"cursor": {"table": changes.cursor.table, "snapshot": changes.cursor.snapshot}})
            sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
