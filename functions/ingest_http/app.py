"""POST /v1/streams/{stream} and what a sender may ask about it. REST API v1 events or a function URL's.

The routes are a short table of our own: Powertools' resolver alone would cost more of a cold start than all of Firn
(docs/adr/0002-staging-format.md). No log line holds a payload.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from aws_lambda_powertools import Logger, Metrics

from firn.audit.batch_status import batch_status
from firn.auth.gateway import NOT_CONFIGURED, Routes, call, request_of
from firn.auth.senders import Senders, Unauthorized
from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.function_context import staging
from firn.ingest.accept import accept, accepted_before, stream_config
from firn.ingest.bodies import content_of, read_body
from firn.ingest.dead_letter_metrics import print_dead
from firn.log.backlog_gate import refusal
from firn.log.receipts import Header
from firn.metrics import NAMESPACE, Metric, named

logger = Logger(service="ingest_http")
metrics = Metrics(namespace=NAMESPACE, service="ingest_http")
RETRY = {"Retry-After": "1"}
senders = Senders()


def post_stream(event: Mapping[str, Any], stream: str) -> tuple[int, Any]:
    """Stage the body's events."""
    settings, store, config, gate = staging()
    request = request_of(event)
    raw, headers = request.body, request.headers
    current, now = config(), datetime.now(UTC)
    senders.check(current, stream, request, now)
    known = stream_config(current, stream)  # an unknown stream is a 404 whatever the body is
    if "http" not in known.ways:
        raise RequestError(403, "not_accepted", f"the stream {stream} takes queue messages only: so says firn.yaml")
    auth = known.auth
    content = content_of(headers.get("content-type"))
    # Standard Webhooks: the id is the same at each try, https://github.com/standard-webhooks/standard-webhooks
    # Where requests are signed only it counts: another key beside it would make a replayed request a new one.
    signed = auth is not None and auth.by == "signature"
    header: Header = "webhook-id" if signed or "idempotency-key" not in headers else "Idempotency-Key"
    key = headers.get(header.lower())
    shut = gate.shut(stream, now)
    if shut is not None and not key:
        raise _throttled(refusal(shut, now), stream)
    body = read_body(raw, headers.get("content-encoding"), settings.limits)
    if shut is not None and key:
        # What an earlier try has staged adds nothing, and "nothing was taken" would be wrong.
        before = accepted_before(store, stream, body, key, header)
        if before is None:
            raise _throttled(refusal(shut, now), stream)
        return 202, before
    done = accept(
        store, current, stream, body, now=now, content=content, key=key, key_header=header,
        limits=settings.limits.events,
    )  # fmt: skip
    counts = {
        Metric.ACCEPTED: done.accepted, Metric.REJECTED: done.rejected, Metric.IGNORED: sum(done.ignored.values())
    }  # fmt: skip
    if not done.duplicate:
        _count(stream, counts | {Metric.BYTES: len(raw)})
        if done.rejected:
            print_dead(store, known, done.batch_id, now)
    logger.info(
        "staged", extra={"stream": stream, "batch": done.batch_id, "duplicate": done.duplicate, **named(counts)}
    )
    return 202, done


def _throttled(refused: RequestError, stream: str) -> RequestError:
    _count(stream, {Metric.THROTTLED: 1})
    return refused


def _count(stream: str, values: Mapping[Metric, int]) -> None:
    metrics.add_dimension("stream", stream)
    for metric, value in values.items():
        metrics.add_metric(metric.value, metric.unit, value)
    metrics.flush_metrics()


def get_batch(event: Mapping[str, Any], batch: str) -> tuple[int, Any]:
    """What became of a batch."""
    _, store, config, _ = staging()
    senders.check(config(), batch.partition(".")[0], request_of(event), datetime.now(UTC))
    status = batch_status(store, batch)
    if status is None:
        raise RequestError(404, "unknown_batch", f"there is no batch {batch!r}; an id stands in the answer to a POST")
    return 200, status


def get_streams(event: Mapping[str, Any], _: str) -> tuple[int, Any]:
    """The streams that the sender may post to, and the rules of their tables."""
    config, request, now = staging().config(), request_of(event), datetime.now(UTC)
    posted = [stream.name for stream in config.streams.values() if "http" in stream.ways]
    streams = [
        {
            "name": stream.name,
            "envelope": stream.envelope,
            "tables": [{"source": r.source, "to": r.to, "mode": r.mode, "key": r.key} for r in stream.tables],
        }
        for stream in map(config.streams.__getitem__, senders.open_to(config, posted, request, now))
    ]
    return 200, {"streams": streams}


def get_table_health(event: Mapping[str, Any], table: str) -> tuple[int, Any]:
    """How a table is, as a job saw it last, and what is due of its care; to whom may post to a stream that feeds it."""
    from firn.maintenance.launcher import feeding, health_of

    _, store, current, _ = staging()
    config, request, now = current(), request_of(event), datetime.now(UTC)
    feeds = sorted(feeding(config, table)) or [""]
    if not senders.open_to(config, feeds, request, now):
        senders.check(config, feeds[0], request, now)
    return 200, health_of(store, config, table, now)


def get_health(_event: Mapping[str, Any], _: str) -> tuple[int, Any]:
    """200 when a POST would find storage and a configuration."""
    return 200, {"status": "ok", "config": staging().config().sha}


ROUTES: Routes = {
    "streams": {"GET": get_streams},
    "streams/*": {"POST": post_stream},
    "batches/*": {"GET": get_batch},
    "tables/*/health": {"GET": get_table_health},
    "health": {"GET": get_health},
}


def route(event: Mapping[str, Any]) -> tuple[int, Any]:
    """Call the handler of the event's path, as (status, value to answer). Raises RequestError 404, 405."""
    status, answer = call(ROUTES, event, "events go to POST /v1/streams/{stream}")
    return status, answer


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point. Every error has its status here; none is a false 2xx."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    headers: Mapping[str, str] = {}
    try:
        status, answer = route(event)
    except RequestError as error:
        status, answer = error.status, {"error": error.code, "message": str(error)}
        if error.retry_after is not None:
            headers = {"Retry-After": str(error.retry_after)}
            answer["retry_after"] = error.retry_after
        reason = {"reason": error.reason} if isinstance(error, Unauthorized) else {}
        logger.warning("refused", extra={"status": status, "code": error.code, **reason})
    except (TransientError, UnknownOutcome) as error:
        status, answer, headers = 503, {"error": "storage_unavailable", "message": "nothing was taken; retry"}, RETRY
        logger.error("storage is away", extra={"reason": str(error)})
    except ConfigError as error:
        status, answer, headers = 503, {"error": "not_configured", "message": NOT_CONFIGURED}, RETRY
        logger.error("configuration", extra={"reason": str(error)})
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json", **headers},
        "body": msgspec.json.encode(answer).decode(),
        "isBase64Encoded": False,
    }
