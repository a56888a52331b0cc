"""Handing batches of events over to a stream, by HTTP or by its queue."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firn.deployment.event_files import Batch, messages
from firn.deployment.stack import NoStack, Stack
from firn.errors import RequestError, TransientError

if TYPE_CHECKING:
    from firn.client import StreamClient


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


def post(
    stack: Stack,
    stream: str,
    batches: Iterator[tuple[Batch, int]],
    sent: Sent,
    report: Callable[[int], None] = lambda _: None,
    client: "StreamClient | None" = None,
    table: str | None = None,
) -> None:
    """Post batches over HTTP, one after the other: a stream without positions goes by arrival.

    `report` gets how many bytes of the files are read. `table`: the source table of plain rows. Raises RequestError,
    StreamUnreachable.
    """
    from firn.client import StreamClient

    with client or StreamClient(stack.url) as connection:
        for batch, done in batches:
            try:
                receipt = connection.post(stream, batch.body, key=batch.key(stream, table), table=table)
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
    batches: Iterator[tuple[Batch, int]],
    sent: Sent,
    report: Callable[[int], None] = lambda _: None,
    table: str | None = None,
) -> None:
    """Send each event as one SQS message, with the message attributes `stream` and, of plain rows, `table`. Raises
    NoStack, TransientError."""
    address = queue_url(stack, stream)
    client = stack.sqs()
    named = {"stream": stream} if table is None else {"stream": stream, "table": table}
    attributes = {name: {"DataType": "String", "StringValue": text} for name, text in named.items()}
    for batch, done in batches:
        for group in messages(line.rstrip(b"\n") for line in batch.body.splitlines(keepends=True)):
            entries = [
                {"Id": str(number), "MessageBody": event.decode(), "MessageAttributes": attributes}
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
