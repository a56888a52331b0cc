"""`sam build` and `sam deploy`, as anybody would type them, against LocalStack."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from firn_deploy import DeployError, checkout, localstack
from firn_local.environment import REPOSITORY

_UP_TO_DATE = "No changes to deploy"


class Stack(NamedTuple):
    """The deployed stack: all parameters with their values, the outputs, and the physical name of each resource."""

    name: str
    parameters: dict[str, str]
    outputs: dict[str, str]
    resources: dict[str, str]


def build(folder: Path, template: Path) -> Path:
    """Build the functions and the layer; -> the built template. What has not changed is not built again."""
    _forget_compiled(REPOSITORY)
    _sam(
        folder,
        {},
        *("build", "--cached", "--template-file", str(template)),
        *("--build-dir", str(folder / "build"), "--cache-dir", str(folder / "cache")),
    )
    return folder / "build" / "template.yaml"


def _forget_compiled(repository: Path) -> None:
    """Removes what Python left beside the sources: to sam they are others with it, and all would be built again."""
    for sources in (repository / "functions", repository / "layers"):
        for compiled in list(sources.rglob("__pycache__")):
            shutil.rmtree(compiled, ignore_errors=True)


def deploy(folder: Path, port: int, built: Path, name: str, parameters: Mapping[str, str]) -> bool:
    """Deploy the built template as the stack `name`. -> False if it was up to date. Raises DeployError."""
    said = _sam(
        folder,
        localstack.credentials(port),
        *("deploy", "--template-file", str(built), "--stack-name", name, "--s3-bucket", f"{name}-artifacts"),
        *("--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"),
        *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"),
        *checkout.overrides(parameters),
    )
    return _UP_TO_DATE not in said


def make_bucket(port: int, name: str) -> None:
    """The bucket that `sam deploy` uploads to."""
    client(port, "s3").create_bucket(Bucket=f"{name}-artifacts")


def describe(port: int, name: str) -> Stack:
    """What is deployed. Raises DeployError if it is in no good state."""
    cloudformation = client(port, "cloudformation")
    [found] = cloudformation.describe_stacks(StackName=name)["Stacks"]
    if found["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        raise DeployError(f"the stack {name} is {found['StackStatus']}: `make undeploy-local`, then deploy again")
    parts = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
    return Stack(
        name,
        {one["ParameterKey"]: one["ParameterValue"] for one in found.get("Parameters", ())},
        {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())},
        {one["LogicalResourceId"]: one.get("PhysicalResourceId", "") for one in parts},
    )


def client(port: int, service: str) -> Any:
    """A boto3 client for LocalStack."""
    import boto3

    known = localstack.credentials(port)
    return boto3.session.Session().client(
        service,  # type: ignore[call-overload]
        endpoint_url=known["AWS_ENDPOINT_URL"],
        region_name=known["AWS_REGION"],
        aws_access_key_id=known["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
    )


def _sam(folder: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """Run it; its output goes to sam.log as well. Raises DeployError with the end of it."""
    command = checkout.sam(*arguments)
    done = subprocess.run(
        command.words,
        env={**localstack.plain_environment(), **environment, **command.environment},
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    with (folder / "sam.log").open("a") as log:
        log.write(done.stdout)
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-25:])
        raise DeployError(f"`sam {arguments[0]}` failed (exit {done.returncode}); {folder}/sam.log ends:\n{end}")
    return done.stdout
