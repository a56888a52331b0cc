"""Rules of Azure and Google: what may expire, what may become cold, and what is refused."""

import json
from typing import Any

import pytest

from firn.errors import ConfigError
from firn.maintenance.bucket_lifecycle import LIVE_STAGING, StagingDays
from firn.maintenance.cloud_lifecycle import Cold, rules
from firn_cli.main import main

AZURE = "abfss://lake@acme.dfs.core.windows.net"


def azure(told: Any) -> dict[str, Any]:
    defined = [one["definition"] for one in told["rules"]]
    return {one["filters"]["prefixMatch"][0]: one["actions"]["baseBlob"] for one in defined}


def test_on_azure_a_prefix_begins_with_the_container_and_nothing_live_expires() -> None:
    found = azure(rules(f"{AZURE}/a/staging", f"{AZURE}/warehouse", Cold(90, "Cool")))
    assert found["lake/a/staging/receipts/"] == {"delete": {"daysAfterModificationGreaterThan": 14}}
    assert found["lake/a/staging/replays/"] == {"delete": {"daysAfterModificationGreaterThan": 400}}
    assert found.pop("lake/warehouse/") == {"tierToCool": {"daysAfterModificationGreaterThan": 90}}
    assert all("delete" in action for action in found.values())
    assert not any(prefix.endswith(f"/{live}") for prefix in found for live in LIVE_STAGING)


def test_on_google_the_bucket_is_not_part_of_a_prefix_and_an_age_is_a_day_more() -> None:
    found = rules("gs://acme-staging/a", "gs://acme-lake", Cold(90, "COLDLINE"))["lifecycle"]["rule"]
    gone = [one["condition"] for one in found if one["action"]["type"] == "Delete"]
    days = {one["matchesPrefix"][0]: one["age"] for one in gone}
    assert days["a/receipts/"] == StagingDays().receipts + 1
    assert not {f"a/{live}" for live in LIVE_STAGING} & set(days)
    assert found[-1] == {
        "action": {"type": "SetStorageClass", "storageClass": "COLDLINE"},
        "condition": {"age": 90, "matchesStorageClass": ["STANDARD"]},
    }


@pytest.mark.parametrize(
    ("places", "cold", "told"),
    [
        ((f"{AZURE}/s", f"{AZURE}/w"), Cold(90, "Archive"), "until it is rehydrated; write Cool or Cold"),
        ((f"{AZURE}/s", f"{AZURE}/w"), Cold(90, "COLDLINE"), "is no access tier for tables; write Cool or Cold"),
        (("gs://acme-s", "gs://acme-w"), Cold(90, "Cool"), "is no colder class; write NEARLINE, COLDLINE, ARCHIVE"),
        (("s3://acme-s", ""), None, "in S3 Firn keeps them itself"),
        (("gs://acme-s", f"{AZURE}/w"), None, "rules are for one of"),
        (("gs://acme-s", ""), Cold(90, "NEARLINE"), "say where it is"),
    ],
)
def test_what_is_refused(places: tuple[str, str], cold: Cold | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        rules(*places, cold)


def test_the_command_prints_what_the_clouds_tools_take(capsys: pytest.CaptureFixture[str]) -> None:
    cold = ("--cold-after", "90d", "--class")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["config", "lifecycle", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    code, out, _ = run("gs://acme-staging", "--warehouse", "gs://acme-lake/w", *cold, "NEARLINE")
    assert code == 0
    assert json.loads(out) == rules("gs://acme-staging", "gs://acme-lake/w", Cold(90, "NEARLINE"))
    code, _, told = run(f"{AZURE}/s", "--warehouse", f"{AZURE}/w", *cold, "Archive")
    assert code == 1
    assert "Archive is an archive" in told
    code, _, told = run(f"{AZURE}/s", "--class", "Cool")
    assert code == 2
    assert "belong together" in told
