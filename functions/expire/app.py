"""Scheduled: start the job that lets old snapshots go and removes files that no snapshot knows, where that is due.

And take staged objects away that every table has had for longer than the log is kept, and what backfills left that
ended as long ago.

Event: `{}`; `{"kind": "expire", "table": "shop.orders"}` for one table, now.
Most rounds find nothing: then a few small objects were read and no job is started.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from firn.backfill.ended_backfills import sweep_ended
from firn.dispatch import scheduled_rounds
from firn.errors import FirnError
from firn.function_context import staging
from firn.log.store import Store
from firn.maintenance.log_retention import sweep
from firn.maintenance.schedule import Kind

logger = Logger(service="expire")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> what is due, and the run that does it."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    config, now = current(), datetime.now(UTC)
    if event.get("table"):
        kind: Kind = "orphans" if event.get("kind") == "orphans" else "expire"
        return scheduled_rounds.care_now(settings, store, config, kind, str(event["table"]), now, logger)
    done = scheduled_rounds.care(settings, store, config, ("expire", "orphans", "statistics"), now, logger)
    return done | {"swept": [_swept(store, stream, now) for stream in config.streams]}


def _swept(store: Store, stream: str, now: datetime) -> dict[str, Any]:
    """What became of a stream's staged objects; a stream's failure doesn't keep the others."""
    try:
        found = sweep(store, stream, now)
        ended = sweep_ended(store, stream, now)
    except FirnError as error:
        logger.error("not swept", extra={"stream": stream, "reason": str(error)})
        return {"stream": stream, "error": str(error)}
    if found.batches:
        logger.info("swept", extra=found.line())
    return found.line() | ({"of_backfills": ended} if ended else {})
