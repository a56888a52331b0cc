"""`firn`: the command line. Exit codes: 0 all right, 1 it failed, 2 the command line is wrong."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

import firn
from firn.deployment.target import use_target
from firn.deployment.terminal import say
from firn.errors import FirnError
from firn.extras import missing
from firn_cli.commands import (
    adopt,
    alerts,
    audit,
    backfill,
    batch,
    care,
    config,
    console,
    cut,
    dead,
    demo,
    deploy,
    diff,
    doctor,
    explain,
    export_metadata,
    files,
    flush,
    follow,
    history,
    init,
    jobs,
    leftovers,
    pause,
    pipelines,
    publish,
    query,
    rebuild,
    refs,
    resume,
    send,
    shards,
    sources,
    status,
    tables,
    tier,
    up,
    views,
)

app = typer.Typer(
    name="firn",
    help="Serverless change data capture into Apache Iceberg.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.command,
    "up": up.command,
    "console": console.command,
    "demo": demo.command,
    "publish": publish.command,
    "send": send.command,
    "flush": flush.command,
    "query": query.command,
    "tables": tables.command,
    "history": history.command,
    "files": files.command,
    "explain": explain.command,
    "export-metadata": export_metadata.command,
    "adopt": adopt.command,
    "diff": diff.command,
    "follow": follow.command,
    "status": status.command,
    "jobs": jobs.command,
    "pause": pause.command,
    "resume": resume.command,
    "backfill": backfill.command,
    "rebuild": rebuild.command,
    "compact": care.compact,
    "expire": care.expire,
    "remove-orphans": care.remove_orphans,
    "batch": batch.command,
    "tier": tier.command,
    "audit": audit.command,
    "doctor": doctor.command,
    "deploy": deploy.command,
    "upload": deploy.upload,
    "leftovers": leftovers.command,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(dead.app)
app.add_typer(alerts.app)
app.add_typer(cut.app, name="cut")
app.add_typer(shards.app)
app.add_typer(config.app)
app.add_typer(pipelines.app)
app.add_typer(views.app)
app.add_typer(sources.app)
app.add_typer(refs.app, name="refs")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"firn {firn.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="NAME", help="Talk to the deployment NAME under targets: in firn.yaml."),
    ] = None,
) -> None:
    """Serverless change data capture into Apache Iceberg."""
    use_target(target)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; errors of Firn's own are told on stderr in one paragraph."""
    try:
        app(args=arguments, prog_name="firn")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except FirnError as error:
        say(f"firn: {error}", err=True)
        return 1
    except ModuleNotFoundError as error:
        lacking = missing(error)
        if lacking is None:
            raise
        say(f"firn: {lacking}", err=True)
        return 1
    except BrokenPipeError:  # `firn query … | head`
        sys.stderr.close()
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
