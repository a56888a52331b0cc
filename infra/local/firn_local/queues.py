"""The SQS event source: receive, invoke, delete what succeeded. The rest comes back after its visibility time-out.

Rules: Lambda Developer Guide, "Handling errors for an SQS event source", and "Implementing partial batch responses".
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from firn_local.events import sqs_event
from firn_local.functions import MAX_PAYLOAD, FunctionError, FunctionRunner, PayloadTooLarge
from firn_local.template import QueueEvent

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_log = logging.getLogger("firn.local")


def batches(messages: Sequence[Any], queue_arn: str) -> Iterator[list[Any]]:
    """The messages in order, in batches whose event is no larger than an invocation takes: a quote in a body is two
    bytes there. One message that is too large is a batch of its own."""
    batch: list[Any] = []
    size = 0
    for message in messages:
        own = len(msgspec.json.encode(sqs_event([message], queue_arn)))
        if batch and size + own > MAX_PAYLOAD:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += own
    if batch:
        yield batch


def succeeded(messages: Sequence[Any], result: Any, *, report_failures: bool) -> list[Any]:
    """The messages to delete after a handler returned `result`.

    With ReportBatchItemFailures an answer that is malformed, or names an unknown message, means that all failed; an
    empty one that all succeeded.
    """
    if not report_failures or not result:
        return list(messages)
    if not isinstance(result, dict) or not isinstance(failures := result.get("batchItemFailures") or [], list):
        return []
    known = {message["MessageId"] for message in messages}
    failed = {item.get("itemIdentifier") if isinstance(item, dict) else None for item in failures}
    return [] if failed - known else [message for message in messages if message["MessageId"] not in failed]


class QueuePoller:
    """Polls one queue for one function, one batch at a time, in a thread."""

    def __init__(self, source: QueueEvent, function: FunctionRunner, client: "SQSClient", queue_url: str) -> None:
        self._source = source
        self._function = function
        self._client = client
        self._url = queue_url
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"poll-{function.spec.name}", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """Take no further batch. A poll under way ends when its endpoint does."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(0.5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for batch in batches(self._receive(), self._source.queue_arn):
                    if not self._stopping.is_set():
                        self._deliver(batch)
            except Exception:  # noqa: BLE001 - the poller must outlive whatever happens to one batch
                if not self._stopping.is_set():
                    _log.exception("%s: polling its queue failed; trying again", self._function.spec.name)
                    self._stopping.wait(1)

    def _receive(self) -> list[Any]:
        """A batch: up to batch_size messages, gathered for at most `window` seconds after the first one, or until
        they are more than one invocation takes."""
        gathered: dict[str, Any] = {}  # by id: one that comes again while we gather counts once
        deadline: float | None = None
        while len(gathered) < self._source.batch_size and not self._stopping.is_set():
            wait = 2.0 if deadline is None else max(0.0, deadline - time.monotonic())
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(10, self._source.batch_size - len(gathered)),
                WaitTimeSeconds=min(2, int(wait)),
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            gathered |= {message["MessageId"]: message for message in messages}
            if not gathered or sum(len(message["Body"]) for message in gathered.values()) > MAX_PAYLOAD:
                break
            if deadline is None:
                deadline = time.monotonic() + self._source.window
            if time.monotonic() >= deadline:
                break
            if not messages:
                self._stopping.wait(0.1)
        return list(gathered.values())

    def _deliver(self, messages: list[Any]) -> None:
        name = self._function.spec.name
        try:
            result = self._function.invoke(sqs_event(messages, self._source.queue_arn))
        except (FunctionError, PayloadTooLarge) as error:
            _log.warning("%s: %d messages go back to the queue: %s", name, len(messages), error)
            return
        done = succeeded(messages, result, report_failures=self._source.report_failures)
        if len(done) < len(messages):
            _log.warning("%s: %d of %d messages go back to the queue", name, len(messages) - len(done), len(messages))
        for start in range(0, len(done), 10):
            self._client.delete_message_batch(
                QueueUrl=self._url,
                Entries=[
                    {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                    for n, message in enumerate(done[start : start + 10])
                ],
            )


def create_queues(client: "SQSClient", queues: Sequence[Any]) -> dict[str, str]:
    """Create the template's queues, dead-letter queues first; returns logical id -> URL."""
    return {
        queue.logical_id: client.create_queue(QueueName=queue.name, Attributes=dict(queue.attributes))["QueueUrl"]
        for queue in queues
    }
