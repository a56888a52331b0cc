"""`firn send STREAM FILE…`: post files of change events to a stream."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.options import DEFAULT_DIR, Dir, Json, Url
from firn.cli.output import notes, print_json, size
from firn.cli.sending import Batch, file_size, messages, read_batches
from firn.cli.stack import NoStack, Stack, find_stack
from firn.errors import RequestError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from firn.client import StreamClient

_SHOWN_ERRORS = 10


@dataclass
class Sent:
    """What a run handed over. `bytes` are those of the JSON; `errors` name batch, index in it and reason."""

    events: int = 0
    batches: int = 0
    bytes: int = 0
    accepted: int = 0
    rejected: int = 0
    ignored: int = 0
    duplicates: int = 0
    batch_ids: list[str] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


def command(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="A stream of firn.yaml.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="NDJSON, plain or .gz; - is standard input.")],
    queue: Annotated[bool, typer.Option("--queue", help="Send by SQS, one message an event, instead of HTTP.")] = False,
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
            send_to_queue(stack, stream, batches, sent, report)
        else:
            post(stack, stream, batches, sent, report)
    sent.seconds = time.monotonic() - started
    if as_json:
        print_json(sent)
    else:
        _tell(sent, stream, queue=queue)
    if sent.rejected:
        raise typer.Exit(1)


def post(
    stack: Stack,
    stream: str,
    batches: "Iterator[tuple[Batch, int]]",
    sent: Sent,
    report: "Callable[[int], None]" = lambda _: None,
    client: "StreamClient | None" = None,
) -> None:
    """Post batches over HTTP, one after the other: a stream without positions goes by arrival.

    `report` gets how many bytes of the files are read. Raises RequestError, StreamUnreachable.
    """
    from firn.client import StreamClient

    with client or StreamClient(stack.url) as connection:
        for batch, done in batches:
            try:
                receipt = connection.post(stream, batch.body, key=batch.key(stream))
            except TransientError as error:
                raise NoStack(
                    f"{error}; {sent.accepted:,} events are in: run the same command again, it sends no batch twice"
                ) from error
            except RequestError as error:
                raise RequestError(
                    error.status, error.code, f"batch {batch.number} ({batch.events:,} events): {error}"
                ) from error
            sent.events += batch.events
            sent.batches += 1
            sent.bytes += len(batch.body)
            sent.accepted += receipt.accepted
            sent.rejected += receipt.rejected
            sent.ignored += receipt.ignored
            sent.duplicates += receipt.duplicate
            sent.batch_ids.append(receipt.batch_id)
            sent.errors += [{"batch_id": receipt.batch_id, **error} for error in receipt.errors]
            report(done)


def send_to_queue(
    stack: Stack,
    stream: str,
    batches: "Iterator[tuple[Batch, int]]",
    sent: Sent,
    report: "Callable[[int], None]" = lambda _: None,
) -> None:
    """Send each event as one SQS message, with the message attribute `stream`. Raises NoStack, TransientError."""
    address = queue_url(stack, stream)
    client = stack.sqs()
    attribute = {"stream": {"DataType": "String", "StringValue": stream}}
    for batch, done in batches:
        for group in messages(line.rstrip(b"\n") for line in batch.body.splitlines(keepends=True)):
            entries = [
                {"Id": str(number), "MessageBody": event.decode(), "MessageAttributes": attribute}
                for number, event in enumerate(group)
            ]
            answer = client.send_message_batch(QueueUrl=address, Entries=entries)
            if failed := answer.get("Failed"):
                raise TransientError(f"SQS refused {len(failed)} messages: {failed[0].get('Message')}; send again")
            sent.events += len(group)
            sent.accepted += len(group)
            sent.bytes += sum(map(len, group))
            sent.batches += 1
        report(done)


def queue_url(stack: Stack, stream: str) -> str:
    """The queue for a stream: its own if one is named after it, else the only one. Raises NoStack."""
    queues = stack.ingress_queues()
    if stream in queues:
        return queues[stream]
    if len(queues) == 1:
        return next(iter(queues.values()))
    raise NoStack(
        f"no queue for stream {stream!r}: the stack has {', '.join(sorted(queues)) or 'none'}; send without --queue"
    )


def _all_batches(files: list[Path], split: int | None) -> "Iterator[tuple[Batch, int]]":
    before = 0
    for file in files:
        for batch in read_batches(file, split=split):
            yield batch, before + batch.read
        before += file_size(file)


def _tell(sent: Sent, stream: str, *, queue: bool) -> None:
    rate = sent.events / sent.seconds if sent.seconds else 0
    way = f"{sent.batches:,} SQS calls" if queue else f"{sent.batches:,} batches"
    typer.echo(
        f"{sent.events:,} events to {stream} in {way}, {size(sent.bytes)}: {sent.seconds:.1f} s, {rate:,.0f} events/s"
    )
    if sent.duplicates:
        typer.echo(f"{sent.duplicates:,} batches were there already and are not staged twice")
    if sent.ignored:
        typer.echo(f"{sent.ignored:,} change no row (heartbeats, transaction marks, …) and are ignored")
    if sent.rejected:
        typer.echo(f"{sent.rejected:,} events were rejected and are dead letters:")
        for error in sent.errors[:_SHOWN_ERRORS]:
            said = error.get("message") or error.get("reason")
            typer.echo(f"  batch {error['batch_id']}, event {error.get('index')}: {said}")
