"""`firn --target NAME`: a deployment, known by what its CloudFormation stack says of itself."""

import io
import json
import os
import signal
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from obstore.store import MemoryStore
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from firn.config.reach import Reach
from firn.deployment import cloudformation
from firn.deployment import target as targets
from firn.deployment.cloudformation import find_deployed
from firn.deployment.stack import NoStack, Stack
from firn.errors import ConfigError, TransientError
from firn.log import published_configs
from firn.log.store import open_store, paths, put
from firn.runs.emr import EmrJobs
from firn_cli.check_parts import Check
from firn_cli.main import main
from firn_cli.self_check import SelfCheck, with_stream
from firn_lake.catalogs.stack_catalog import catalog_of

FIRN = """
targets:
  dev: {region: eu-central-1}
  local: {stack: firn-dev, region: eu-central-1, endpoint: 'http://127.0.0.1:1'}
  gone: {region: eu-central-1}
  other: {stack: other, region: eu-central-1}
  odd: {stack: firn-dev, region: eu-central-1, profile: nobody}
streams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}
"""
OUTPUTS = {
    "Url": "https://abc123.execute-api.eu-central-1.amazonaws.com/dev",
    "QueueUrl": "https://sqs.eu-central-1.amazonaws.com/1/firn-dev-changes",
    "DeadLetterQueueUrl": "https://sqs.eu-central-1.amazonaws.com/1/firn-dev-changes-dead",
    "Warehouse": "s3://lake/warehouse",
    "DispatchFunction": "firn-dev-dispatch",
    "EmrApplicationId": "00f1",
}


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An account with the stacks `firn-dev` and `other`, and a folder with firn.yaml. -> the staging folder."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firn.yaml").write_text(FIRN)
    staging = tmp_path / "staging"
    with mock_aws():
        client = boto3.client("cloudformation", region_name="eu-central-1")
        told = OUTPUTS | {"Staging": f"file://{staging}", "CatalogUri": f"sqlite:///{tmp_path}/catalog.db"}
        _deploy(client, "firn-dev", told)
        _deploy(client, "other", {"Website": "https://example.org"})
        yield staging
    targets.use_target(None)


def _deploy(client: Any, name: str, outputs: dict[str, str], **parameters: str) -> None:
    template = {
        "Parameters": {key: {"Type": "String", "Default": value} for key, value in parameters.items()},
        "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()},
    }
    client.create_stack(StackName=name, TemplateBody=json.dumps(template))


def test_a_deployment_is_known_by_its_outputs(tmp_path: Path) -> None:
    found = find_deployed("dev", tmp_path)
    assert found.url == OUTPUTS["Url"]
    assert found.staging == f"file://{tmp_path}/staging"
    assert found.ingress_queues() == {"Queue": OUTPUTS["QueueUrl"]}
    assert found.dispatch == "firn-dev-dispatch"
    assert found.env["FIRN_EMR_APPLICATION_ID"] == "00f1"
    assert (found.env["AWS_REGION"], found.env["AWS_SESSION_TOKEN"]) == ("eu-central-1", "testing")
    assert find_deployed("dev", tmp_path, "https://firn.acme.example/").url == "https://firn.acme.example"


def test_a_job_is_started_as_the_deployed_functions_start_theirs(tmp_path: Path) -> None:
    found = find_deployed("dev", tmp_path)
    looking = found.settings(starts=False)
    assert (looking.emr_application, looking.staging, looking.emr_role) == ("00f1", f"file://{tmp_path}/staging", "")
    with pytest.raises(TransientError, match="GetFunctionConfiguration"):
        found.settings()
    trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}]}
    role = boto3.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("app.py", "")
    boto3.client("lambda", region_name="eu-central-1").create_function(
        FunctionName="firn-dev-dispatch", Runtime="python3.13", Handler="app.handler", Role=role,
        Code={"ZipFile": archive.getvalue()},
        Environment={"Variables": {"FIRN_STAGING": "s3://s", "FIRN_JOB_ENTRY_POINT": "s3://s/code/commit.py",
                                   "FIRN_EMR_ROLE_ARN": "arn:job", "FIRN_JOB_SHA256": "5a", "POWERTOOLS": "x"}},
    )  # fmt: skip
    starting = found.settings()
    assert (starting.emr_role, starting.job_entry_point, starting.job_sha256) == (
        "arn:job", "s3://s/code/commit.py", "5a",
    )  # fmt: skip


