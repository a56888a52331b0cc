"""`firn jobs`: the job runs, newest first, and how far a running commit is."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from firn.deployment.job_list import ListedRun, list_runs
from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, print_json, print_table
from firn.log import job_progress
from firn_cli.options import DEFAULT_DIR, Dir, Json, Wide


def command(
    limit: Annotated[int, typer.Option(help="Runs to show at most.", min=1, max=50)] = 10,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Show the job runs, newest first. Of a running commit also its stage, its rows and an estimate of what is left."""
    now = datetime.now(UTC)
    found = list_runs(find_stack(folder), now, limit)
    if as_json:
        print_json([_plain(one) for one in found])
        return
    if not found:
        typer.echo("no job ran yet: one starts when changes wait, or now with firn flush", err=True)
        return
    print_table(
        ["run", "state", "kind", "stream", "epochs", "started", "took", "what"],
        [
            (
                one.run,
                one.state.lower(),
                one.kind,
                one.stream,
                None if one.first is None else f"{one.first} to {one.last}" if one.first != one.last else one.first,
                ago(datetime.fromisoformat(one.started_at), now),
                f"{one.seconds:,.0f} s",
                _what(one),
            )
            for one in found
        ],
        fold=("kind", "epochs", "took", "started", "stream", "what"),
        prose=("what",),
        wide=wide,
    )


def _what(one: ListedRun) -> str | None:
    if one.progress is None:
        return one.detail
    shared = "" if one.progress.stream == one.stream else f"{one.progress.stream}: "
    return shared + job_progress.summary(one.progress)


def _plain(one: ListedRun) -> dict[str, object]:
    import msgspec

    found: dict[str, object] = msgspec.to_builtins(one)
    return found
