"""`firn config`: what firn.yaml may hold, and what the storage beside it needs."""

from typing import Annotated

import typer

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
) -> None:
    """Print the lifecycle rules of the staging area for Azure's or Google's storage, as their own tools take them.

    In S3 Firn keeps them by itself (firn tier).
    """
    from firn.config.storage import SCHEMES, read_place
    from firn.deployment.terminal import print_json
    from firn.maintenance.cloud_lifecycle import rules

    try:
        where = read_place(staging, SCHEMES)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="STAGING") from error
    print_json(rules(where))
