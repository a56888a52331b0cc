"""`firn config`: what firn.yaml may hold."""

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
