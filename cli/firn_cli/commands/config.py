"""`firn config`: what firn.yaml may hold, and what the storage beside it needs."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firn.maintenance.cloud_lifecycle import Cold

app = typer.Typer(name="config", help="What firn.yaml may hold.", no_args_is_help=True)


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of firn.yaml, by which editors complete it.

    Save it beside firn.yaml and begin the file with "# yaml-language-server: $schema=firn.schema.json".
    """
    from firn.deployment.terminal import print_json
    from firn_cli.config_schema import schema

    print_json(schema())


@app.command("lifecycle")
def lifecycle_command(
    staging: Annotated[str, typer.Argument(metavar="STAGING", help="Where staged data lies: abfss://… or gs://…")],
    warehouse: Annotated[str, typer.Option(metavar="URL", help="Where tables lie, if files are to become cold.")] = "",
    cold_after: Annotated[str, typer.Option(metavar="TIME", help="Age at which they do, such as 90d.")] = "",
    storage_class: Annotated[
        str, typer.Option("--class", help="Azure: Cool, Cold. Google: NEARLINE, COLDLINE, ARCHIVE.")
    ] = "",
) -> None:
    """Print the lifecycle rules for Azure's or Google's storage, as their own tools take them.

    In S3 Firn keeps them by itself (firn tier).
    """
    from firn.config.storage import SCHEMES, read_place
    from firn.deployment.terminal import print_json
    from firn.maintenance.cloud_lifecycle import rules

    def read(url: str, option: str) -> str:
        try:
            return url and read_place(url, SCHEMES)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error

    where = read(staging, "STAGING"), read(warehouse, "--warehouse")
    print_json(rules(*where, _cold(cold_after, storage_class)))


def _cold(after: str, storage_class: str) -> "Cold | None":
    from firn.config import quantities
    from firn.maintenance.cloud_lifecycle import Cold

    if bool(after) != bool(storage_class):
        raise typer.BadParameter("--cold-after and --class belong together: write both, or neither")
    if not after:
        return None
    try:
        days = quantities.days(after) // 86_400
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cold-after") from error
    if days < 1:
        raise typer.BadParameter("rules count whole days: write 1d or more", param_hint="--cold-after")
    return Cold(days, storage_class)
