"""GET /v1/console/alerts, and the test of whether alerts arrive, which the alerts' function sends."""

import uuid
from collections.abc import Mapping
from typing import Any

from firn.alerts.alert_views import AlertsView, alerts_view
from firn.errors import RequestError
from firn_console.asked import Asked
from firn_console.contract.action_pages import ActionDone
from firn_console.shell_words import command


def alerts(asked: Asked) -> AlertsView:
    """Rules, targets, and what lasts or ended lately. Raises StorageUnavailable."""
    whole = asked.grant.streams is None and asked.grant.tables is None
    return alerts_view(asked.store, asked.config, asked.now, sees=asked.grant.sees, whole=whole)


def says(asked: Asked, fields: Mapping[str, str]) -> tuple[str, str]:
    """Raises RequestError 404."""
    known, name = asked.config.alerts, fields.get("name", "")
    if known is None or not known.targets:
        raise RequestError(404, "no_alerts", "firn.yaml has no alerts.targets: docs/alerts.md says how to write them")
    if not (to := known.named(name)):
        raise RequestError(404, "no_such_alert", "firn.yaml has no target and no alert of this name")
    text = (
        f"Sends a message that says it is a test to {', '.join(target.name for target in to)}. No alert begins or ends."
    )
    return text, command("firn", "alerts", "test", *([name] if name else ()))


def event_of(fields: Mapping[str, str]) -> dict[str, str]:
    """What the function of the alerts is asked."""
    return {"test": fields.get("name", ""), "nonce": uuid.uuid4().hex}


def tested(answer: Mapping[str, Any], same: str) -> ActionDone:
    """What came of it. Raises RequestError 503: nothing was sent."""
    tests = answer.get("tests")
    if not isinstance(tests, list):
        raise RequestError(503, "not_sent", str(answer.get("error") or "no test was sent"))
    arrived = sum(one["outcome"] == "sent" for one in tests)
    lines = tuple(f"{one['target']}: {one['outcome']}" + (f": {one['why']}" if one["why"] else "") for one in tests)
    text = f"{arrived} of {len(tests)} arrived" if arrived < len(tests) else "it arrived everywhere"
    return ActionDone("test-alerts", text, same, lines=lines, details={"tests": tests})
