"""The events that AWS's services hand to a Lambda function, field by field.

Sources: API Gateway Developer Guide, "Input format of a Lambda function for proxy integration"; Lambda Developer Guide,
"Using Lambda with Amazon SQS"; EventBridge User Guide, "Scheduled events"; EMR Serverless User Guide, "Automating EMR
Serverless with Amazon EventBridge".
"""

import base64
import hashlib
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from firn_local.aws import ACCOUNT, REGION
from firn_local.template import ApiEvent


@dataclass(frozen=True)
class HttpRequest:
    """A request as it came in: decoded path, raw query string, headers by name."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    client: str = "127.0.0.1"


def path_parameters(route: ApiEvent, method: str, path: str) -> dict[str, str] | None:
    """The path's parameters if the route takes this request, else None. {name+} takes the rest, slashes included."""
    if route.method not in ("ANY", "*", method):
        return None
    pattern = re.sub(r"\{(\w+)\+\}", r"(?P<\1>.+)", route.path)
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)
    found = re.fullmatch(pattern, path)
    return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


def api_event(
    request: HttpRequest, route: ApiEvent, parameters: Mapping[str, str], *, stage: str, binary_types: Sequence[str]
) -> dict[str, Any]:
    """A REST API (payload format 1.0) proxy event; the body is base64 if its content type is in `binary_types`."""
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(request.query, keep_blank_values=True):
        query.setdefault(name, []).append(value)
    request_id, now = str(uuid.uuid4()), time.time()
    binary = _is_binary(_header(request.headers, "content-type") or "application/json", binary_types)
    text = base64.b64encode(request.body).decode() if binary else request.body.decode("utf-8", "replace")
    return {
        "resource": route.path,
        "path": request.path,
        "httpMethod": request.method,
        "headers": dict(request.headers),
        "multiValueHeaders": {name: [value] for name, value in request.headers.items()},
        "queryStringParameters": {name: values[-1] for name, values in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": dict(parameters) or None,
        "stageVariables": None,
        "requestContext": {
            "resourceId": hashlib.sha256(route.path.encode()).hexdigest()[:6],
            "resourcePath": route.path,
            "httpMethod": request.method,
            "extendedRequestId": uuid.uuid4().hex[:15],
            "requestTime": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "path": f"/{stage}{request.path}",
            "accountId": ACCOUNT,
            "protocol": "HTTP/1.1",
            "stage": stage,
            "domainPrefix": "local",
            "requestTimeEpoch": int(now * 1000),
            "requestId": request_id,
            "identity": {
                "cognitoIdentityPoolId": None,
                "accountId": None,
                "cognitoIdentityId": None,
                "caller": None,
                "sourceIp": request.client,
                "principalOrgId": None,
                "accessKey": None,
                "cognitoAuthenticationType": None,
                "cognitoAuthenticationProvider": None,
                "userArn": None,
                "userAgent": _header(request.headers, "user-agent"),
                "user": None,
            },
            "domainName": _header(request.headers, "host") or "localhost",
            "apiId": "local",
        },
        "body": text if request.body else None,
        "isBase64Encoded": binary and bool(request.body),
    }


def sqs_event(messages: Sequence[Mapping[str, Any]], queue_arn: str) -> dict[str, Any]:
    """The event of one batch. `messages` as boto3's receive_message gives them, all attributes asked for."""
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": dict(message.get("Attributes", {})),
                "messageAttributes": {
                    name: _message_attribute(value) for name, value in message.get("MessageAttributes", {}).items()
                },
                "md5OfBody": message["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn,
                "awsRegion": REGION,
            }
            for message in messages
        ]
    }


def _message_attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    attribute: dict[str, Any] = {"stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
    if "StringValue" in value:
        attribute["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        attribute["binaryValue"] = base64.b64encode(value["BinaryValue"]).decode()
    return attribute


def schedule_event(rule: str) -> dict[str, Any]:
    """The event of a rule with a schedule."""
    return _event("Scheduled Event", "aws.events", [f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{rule}"], {})


def job_state_event(run: Mapping[str, Any], before: str) -> dict[str, Any]:
    """The event of a job run that changed its state. `run`: as GetJobRun shows it; `before`: the state that it had."""
    told = ("applicationId", "jobRunId", "arn", "releaseLabel", "state", "createdBy")
    moments = {name: _instant(run[name]) for name in ("createdAt", "updatedAt")}
    detail = {name: run[name] for name in told} | moments | {"previousState": before}
    return _event("EMR Serverless Job Run State Change", "aws.emr-serverless", [], detail)


def _event(kind: str, source: str, resources: list[str], detail: Mapping[str, Any]) -> dict[str, Any]:
    """What EventBridge wraps around each event."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": kind,
        "source": source,
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": resources,
        "detail": dict(detail),
    }


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether a rule takes an event: each field of the pattern has one of the values that are listed for it.

    EventBridge's other operators (prefix, numeric, …) are dicts in the lists, and match nothing here.
    """
    for name, wanted in pattern.items():
        found = event.get(name)
        if isinstance(wanted, Mapping):
            if not isinstance(found, Mapping) or not matches(wanted, found):
                return False
        elif found not in wanted:
            return False
    return True


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_binary(content_type: str, binary_types: Sequence[str]) -> bool:
    kind = content_type.split(";")[0].strip().lower()
    return any(pattern == "*/*" or pattern.lower() == kind for pattern in binary_types)


def _header(headers: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in headers.items() if key.lower() == name), None)
