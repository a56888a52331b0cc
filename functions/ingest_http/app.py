"""POST /v1/streams/{stream} and what a sender may ask about it. No log line holds a payload."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from firn.auth.gateway import NOT_CONFIGURED, Routes, call, json_response, refused, request_of, unavailable
from firn.auth.senders import Senders, Unauthorized
from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.function_context import staging
from firn.function_metrics import changes_of, count
from firn.ingest.dead_letter_metrics import print_dead
from firn.ingest.request import stage_request, streams_open_to
from firn.log.backlog_gate import BacklogFull, RateExceeded
from firn.metrics import NAMESPACE, Metric, named

logger = Logger(service="ingest_http")
metrics = Metrics(namespace=NAMESPACE, service="ingest_http")
senders = Senders()


def post_stream(event: Mapping[str, Any], stream: str, table: str | None = None) -> tuple[int, Any]:
    """Stage the body's events. `table`: the source table of the rows in it."""
    settings, store, config, gate = staging()
    request, current, now = request_of(event), config(), datetime.now(UTC)
    writer = senders.check(current, stream, request, now)
    try:
        done = stage_request(store, current, gate, stream, request, settings.limits, now, table, writer)
    except (BacklogFull, RateExceeded):
        count(metrics, stream, {Metric.THROTTLED: 1})
        raise
    counts = changes_of(done)
    if not done.duplicate:
        count(metrics, stream, counts | {Metric.BYTES: len(request.body)})
        if done.rejected:
            print_dead(store, current.streams[stream], done.batch_id, now)
    logger.info("staged", extra={"stream": stream, "batch": done.batch_id, "duplicate": done.duplicate} | named(counts))
    return 202, done


def get_batch(event: Mapping[str, Any], batch: str) -> tuple[int, Any]:
    """What became of a batch."""
    from firn.audit.batch_status import status_for  # with what plans tables, which no POST needs

    _, store, config, _ = staging()
    writer = senders.check(config(), batch.partition(".")[0], request_of(event), datetime.now(UTC))
    status = status_for(store, batch, None if writer is None else writer.name)
    if status is None:
        raise RequestError(404, "unknown_batch", f"there is no batch {batch!r}; the answer to a POST has the id")
    return 200, status


def get_streams(event: Mapping[str, Any], _: str) -> tuple[int, Any]:
    """The streams that the sender may post to, and the rules of their tables."""
    return 200, {"streams": streams_open_to(senders, staging().config(), request_of(event), datetime.now(UTC))}


def get_table_health(event: Mapping[str, Any], table: str) -> tuple[int, Any]:
    """How a table is, as a job saw it last, and what is due of its care; to whom may post to a stream that feeds it."""
    from firn.maintenance.launcher import feeding, health_of

    _, store, current, _ = staging()
    config, request, now = current(), request_of(event), datetime.now(UTC)
    senders.check_any(config, feeding(config, table), request, now)
    return 200, health_of(store, config, table, now)


def get_health(_event: Mapping[str, Any], _: str) -> tuple[int, Any]:
    """200 when a POST would find storage and a configuration."""
    return 200, {"status": "ok", "config": staging().config().sha}


ROUTES: Routes = {
    "streams": {"GET": get_streams},
    "streams/*": {"POST": post_stream},
    "streams/*/tables/*": {"POST": post_stream},
    "batches/*": {"GET": get_batch},
    "tables/*/health": {"GET": get_table_health},
    "health": {"GET": get_health},
}


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point. Every error has its status here; none is a false 2xx."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    try:
        status, answer = call(ROUTES, event, "events go to POST /v1/streams/{stream}")
    except RequestError as error:
        reason = {"reason": error.reason} if isinstance(error, Unauthorized) else {}
        logger.warning("refused", extra={"status": error.status, "code": error.code, **reason})
        return refused(error)
    except (TransientError, UnknownOutcome) as error:
        logger.error("storage is away", extra={"reason": str(error)})
        return unavailable("storage_unavailable", "nothing was taken; retry")
    except ConfigError as error:
        logger.error("configuration", extra={"reason": str(error)})
        return unavailable("not_configured", NOT_CONFIGURED)
    return json_response(status, answer)
