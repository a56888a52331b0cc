"""The stack's S3 keeps lifecycle rules as they were put, and does what they say."""

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from firn.maintenance.tiering import TAG
from firn_lake.tiering.lifecycle import current_rules
from firn_local.stack import Options, Stack
from tests.integration.stack.cold_ground import CONFIG, Ground, any_client
from tests.integration.stack.granted import forget_aws

pytestmark = pytest.mark.stack


def test_staged_things_expire_and_the_log_stays(ground: Ground) -> None:
    for key in (
        "receipts/shop/a",
        "dead/shop/b",
        "staged/shop/c",
        "epochs/shop/d",
        "cuts/shop/e",
        "config/f",
        "reads/g",
    ):
        ground.s3.put_object(Bucket=ground.staged, Key=key, Body=b"x")
    ground.rules()
    gone = {
        days: {
            one.key
            for one in ground.endpoint.run_lifecycle(ground.today + timedelta(days=days))
            if one.bucket == ground.staged
        }
        for days in (13, 16, 60, 5_000)
    }
    assert gone == {13: set(), 16: {"receipts/shop/a"}, 60: {"reads/g"}, 5_000: {"dead/shop/b"}}
    left = ground.s3.list_objects_v2(Bucket=ground.staged)["Contents"]
    assert {one["Key"] for one in left} == {"staged/shop/c", "epochs/shop/d", "cuts/shop/e", "config/f"}


def test_the_stack_runs_lifecycle_rules_on_request(tmp_path: Path) -> None:
    forget_aws()
    (tmp_path / "firn.yaml").write_text(CONFIG)
    options = Options(tmp_path / "stack", s3=True, port=0, config=tmp_path / "firn.yaml", schedules=False)
    with Stack(options, say=lambda _line: None) as stack:
        s3 = any_client(
            "s3", endpoint_url=stack.description["aws_endpoint"], region_name="us-east-1",
            aws_access_key_id="test", aws_secret_access_key="test",
        )  # fmt: skip
        bucket = stack.description["warehouse"].split("/")[2]
        s3.put_object(Bucket=bucket, Key="warehouse/a", Body=b"x" * 200_000, Tagging=f"{TAG}=GLACIER_IR")
        url, token = stack.description["url"] + "/_firn/", {"X-Firn-Token": stack.description["token"]}

        def post(path: str, body: bytes | None = None) -> Any:
            request = urllib.request.Request(url + path, data=body, headers=token, method="POST")
            return json.loads(urllib.request.urlopen(request).read())

        invoked = post("invoke/tier", b"{}")
        both = [f"firn-cold-GLACIER_IR {folder}/" for folder in ("warehouse", "warehouses")]
        assert {"bucket": bucket, "rules": both} in invoked["rules"]
        later = (datetime.now(UTC) + timedelta(days=60)).isoformat()
        done = post(f"lifecycle?now={later}")
        mine = [one for one in done["objects"] if one["bucket"] == bucket]
        assert [(one["key"], one["became"]) for one in mine] == [("warehouse/a", "GLACIER_IR")]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post("lifecycle?now=soon")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([{"Days": 29, "StorageClass": "STANDARD_IA"}], "greater than or equal to 30"),
        ([{"Days": 30, "StorageClass": "STANDARD_IA"}], None),
        ([{"Days": 0, "StorageClass": "GLACIER_IR"}], None),
    ],
)
def test_the_endpoint_refuses_what_s3_refuses(ground: Ground, rules: list[dict[str, Any]], says: str | None) -> None:
    made = {"ID": "a", "Status": "Enabled", "Filter": {"Prefix": ""}, "Transitions": rules}

    def put(*all_rules: dict[str, Any]) -> None:
        ground.s3.put_bucket_lifecycle_configuration(
            Bucket=ground.lake, LifecycleConfiguration={"Rules": list(all_rules)}
        )

    if says is None:
        put(made)
        assert current_rules(ground.s3, ground.lake) == [made]
        with pytest.raises(ground.s3.exceptions.ClientError, match="must be unique"):
            put(made, made)
    else:
        with pytest.raises(ground.s3.exceptions.ClientError, match=says):
            put(made)
        assert current_rules(ground.s3, ground.lake) == []


def test_old_versions_go_by_the_time_since_they_are_old(ground: Ground) -> None:
    ground.s3.put_bucket_versioning(Bucket=ground.lake, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"old", b"new"):
        ground.s3.put_object(Bucket=ground.lake, Key="warehouse/a", Body=body)
    rule = {
        "ID": "a",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
    }
    ground.s3.put_bucket_lifecycle_configuration(Bucket=ground.lake, LifecycleConfiguration={"Rules": [rule]})

    def versions(days: int) -> int:
        ground.endpoint.run_lifecycle(ground.today + timedelta(days=days))
        return len(ground.s3.list_object_versions(Bucket=ground.lake, Prefix="warehouse/a")["Versions"])

    assert (versions(6), versions(9)) == (2, 1)
    assert ground.s3.get_object(Bucket=ground.lake, Key="warehouse/a")["Body"].read() == b"new"
