"""Scheduled: start the job that makes few files of many, for the tables that need it. `health/` says which do.

Event: `{}`; `{"kind": "compact", "table": "shop.orders"}` for one table, now.
Most rounds find nothing: then a few small objects were read and no job is started.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from firn.dispatch import scheduled_rounds
from firn.function_context import staging

logger = Logger(service="compact")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> what is due, and the run that does it."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    config, now = current(), datetime.now(UTC)
    if event.get("table"):
        return scheduled_rounds.care_now(settings, store, config, "compact", str(event["table"]), now, logger)
    return scheduled_rounds.care(settings, store, config, ("compact",), now, logger)
