"""Deployments on AWS or LocalStack: `targets` of firn.yaml, and what their CloudFormation stacks say of themselves."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from firn.config.model import TargetConfig
from firn.config.reach import Reach, databases_in
from firn.config.region import NO_NETWORK
from firn.deployment.stack import NoStack, Stack
from firn.errors import TransientError

FILE: Final = Path("firn.yaml")
# A deletion that failed is the one that `firn pause --stop` was forgotten before.
_READY: Final = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE", "DELETE_FAILED")
_SIGNED: Final = {"console": "SignedConsoleUrl", "query": "QueryUrl"}  # outputs: function URLs with AWS_IAM
_UPDATING: Final = "UPDATE_"
_TOLD: Final = {  # outputs and parameters
    "Staging": "FIRN_STAGING",
    "Warehouse": "FIRN_WAREHOUSE",
    "Warehouses": "FIRN_WAREHOUSES",
    "CatalogUri": "FIRN_CATALOG_URI",
    "EmrApplicationId": "FIRN_EMR_APPLICATION_ID",
    "EmrEndpointUrl": "AWS_ENDPOINT_URL_EMR_SERVERLESS",
    "QueueStream": "FIRN_QUEUE_STREAM",
}


def find_deployed(name: str, folder: Path, url: str | None = None, file: Path = FILE) -> Stack:
    """The deployment `name` of `file`, by the outputs of its stack. `url` replaces its HTTP address; `folder` takes
    what a command writes. Raises NoStack, ConfigError, TransientError."""
    target = target_of(name, file)
    described = _described(name, target)
    outputs = {str(one["OutputKey"]): str(one["OutputValue"]) for one in described.get("Outputs") or ()}
    missing = [one for one in ("Url", "Staging", "Warehouse", "DispatchFunction") if one not in outputs]
    if missing:
        raise NoStack(
            f"target {name}: the stack {target.stack} has no output {missing[0]}: it is not one of Firn's, or of an "
            "older template; deploy it again (docs/deploy-aws.md)"
        )
    queues = {key.removesuffix("Url"): url for key, url in outputs.items() if key.endswith("QueueUrl")}
    environment = _environment(target)
    parameters = {str(one["ParameterKey"]): str(one["ParameterValue"]) for one in described.get("Parameters") or ()}
    told = {name: outputs.get(key) or parameters.get(key, "") for key, name in _TOLD.items()}
    return Stack(
        dir=folder,
        url=(url or _address(outputs["Url"], target)).rstrip("/"),
        staging=outputs["Staging"],
        warehouse=outputs["Warehouse"],
        catalog_uri=outputs.get("CatalogUri", ""),
        queues=queues,
        env=environment | {name: value for name, value in told.items() if value},
        dispatch=outputs["DispatchFunction"],
        alerts=outputs.get("AlertsFunction", ""),
        has_console="ConsoleUrl" in outputs,
        signed_urls={of: outputs[key].rstrip("/") for of, key in _SIGNED.items() if key in outputs},
        reach=Reach(
            outputs.get("CatalogUri", ""),
            environment["AWS_REGION"] if outputs.get("Network") == NO_NETWORK else "",
            databases_in(outputs.get("Databases", "")),
            parameters.get("Warehouses", ""),
        ),
        scheduled=parameters.get("Paused") != "true",
    )


def target_of(name: str, file: Path = FILE) -> TargetConfig:
    """The target `name` of `file`. Raises NoStack, ConfigError."""
    from firn.config import reader
    from firn.deployment.config_text import config_text

    try:
        file.stat()
    except OSError as error:
        raise NoStack(f"--target {name}: {file} can't be read ({error.strerror}), which names the targets") from error
    known = reader.parse(config_text(file), str(file)).targets
    if name not in known:
        has = f"it has {', '.join(known)}" if known else f"write targets: {{{name}: {{stack: firn-{name}}}}}"
        raise NoStack(f"--target {name}: {file} has no such target; {has}")
    return known[name]


def _address(url: str, target: TargetConfig) -> str:
    """Where the API is: LocalStack answers for https://API.execute-api.REGION…/STAGE at an address of its own."""
    if target.endpoint is None:
        return url
    parts = urlsplit(url)
    return f"{target.endpoint}/_aws/execute-api/{(parts.hostname or '').partition('.')[0]}{parts.path}"


def session_of(target: TargetConfig) -> Any:
    """boto3's session for a target. Raises NoStack: no region, no such profile."""
    import boto3
    from botocore.exceptions import ProfileNotFound

    try:
        # boto3 itself reads AWS_DEFAULT_REGION and profiles only.
        region = target.region or os.environ.get("AWS_REGION")
        found = boto3.Session(profile_name=target.profile, region_name=region)
        if found.get_credentials() is None and target.endpoint:
            # LocalStack takes any, and these are its own words.
            found = boto3.Session("test", "test", region_name=region)
        if found.region_name is None:
            raise NoStack(
                f"the region of the stack {target.stack} is not said, and none is assumed: write region: of the target "
                "in firn.yaml, or set AWS_REGION"
            )
        return found
    except ProfileNotFound as error:
        raise NoStack(f"{error}; see aws configure list-profiles") from error


def _described(name: str, target: TargetConfig) -> Mapping[str, Any]:
    """The stack as CloudFormation describes it, if it is in a good state."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = session_of(target).client(
            "cloudformation",
            endpoint_url=target.endpoint,
            config=Config(connect_timeout=5, read_timeout=20, retries={"max_attempts": 3}),
        )
        (stack,) = client.describe_stacks(StackName=target.stack)["Stacks"]
    except ClientError as error:
        where = f"{target.stack} in {client.meta.region_name}"
        if error.response["Error"]["Code"] == "ValidationError":
            raise NoStack(f"target {name}: there is no stack {where}: deploy it (docs/deploy-aws.md)") from error
        raise NoStack(f"target {name}: the stack {where} can't be looked at: {error}") from error
    except BotoCoreError as error:
        raise TransientError(f"target {name}: {error}") from error
    state = str(stack["StackStatus"])
    if state not in _READY and not state.startswith(_UPDATING):
        raise NoStack(f"target {name}: the stack {target.stack} is {state}; see its events in CloudFormation")
    found: Mapping[str, Any] = stack
    return found


def _environment(target: TargetConfig) -> dict[str, str]:
    """The AWS_* settings. obstore and PyIceberg read no profiles: boto3 finds the credentials for them."""
    session = session_of(target)
    found = {"AWS_REGION": session.region_name, "AWS_DEFAULT_REGION": session.region_name}
    if target.endpoint:
        found["AWS_ENDPOINT_URL"] = target.endpoint
    credentials = session.get_credentials()
    if credentials is None:
        raise NoStack("no AWS credentials were found: set AWS_PROFILE, or profile: of the target in firn.yaml")
    frozen = credentials.get_frozen_credentials()
    found |= {"AWS_ACCESS_KEY_ID": frozen.access_key, "AWS_SECRET_ACCESS_KEY": frozen.secret_key}
    return found | ({"AWS_SESSION_TOKEN": frozen.token} if frozen.token else {})
