"""firn deploy and upload: which commands run, in which order, and with which AWS."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from firn.deployment import target as targets
from firn_cli.main import main
from firn_deploy import checkout
from firn_local import environment

REGION = "eu-central-1"


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firn.yaml").write_text(
        "targets: {dev: {region: us-west-2}}\nstreams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}\n"
    )
    with mock_aws():
        yield
    targets.use_target(None)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose programs write down how they were called. -> the file"""
    calls = tmp_path / "calls"
    note = f'echo "$AWS_REGION $0 $*" >> {calls}'
    folder = tmp_path / "checkout"
    (folder / "infra" / "package").mkdir(parents=True)
    (folder / "infra" / "package" / "__main__.py").write_text(
        "import os, sys\n"
        "said = [os.environ.get('AWS_REGION', ''), 'package', *sys.argv[1:]]\n"
        f"open({str(calls)!r}, 'a').write(' '.join(said) + '\\n')\n"
        "print('5a' * 32)\n"
    )
    (folder / "template.yaml").write_text(environment.TEMPLATE.read_text())
    (folder / "Makefile").write_text(f'package:\n\t@echo "$$AWS_REGION make package" $(CLOUDS) >> {calls}\n')
    sam = folder / ".venv-sam" / "bin" / "sam"
    sam.parent.mkdir(parents=True)
    sam.write_text(f"#!/bin/sh\n{note.replace('$0', 'sam')}\ntest ! -e {tmp_path}/refuse\n")
    sam.chmod(0o755)
    for module in (checkout, environment):
        monkeypatch.setattr(module, "REPOSITORY", folder)
        monkeypatch.setattr(module, "TEMPLATE", folder / "template.yaml")
    return calls