def test_status_of_a_deployment(capsys: pytest.CaptureFixture[str], account: Path) -> None:
    published_configs.publish(open_store(f"file://{account}"), FIRN)
    assert main(["--target", "dev", "status", "--json"]) == 0
    assert [one["stream"] for one in json.loads(capsys.readouterr().out)] == ["shop"]


def test_a_deployment_without_schedules_says_so(capsys: pytest.CaptureFixture[str], account: Path) -> None:
    published_configs.publish(open_store(f"file://{account}"), FIRN)
    client = boto3.client("cloudformation", region_name="eu-central-1")
    template = json.loads(json.dumps(client.get_template(StackName="firn-dev")["TemplateBody"]))
    template["Parameters"] = {"Paused": {"Type": "String", "Default": "false"}}
    for paused in ("true", "false"):
        given = [{"ParameterKey": "Paused", "ParameterValue": paused}]
        client.update_stack(StackName="firn-dev", TemplateBody=json.dumps(template), Parameters=given)
        assert main(["--target", "dev", "status"]) == 0
        assert ("deployed with Paused=true" in capsys.readouterr().out) is (paused == "true")
        main(["--target", "dev", "doctor", "--json"])
        said = [one["found"] for one in json.loads(capsys.readouterr().out) if one["name"] == "pause"]
        assert bool(said) is (paused == "true"), said


def test_a_configuration_is_published_to_a_deployment(
    capsys: pytest.CaptureFixture[str], account: Path, tmp_path: Path
) -> None:
    store, file = open_store(f"file://{account}"), tmp_path / "new.yaml"

    def said(*options: str, code: int = 0) -> str:
        assert main(["--target", "dev", "publish", str(file), *options]) == code
        out, err = capsys.readouterr()
        return out or err

    assert "can't be read: No such file" in said(code=1)
    file.write_text(FIRN)
    sha = published_configs.publish(MemoryStore(), FIRN).sha
    assert said("--check") == f"would publish {file} as {sha[:12]}\n  shop: new\n"
    with pytest.raises(ConfigError, match="no configuration is published"):
        published_configs.current_sha(store)
    assert "shop: new" in said()
    assert published_configs.current_sha(store) == sha
    assert said() == f"{file} is the current configuration already ({sha[:12]})\n"
    file.write_text(FIRN + "# only a comment\n")
    assert "no stream changes" in said()
    file.write_text(FIRN.replace("{shop:", "{crm:"))
    assert said().splitlines()[1:] == ["  crm: new", "  shop: gone; what is staged of it waits until it is back"]
    kept = published_configs.current_sha(store)
    file.write_text(FIRN.replace("{to:", "{too:"))
    assert "too" in said(code=1)
    assert published_configs.current_sha(store) == kept


def test_a_configuration_that_the_deployments_jobs_could_not_work_by_is_not_published(
    capsys: pytest.CaptureFixture[str], account: Path, tmp_path: Path
) -> None:
    _deploy(
        boto3.client("cloudformation", region_name="eu-central-1"),
        "firn-gone",
        OUTPUTS | {"Staging": f"file://{account}", "Network": "none", "Databases": "dev_*,crm"},
    )
    file, postgres = tmp_path / "new.yaml", "catalog: {type: sql, uri: 'postgresql://db.example.org/lake'}\n"
    for text, why in (
        (postgres + FIRN, "postgresql://db.example.org/lake can't be reached"),
        (
            FIRN,
            "stream shop, table '*', to 'shop.{table}': the namespace shop is not one of GlueDatabases (dev_*, crm)",
        ),
    ):
        file.write_text(text)
        for options in ((), ("--check",)):
            assert main(["--target", "gone", "publish", str(file), *options]) == 1
            assert why in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no configuration is published"):
        published_configs.current_sha(open_store(f"file://{account}"))
    file.write_text(FIRN.replace("to: 'shop.", "to: 'dev_shop."))
    assert main(["--target", "gone", "publish", str(file)]) == 0


