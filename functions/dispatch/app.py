"""Scheduled: seal what is staged and start the jobs that commit it.

Event: `{}` from the schedule; `{"stream": "shop"}` for one stream; `{"force": true}` (firn flush) seals at once and
tries stuck epochs again; `{"reconcile": true}` (daily) looks through the whole log.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from firn.dispatch import scheduled_rounds
from firn.function_context import staging
from firn.usage import tenant_rounds

logger = Logger(service="dispatch")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> per stream what was done; one stream's failure doesn't keep the others."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    config = current()
    names = [event["stream"]] if event.get("stream") else list(config.streams)
    done = scheduled_rounds.run(
        names,
        settings,
        store,
        config,
        logger,
        force=bool(event.get("force")),
        reconcile=bool(event.get("reconcile")),
    )
    tenant_rounds.count_sent(store, config, names, datetime.now(UTC), logger, force=bool(event.get("force")))
    return {"streams": done}
