"""POST /v1/query and what can be asked about tables. REST API v1 events or a function URL's.

Who may ask is decided here; what is asked is answered by a worker process, which may be killed for what it takes. No
log line holds SQL, parameters or results: only why somebody was refused, how many rows went out, and in what time.
"""

import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aws_lambda_powertools import Logger

from firn.auth.gateway import NOT_CONFIGURED, request_of
from firn.auth.readers import NotAReader, Readers
from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.function_context import staging
from firn.log.query_results import Result
from firn.usage.query_meter import expect_seconds_left, metered
from firn_lake.query_process import STARTS_SECONDS, Bounds, NotStarted, QueryProcess
from firn_lake.query_protocol import Refused
from firn_lake.query_requests import asked, question
from firn_lake.query_responses import Body, refusal

logger = Logger(service="query")
readers = Readers()
process = QueryProcess()  # imports what it needs while this function starts
LEFT_SECONDS = 2.5  # of the function's time, for what is not the query: to stop it, and to finish an upload


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point. Every error has its status here."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    try:
        return _answered(event, context)
    except RequestError as error:
        return _refused(error)
    except (TransientError, UnknownOutcome) as error:
        logger.error("storage is away", extra={"kind": type(error).__name__})
        return _refused(RequestError(503, "storage_unavailable", "the storage did not answer; retry", 1))
    except ConfigError as error:
        logger.error("configuration", extra={"reason": str(error)})
        return _refused(RequestError(503, "not_configured", NOT_CONFIGURED, 1))
    except NotStarted as error:
        logger.error("the worker did not start", extra={"reason": str(error)})
        return _refused(RequestError(503, "not_started", "what runs queries did not start; retry", 1))
    except Exception as error:  # noqa: BLE001 - the text of an unknown error may hold what was asked: not for Lambda's log
        at = [f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)]
        kind = type(error).__name__
        logger.error("failed", extra={"kind": kind, "at": at})
        return _refused(RequestError(500, "internal", f"this can't be answered, by a fault of Firn's ({kind})"))


def _seconds_left(context: Any) -> float:
    return float(getattr(context, "get_remaining_time_in_millis", lambda: 1e9)() / 1000 - LEFT_SECONDS)


def _answered(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    began, now = time.monotonic(), datetime.now(UTC)
    settings, store, config, _ = staging()
    current = config()
    scope = readers.scope(current, request_of(event), now, settings.open_reads)
    reader = expect_seconds_left(store, current, scope, now)
    fields = asked(event)
    process.await_ready(max(0.1, min(STARTS_SECONDS, _seconds_left(context))))
    bounds = Bounds(settings.query_process_bytes, settings.query_cpu_seconds)
    body = Body(lambda form: Result(store, form, now, reader, current.sha))
    put = question(fields, scope, settings, current, _seconds_left(context))
    with metered(store, current, reader, now):
        done = process.ask(put, bounds, body.begin, body.take)
        answer = body.response(done.rows)
    whose = {"reader": reader} if reader else {}
    logger.info("answered", extra={"rows": done.rows, "seconds": round(time.monotonic() - began, 3), **whose})
    return answer


def _refused(error: RequestError) -> dict[str, Any]:
    # The text of an error may hold what was asked: it is answered, and not logged.
    reason: dict[str, Any] = {"reason": error.reason} if isinstance(error, NotAReader) else {}
    if isinstance(error, Refused):
        reason = {"kind": error.kind, **({"at": error.at} if error.at else {})}
    logger.warning("refused", extra={"status": error.status, "code": error.code, **reason})
    return refusal(error)
