"""`Environment=dev` and `prod` in one account and region touch nothing of each other's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn_local.environment import REPOSITORY, TEMPLATE
from firn_local.intrinsics import load
from firn_local.template import _scope

# Properties that name a resource; what has none gets a name of the stack's from CloudFormation.
NAMES = {
    "AlarmName", "BucketName", "DashboardName", "FunctionName", "LayerName", "LogGroupName", "Name", "QueueName",
    "RoleName", "RuleName", "TopicName",
}  # fmt: skip
MONITORING = REPOSITORY / "infra" / "monitoring.yaml"


def names(template: Path, environment: str) -> Iterator[tuple[str, str]]:
    """(resource and property, name) of everything that a deployment of this environment names."""
    data = load(template.read_text())
    given = {"Environment": environment}
    # What the outer template hands to the inner one; functions and queues are named by it.
    given |= {name: f"{environment}-x" for name, one in data["Parameters"].items() if "Default" not in one} | given
    scope = _scope(data, given, "http://localhost")
    for logical_id, resource in data["Resources"].items():
        for name, value in resource.get("Properties", {}).items():
            if name in NAMES:
                yield f"{logical_id}.{name}", str(scope.resolve(value))


@pytest.mark.parametrize("template", [TEMPLATE, MONITORING], ids=lambda path: path.stem)
def test_every_name_holds_the_environments(template: Path) -> None:
    found = dict(names(template, "qqq"))
    assert len(found) > 7
    assert {where: name for where, name in found.items() if "qqq" not in name} == {}


@pytest.mark.parametrize("template", [TEMPLATE, MONITORING], ids=lambda path: path.stem)
def test_two_environments_share_no_name(template: Path) -> None:
    dev, prod = ({name for _, name in names(template, one)} for one in ("dev", "prod"))
    assert len(dev) == len(prod)
    assert dev & prod == set()


def test_two_environments_share_no_metric_and_no_secret() -> None:
    def said(environment: str) -> tuple[Any, ...]:
        data = load(TEMPLATE.read_text())
        scope = _scope(data, {"Environment": environment}, "http://localhost")
        variables = data["Globals"]["Function"]["Environment"]["Variables"]
        statements = data["Resources"]["IngestHttpRole"]["Properties"]["Policies"][1]["PolicyDocument"]["Statement"]
        secrets = [one["Resource"] for one in statements if one["Sid"].startswith("KnowSenders")]
        return scope.resolve(variables["POWERTOOLS_METRICS_NAMESPACE"]), *scope.resolve(secrets)

    dev, prod = said("dev"), said("prod")
    assert len(dev) == 3
    assert set(dev) & set(prod) == set()
    assert all("dev" in one for one in dev)