def test_the_self_check_of_a_deployment_stops_at_what_its_jobs_could_not_do(account: Path, tmp_path: Path) -> None:
    store = open_store(f"file://{account}")
    before = published_configs.publish(store, FIRN).sha
    found = find_deployed("dev", tmp_path)
    stack = replace(found, warehouse=f"file://{tmp_path}/lake", reach=Reach(databases=("shop",)))
    published, posted, *_ = SelfCheck(stack, "firn_check", 1, lambda _part: None).checks()
    assert (published.ok, posted.found) == (False, "not tried")
    assert "the namespace firn_check is not one of GlueDatabases (shop)" in published.found
    assert published_configs.current_sha(store) == before


def _checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SelfCheck, Any]:
    """A self-check and its parts, of which the first is done. No job runs (moto lists none)."""
    monkeypatch.setattr(EmrJobs, "active", lambda *_: {})
    stack = replace(find_deployed("dev", folder), warehouse=f"file://{folder}/lake")
    check = SelfCheck(stack, "firn_check", 1, lambda _part: None)
    parts = check.checks()
    published = next(parts)
    assert published.ok, published
    return check, parts


def test_what_is_published_during_a_self_check_stays_and_the_check_is_gone(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"file://{account}")
    published_configs.publish(store, FIRN)
    check, parts = _checked(tmp_path, monkeypatch)
    during = published_configs.load(store, published_configs.current_sha(store)).text
    published_configs.publish(store, during.replace("shop.{table}", "crm.{table}"))
    put(store, f"staged/{check.name}/a", b"1")
    parts.close()  # as an interruption does
    left = published_configs.load(store, published_configs.current_sha(store))
    assert left.streams.keys() == {"shop"}
    assert left.streams["shop"].tables[0].to == "crm.{table}"
    assert [path for path in paths(store, "") if check.name in path] == []


def test_a_token_of_the_shell_is_not_sent_with_the_keys_of_the_targets_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").write_text("[nobody]\naws_access_key_id = profile\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "profiles"))
    assert os.environ["AWS_SESSION_TOKEN"] == "testing"
    find_deployed("odd", tmp_path).use_environment()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "profile"
    assert "AWS_SESSION_TOKEN" not in os.environ


