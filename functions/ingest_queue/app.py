"""SQS messages to staged batches: one object per Lambda batch and stream. Needs ReportBatchItemFailures.

The stream is named by the message attribute `stream`, else by FIRN_QUEUE_STREAM. A message that can't be read is
dead-lettered and counts as handled; one of an unknown stream fails alone; while storage is away all fail and SQS brings
them again. A message that comes twice is staged twice, and folded away by its position.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.staging.ingest import accept_messages
from firn.staging.wiring import staging

logger = Logger(service="ingest_queue")
metrics = Metrics(namespace="Firn", service="ingest_queue")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> the ids of the messages that SQS shall bring again."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    queue_stream = staging().settings.queue_stream
    streams: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in event["Records"]:
        attribute = (record.get("messageAttributes") or {}).get("stream") or {}
        streams[attribute.get("stringValue") or queue_stream].append(record)
    failed: list[str] = []
    for stream, records in streams.items():
        try:
            _stage(stream, records)
        except (RequestError, TransientError, UnknownOutcome, ConfigError) as error:
            logger.error("not staged", extra={"stream": stream, "messages": len(records), "reason": str(error)})
            failed += [record["messageId"] for record in records]
    return {"batchItemFailures": [{"itemIdentifier": message} for message in failed]}


def _stage(stream: str, records: list[Mapping[str, Any]]) -> None:
    messages = [record["body"].encode("utf-8", "surrogatepass") for record in records]
    _, store, config = staging()
    done = accept_messages(store, config(), stream, messages, now=datetime.now(UTC))
    counts = {"accepted": done.accepted, "rejected": done.rejected, "ignored": sum(done.ignored.values())}
    metrics.add_dimension("stream", stream)
    for name, value in counts.items():
        metrics.add_metric(name, MetricUnit.Count, value)
    metrics.add_metric("bytes", MetricUnit.Bytes, sum(map(len, messages)))
    metrics.flush_metrics()
    logger.info("staged", extra={"stream": stream, "batch": done.batch_id, "messages": len(messages), **counts})
