"""POST /v1/query and what can be asked about tables. REST API v1 events or a function URL's.

No log line holds SQL, parameters or results: only why somebody was refused, how many rows went out, and in what time.
"""

import base64
import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
from aws_lambda_powertools import Logger

from firn.errors import ConfigError, FirnError, RequestError, TransientError, UnknownOutcome
from firn.security.gateway import NOT_CONFIGURED, Routes, call, parameters_of, request_of
from firn.security.readers import NotAReader, Readers
from firn.staging import results
from firn.staging.wiring import staging
from firn_lake.sql.engine import unpack

unpack()  # first of all: what follows needs DuckDB and PyArrow
from firn_lake import asking  # noqa: E402
from firn_lake.catalogs.catalog import open_catalog  # noqa: E402
from firn_lake.lake import Lake  # noqa: E402
from firn_lake.reading.recording import recorder  # noqa: E402
from firn_lake.sql.query import Limits  # noqa: E402
from firn_lake.tables import split_name  # noqa: E402

logger = Logger(service="query")
readers = Readers()
INLINE_BYTES = 4_000_000  # of Lambda's 6 MB, which base64 makes a third longer
ESCAPED_BYTES = 5_500_000  # of text, which Lambda's runtime writes as a JSON text
HINT = "questions go to POST /v1/query"


@cache
def _lake() -> Lake:
    """Opened once; each question sees what is committed by then."""
    settings, store, config, _ = staging()
    current = config()
    catalog_uri = settings.catalog_uri or current.catalog.address
    return Lake(open_catalog(catalog_uri, settings.warehouse or current.warehouse), lambda: store)


def post_query(event: Mapping[str, Any], _: str) -> asking.Answer:
    """The rows of one SELECT."""
    settings = staging().settings
    limits = Limits(settings.query_seconds, settings.query_rows, settings.query_memory)
    answer = asking.answer_query(_lake(), asking.read_query(request_of(event).body), limits)
    _record(answer.tables)
    return answer


def _record(tables: Iterable[str]) -> None:
    """Leave a record of what was read, for tables that are tiered by it; elsewhere than on S3 nothing is tiered."""
    settings, store, config, _ = staging()
    if settings.staging.startswith("s3://"):
        on_read = recorder(store, config)
        for name in tables:
            on_read(split_name(name))


def get_changes(event: Mapping[str, Any], table: str) -> asking.Answer:
    """What changed in a table between two moments."""
    return asking.answer_changes(_lake(), table, parameters_of(event), staging().settings.query_rows)


def get_snapshots(_event: Mapping[str, Any], table: str) -> asking.Answer:
    """The snapshots that can be read."""
    return asking.answer_snapshots(_lake(), table)


def get_schema(event: Mapping[str, Any], table: str) -> asking.Answer:
    """The columns of a table, now or `as_of` a moment."""
    return asking.answer_schema(_lake(), table, parameters_of(event).get("as_of"))


def get_tables(_event: Mapping[str, Any], _: str) -> asking.Answer:
    """The tables that can be read."""
    return asking.answer_tables(_lake())


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
    began = time.monotonic()
    try:
        now, (settings, _, config, _) = datetime.now(UTC), staging()
        readers.check(config(), request_of(event), now, settings.open_reads)
        found = call(ROUTES, event, HINT)
        answer = _told(found, now)
        logger.info("answered", extra={"rows": found.rows, "seconds": round(time.monotonic() - began, 3)})
        return answer
    except RequestError as error:
        return _refused(error)
    except (TransientError, UnknownOutcome) as error:
        logger.error("storage is away", extra={"kind": type(error).__name__})
        return _refused(RequestError(503, "storage_unavailable", "the storage did not answer; retry", 1))
    except ConfigError as error:
        logger.error("configuration", extra={"reason": str(error)})
        return _refused(RequestError(503, "not_configured", NOT_CONFIGURED, 1))
    except FirnError as error:
        known = asking.as_request_error(error)
        if known is None:
            raise
        return _refused(known)


def _told(found: asking.Answer, now: datetime) -> dict[str, Any]:
    if len(found.content) <= INLINE_BYTES and (
        not _is_text(found.content_type) or _escaped(found.content) <= ESCAPED_BYTES
    ):
        return _response(200, found.content, found.content_type)
    kept = results.keep(staging().store, found.content, found.format, now)
    told = {
        "url": kept.url,
        "expires_at": kept.expires_at,
        "bytes": kept.bytes,
        "rows": found.rows,
        "format": found.format,
    }
    return _response(200, msgspec.json.encode(told), "application/json")


def _refused(error: RequestError) -> dict[str, Any]:
    # The text of an error may hold what was asked: it is answered, and not logged.
    reason = {"reason": error.reason} if isinstance(error, NotAReader) else {}
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


def _escaped(content: bytes) -> int:
    return len(json.dumps(content.decode()))
