"""`firn up`: the embedded stack in the foreground."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from firn.errors import ConfigError
from firn_cli.options import DEFAULT_DIR, Dir


def command(
    folder: Dir = DEFAULT_DIR,
    s3: Annotated[bool, typer.Option("--s3", help="Storage in the S3 endpoint, in memory, instead of files.")] = False,
    s3_endpoint: Annotated[
        str, typer.Option(metavar="URL", help="Keep data in this S3, by the AWS_* keys of the environment.")
    ] = "",
    port: Annotated[int, typer.Option(help="HTTP port; 0 takes a free one.", min=0, max=65535)] = 8181,
    config: Annotated[
        Path | None, typer.Option(help="The streams. [default: firn.yaml; a first one is written where there is none]")
    ] = None,
    schedules: Annotated[
        bool, typer.Option("--schedules/--no-schedules", help="Run scheduled functions, or only what is asked for.")
    ] = True,
    rate: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of requests a second, 0 for all.")] = "10MB",
    queue_stream: Annotated[
        str, typer.Option(metavar="STREAM", help="Stream of queue messages that name none (Debezium Server's).")
    ] = "",
    staging: Annotated[
        str, typer.Option(metavar="URL", help="Keep staged data here: gs://bucket/prefix, abfss://container@account…")
    ] = "",
    warehouse: Annotated[
        str,
        typer.Option(metavar="URL", help="Keep tables here. Credentials come from the environment: docs/clouds.md."),
    ] = "",
    catalog: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Keep tables in this catalog: https://…, thrift://…, postgresql://…"),
    ] = "",
) -> None:
    """Run all of Firn on this machine until Ctrl-C. HTTP and SQS ingress, storage and Spark jobs, on loopback only."""
    from firn.config.storage import read_place, read_staging
    from firn_local import Options, up
    from firn_local.other_s3 import NoOtherS3, OtherS3

    try:
        other = OtherS3.at(s3_endpoint, os.environ) if s3_endpoint else None
    except NoOtherS3 as error:
        raise ConfigError(str(error)) from error
    given = Options(
        dir=folder,
        s3=s3,
        other_s3=other,
        port=port,
        config=config or _first(Path("firn.yaml"), folder),
        schedules=schedules,
        rate=_bytes(rate),
        queue_stream=queue_stream,
        staging=_place(staging, "--staging", read_staging),
        warehouse=_place(warehouse, "--warehouse", read_place),
        catalog=catalog,
    )
    raise typer.Exit(up(given))


def _first(config: Path, folder: Path) -> Path:
    """The file that is used unless another is named. In a new folder it is written, for own rows; data that is there
    was sent under some other configuration, and then whoever asks has to say which."""
    from firn_cli.init_templates import OWN_ROWS

    if not config.exists() and not folder.exists():
        try:
            with config.open("x", encoding="utf-8") as file:
                file.write(OWN_ROWS)
        except OSError as error:
            raise ConfigError(f"{config}: can't be written ({error.strerror}); name another by --config") from error
        typer.echo(f"wrote {config}: a stream `web` for rows of your own, each table as it comes")
    return config


def _place(url: str, option: str, read: Callable[[str, Sequence[str]], str]) -> str:
    from firn_local.storage_choice import PLACES

    try:
        return url and read(url, PLACES)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _bytes(text: str) -> int:
    from firn.config.quantities import size

    try:
        return 0 if text.strip() == "0" else size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--rate") from error
