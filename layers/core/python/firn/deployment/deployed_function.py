"""A function that is deployed on AWS or LocalStack: its settings, and calling it."""

import json
from collections.abc import Mapping
from typing import Any

from firn.errors import FirnError, TransientError


def variables(function: str) -> dict[str, str]:
    """The FIRN_* settings of a deployed function. Raises TransientError."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = boto3.client("lambda").get_function_configuration(FunctionName=function)
    except (BotoCoreError, ClientError) as error:
        raise TransientError(
            f"the settings of the function {function} can't be read: {error}; starting a job takes "
            "lambda:GetFunctionConfiguration"
        ) from error
    known = found.get("Environment", {}).get("Variables", {})
    return {str(name): str(value) for name, value in known.items() if name.startswith("FIRN_")}


def invoke(function: str, body: bytes) -> Mapping[str, Any]:
    """What a deployed function answers to an event. Raises TransientError, FirnError (it failed)."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("lambda", config=Config(read_timeout=300, retries={"max_attempts": 2}))
        answer = client.invoke(FunctionName=function, Payload=body)
        said = json.loads(answer["Payload"].read())
    except (BotoCoreError, ClientError) as error:
        raise TransientError(f"the function {function} can't be invoked: {error}") from error
    if answer.get("FunctionError"):
        raise FirnError(f"the function {function} failed: {said.get('errorMessage', said)}; its log group tells more")
    found: Mapping[str, Any] = said
    return found