def deployed(name: str, region: str = REGION, output: str = "Staging", **parameters: str) -> None:
    template: dict[str, Any] = {
        "Parameters": {key: {"Type": "String"} for key in parameters},
        "Resources": {"Q": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {output: {"Value": "s3://s"}},
    }
    client = boto3.client("cloudformation", region_name=region)
    given: Any = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
    client.create_stack(StackName=name, TemplateBody=json.dumps(template), Parameters=given)


def firn(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_a_stack_that_is_there_gets_the_job_first_and_keeps_its_parameters(
    capsys: pytest.CaptureFixture[str], scratch: Path
) -> None:
    deployed("firn-dev", "us-west-2")
    out = firn(capsys, "--target", "dev", "deploy", "DispatchEvery=rate(5 minutes)", "--confirm")
    calls = scratch.read_text().splitlines()
    assert [" ".join(line.split()[:4]) for line in calls] == [
        "us-west-2 make package",
        f"{REGION} package sha256",  # which asks no AWS
        "us-west-2 package upload --stack",
        "us-west-2 sam deploy --template-file",
    ]
    assert calls[-1].endswith(
        '--parameter-overrides ParameterKey=DispatchEvery,ParameterValue="rate(5 minutes)" '
        f'ParameterKey=JobSha256,ParameterValue="{"5a" * 32}"'
    )
    assert "--confirm-changeset" in calls[-1].split()
    assert out.startswith("firn-dev is deployed")


def test_a_new_stack_is_deployed_before_its_bucket_takes_the_job(
    capsys: pytest.CaptureFixture[str], scratch: Path
) -> None:
    firn(capsys, "deploy", "--stack", "firn-dev", "GlueDatabases=shop,crm")
    assert [line.split()[1:3] for line in scratch.read_text().splitlines()] == [
        ["make", "package"], ["package", "sha256"], ["sam", "deploy"], ["package", "upload"],
    ]  # fmt: skip


def test_the_job_is_packaged_with_the_jar_of_the_clouds_warehouse_also_where_the_stack_keeps_it(
    capsys: pytest.CaptureFixture[str], scratch: Path
) -> None:
    firn(capsys, "deploy", "--stack", "firn-new", "Warehouse=abfss://lake@acme.dfs.core.windows.net/w")
    deployed("firn-dev", Environment="dev", GlueDatabases="", Warehouse="gs://acme-lake/w")
    firn(capsys, "deploy", "--stack", "firn-dev", "LogDays=7")
    firn(capsys, "deploy", "--stack", "firn-dev", "Warehouse=")
    made = [line.partition(" make ")[2] for line in scratch.read_text().splitlines() if " make " in line]
    assert made == ["package azure", "package google", "package"]


def test_what_comes_after_a_command_that_failed_is_not_done(
    capsys: pytest.CaptureFixture[str], scratch: Path, tmp_path: Path
) -> None:
    (tmp_path / "refuse").touch()
    said = firn(capsys, "deploy", "--stack", "firn-dev", code=1)
    assert "sam deploy" in said
    assert "exit 1" in said
    assert "upload" not in scratch.read_text()


def test_a_dry_run_prints_what_can_be_typed_and_runs_nothing(capsys: pytest.CaptureFixture[str], scratch: Path) -> None:
    deployed("firn-dev")
    where, *lines = firn(capsys, "deploy", "--stack", "firn-dev", "--dry-run").splitlines()
    assert where == f"export AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}"
    assert [" ".join(line.split()[-4:]) for line in lines[:2]] == [
        "make package",
        "infra.package upload --stack firn-dev",
    ]
    assert "$(.venv/bin/python -m infra.package sha256)" in lines[2]
    assert not scratch.exists()


def test_the_targets_profile_wins_over_credentials_that_lie_around(
    capsys: pytest.CaptureFixture[str], scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would win in SAM and boto3, and may be another account's."""
    (tmp_path / "config").write_text("[profile prod]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SESSION_TOKEN", "testing")
    text = (tmp_path / "firn.yaml").read_text().splitlines()[1]
    (tmp_path / "firn.yaml").write_text("targets: {prod: {region: us-west-2, profile: prod}}\n" + text)
    sam = scratch.parent / "checkout" / ".venv-sam" / "bin" / "sam"
    sam.write_text(f'#!/bin/sh\nenv | grep "^AWS_" | sort >> {tmp_path}/seen\n')
    firn(capsys, "--target", "prod", "deploy")
    names = [line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()]
    assert "AWS_PROFILE" in names
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} & set(names)
    first, second = firn(capsys, "--target", "prod", "deploy", "--dry-run").splitlines()[:2]
    assert first == "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"
    assert second.endswith("AWS_PROFILE=prod")


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_a_stack_that_is_none_of_firns_is_not_replaced(
    capsys: pytest.CaptureFixture[str], scratch: Path, how: tuple[str, ...]
) -> None:
    """SAM would delete all that is in it."""
    deployed("shop", output="Url", Environment="dev")
    said = firn(capsys, "deploy", "--stack", "shop", *how, code=1)
    assert "the stack shop is there (CREATE_COMPLETE) and none of Firn's" in said
    assert not scratch.exists()


def test_a_first_deploy_that_failed_is_known_as_firns(capsys: pytest.CaptureFixture[str], scratch: Path) -> None:
    deployed("firn-dev", output="None", Environment="dev", GlueDatabases="*")
    firn(capsys, "deploy", "--stack", "firn-dev")
    assert scratch.read_text().splitlines()[-1].split()[1:3] == ["package", "upload"]


def test_the_environment_of_a_stack_is_not_changed(capsys: pytest.CaptureFixture[str], scratch: Path) -> None:
    """All would be recreated by other names, with empty buckets, and what waits in the old ones would stay there."""
    deployed("firn-dev", Environment="dev")
    assert "has the Environment dev" in firn(capsys, "deploy", "--stack", "firn-dev", "Environment=prod", code=1)
    assert not scratch.exists()
    firn(capsys, "deploy", "--stack", "firn-dev", "Environment=dev")


@pytest.mark.parametrize("there", [True, False])
def test_what_sam_was_told_not_to_do_is_not_called_deployed(
    capsys: pytest.CaptureFixture[str], scratch: Path, there: bool
) -> None:
    """SAM ends well where its question is answered with no."""
    if there:
        deployed("firn-dev")
    boto3.client("cloudformation", region_name=REGION).create_change_set(
        StackName="firn-dev",
        ChangeSetName="samcli-deploy1",
        ChangeSetType="UPDATE" if there else "CREATE",
        TemplateBody=json.dumps({"Resources": {"R": {"Type": "AWS::SQS::Queue"}}}),
    )
    said = firn(capsys, "deploy", "--stack", "firn-dev", "--confirm", code=1)
    assert "samcli-deploy1" in said
    assert "was not confirmed" in said
    assert [line.split()[1:3] for line in scratch.read_text().splitlines()][-1] == ["sam", "deploy"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Nonsense=1", "Nonsense is not a parameter of template.yaml"),
        ("GlueDatabases", "write NAME=VALUE"),
        ("JobSha256=ab", "worked out from the packaged job"),
        ("CatalogUri=a\\", "no value that ends in a backslash"),
        ('CatalogUri=a"b', "no value with a double quote"),
    ],
)
def test_a_parameter_that_sam_would_drop_is_refused(
    capsys: pytest.CaptureFixture[str], scratch: Path, given: str, said: str
) -> None:
    assert said in " ".join(firn(capsys, "deploy", "--stack", "firn-dev", given, code=2).split())
    assert not scratch.exists()


def test_an_upload_goes_to_the_stack_of_the_target(capsys: pytest.CaptureFixture[str], scratch: Path) -> None:
    firn(capsys, "--target", "dev", "upload")
    assert scratch.read_text() == "us-west-2 package upload --stack firn-dev\n"


@pytest.mark.parametrize("command", ["deploy", "upload"])
def test_without_a_checkout_it_says_where_to_get_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(checkout, "TEMPLATE", tmp_path / "template.yaml")
    assert "needs a checkout of Firn" in firn(capsys, command, "--stack", "firn-dev", code=1)
