"""`firn flush [STREAM]`: seal, commit, wait."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from firn.deployment.flush_run import StreamFlushed, flush
from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, counted, notes, print_json, say
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json


def command(
    stream: Annotated[
        str | None,
        typer.Argument(
            metavar="STREAM", help="One stream; all of them if left out.", autocompletion=completion.streams
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.", min=1)] = 1800.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Commit everything sent so far; wait for it and its views."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    stack = find_stack(folder)
    one_line = Column(no_wrap=True, overflow="ellipsis")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=one_line),
        TimeElapsedColumn(),
    )
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
        say(f"{one.stream}: {told(one, datetime.now(UTC))}")
        for table, reason in one.quarantined.items():
            say(f"{one.stream}: {table} is quarantined ({reason}) and stays behind: see firn status", err=True)
        for view, reason in one.views.items():
            say(f"{one.stream}: the view {view} stays behind: {reason}", err=True)


def told(one: StreamFlushed, now: datetime) -> str:
    """What became of a stream's events, for people."""
    if not one.epoch:
        return "nothing was sent yet"
    if not one.runs and not one.batches:
        when = f", {ago(datetime.fromisoformat(one.committed_at), now)}" if one.committed_at else ""
        return f"nothing new: the schedule has committed all up to epoch {one.epoch}{when}"
    dead = sum(each.letters for each in one.dead)
    taken = one.events + one.earlier
    said = counted(taken + sum(each.letters for each in one.dead if each.at_ingest), "event")
    if not taken and not dead:
        return f"what came since holds no rows (heartbeats and the like); all is committed up to epoch {one.epoch}"
    done = "committed or held" if one.quarantined else "committed"  # whose they are, no epoch tells
    if dead:
        reasons = ", ".join(sorted({each.reason for each in one.dead}))
        committed = taken - sum(each.letters for each in one.dead if not each.at_ingest)
        said += f": {committed:,} {done}, {counted(dead, 'dead letter')} ({reasons}), "
        said += f"see firn dead show {one.dead[0].object}; up to"
    else:
        said += f", {done} up to"
    said += f" epoch {one.epoch} in {counted(len(one.tables), 'table')}: {one.seconds:.1f} s"
    return said + (f" ({one.earlier:,} of them the schedule had sealed before)" if one.earlier else "")
