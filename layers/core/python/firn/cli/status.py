"""`firn status`: what each stream holds that is not in its tables yet, and what needs a look."""

from datetime import UTC, datetime

import typer

from firn.cli.options import DEFAULT_DIR, Dir, Json
from firn.cli.output import ago, print_json, print_table
from firn.cli.stack import find_stack


def command(folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Say for each stream what is staged, sealed, committed and dead, and what to know about its order and keys."""
    from firn.cli.stream_status import stream_statuses

    stack = find_stack(folder, running=False)
    now = datetime.now(UTC)
    found = stream_statuses(stack.store(), stack.catalog(), now)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no streams: write firn.yaml (firn init)", err=True)
        raise typer.Exit
    print_table(
        ["stream", "pending", "in batches", "sealed", "in epochs", "committed to", "when", "dead letters", "to replay"],
        [
            (
                one.stream,
                one.pending_events,
                one.pending_batches,
                one.sealed_events,
                one.sealed_epochs,
                f"epoch {one.committed_epoch}" if one.committed_epoch else None,
                ago(one.committed_at, now) if one.committed_at else None,
                one.dead_letters,
                one.dead_waiting,
            )
            for one in found
        ],
    )
    for one in found:
        for note in one.notes:
            typer.echo(f"{one.stream}: {note}")
