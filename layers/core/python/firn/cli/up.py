"""`firn up`: the embedded stack in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from firn.cli.options import DEFAULT_DIR, Dir


def command(
    folder: Dir = DEFAULT_DIR,
    s3: Annotated[bool, typer.Option("--s3", help="Storage in the S3 endpoint, in memory, instead of files.")] = False,
    port: Annotated[int, typer.Option(help="HTTP port; 0 takes a free one.", min=0, max=65535)] = 8181,
    config: Annotated[Path, typer.Option(help="The streams.")] = Path("firn.yaml"),
    schedules: Annotated[
        bool, typer.Option("--schedules/--no-schedules", help="Run scheduled functions, or only what is asked for.")
    ] = True,
) -> None:
    """Run all of Firn on this machine until Ctrl-C: HTTP and SQS ingress, storage, and Spark jobs. Loopback only."""
    from firn_local import Options, up

    raise typer.Exit(up(Options(dir=folder, s3=s3, port=port, config=config, schedules=schedules)))
