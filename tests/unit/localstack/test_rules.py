"""The template's lifecycle rules in the words of S3's API."""

from pathlib import Path

import pytest

from firn_deploy.rules import bucket_rules
from firn_local.environment import TEMPLATE
from firn_local.intrinsics import TemplateError, load


def template(tmp_path: Path, rule: str) -> Path:
    path = tmp_path / "template.yaml"
    path.write_text(
        f"""
Parameters: {{Days: {{Type: Number}}, Kept: {{Type: String}}}}
Conditions: {{Keep: !Equals [!Ref Kept, 'yes']}}
Resources:
  Bucket:
    Type: AWS::S3::Bucket
    Condition: Keep
    Properties: {{LifecycleConfiguration: {{Rules: [{rule}]}}}}
  Plain: {{Type: AWS::S3::Bucket}}
"""
    )
    return path


def test_every_rule_of_the_template_is_said_with_the_deployed_parameters() -> None:
    declared = load(TEMPLATE.read_text())
    defaults = {name: str(one.get("Default", "")) for name, one in declared["Parameters"].items()}
    found = bucket_rules(TEMPLATE, {**defaults, "DeadLetterDays": "7"})
    for bucket, rules in found.items():
        said = declared["Resources"][bucket]["Properties"]["LifecycleConfiguration"]["Rules"]
        assert [rule["ID"] for rule in rules] == [rule["Id"] for rule in said]
    [old] = [rule for rule in found["WarehouseBucket"] if rule["ID"] == "deleted-objects"]
    assert old["Expiration"] == {"ExpiredObjectDeleteMarker": True}
    [dead] = [rule for rule in found["StagingBucket"] if rule["ID"] == "dead-letters"]
    assert dead == {
        "ID": "dead-letters",
        "Status": "Enabled",
        "Filter": {"Prefix": "dead/"},
        "Expiration": {"Days": 7},
    }


def test_a_bucket_that_is_not_deployed_has_no_rules(tmp_path: Path) -> None:
    rule = "{Id: old, Status: Enabled, Prefix: a/, ExpirationInDays: !Ref Days}"
    assert bucket_rules(template(tmp_path, rule), {"Days": "3", "Kept": "no"}) == {}
    [found] = bucket_rules(template(tmp_path, rule), {"Days": "3", "Kept": "yes"})["Bucket"]
    assert found["Expiration"] == {"Days": 3}


def test_transitions_and_old_versions_are_said_too(tmp_path: Path) -> None:
    rule = (
        "{Id: cool, Status: Enabled, Transitions: [{StorageClass: STANDARD_IA, TransitionInDays: 30}], "
        "NoncurrentVersionExpiration: {NoncurrentDays: 5}}"
    )
    [found] = bucket_rules(template(tmp_path, rule), {"Days": "3", "Kept": "yes"})["Bucket"]
    assert found["Transitions"] == [{"Days": 30, "StorageClass": "STANDARD_IA"}]
    assert found["NoncurrentVersionExpiration"] == {"NoncurrentDays": 5}
    assert found["Filter"] == {"Prefix": ""}


def test_what_is_not_known_is_refused_by_name_instead_of_dropped(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="Bucket, lifecycle rule odd: ExpirationDate"):
        bucket_rules(
            template(tmp_path, "{Id: odd, Status: Enabled, ExpirationDate: '2030-01-01'}"), {"Days": "3", "Kept": "yes"}
        )
