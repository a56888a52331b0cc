"""`firn flush [STREAM]`: seal, commit, wait."""

from typing import Annotated

import typer

from firn.deployment.flush_run import flush
from firn.deployment.target import find_stack
from firn.deployment.terminal import notes, print_json
from firn_cli.options import DEFAULT_DIR, Dir, Json


def command(
    stream: Annotated[str | None, typer.Argument(metavar="STREAM", help="One stream; all of them if left out.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.", min=1)] = 1800.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Commit everything sent so far and wait for it."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    stack = find_stack(folder)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=notes(), transient=True, disable=as_json) as progress:
        tasks = {"": progress.add_task("sealing")}

        def report(name: str, text: str) -> None:
            if "" in tasks:
                progress.remove_task(tasks.pop(""))
            if name not in tasks:
                tasks[name] = progress.add_task("")
            progress.update(tasks[name], description=f"{name}: {text}")

        results = flush(stack, stream, report=report, timeout=timeout)
    if as_json:
        print_json(results)
        return
    for one in results:
        if not one.epoch:
            said = "nothing was sent yet"
        elif not one.runs and not one.batches:
            said = f"nothing new; all up to epoch {one.epoch} is committed"
        else:
            tables = f"{len(one.tables)} table{'' if len(one.tables) == 1 else 's'}"
            said = f"{one.events:,} events, committed up to epoch {one.epoch} in {tables}: {one.seconds:.1f} s"
        typer.echo(f"{one.stream}: {said}")
        for table, reason in one.quarantined.items():
            typer.echo(f"{one.stream}: {table} is quarantined ({reason}) and stays behind: see firn status", err=True)
