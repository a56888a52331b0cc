"""A round of the alerts, and a test, as the function does them: with log lines and a metric."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from firn.alerts import alert_round
from firn.alerts.alert_delivery import Sender
from firn.alerts.alert_round import Log
from firn.auth.secrets import Secrets
from firn.config.model import Config
from firn.errors import ConfigError
from firn.log.store import Store
from firn.metrics import Metric, emf
from firn.settings import Settings


def run(store: Store, config: Config, settings: Settings, secrets: Secrets, log: Log) -> dict[str, Any]:
    """One round -> what it did; nothing without alerts. Raises StorageUnavailable."""
    if config.alerts is None:
        return {}
    now = datetime.now(UTC)
    done = alert_round.run(store, config, _sender(settings, secrets), now, log)
    line = emf({"service": "alerts"}, {Metric.ALERTS_UNTOLD: done.untold}, now, watched=True)
    print(msgspec.json.encode(line).decode(), flush=True)
    if done.begun or done.ended:
        log.info("alerts", extra={"begun": done.begun, "ended": done.ended})
    found: dict[str, Any] = msgspec.to_builtins(done)
    return found


def send_test(
    config: Config, settings: Settings, secrets: Secrets, event: Mapping[str, Any], log: Log
) -> dict[str, Any]:
    """Send a test -> `tests`: what came of each; `error`: why there is none."""
    name, nonce = event.get("test"), event.get("nonce")
    if not isinstance(name, str) or not isinstance(nonce, str):
        return {"error": "test is the name of a target or of an alert, and nonce a text"}
    try:
        found = alert_round.send_test(config, _sender(settings, secrets), name, nonce)
    except ConfigError as error:
        return {"error": str(error)}
    log.info("alerts tested", extra={"targets": {one["target"]: one["outcome"] for one in found}})
    return {"tests": found}


def _sender(settings: Settings, secrets: Secrets) -> Sender:
    return Sender(secrets, settings.alerts_local, settings.environment)
