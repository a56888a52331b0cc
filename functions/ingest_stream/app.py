"""Batches of Kinesis, DynamoDB Streams and Kafka to staged batches. Mappings of the first two need
ReportBatchItemFailures.

Which stream a batch feeds says firn.yaml (`kinesis`, `dynamodb`, `kafka` of a stream). A record that can't be read is
dead-lettered and counts as handled. While storage or a schema registry is away, the stream's backlog is over its limit,
or nothing says which stream the records are for, the batch comes again: from the first record that is not staged, or,
of Kafka, whole. What comes twice folds away by its place (firn/triggers/staging.py).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from firn.auth.secrets import Secrets
from firn.config.event_sources import Registry
from firn.errors import FirnError
from firn.function_context import staging
from firn.function_metrics import changes_of, count
from firn.ingest.dead_letter_metrics import print_dead
from firn.log.backlog_gate import refusal
from firn.metrics import NAMESPACE, Metric, named
from firn.triggers.deliveries import Delivery, read_delivery
from firn.triggers.schema_registry import Schemas
from firn.triggers.staging import Outcome, take

logger = Logger(service="ingest_stream")
metrics = Metrics(namespace=NAMESPACE, service="ingest_stream")


class NotStaged(Exception):
    """A batch of Kafka has to come again; or one that has no configuration."""


@cache
def schemas(registry: Registry) -> Schemas:
    """What is known of a registry, for the life of the process."""
    return Schemas(registry, Secrets())


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> the first record that shall come again, if one shall."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    delivery = read_delivery(event)
    try:
        outcome = _take(delivery)
    except FirnError as error:  # no configuration
        outcome = Outcome(failed=0, why=error)
    if outcome.failed is None:
        return {"batchItemFailures": []}
    first = delivery.entries[outcome.failed]
    extra = {"source": delivery.arn, "first": first.id or first.place, "records": len(delivery.entries)}
    logger.error("not staged", extra={**extra, "reason": str(outcome.why)})
    if delivery.kind == "kafka":  # only mappings in provisioned mode read an answer
        raise NotStaged(str(outcome.why))
    return {"batchItemFailures": [{"itemIdentifier": first.id}]}


def _take(delivery: Delivery) -> Outcome:
    settings, store, config, gate = staging()
    current, now = config(), datetime.now(UTC)

    def shut(stream: str) -> FirnError | None:
        why = gate.shut(stream, now)
        return None if why is None else refusal(why, now)

    outcome = take(store, current, delivery, now=now, limits=settings.limits, registries=schemas, refusal=shut)
    for stream, accepted, size, refused in outcome.staged:
        if refused is not None:
            count(metrics, stream, {Metric.THROTTLED: len(delivery.entries)})
            continue
        counts: dict[Metric, int] = {}
        for done in accepted:
            counts = {metric: counts.get(metric, 0) + value for metric, value in changes_of(done).items()}
            if done.rejected:
                print_dead(store, current.streams[stream], done.batch_id, now)
        count(metrics, stream, {Metric.BYTES: size, **counts})
        batches = [done.batch_id for done in accepted]
        logger.info("staged", extra={"stream": stream, "batches": batches, **named(counts)})
    return outcome
