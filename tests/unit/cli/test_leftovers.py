"""firn leftovers against moto: what a stack that is gone left, and never anything of one that is there."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.cloudformation.models import cloudformation_backends
from moto.s3.models import s3_backends

from firn.config.model import TargetConfig
from firn.deployment import target as targets
from firn.deployment.cloudformation import find_deployed
from firn_cli.commands.leftovers import Account, Leftover, NotRemoved
from firn_cli.main import main
from tests.soak import long_only

REGION = "eu-central-1"
STAGING, LAKE = (f"firn-dev-{kind}-123456789012-{REGION}" for kind in ("staging", "lake"))
TARGET = TargetConfig("firn-dev", REGION)
OBJECTS = 1_020  # more than one answer lists, or one request removes


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An account in which nothing of a deployment runs, and the folder of a firn.yaml."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firn.yaml").write_text(
        "targets: {dev: {region: eu-central-1}}\nstreams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}\n"
    )
    with mock_aws():
        yield
    targets.use_target(None)


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


def bucket(name: str) -> Any:
    s3 = client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return s3


def leftovers(objects: int = 3) -> Any:
    """As a stack leaves them: versions, delete markers, a log group that somebody wrote to, a table; and others'."""
    s3 = bucket(STAGING)
    of_moto = s3_backends["123456789012"]["aws"]  # without a request for each
    for n in range(objects):
        of_moto.put_object(STAGING, f"staged/shop/{n}", b"12345")
    s3.put_object(Bucket=STAGING, Key="state/shop.json", Body=b"1")
    s3.put_object(Bucket=STAGING, Key="state/shop.json", Body=b"2")
    s3.delete_object(Bucket=STAGING, Key="state/shop.json")
    bucket(LAKE)
    bucket("somebody-elses").put_object(Bucket="somebody-elses", Key="a", Body=b"1")
    for group in ("/firn/dev/jobs", "/firn/dev2/jobs"):
        client("logs").create_log_group(logGroupName=group)
    glue = client("glue")
    glue.create_database(DatabaseInput={"Name": "shop"})
    for name, place in (("orders", LAKE), ("other", "somebody-elses")):
        at = {"metadata_location": f"s3://{place}/warehouse/shop/{name}/metadata/1.json"}
        glue.create_table(DatabaseName="shop", TableInput={"Name": name, "Parameters": at})
    return s3


def buckets() -> set[str]:
    return {one["Name"] for one in client("s3").list_buckets()["Buckets"]}


def deploy(name: str, **outputs: str) -> None:
    template = {
        "Resources": {"Q": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()} or {"Url": {"Value": "u"}},
    }
    client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))


