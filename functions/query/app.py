"""POST /v1/query and what can be asked about tables. REST API v1 events or a function URL's.

Who may ask is decided here; what is asked is answered by a worker process, which may be killed for what it takes. No
log line holds SQL, parameters or results: only why somebody was refused, how many rows went out, and in what time.
"""

import base64
import json
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from aws_lambda_powertools import Logger

from firn.auth.gateway import NOT_CONFIGURED, Routes, call, parameters_of, request_of
from firn.auth.readers import NotAReader, Readers
from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.function_context import staging
from firn.log.query_results import Result
from firn_lake.query_process import STARTS_SECONDS, Bounds, NotStarted, QueryProcess
from firn_lake.query_protocol import Head, Question, Refused

logger = Logger(service="query")
readers = Readers()
process = QueryProcess()  # imports what it needs while this function starts
INLINE_BYTES = 4_000_000  # of Lambda's 6 MB, which base64 makes a third longer
ESCAPED_BYTES = 5_500_000  # of text, which Lambda's runtime writes as a JSON text
LEFT_SECONDS = 2.5  # of the function's time, for what is not the query: to stop it, and to finish an upload
HINT = "questions go to POST /v1/query"


def post_query(event: Mapping[str, Any], _: str) -> dict[str, Any]:
    """The rows of one SELECT."""
    return {"about": "query", "body": request_of(event).body}


def get_changes(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    """What changed in a table between two moments."""
    return {"about": "changes", "table": table, "parameters": parameters_of(event)}


def get_snapshots(_event: Mapping[str, Any], table: str) -> dict[str, Any]:
    """The snapshots that can be read."""
    return {"about": "snapshots", "table": table}


def get_schema(event: Mapping[str, Any], table: str) -> dict[str, Any]:
    """The columns of a table, now or `as_of` a moment."""
    return {"about": "schema", "table": table, "parameters": parameters_of(event)}


def get_tables(_event: Mapping[str, Any], _: str) -> dict[str, Any]:
    """The tables that can be read."""
    return {"about": "tables"}


ROUTES: Routes = {
    "query": {"POST": post_query},
    "tables": {"GET": get_tables},
    "tables/*/changes": {"GET": get_changes},
    "tables/*/snapshots": {"GET": get_snapshots},
    "tables/*/schema": {"GET": get_schema},
}


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
    readers.check(current, request_of(event), now, settings.open_reads)
    asked = call(ROUTES, event, HINT)
    left = _seconds_left(context)
    process.await_ready(max(0.1, min(STARTS_SECONDS, left)))
    left = _seconds_left(context)
    question = Question(
        staging=settings.staging,
        catalog=settings.catalog_uri or current.catalog.address,
        warehouse=settings.warehouse or current.warehouse,
        seconds=max(0.1, min(settings.query_seconds, left)),
        rows=settings.query_rows,
        memory=settings.query_memory,
        **asked,
    )
    body = _Body(lambda form: Result(store, form, now))
    done = process.ask(
        question, Bounds(settings.query_process_bytes, settings.query_cpu_seconds), body.begin, body.take
    )
    answer = body.response(done.rows)
    logger.info("answered", extra={"rows": done.rows, "seconds": round(time.monotonic() - began, 3)})
    return answer


class _Body:
    """An answer as it comes: in memory while it fits into a response, else on its way to a result's link."""

    def __init__(self, open_result: Callable[[str], Result]) -> None:
        self._open, self._content = open_result, bytearray()
        self._head = Head("json", "application/json")
        self._result: Result | None = None

    def begin(self, head: Head) -> None:
        """What it will be."""
        self._head = head

    def take(self, part: bytes) -> None:
        """Its next bytes."""
        if self._result is not None:
            self._result.write(part)
            return
        self._content += part
        if len(self._content) > INLINE_BYTES:
            self._spill()

    def response(self, rows: int) -> dict[str, Any]:
        """The response, now that it is whole."""
        if self._result is None and _is_text(self._head.content_type) and _escaped(self._content) > ESCAPED_BYTES:
            self._spill()
        if self._result is None:
            return _response(200, bytes(self._content), self._head.content_type)
        kept = self._result.keep()
        told = {
            "url": kept.url,
            "expires_at": kept.expires_at,
            "bytes": kept.bytes,
            "rows": rows,
            "format": self._head.format,
        }
        return _response(200, msgspec.json.encode(told), "application/json")

    def _spill(self) -> None:
        self._result = self._open(self._head.format)
        self._result.write(bytes(self._content))
        self._content.clear()


def _refused(error: RequestError) -> dict[str, Any]:
    # The text of an error may hold what was asked: it is answered, and not logged.
    reason: dict[str, Any] = {"reason": error.reason} if isinstance(error, NotAReader) else {}
    if isinstance(error, Refused):
        reason = {"kind": error.kind, **({"at": error.at} if error.at else {})}
    logger.warning("refused", extra={"status": error.status, "code": error.code, **reason})
    after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    told = {"error": error.code, "message": str(error)}
    return _response(error.status, msgspec.json.encode(told), "application/json", after)


def _response(status: int, content: bytes, kind: str, headers: Mapping[str, str] = {}) -> dict[str, Any]:
    # What is not text reaches callers that say `Accept: */*` or its type; for others the gateway leaves it as base64.
    text = _is_text(kind)
    return {
        "statusCode": status,
        "headers": {"Content-Type": kind, "Cache-Control": "no-store", **headers},
        "body": content.decode() if text else base64.b64encode(content).decode(),
        "isBase64Encoded": not text,
    }


def _is_text(kind: str) -> bool:
    return kind.startswith(("application/json", "text/"))


def _escaped(content: bytearray) -> int:
    return len(json.dumps(content.decode()))
