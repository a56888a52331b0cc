"""Scheduled: read the changes of the databases under `sources:` in firn.yaml, and stage them.

Event: the schedule's, for all sources; `{"pull": "shop"}` for one. A reader stays until nothing has come for the
source's `linger`, under a lease in the database: an invocation that finds it taken ends at once.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from firn.auth.secrets import Secrets
from firn.errors import FirnError
from firn.function_context import staging
from firn.function_metrics import print_source
from firn.sources.poller import Poller
from firn.sources.postgres.slot_reader import reader_of
from firn.sources.pull import PullTask

logger = Logger(service="pull")
secrets: Final = Secrets()
LAST_ROUND: Final = 60.0  # seconds that are kept for it


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> per source what was done; one source's failure doesn't keep the others."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    _, _, current, _ = staging()
    config = current()
    # Not `source`, which EventBridge's own events have.
    names = [event["pull"]] if event.get("pull") else list(config.sources)
    if unknown := [name for name in names if name not in config.sources]:
        return {"error": f"there is no source {unknown[0]} under sources: in firn.yaml"}
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        done = list(pool.map(lambda name: _read(name, _left(context)), names))
    return {"sources": done}


def _left(context: Any) -> Callable[[], float]:
    """Seconds that a reader may still begin a round in."""
    millis = getattr(context, "get_remaining_time_in_millis", lambda: 900_000)
    return lambda: millis() / 1000 - LAST_ROUND


def _read(name: str, left: Callable[[], float]) -> dict[str, Any]:
    settings, store, current, gate = staging()
    source = current().sources[name]
    task = PullTask(store, source, lambda: datetime.now(UTC), settings.limits.events.size)
    try:
        with reader_of(source, secrets) as connect:
            done = Poller(task, current, gate, time.sleep, left).run(connect)
    except FirnError as error:
        logger.error("pull failed", extra={"source": name, "reason": str(error)})
        return {"source": name, "error": str(error)}
    logger.info("pulled", extra=done.line())
    print_source(source.stream, done.status)
    return done.line()
