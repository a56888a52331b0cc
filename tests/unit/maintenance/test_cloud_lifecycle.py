"""Rules of Azure and Google: what may expire, and what is refused."""

import json
from typing import Any

import pytest

from firn.maintenance.bucket_lifecycle import LIVE_STAGING, StagingDays
from firn.maintenance.cloud_lifecycle import rules
from firn_cli.main import main

AZURE = "abfss://lake@acme.dfs.core.windows.net"


def azure(told: Any) -> dict[str, Any]:
    defined = [one["definition"] for one in told["rules"]]
    return {one["filters"]["prefixMatch"][0]: one["actions"]["baseBlob"] for one in defined}


def test_on_azure_a_prefix_begins_with_the_container_and_nothing_live_expires() -> None:
    found = azure(rules(f"{AZURE}/a/staging"))
    assert found["lake/a/staging/receipts/"] == {"delete": {"daysAfterModificationGreaterThan": 14}}
    assert found["lake/a/staging/replays/"] == {"delete": {"daysAfterModificationGreaterThan": 400}}
    assert all("delete" in action for action in found.values())
    assert not any(prefix.endswith(f"/{live}") for prefix in found for live in LIVE_STAGING)


def test_on_google_the_bucket_is_not_part_of_a_prefix_and_an_age_is_a_day_more() -> None:
    found = rules("gs://acme-staging/a")["lifecycle"]["rule"]
    assert {one["action"]["type"] for one in found} == {"Delete"}
    days = {one["condition"]["matchesPrefix"][0]: one["condition"]["age"] for one in found}
    assert days["a/receipts/"] == StagingDays().receipts + 1
    assert not {f"a/{live}" for live in LIVE_STAGING} & set(days)


def test_the_command_prints_what_the_clouds_tools_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "lifecycle", "gs://acme-staging"]) == 0
    assert json.loads(capsys.readouterr().out) == rules("gs://acme-staging")
    assert main(["config", "lifecycle", "s3://acme-staging"]) == 1
    assert "in S3 Firn keeps them itself" in capsys.readouterr().err
    assert main(["config", "lifecycle", "gs://A"]) == 2
    assert "is not a bucket's name" in capsys.readouterr().err.replace("\n", " ")