def firn(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@long_only
def test_what_a_deleted_stack_left_is_listed_and_stays_until_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leftovers()
    code, out, _ = firn(capsys, "leftovers", "--stack", "firn-dev", "--json")
    found = {(one["kind"], one["name"], one["objects"], one["bytes"]) for one in json.loads(out)["found"]}
    assert (code, found) == (
        0,
        {
            ("bucket", STAGING, 3 + 3, 3 * 5 + 2),
            ("bucket", LAKE, 0, 0),
            ("log group", "/firn/dev/jobs", None, 0),
        },
    )
    code, out, err = firn(capsys, "--target", "dev", "leftovers", "--tables")
    assert code == 0, err
    assert [line.split()[1] for line in out.splitlines() if line.split()[:1] == ["table"]] == ["shop.orders"], out
    for typed in ("", "firn-prod\n", "y\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code, _, err = firn(capsys, "leftovers", "--stack", "firn-dev", "--remove")
        assert code == 1, err
    assert buckets() == {STAGING, LAKE, "somebody-elses"}
    assert firn(capsys, "leftovers")[0] == 2
    assert firn(capsys, "leftovers", "--stack", "firn-dev", "--remove", "--json")[0] == 2


def test_what_is_left_is_removed_with_all_versions_and_nothing_of_anybody_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leftovers()
    monkeypatch.setattr("sys.stdin", io.StringIO("firn-dev\n"))
    code, out, err = firn(capsys, "leftovers", "--stack", "firn-dev", "--tables", "--remove")
    assert (code, out.splitlines()[-1].strip()) == (0, "all 4 are removed"), err
    assert "Type firn-dev" in err
    assert buckets() == {"somebody-elses"}
    assert [one["logGroupName"] for one in client("logs").describe_log_groups()["logGroups"]] == ["/firn/dev2/jobs"]
    assert [one["Name"] for one in client("glue").get_tables(DatabaseName="shop")["TableList"]] == ["other"]
    assert "nothing is left of firn-dev" in firn(capsys, "leftovers", "--stack", "firn-dev", "--remove")[1]


def test_a_removal_that_was_interrupted_goes_on_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    s3 = leftovers(OBJECTS)

    def interrupt(count: int, _name: str) -> None:
        raise KeyboardInterrupt(count)

    with pytest.raises(KeyboardInterrupt):
        Account(TARGET, "dev").remove(Leftover("bucket", STAGING), interrupt)
    left = sum(
        len(page.get("Versions", ())) + len(page.get("DeleteMarkers", ()))
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=STAGING)
    )
    assert 0 < left < OBJECTS
    assert firn(capsys, "leftovers", "--stack", "firn-dev", "--remove", "--yes")[0] == 0
    assert buckets() == {"somebody-elses"}


@pytest.mark.parametrize("tables", [(), ("--tables",)])
def test_nothing_is_touched_while_a_stack_is_there(capsys: pytest.CaptureFixture[str], tables: tuple[str, ...]) -> None:
    leftovers()
    deploy("firn-dev")
    code, out, err = firn(capsys, "leftovers", "--stack", "firn-dev", "--remove", "--yes", *tables)
    assert (code, out) == (1, "")
    assert "the stack firn-dev is there (CREATE_COMPLETE)" in err
    client("cloudformation").delete_stack(StackName="firn-dev")
    deploy("lake-of-dev", Warehouse=f"s3://{LAKE}/warehouse")
    code, _, err = firn(capsys, "leftovers", "--stack", "firn-dev", "--remove", "--yes", *tables)
    assert (code, "belongs to the stack lake-of-dev" in err) == (1, True)
    assert buckets() == {STAGING, LAKE, "somebody-elses"}


def test_a_table_that_somebody_made_again_elsewhere_meanwhile_stays() -> None:
    leftovers()
    account, glue = Account(TARGET, "dev"), client("glue")
    found = account.find(lambda *_: None, tables=True)
    glue.delete_table(DatabaseName="shop", Name="orders")
    at = {"metadata_location": "s3://somebody-elses/warehouse/shop/orders/metadata/1.json"}
    glue.create_table(DatabaseName="shop", TableInput={"Name": "orders", "Parameters": at})
    with pytest.raises(NotRemoved, match=r"shop\.orders lies elsewhere"):
        account.remove(found[-1], lambda *_: None)
    assert glue.get_table(DatabaseName="shop", Name="orders")["Table"]["Parameters"] == at


def test_a_table_whose_database_has_a_dot_in_its_name_is_removed_and_no_other() -> None:
    leftovers()
    glue = client("glue")
    for database, name, place in (("a.b", "t", LAKE), ("a", "b.t", "somebody-elses")):
        glue.create_database(DatabaseInput={"Name": database})
        at = {"metadata_location": f"s3://{place}/x/metadata/1.json"}
        glue.create_table(DatabaseName=database, TableInput={"Name": name, "Parameters": at})
    account = Account(TARGET, "dev")
    for one in account.find(lambda *_: None, tables=True):
        if one.kind == "table":
            account.remove(one, lambda *_: None)
    left = {(of, one["Name"]) for of in ("a", "a.b", "shop") for one in glue.get_tables(DatabaseName=of)["TableList"]}
    assert left == {("a", "b.t"), ("shop", "other")}


def test_a_stack_that_comes_up_during_the_question_is_left_alone() -> None:
    leftovers()
    account = Account(TARGET, "dev")
    found = account.find(lambda *_: None, tables=False)
    deploy("firn-dev")
    for one in found:
        with pytest.raises(NotRemoved, match="is there"):
            account.remove(one, lambda *_: None)


def test_a_stack_of_another_name_and_the_same_environment_is_left_alone_before_it_has_outputs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As while it is made, or where its first deploy failed and was kept: its log groups have the same names."""
    client("logs").create_log_group(logGroupName="/firn/dev/jobs")
    client("cloudformation").create_stack(
        StackName="acme",
        TemplateBody=json.dumps(
            {
                "Parameters": {name: {"Type": "String"} for name in ("Environment", "JobSha256")},
                "Resources": {"Q": {"Type": "AWS::SQS::Queue"}},
            }
        ),
        Parameters=[
            {"ParameterKey": "Environment", "ParameterValue": "dev"},
            {"ParameterKey": "JobSha256", "ParameterValue": "ab"},
        ],
    )
    code, _, err = firn(capsys, "leftovers", "--stack", "firn-dev", "--remove", "--yes")
    assert (code, "the stack acme has the Environment dev too" in err) == (1, True)
    assert len(client("logs").describe_log_groups()["logGroups"]) == 1
    assert firn(capsys, "leftovers", "--stack", "firn-prod")[0] == 0


def test_a_bucket_that_another_stack_made_during_the_question_is_left_alone() -> None:
    leftovers()
    account = Account(TARGET, "dev")
    found = account.find(lambda *_: None, tables=False)
    s3_backends["123456789012"]["aws"].put_bucket_tagging(STAGING, {"aws:cloudformation:stack-name": "acme-firn"})
    with pytest.raises(NotRemoved, match="acme-firn"):
        account.remove(next(one for one in found if one.name == STAGING), lambda *_: None)
    assert STAGING in buckets()


def test_a_stack_that_takes_its_bucket_back_during_the_removal_keeps_the_rest() -> None:
    s3 = leftovers(OBJECTS)
    account, seen = Account(TARGET, "dev"), []

    def imported(count: int, _name: str) -> None:
        if not seen:
            deploy("firn-dev", Staging=f"s3://{STAGING}")
        seen.append(count)

    with pytest.raises(NotRemoved, match="is there"):
        account.remove(Leftover("bucket", STAGING), imported)
    assert s3.list_object_versions(Bucket=STAGING)["Versions"]


@pytest.mark.parametrize("state", ["DELETE_FAILED", "IMPORT_COMPLETE"])
def test_a_stack_that_emr_keeps_from_being_deleted_or_that_took_its_buckets_back_can_be_paused(
    tmp_path: Path, state: str
) -> None:
    outputs = {"Url": "https://a.example", "Warehouse": f"s3://{LAKE}/warehouse", "DispatchFunction": "d"}
    deploy("firn-dev", Staging=f"file://{tmp_path}/staging", **outputs)
    (stack,) = cloudformation_backends["123456789012"][REGION].stacks.values()
    stack.status = state
    assert find_deployed("dev", tmp_path).dispatch == "d"


def test_a_bucket_that_another_stack_made_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    bucket(STAGING)
    owner = {"aws:cloudformation:stack-name": "acme-firn"}  # which CloudFormation alone can write
    backend = s3_backends["123456789012"]["aws"]
    backend.put_bucket_tagging(STAGING, owner)
    code, _, err = firn(capsys, "leftovers", "--stack", "firn-dev", "--remove", "--yes")
    assert (code, "--stack acme-firn" in err) == (1, True)
    assert firn(capsys, "leftovers", "--stack", "acme-firn", "--environment", "dev", "--remove", "--yes")[0] == 0
    assert buckets() == set()
