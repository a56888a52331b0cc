"""`firn send STREAM FILE…`: post files of change events to a stream."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from firn.deployment.delivery import Sent, post, send_to_queue
from firn.deployment.event_files import Batch, file_size, read_batches
from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, notes, print_json, say, size
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json, Url

_SHOWN_ERRORS = 10


def command(
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="A stream of firn.yaml.", autocompletion=completion.streams)
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="NDJSON, plain or .gz; - is standard input.")],
    queue: Annotated[bool, typer.Option("--queue", help="Send by SQS, one message an event, instead of HTTP.")] = False,
    table: Annotated[
        str | None, typer.Option("--table", help="The source table of plain rows (envelope: rows).", metavar="TABLE")
    ] = None,
    split: Annotated[
        int | None, typer.Option("--split", help="Send each file in this many batches of equal count.", min=1)
    ] = None,
    folder: Dir = DEFAULT_DIR,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Send FILEs to STREAM in batches. Running it again stages nothing twice (but with --queue)."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(file_size(file) for file in files)
    stack = find_stack(folder, url)
    sent = Sent()
    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes(), transient=True, disable=as_json) as progress:
        task = progress.add_task(f"sending to {stream}", total=total or None)

        def report(done: int) -> None:
            progress.update(task, completed=done, description=f"sending to {stream}: {sent.events:,} events")

        batches = _all_batches(files, split)
        if queue:
            send_to_queue(stack, stream, batches, sent, report, table)
        else:
            post(stack, stream, batches, sent, report, table=table)
    sent.seconds = time.monotonic() - started
    if as_json:
        print_json(sent)
    else:
        _tell(sent, stream, queue=queue)
    if sent.rejected:
        raise typer.Exit(1)


def _all_batches(files: list[Path], split: int | None) -> Iterator[tuple[Batch, int]]:
    before = 0
    for file in files:
        for batch in read_batches(file, split=split):
            yield batch, before + batch.read
        before += file_size(file)


def _tell(sent: Sent, stream: str, *, queue: bool) -> None:
    rate = sent.events / sent.seconds if sent.seconds else 0
    way = counted(sent.batches, "SQS call") if queue else counted(sent.batches, "batch", "batches")
    typer.echo(
        f"{counted(sent.events, 'event')} to {stream} in {way}, {size(sent.bytes)}: {sent.seconds:.1f} s, "
        f"{rate:,.0f} events/s"
    )
    if sent.duplicates:
        typer.echo(f"{counted(sent.duplicates, 'batch', 'batches')} staged before: not staged again")
    if sent.ignored:
        typer.echo(f"ignored {counted(sent.ignored, 'event')} that change no row (heartbeats, transaction marks, …)")
    if sent.rejected:
        say(f"{counted(sent.rejected, 'event')} rejected, see firn dead list {stream}:")
        for error in sent.errors[:_SHOWN_ERRORS]:
            said = error.get("message") or error.get("reason")
            say(f"  batch {error['batch_id']}, event {error.get('index')}: {said}")
