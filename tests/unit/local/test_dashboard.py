"""What the dashboard shows."""

import json
import re
from typing import Any

from firn_local.environment import REPOSITORY
from firn_local.intrinsics import load
from firn_local.template import _scope


def widgets() -> dict[str, Any]:
    """Their metrics as JSON, by title."""
    data = load((REPOSITORY / "infra" / "monitoring.yaml").read_text())
    given = {name: "x" for name, one in data["Parameters"].items() if "Default" not in one}
    body = _scope(data, given, "http://localhost").resolve(
        data["Resources"]["Dashboard"]["Properties"]["DashboardBody"]
    )
    found = [one["properties"] for one in json.loads(body)["widgets"]]
    return {one["title"]: json.dumps(one["metrics"]) for one in found}


def test_it_shows_all_that_becomes_of_what_is_sent() -> None:
    shown = re.findall(r'MetricName=\\"(\w+)', widgets()["Events taken, refused, throttled"])
    assert shown == ["accepted", "rejected", "throttled", "refused_messages"]
