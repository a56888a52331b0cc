"""Which lifecycle rules Firn wants beside those of others, and which of those would lose what must stay."""

from pathlib import Path
from typing import Any

import pytest

from firn.errors import ConfigError
from firn.maintenance.bucket_lifecycle import (
    LIVE_STAGING,
    MOST_RULES,
    StagingDays,
    TooManyRules,
    cold_rules,
    dangers,
    merged,
    same,
    staging_rules,
)

TEMPLATE = Path(__file__).resolve().parents[3] / "template.yaml"


def others(name: str = "theirs", **more: Any) -> dict[str, Any]:
    return {"ID": name, "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 7}} | more


def test_one_rule_a_class_however_many_tables_name_it() -> None:
    rules = cold_rules(["STANDARD_IA", "GLACIER_IR", "STANDARD_IA"], "warehouse/")
    assert [rule["ID"] for rule in rules] == ["firn-cold-GLACIER_IR warehouse/", "firn-cold-STANDARD_IA warehouse/"]
    assert rules[1]["Filter"] == {
        "And": {
            "Prefix": "warehouse/",
            "Tags": [{"Key": "firn-tier", "Value": "STANDARD_IA"}],
            "ObjectSizeGreaterThan": 131_072,
        }
    }
    assert rules[1]["Transitions"] == [{"Days": 30, "StorageClass": "STANDARD_IA"}], "S3 refuses fewer days"
    assert rules[0]["Transitions"] == [{"Days": 0, "StorageClass": "GLACIER_IR"}]


def test_a_warehouse_that_is_the_whole_bucket_has_rules_without_a_prefix() -> None:
    (rule,) = cold_rules(["INTELLIGENT_TIERING"])
    assert rule["ID"] == "firn-cold-INTELLIGENT_TIERING"
    assert "Prefix" not in rule["Filter"]["And"]


@pytest.mark.parametrize("kind", ["GLACIER", "DEEP_ARCHIVE", "ONEZONE_IA"])
def test_a_class_that_reads_would_fail_in_is_refused_here_too(kind: Any) -> None:
    with pytest.raises(ConfigError, match=kind):
        cold_rules([kind])


def test_only_what_may_go_expires_in_the_staging_area() -> None:
    rules = staging_rules(prefix="firn/")
    prefixes = [rule["Filter"]["Prefix"] for rule in rules]
    assert all(prefix.startswith("firn/") for prefix in prefixes)
    assert not {prefix.removeprefix("firn/") for prefix in prefixes} & set(LIVE_STAGING)
    assert dangers(rules, ["firn/" + one for one in LIVE_STAGING]) == []


@pytest.mark.parametrize("days", [{"receipts": 13}, {"dead": 400}, {"dead": 30, "replays": 30}])
def test_days_that_would_lose_something_are_refused(days: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        StagingDays(**days)


def test_the_template_keeps_staged_things_for_the_same_days() -> None:
    from firn_deploy.rules import bucket_rules
    from firn_local.intrinsics import load

    parameters = load(TEMPLATE.read_text())["Parameters"]
    given = bucket_rules(TEMPLATE, {name: str(one.get("Default", "")) for name, one in parameters.items()})
    said = {rule["Filter"]["Prefix"]: rule["Expiration"] for rule in given["StagingBucket"] if "Expiration" in rule}
    for rule in staging_rules():
        assert said[rule["Filter"]["Prefix"]] == rule["Expiration"]
    # So that of ours none is put beside them.
    assert same(merged(given["StagingBucket"], staging_rules(), [""]), given["StagingBucket"])


def test_rules_of_others_stay_as_they_are_and_where_they_are() -> None:
    theirs = [
        others("b", Filter={"And": {"Prefix": "logs/", "Tags": [{"Key": "x", "Value": "1"}]}}),
        {"ID": "a", "Status": "Disabled", "Prefix": "", "Expiration": {"Days": 1}},
    ]
    ours = cold_rules(["STANDARD_IA"])
    first = merged(theirs, ours, [""])
    assert first[:2] == theirs
    assert merged(first, ours, [""]) == first
    assert merged(first, cold_rules(["GLACIER_IR"]), [""]) == [*theirs, *cold_rules(["GLACIER_IR"])]
    assert merged(first, [], [""]) == theirs, "a class that is no longer used has no rule"


def test_another_firn_in_the_bucket_keeps_its_rules() -> None:
    mine, its = cold_rules(["STANDARD_IA"], "mine/"), cold_rules(["GLACIER_IR"], "its/")
    assert merged([*its, *mine], [], ["mine/"]) == its


@pytest.mark.parametrize(
    ("rule", "put"),
    [
        (others(Filter={"Prefix": "dead/"}), False),
        (others(Prefix="dead/", Filter=None), False),
        (others(Filter={"Prefix": "dead/"}, Status="Disabled"), True),
        (others(Filter={"And": {"Prefix": "dead/", "ObjectSizeGreaterThan": 5}}), True),
        (others(Filter={"Prefix": "dead/shop/"}), True),
        ({**others(Filter={"Prefix": "dead/"}), "Expiration": {"ExpiredObjectDeleteMarker": True}}, True),
    ],
)
def test_what_expires_by_somebodys_rule_gets_none_of_ours(rule: dict[str, Any], put: bool) -> None:
    found = merged([rule], staging_rules(), [""])
    assert ("firn-dead" in {one["ID"] for one in found}) == put
    assert "firn-receipts" in {one["ID"] for one in found}


def test_more_rules_than_s3_takes_are_refused_with_the_numbers() -> None:
    theirs = [others(str(n)) for n in range(MOST_RULES)]
    assert len(merged(theirs[1:], cold_rules(["STANDARD_IA"]), [""])) == MOST_RULES
    with pytest.raises(TooManyRules, match="1000 lifecycle rules of others, and Firn needs 1 more"):
        merged(theirs, cold_rules(["STANDARD_IA"]), [""])


def test_an_id_of_ours_on_somebodys_rule_is_said() -> None:
    theirs = others("firn-cold-STANDARD_IA warehouse/", Filter={"Prefix": "logs/"})
    with pytest.raises(ConfigError, match="give it another ID"):
        merged([theirs], cold_rules(["STANDARD_IA"], "warehouse/"), ["warehouse/"])


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (others(Filter={"Prefix": ""}), "rule theirs removes objects below warehouse/"),
        (others(Filter={"Prefix": "warehouse/shop/"}), "rule theirs removes objects below warehouse/"),
        (others(Filter={"Prefix": "ware"}, Expiration={"Date": "2030-01-01"}), "removes objects"),
        (others(Filter={"Tag": {"Key": "a", "Value": "b"}}), "removes objects"),
        (others(Filter={}, Expiration=None, Transitions=[{"Days": 1, "StorageClass": "GLACIER"}]), "GLACIER"),
        (others(Filter={}, Expiration=None, Transitions=[{"Days": 1, "StorageClass": "GLACIER_IR"}]), None),
        (others(Filter={}, Status="Disabled"), None),
        (others(Filter={}, Expiration={"ExpiredObjectDeleteMarker": True}), None),
        (others(Filter={}, Expiration=None, NoncurrentVersionExpiration={"NoncurrentDays": 7}), None),
        (others(Filter={"Prefix": "logs/"}), None),
    ],
)
def test_a_rule_that_would_lose_tables_is_named(rule: dict[str, Any], told: str | None) -> None:
    found = dangers([rule], ["warehouse/"])
    assert ([told] if told else []) == [told for one in found if told and told in one]
    assert len(found) == (told is not None)


def test_rules_that_s3_answers_in_other_words_are_the_same() -> None:
    ours = cold_rules(["STANDARD_IA"])
    both = ours[0]["Filter"]["And"]
    answered = [others(Filter={}), {**ours[0], "Filter": {"And": {**both, "Prefix": ""}}}]
    assert same(answered, [*ours, others(Filter={"Prefix": ""})])
    assert not same(answered, [*cold_rules(["STANDARD_IA"], "x/"), others(Filter={"Prefix": ""})])
