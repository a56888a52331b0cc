"""Lifecycle rules of a bucket, put only when they differ, at a real S3 endpoint."""

import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from firn_lake.tiering.lifecycle import apply_rules, current_rules
from firn_local.aws import AwsEndpoint

OLD = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "dead/"}, "Expiration": {"Days": 7}}
PARTS = {
    "ID": "parts",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
}


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    endpoint = AwsEndpoint()
    endpoint.start()
    known = endpoint.credentials
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint.url,
        region_name=known["AWS_REGION"],
        aws_access_key_id=known["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
    )
    yield client
    client.close()
    endpoint.stop()


@pytest.fixture
def bucket(s3: Any, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name).strip("-")[:60]
    s3.create_bucket(Bucket=name)
    return name


def test_rules_are_put_once(s3: Any, bucket: str) -> None:
    assert apply_rules(s3, bucket, [OLD, PARTS])
    assert {rule["ID"] for rule in current_rules(s3, bucket)} == {"old", "parts"}
    assert not apply_rules(s3, bucket, [OLD, PARTS])
    assert not apply_rules(s3, bucket, [PARTS, OLD]), "their order means nothing"


@pytest.mark.parametrize("days", [6, 8])
def test_another_rule_replaces_them(s3: Any, bucket: str, days: int) -> None:
    apply_rules(s3, bucket, [OLD, PARTS])
    assert apply_rules(s3, bucket, [{**OLD, "Expiration": {"Days": days}}])
    [rule] = current_rules(s3, bucket)
    assert rule["Expiration"] == {"Days": days}


def test_no_rules_take_away_what_is_there(s3: Any, bucket: str) -> None:
    assert not apply_rules(s3, bucket, [])
    apply_rules(s3, bucket, [OLD])
    assert apply_rules(s3, bucket, [])
    assert current_rules(s3, bucket) == []


def test_a_bucket_that_is_not_there_is_an_error(s3: Any) -> None:
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucket"):
        apply_rules(s3, "nobodys", [OLD])
