"""`firn deploy` and `firn upload`: SAM and the packaged job, in the order that they need. From a checkout only."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firn.config.model import TargetConfig
from firn.errors import FirnError
from firn_cli.options import StackName, stack_or_target

if TYPE_CHECKING:
    from firn_deploy.checkout import Command

# What the template's JobSha256 is, in a command line that is shown and not run.
_PACKAGED: Final = "$(.venv/bin/python -m infra.package sha256)"
# In the environment they win over a profile that is named there, and may be another account's.
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class StepFailed(FirnError):
    """A command failed, and those after it were not run. What it printed stands above."""


def command(
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Of template.yaml; others stay as the stack has them."),
    ] = None,
    stack: StackName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands, and run none.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Let SAM show what changes, and ask.")] = False,
) -> None:
    """Build, package and deploy this checkout with SAM. Includes the Spark job. Needs make setup."""
    from firn_deploy import checkout

    checkout.expect_checkout()
    target = stack_or_target(stack)
    given = _parsed(parameters or [])
    there, kept = _deployed(target, given)
    build = checkout.Command(("make", "package", *_clouds(given.get("Warehouse", kept.get("Warehouse", "")))))
    if dry_run:
        aws = _aws_of(target)
        if "AWS_PROFILE" in aws:
            typer.echo(f"unset {' '.join(_KEYS)}")
        typer.echo(f"export {' '.join(f'{name}={shlex.quote(value)}' for name, value in aws.items())}")
        for one in (build, *steps(target.stack, there, given | {"JobSha256": _PACKAGED}, confirm=confirm)):
            typer.echo(shown(one))
        return
    _run(build, target)
    for one in steps(target.stack, there, given | {"JobSha256": _sha256()}, confirm=confirm):
        _run(one, target)
        if "--confirm-changeset" in one.words:
            _expect_nothing_undone(target)
    typer.echo(f"{target.stack} is deployed; next: firn publish, then firn doctor --deep")


def upload(stack: StackName = None) -> None:
    """Upload the packaged job to a deployed stack. Needs make package; does nothing if the job is there."""
    from firn_deploy import checkout

    checkout.expect_checkout()
    target = stack_or_target(stack)
    _run(checkout.package("upload", "--stack", target.stack), target)


def steps(stack: str, there: bool, parameters: Mapping[str, str], *, confirm: bool) -> "list[Command]":
    """What a deploy runs once all is packaged, in order. `there`: whether the stack is: its bucket takes the new job
    before functions start it, which that of a new stack cannot. Raises DeployError."""
    from firn_deploy.checkout import overrides, package, sam

    uploads = package("upload", "--stack", stack)
    deploys = sam(
        *("deploy", "--template-file", ".aws-sam/build/template.yaml", "--stack-name", stack, "--resolve-s3"),
        *("--no-fail-on-empty-changeset", "--confirm-changeset" if confirm else "--no-confirm-changeset"),
        *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"),
        *overrides(parameters),
    )
    return [uploads, deploys] if there else [deploys, uploads]


def shown(one: "Command") -> str:
    """A command as it can be typed in the checkout."""
    return " ".join(_PACKAGED.join(map(shlex.quote, word.split(_PACKAGED))) for word in one.words)


def _parsed(parameters: Sequence[str]) -> dict[str, str]:
    from firn_local.environment import TEMPLATE
    from firn_local.intrinsics import load

    known = load(TEMPLATE.read_text())["Parameters"]
    found = {}
    for one in parameters:
        name, equals, value = one.partition("=")
        if not equals or name not in known or name == "JobSha256":
            why = (
                "is worked out from the packaged job" if name == "JobSha256" else "is not a parameter of template.yaml"
            )
            raise typer.BadParameter(f"{name} {why}" if equals else f"{one}: write NAME=VALUE")
        if '"' in value:
            raise typer.BadParameter(f"{name}: SAM takes no value with a double quote")
        if value.endswith("\\"):
            raise typer.BadParameter(f"{name}: SAM takes no value that ends in a backslash")
        found[name] = value
    return found


def _clouds(warehouse: str) -> list[str]:
    """What `make package` is told of the cloud that the warehouse is in; its jobs need a jar of it."""
    cloud = {"abfss": "azure", "gs": "google"}.get(warehouse.partition("://")[0])
    return [] if cloud is None else [f"CLOUDS={cloud}"]


def _deployed(target: TargetConfig, given: Mapping[str, str]) -> tuple[bool, Mapping[str, str]]:
    """Whether the stack has its buckets already, and its parameters. Raises NoStack, StepFailed: it can't be looked at,
    or a deploy with the parameters `given` would take away what it has."""
    from botocore.exceptions import BotoCoreError, ClientError

    client = _cloudformation(target)
    try:
        (found,) = client.describe_stacks(StackName=target.stack)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return False, {}
        raise StepFailed(f"the stack {target.stack} can't be looked at: {error}") from error
    except BotoCoreError as error:
        raise StepFailed(f"the stack {target.stack} can't be looked at: {error}") from error
    there = any(one["OutputKey"] == "Staging" for one in found.get("Outputs") or ())
    has = {str(one["ParameterKey"]): str(one.get("ParameterValue")) for one in found.get("Parameters") or ()}
    state = found["StackStatus"]
    # One under review is empty; a first deploy that failed has no outputs.
    if not there and state != "REVIEW_IN_PROGRESS" and not {"Environment", "GlueDatabases"} <= has.keys():
        raise StepFailed(
            f"the stack {target.stack} is there ({state}) and none of Firn's: a deploy would replace all that is in "
            "it; choose another name"
        )
    kept = has.get("Environment")
    if there and kept is not None and given.get("Environment", kept) != kept:
        raise StepFailed(
            f"the stack {target.stack} has the Environment {kept}: another one would give everything another name, "
            "and what waits in the old buckets stays there; deploy a stack of another name"
        )
    return there, has


def _expect_nothing_undone(target: TargetConfig) -> None:
    """After `sam deploy`, which ends well too where its question is answered with no. Raises StepFailed."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        pages = list(_cloudformation(target).get_paginator("list_change_sets").paginate(StackName=target.stack))
    except (BotoCoreError, ClientError) as error:
        raise StepFailed(f"whether {target.stack} was changed can't be looked at: {error}") from error
    for one in (one for page in pages for one in page["Summaries"]):
        if one.get("ExecutionStatus") == "AVAILABLE":
            raise StepFailed(
                f"the change set {one['ChangeSetName']} of {target.stack} was not confirmed, and nothing was deployed"
            )


