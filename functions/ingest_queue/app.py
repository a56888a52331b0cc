"""SQS messages to staged batches: one object per Lambda batch and stream. Needs ReportBatchItemFailures.

The stream is named by the message attribute `stream`, else by FIRN_QUEUE_STREAM; `table` names the source table of
plain rows. A message that can't be read is dead-lettered and counts as handled; one of an unknown stream, or of one
that takes no queue messages (`accept` in firn.yaml), fails alone, until SQS moves it to the queue's dead-letter queue;
where the stream lists who may send (`queue`), a message of anybody else, by SQS's SenderId, is dead-lettered;
while storage is away, or the stream's backlog is over its limit, all fail and SQS brings them again. A message that
comes twice is staged once, by its id (ingest/queue.py).
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from firn.config.writers import refuses_queue
from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.function_context import staging
from firn.function_metrics import changes_of, count
from firn.ingest.accept import stream_config
from firn.ingest.dead_letter_metrics import print_dead
from firn.ingest.queue import Message, take
from firn.log.backlog_gate import refusal
from firn.metrics import NAMESPACE, Metric, named

logger = Logger(service="ingest_queue")
metrics = Metrics(namespace=NAMESPACE, service="ingest_queue")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> the ids of the messages that SQS shall bring again."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    queue_stream = staging().settings.queue_stream
    streams: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in event["Records"]:
        streams[_attribute(record, "stream") or queue_stream].append(record)
    failed: list[str] = []
    for stream, records in streams.items():
        try:
            failed += _stage(stream, records)
        except (RequestError, TransientError, UnknownOutcome, ConfigError) as error:
            logger.error("not staged", extra={"stream": stream, "messages": len(records), "reason": str(error)})
            failed += [record["messageId"] for record in records]
    return {"batchItemFailures": [{"itemIdentifier": message} for message in failed]}


def _attribute(record: Mapping[str, Any], name: str) -> str | None:
    attribute = (record.get("messageAttributes") or {}).get(name) or {}
    return attribute.get("stringValue") or None


def _stage(stream: str, records: list[Mapping[str, Any]]) -> list[str]:
    """Stage the messages of one stream -> the ids of those that SQS shall bring again."""
    messages = [
        Message(
            r.get("messageId"),
            r["body"].encode("utf-8", "surrogatepass"),
            _attribute(r, "table"),
            (r.get("attributes") or {}).get("SenderId") or "",
        )
        for r in records
    ]
    settings, store, config, gate = staging()
    current, now = config(), datetime.now(UTC)
    known = stream_config(current, stream)
    if (reason := refuses_queue(current, stream, settings.queue_stream)) is not None:
        count(metrics, stream, {Metric.REFUSED_MESSAGES: len(records)})
        raise RequestError(403, "not_accepted", reason)
    if (shut := gate.shut(stream, now)) is not None:
        count(metrics, stream, {Metric.THROTTLED: len(records)})
        raise refusal(shut, now)
    taken = take(
        store, current, stream, messages, now=now, limits=settings.limits.events,
        waits=lambda writer: gate.shut_for(stream, writer, now),
    )  # fmt: skip
    counts = {Metric.DUPLICATE_MESSAGES: len(taken.duplicates), Metric.MESSAGES_AGAIN: len(taken.again)}
    size: dict[Metric, int] = {}
    done = taken.batch
    if done is not None:
        counts |= changes_of(done)
        left = {*taken.duplicates, *taken.again}
        size[Metric.BYTES] = sum(len(message.body) for place, message in enumerate(messages) if place not in left)
    count(metrics, stream, size | counts)
    if done is not None and done.rejected:
        print_dead(store, known, done.batch_id, now)
    batch = None if done is None else done.batch_id
    logger.info("staged", extra={"stream": stream, "batch": batch, "messages": len(messages), **named(counts)})
    return [records[place]["messageId"] for place in taken.again]
