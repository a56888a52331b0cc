"""docs/deploy-aws.md says of each resource and each right of the template what it was checked against."""

import re
from collections.abc import Iterator
from typing import Any

from firn_cli.self_check import SelfCheck
from firn_local.environment import TEMPLATE
from firn_local.intrinsics import load
from infra.package.locks import ROOT

SECTION = (
    (ROOT / "docs" / "deploy-aws.md").read_text().split("## What was checked, and against what")[1].split("\n## ")[0]
)
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| `")
]
RESOURCES = load(TEMPLATE.read_text())["Resources"]


def first_cells() -> set[str]:
    return {name for row in ROWS for name in re.findall("`([^`]+)`", row[0])}


def granted(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if value.get("Effect") == "Allow":
            actions = value["Action"]
            yield from [actions] if isinstance(actions, str) else actions
        for one in value.values():
            yield from granted(one)
    elif isinstance(value, list):
        for one in value:
            yield from granted(one)


def test_each_kind_of_resource_has_a_row() -> None:
    assert {name for name in first_cells() if name.startswith("AWS::")} == {one["Type"] for one in RESOURCES.values()}


def test_each_right_of_a_role_has_a_row() -> None:
    rights = {
        right
        for resource in RESOURCES.values()
        if resource["Type"] == "AWS::IAM::Role"
        for right in granted(resource["Properties"].get("Policies"))
    }
    listed = {name for name in first_cells() if not name.startswith("AWS::")}
    yours = {name for row in ROWS if row[1].startswith("you,") for name in re.findall("`([^`]+)`", row[0])}
    assert rights
    assert listed - yours == rights - yours


def test_each_row_says_which_part_of_the_doctor_goes_through_it_or_how_to_look() -> None:
    parts = {"publish", "post", "commit", "queue", "change", "care", "query", "remove", "all"}
    named = {name.removeprefix("_").removesuffix("_first") for name in vars(SelfCheck)}
    assert parts - {"all"} <= named
    for row in ROWS:
        said = re.split(r"[,;:] ?", row[-1])
        assert row[-1].startswith("-") or said[0] in parts, row
