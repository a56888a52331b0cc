"""Which IAM actions a request to the AWS endpoint needs, on which resource, and who sent it.

A test holds the template's roles to it (tests/integration/stack/test_least_privilege.py). Every client counts, boto3's,
obstore's and Java's, because it is the request that is looked at. Sources: the Service Authorization Reference; S3 User
Guide, "Required permissions for Amazon S3 API operations" (a HEAD is a GET, a listing is s3:ListBucket, all parts of a
multipart upload are s3:PutObject).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote
from wsgiref.types import WSGIEnvironment

from firn_local.emr_model import match
from firn_local.serving import peeked_body, raw_path
from firn_local.signatures import Signature

_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")


@dataclass(frozen=True, order=True)
class Call:
    """One action. `who`: the access key that signed it; `resource`: an ARN; `if_absent`: it writes only what is not
    there."""

    who: str
    action: str
    resource: str
    if_absent: bool = False


def calls(environ: WSGIEnvironment, account: str, signed: Signature) -> list[Call]:
    """What the request asks for. A link has the rights of whoever made it. Leaves the body as it was.

    What this does not know comes back as an action that no policy grants.
    """
    arn = f"arn:aws:{signed.service}:{signed.region}:{account}:"
    match signed.service:
        case "s3":
            found = _s3(environ)
        case "emr-serverless":
            found = _emr(environ, arn)
        case "lambda":
            name = invoked(environ)
            found = iter([("lambda:InvokeFunction" if name else "lambda:unknown", f"{arn}function:{name}", False)])
        case "sns":
            found = _sns(environ, arn)
        case service:
            found = _by_target(environ, service, arn)
    return [Call(signed.key, action, resource, if_absent) for action, resource, if_absent in found]


def invoked(environ: WSGIEnvironment) -> str | None:
    """The name of the function that a request to Lambda invokes (Lambda API Reference, Invoke); None if none."""
    found = _INVOKE.fullmatch(raw_path(environ))
    return unquote(found[1]) if found and environ["REQUEST_METHOD"] == "POST" else None


def to_know_it_is_not_there(call: Call) -> Call | None:
    """What S3 asks for before it says that an object is not there: without the right to list it answers 403."""
    if call.action != "s3:GetObject":
        return None
    return Call(call.who, "s3:ListBucket", call.resource.partition("/")[0])


def _s3(environ: WSGIEnvironment) -> Iterator[tuple[str, str, bool]]:
    method, query = environ["REQUEST_METHOD"], parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    bucket, _, key = raw_path(environ).lstrip("/").partition("/")
    there = f"arn:aws:s3:::{bucket}"
    if not key:
        if method == "POST" and "delete" in query:
            for deleted in re.findall(rb"<Key>(.*?)</Key>", peeked_body(environ)):
                yield "s3:DeleteObject", f"{there}/{deleted.decode()}", False
        elif "lifecycle" in query:
            # Who may put rules may take them away: there is no action of its own for that.
            yield f"s3:{'Get' if method == 'GET' else 'Put'}LifecycleConfiguration", there, False
        elif method in ("GET", "HEAD"):
            yield ("s3:GetBucketLocation" if "location" in query else "s3:ListBucket"), there, False
        else:
            yield f"s3:{method} bucket", there, False
        return
    if "tagging" in query:
        verb = {"GET": "Get", "PUT": "Put", "DELETE": "Delete"}.get(method, method)
        yield f"s3:{verb}ObjectTagging", f"{there}/{key}", False
        return
    if_absent = environ.get("HTTP_IF_NONE_MATCH") == "*"
    match method:
        case "GET" | "HEAD":
            yield "s3:GetObject", f"{there}/{key}", False
        case "PUT" | "POST":
            # A part, and the start of an upload, can't carry the condition; the policy lets them through.
            part = "partNumber" in query or "uploads" in query
            yield "s3:PutObject", f"{there}/{key}", if_absent or part
            if environ.get("HTTP_X_AMZ_TAGGING"):
                yield "s3:PutObjectTagging", f"{there}/{key}", False
            if source := environ.get("HTTP_X_AMZ_COPY_SOURCE"):
                yield "s3:GetObject", f"arn:aws:s3:::{source.lstrip('/')}", False
        case "DELETE":
            yield ("s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"), f"{there}/{key}", False


def _emr(environ: WSGIEnvironment, arn: str) -> Iterator[tuple[str, str, bool]]:
    found = match(environ["REQUEST_METHOD"], raw_path(environ))
    if found is None:
        yield "emr-serverless:unknown", arn, False
        return
    route, bound = found
    application = f"{arn}/applications/{bound.get('applicationId', '')}"
    run = f"{application}/jobruns/{bound['jobRunId']}" if "jobRunId" in bound else application
    yield f"emr-serverless:{route.name}", bound.get("resourceArn", run), False
    if route.name == "StartJobRun":
        request: dict[str, Any] = json.loads(peeked_body(environ) or b"{}")
        yield "iam:PassRole", str(request.get("executionRoleArn")), False
        if request.get("tags"):
            yield "emr-serverless:TagResource", f"{application}/jobruns/new", False


def _sns(environ: WSGIEnvironment, arn: str) -> Iterator[tuple[str, str, bool]]:
    """SNS has its operation in a form (Amazon SNS API Reference, "Making a request")."""
    form = parse_qs(peeked_body(environ).decode("latin-1"), keep_blank_values=True)
    yield f"sns:{form.get('Action', ['unknown'])[0]}", form.get("TopicArn", [arn])[0], False


def _by_target(environ: WSGIEnvironment, service: str, arn: str) -> Iterator[tuple[str, str, bool]]:
    """SQS, Secrets Manager, SSM and Glue name the operation in a header, and what it is about in the body."""
    operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] or "unknown"
    body: dict[str, Any] = json.loads(peeked_body(environ) or b"{}") if operation != "unknown" else {}
    match service:
        case "sqs":
            resource = arn + str(body.get("QueueUrl", "")).rpartition("/")[2]
        case "secretsmanager":
            resource = f"{arn}secret:{body.get('SecretId', '')}"
        case "ssm":
            resource = f"{arn}parameter/{str(body.get('Name', '')).lstrip('/')}"
        case "glue":
            resource = arn + _of_glue(body)
        case _:
            resource = arn
    yield f"{service}:{operation}", resource, False


def _of_glue(body: dict[str, Any]) -> str:
    """The database or the table. Glue asks for the same right on what holds it, the catalog and the database."""
    database = body.get("DatabaseName") or body.get("Name") or body.get("DatabaseInput", {}).get("Name", "")
    table = (body.get("Name") or body.get("TableInput", {}).get("Name", "")) if "DatabaseName" in body else ""
    return f"table/{database}/{table}" if table else f"database/{database}"
