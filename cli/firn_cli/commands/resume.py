"""`firn resume`: what is held goes on: a paused stack, or with a stream its quarantine, a table's or an epoch's."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, print_json, say
from firn.errors import FirnError
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json

if TYPE_CHECKING:
    from firn.log.holds import How


class NotDispatched(FirnError):
    """It is resumed, and the first look at what waits failed."""


def command(
    stream: Annotated[
        str | None,
        typer.Argument(
            metavar="STREAM",
            help="The stream; alone: its own quarantine. Without: a pause.",
            autocompletion=completion.streams,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="A target table, as firn status names it.", autocompletion=completion.tables
        ),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="The table gets all epochs that it lacks.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="The table never gets the epochs it was held for.")] = False,
    epoch: Annotated[int | None, typer.Option(help="A quarantined epoch, instead of a table.", min=1)] = None,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Resume a paused stack, or a quarantined STREAM or TABLE. The next dispatch, or firn flush, does the rest."""
    from firn.quarantine.lifting import resume

    if stream is None:
        if replay or skip or epoch is not None:
            raise typer.BadParameter("write which STREAM")
        _end_pause(find_stack(folder), as_json=as_json)
        return
    if (replay and skip) or (epoch is not None and (table or replay or skip)) or ((replay or skip) and not table):
        raise typer.BadParameter("write STREAM TABLE with --replay or --skip or neither, STREAM --epoch N, or STREAM")
    how: How = "replay" if replay else "skip" if skip else "retry"
    said = resume(find_stack(folder, running=False).store(), stream, table, epoch, how, datetime.now(UTC))
    if as_json:
        print_json({"stream": stream, "table": table, "epoch": epoch, "how": how, "said": said})
        return
    say(f"{said}; firn flush {stream} does it now, else the next dispatch")


def _end_pause(stack: Stack, *, as_json: bool) -> None:
    """End a pause, and commit what waits. Raises NotDispatched."""
    from firn.dispatch.scheduled_rounds import became
    from firn.log import pause

    store = stack.store()
    since = pause.since(store)
    pause.end(store)
    if not as_json:
        typer.echo(f"resumed; the pause began {ago(since, datetime.now(UTC))}" if since else "it was not paused")
    try:
        streams = stack.invoke_dispatch({}).get("streams", [])
    except FirnError as error:
        raise NotDispatched(
            f"resumed, but what waits was not looked at: {error}; the schedule does that too"
        ) from error
    if as_json:
        print_json({"paused_since": since, "streams": streams})
    else:
        for one in streams:
            say(f"{one['stream']}: {became(one)}")
    if any(one.get("error") for one in streams):
        raise typer.Exit(1)
