"""Scheduled: look at what the rules of `alerts:` in firn.yaml watch, and tell whoever is to be told.

Event: `{}` from the schedule; `{"test": NAME, "nonce": "…"}` (firn alerts test) sends a test, and does nothing else.
A deployment without `alerts:` reads its configuration, and that is all.
"""

from collections.abc import Mapping
from typing import Any, Final

from aws_lambda_powertools import Logger

from firn.alerts import scheduled_alerts
from firn.auth.secrets import Secrets
from firn.function_context import staging

logger = Logger(service="alerts")
secrets: Final = Secrets()


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> what was done. Raises FirnError if the alerts could not be looked at."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    if "test" in event:
        return scheduled_alerts.send_test(current(), settings, secrets, event, logger)
    return scheduled_alerts.run(store, current(), settings, secrets, logger)