def test_an_s3_of_the_shell_is_not_asked_for_what_a_stack_of_another_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page of storages has it exported for `firn doctor --storage`."""
    own = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example.org")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://example.org")
    Stack(tmp_path, "", env=own | {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:2"}).use_environment()
    assert os.environ["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:2"
    Stack(tmp_path, "", env=own).use_environment()
    assert "AWS_ENDPOINT_URL_S3" not in os.environ
    assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"


@pytest.mark.parametrize("catalog", ["postgresql://nobody@127.0.0.1:1/lake", "odd://"])
def test_what_a_self_check_can_not_remove_does_not_keep_the_rest(catalog: str, account: Path, tmp_path: Path) -> None:
    store = open_store(f"file://{account}")
    published_configs.publish(store, FIRN)
    # Its first part is refused, and what it was to remove is there all the same.
    stack = replace(find_deployed("dev", tmp_path), warehouse=f"file://{tmp_path}/lake", catalog_uri=catalog)
    stack = replace(stack, reach=Reach(databases=("shop",)))
    check = SelfCheck(stack, "firn_check", 1, lambda _part: None)
    left = tmp_path / "lake" / "firn_check" / check.name / "data" / "a.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of a job that was stopped")
    put(store, f"staged/{check.name}/a", b"1")
    *_, removed = check.checks()
    assert (removed.name, removed.ok) == ("remove", False)
    assert f"something of {check.name} may be left: EMR Serverless, list_job_runs" in removed.found
    assert not left.exists()
    assert [path for path in paths(store, "") if check.name in path] == []


def test_a_self_check_that_is_ended_takes_away_what_it_made(
    account: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    published_configs.publish(open_store(f"file://{account}"), FIRN)
    happened = []

    def checks(_self: SelfCheck) -> Iterator[Check]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            yield Check("publish", True, "it went on")
        finally:
            happened.append("removed")

    monkeypatch.setattr(SelfCheck, "checks", checks)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert main(["--target", "dev", "doctor", "--deep"]) != 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert happened == ["removed"]
    assert "it went on" not in capsys.readouterr().out


def test_where_the_deployment_names_no_catalog_it_is_the_published_configurations(
    account: Path, tmp_path: Path
) -> None:
    client = boto3.client("cloudformation", region_name="eu-central-1")
    _deploy(client, "firn-gone", OUTPUTS | {"Staging": f"file://{account}"})
    stack = find_deployed("gone", tmp_path)
    with pytest.raises(ConfigError, match="no configuration is published"):
        catalog_of(stack)
    published_configs.publish(
        open_store(f"file://{account}"), f"catalog: {{uri: 'sqlite:///{tmp_path}/own.db'}}\n{FIRN}"
    )
    catalog_of(stack).create_namespace("here")
    assert (tmp_path / "own.db").is_file()


def test_a_queue_that_is_a_streams_own_gets_no_message_of_a_self_check(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmrJobs, "active", lambda *_: {})
    published_configs.publish(
        open_store(f"file://{account}"),
        "streams: {shop: {auth: {by: api_key, secret: 'ssm:/firn/dev/shop'}, tables: {'*': {to: 'shop.{table}'}}}}",
    )
    queue = boto3.client("sqs", region_name="eu-central-1").create_queue(QueueName="changes")["QueueUrl"]
    client = boto3.client("cloudformation", region_name="eu-central-1")
    outputs = OUTPUTS | {"Staging": f"file://{account}", "QueueUrl": queue}
    _deploy(client, "firn-gone", outputs, QueueStream="shop")
    stack = replace(find_deployed("gone", tmp_path), warehouse=f"file://{tmp_path}/lake")
    check = SelfCheck(stack, "firn_check", 1, lambda _part: None)
    parts: Any = check.checks()
    assert next(parts).ok
    assert check._queue() == "not tried: the queue is that of the stream shop alone (FIRN_QUEUE_STREAM)"
    parts.close()


def test_what_a_killed_self_check_left_is_removed_by_the_next_and_one_that_runs_is_not(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, runs = "firn_check_5f000000_abcd", f"firn_check_{int(time.time()) - 60:08x}_abcd"
    store, lake = open_store(f"file://{account}"), catalog_of(find_deployed("dev", tmp_path))
    lake.create_namespace("scratch")
    for table in (killed, "of_others"):
        lake.create_table(f"scratch.{table}", Schema(NestedField(1, "id", LongType())), f"file://{tmp_path}/{table}")
    text = FIRN
    for one in (killed, runs):
        text = with_stream(text, one, f"scratch.{one}")
        put(store, f"staged/{one}/a", b"1")
    published_configs.publish(store, text)
    _, parts = _checked(tmp_path, monkeypatch)
    parts.close()
    assert published_configs.load(store, published_configs.current_sha(store)).streams.keys() == {"shop", runs}
    assert list(paths(store, "staged")) == [f"staged/{runs}/a"]
    assert lake.list_tables("scratch") == [("scratch", "of_others")]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere", "firn.yaml has no such target; it has dev, local, gone, other, odd"),
        ("gone", "there is no stack firn-gone in eu-central-1: deploy it"),
        ("other", "the stack other has no output Url: it is not one of Firn's"),
        ("odd", "The config profile (nobody) could not be found"),
    ],
)
def test_what_is_no_deployment_is_told_with_what_to_do(
    capsys: pytest.CaptureFixture[str], target: str, said: str
) -> None:
    assert main(["--target", target, "status"]) == 1
    assert said in capsys.readouterr().err


def test_a_region_that_nobody_says_is_not_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "firn.yaml").write_text(FIRN.replace("dev: {region: eu-central-1}", "dev: {stack: firn-dev}"))
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(NoStack, match=r"write region: of the target in firn\.yaml, or set AWS_REGION"):
        find_deployed("dev", tmp_path)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert find_deployed("dev", tmp_path).env["AWS_REGION"] == "eu-central-1"


def test_an_aws_that_does_not_answer_is_no_missing_stack(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="target local: Could not connect"):
        find_deployed("local", tmp_path)


def test_without_firn_yaml_there_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(NoStack, match="can't be read"):
        find_deployed("dev", tmp_path, file=tmp_path / "none.yaml")


def test_localstack_has_the_api_at_its_own_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [
        {"OutputKey": key, "OutputValue": value} for key, value in (OUTPUTS | {"Staging": "s3://staging"}).items()
    ]
    monkeypatch.setattr(cloudformation, "_described", lambda *_: {"Outputs": outputs})
    found = find_deployed("local", tmp_path)
    assert found.url == "http://127.0.0.1:1/_aws/execute-api/abc123/dev"
    assert found.env["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
