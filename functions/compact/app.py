"""Scheduled: start the job that makes few files of many, for the tables that need it. `health/` says which do.

Event: `{}`. Most rounds find nothing: then a few small objects were read and no job is started.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from firn.dispatch import scheduled_rounds
from firn.function_context import staging

logger = Logger(service="compact")


def handler(_event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> what is due, and the run that does it."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    return scheduled_rounds.care(settings, store, current(), ("compact",), datetime.now(UTC), logger)
