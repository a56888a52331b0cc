"""The console: its pages, and what they ask of the log. REST API v1 events or a function URL's.

Who may look, see events and act is decided in firn.auth.grants. No log line holds what somebody asked or was answered.
"""

import os
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aws_lambda_powertools import Logger

from firn.auth.gateway import NOT_CONFIGURED
from firn.auth.grants import Grants
from firn.auth.readers import NotAReader
from firn.errors import ConfigError, RequestError, TransientError, UnknownOutcome
from firn.function_context import staging
from firn.log.batches import UnreadableBatch
from firn_console import pages, responses

logger = Logger(service="console")
grants = Grants()
_documentation = Path(os.environ["FIRN_DOCS"]) if os.environ.get("FIRN_DOCS") else None


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point. Every error has its status here."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    try:
        return _answered(event)
    except RequestError as error:
        reason = {"reason": error.reason} if isinstance(error, NotAReader) else {}
        logger.warning("refused", extra={"status": error.status, "code": error.code, **reason})
        return responses.refusal(event, error)
    except UnreadableBatch as error:
        return _failed(event, error, RequestError(500, "unreadable_batch", str(error)))
    except (TransientError, UnknownOutcome) as error:
        return _failed(
            event,
            error,
            RequestError(
                503, "storage_unavailable", "the storage, or a service that was asked, did not answer; retry", 1
            ),
        )
    except ConfigError as error:
        logger.error("configuration", extra={"reason": str(error)})
        return responses.refusal(event, RequestError(503, "not_configured", NOT_CONFIGURED, 5))
    except Exception as error:  # noqa: BLE001 - the text of an unknown error may hold what was asked: not for the log
        text = f"this can't be answered, by a fault of Firn's ({type(error).__name__})"
        return _failed(event, error, RequestError(500, "internal", text))


def _answered(event: Mapping[str, Any]) -> dict[str, Any]:
    if "/v1/console/" not in pages.place_of(event)[1]:
        return pages.page(event, _documentation)
    settings, store, config, _ = staging()
    return pages.answer(event, store, settings, config(), grants, datetime.now(UTC))


def _failed(event: Mapping[str, Any], error: Exception, told: RequestError) -> dict[str, Any]:
    at = [f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)]
    logger.error("failed", extra={"kind": type(error).__name__, "at": at})
    return responses.refusal(event, told)