def _cloudformation(target: TargetConfig) -> Any:
    from firn.deployment.cloudformation import session_of

    return session_of(target).client("cloudformation", endpoint_url=target.endpoint)


def _sha256() -> str:
    from firn_deploy.checkout import package

    return str(_subprocess(package("sha256"), {}, stdout=subprocess.PIPE).stdout).strip()


def _run(one: "Command", target: TargetConfig) -> None:
    typer.secho(f"$ {shown(one)}", err=True, bold=True)
    _subprocess(one, _aws_of(target))


def _aws_of(target: TargetConfig) -> dict[str, str]:
    """What a command is to find in its environment of the target's AWS. Raises NoStack."""
    from firn.deployment.cloudformation import session_of

    region = session_of(target).region_name
    aws = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    aws |= {"AWS_PROFILE": target.profile} if target.profile else {}
    return aws | ({"AWS_ENDPOINT_URL": target.endpoint} if target.endpoint else {})


def _subprocess(one: "Command", aws: Mapping[str, str], **how: Any) -> "subprocess.CompletedProcess[str]":
    from firn_local.environment import REPOSITORY

    inherited = {name: value for name, value in os.environ.items() if "AWS_PROFILE" not in aws or name not in _KEYS}
    done = subprocess.run(  # noqa: S603
        one.words, env={**inherited, **one.environment, **aws}, cwd=REPOSITORY, text=True, check=False, **how
    )
    if done.returncode != 0:
        raise StepFailed(
            f"`{' '.join(one.words[:3])} …` failed (exit {done.returncode}), and nothing after it was done; fix what "
            "it says above, then the same command again"
        )
    return done
