"""`firn up`: the embedded stack in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from firn_cli.options import DEFAULT_DIR, Dir


def command(
    folder: Dir = DEFAULT_DIR,
    s3: Annotated[bool, typer.Option("--s3", help="Storage in the S3 endpoint, in memory, instead of files.")] = False,
    port: Annotated[int, typer.Option(help="HTTP port; 0 takes a free one.", min=0, max=65535)] = 8181,
    config: Annotated[Path, typer.Option(help="The streams.")] = Path("firn.yaml"),
    schedules: Annotated[
        bool, typer.Option("--schedules/--no-schedules", help="Run scheduled functions, or only what is asked for.")
    ] = True,
    rate: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of requests a second, 0 for all.")] = "10MB",
    queue_stream: Annotated[
        str, typer.Option(metavar="STREAM", help="Stream of queue messages that name none (Debezium Server's).")
    ] = "",
) -> None:
    """Run all of Firn on this machine until Ctrl-C. HTTP and SQS ingress, storage and Spark jobs, on loopback only."""
    from firn_local import Options, up

    given = Options(
        dir=folder,
        s3=s3,
        port=port,
        config=config,
        schedules=schedules,
        rate=_bytes(rate),
        queue_stream=queue_stream,
    )
    raise typer.Exit(up(given))


def _bytes(text: str) -> int:
    from firn.config.quantities import size

    try:
        return 0 if text.strip() == "0" else size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--rate") from error
