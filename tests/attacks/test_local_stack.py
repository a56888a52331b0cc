"""The embedded stack, from a web page that a browser on this machine shows, and from another user of this machine."""

import http.client
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from firn_local import signatures
from firn_local.aws import s3_authorization
from firn_local.stack import ROLE_ARN, Options, Stack
from tests.integration.stack.granted import forget_aws

CONFIG = """
streams:
  shop: {envelope: auto, tables: {'*': {to: 'shop.{table}'}}}
  signed: {auth: {by: iam}, envelope: auto, tables: {'*': {to: 'signed.{table}'}}}
"""
EVENT = b'{"op":"c","after":{"id":1},"source":{"schema":"public","table":"orders","connector":"postgresql"}}'
ARN = "arn:aws:iam::123456789012:user/owner"
PAGES = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8181"},
    {"Host": "127.0.0.1.evil.example:8181"},
    {"Host": "localhost@evil.example"},
    {"Host": "bucket.localhost:8181"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "https://127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


class Local:
    """A stack of this test's own, spoken to in bytes of our choice."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack, self.about, self.folder = stack, stack.description, folder
        self.token = str(self.about["token"])
        self.application = str(self.about["env"]["FIRN_EMR_APPLICATION_ID"])
        self.bucket = str(self.about["staging"]).removeprefix("s3://")
        self.queue = next(url for name, url in self.about["queues"].items() if "Dead" not in name)

    def send(
        self, to: str, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """`to`: url or aws_endpoint. -> status, body, headers with their names in lower case."""
        host = str(self.about[to]).removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in ({"Host": host, "Content-Length": str(len(body))} | (headers or {})).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        return found

    @cache  # noqa: B019
    def client(self, service: str, secret: str = "test") -> Any:
        make: Any = boto3.session.Session().client
        return make(
            service,
            endpoint_url=self.about["aws_endpoint"],
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key=secret,
            config=Config(retries={"max_attempts": 0}),
        )

    def holds(self) -> tuple[list[str], int, int]:
        """What a page could have changed: the staged batches and our object, the job runs, the queue's messages."""
        listed = self.client("s3").list_objects_v2(Bucket=self.bucket).get("Contents", [])
        kept = [one["Key"] for one in listed if one["Key"].startswith(("staged/", "mine"))]
        runs = self.client("emr-serverless", self.token).list_job_runs(applicationId=self.application)["jobRuns"]
        counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.client("sqs").get_queue_attributes(QueueUrl=self.queue, AttributeNames=counts)["Attributes"]
        return kept, len(runs), sum(map(int, told.values()))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    forget_aws()
    folder = tmp_path_factory.mktemp("local")
    (folder / "firn.yaml").write_text(CONFIG)
    (folder / "stack").mkdir()
    (folder / "stack" / "stack.json.new").write_text("left by a killed stack, for all to read")
    options = Options(folder / "stack", s3=True, port=0, config=folder / "firn.yaml", schedules=False)
    before = os.umask(0)
    try:
        with Stack(options, say=lambda _line: None) as stack:
            os.umask(before)
            found = Local(stack, folder / "stack")
            found.client("s3").put_object(Bucket=found.bucket, Key="mine", Body=b"x")
            yield found
    finally:
        os.umask(before)


def requests(local: Local) -> dict[str, tuple[str, str, str, bytes, dict[str, str]]]:
    """What pages would send, each with all that it needs besides: it is where it comes from that is wrong."""
    token, form = {"X-Firn-Token": local.token}, {"Content-Type": "application/x-www-form-urlencoded"}
    sqs = {**form, "Authorization": s3_authorization().replace("/s3/", "/sqs/")}
    linked = urlencode({"X-Amz-Credential": "test/20260101/us-east-1/s3/aws4_request", "X-Amz-Signature": "0"})
    sent = {"Action": "SendMessage", "QueueUrl": local.queue, "MessageBody": EVENT.decode(), "Version": "2012-11-05"}
    queue = "/" + local.queue.split("/", 3)[3]
    return {
        "post": ("url", "POST", "/v1/streams/shop", EVENT, {"Content-Type": "application/json"}),
        "query": ("url", "GET", "/v1/streams", b"", {}),
        "metrics": ("url", "GET", "/metrics", b"", {}),
        "invoke": ("url", "POST", "/_firn/invoke/dispatch", b'{"force": true}', token),
        "lifecycle": ("url", "POST", "/_firn/lifecycle", b"", token),
        "put": ("aws_endpoint", "PUT", f"/{local.bucket}/staged/x", b"x", {"Authorization": s3_authorization()}),
        "get by link": ("aws_endpoint", "GET", f"/{local.bucket}/mine?{linked}", b"", {}),
        "delete by link": ("aws_endpoint", "DELETE", f"/{local.bucket}/mine?{linked}", b"", {}),
        "message": ("aws_endpoint", "POST", queue, urlencode(sent).encode(), sqs),
        "reset": ("aws_endpoint", "POST", "/moto-api/reset", b"", {"Authorization": s3_authorization()}),
        "emr": ("aws_endpoint", "GET", "/applications", b"", signed(local, "GET", "/applications")),
    }


def signed(
    local: Local, method: str, path: str, body: bytes = b"", secret: str | None = None, service: str = "emr-serverless"
) -> dict[str, str]:
    """The headers of a request that botocore has signed with a secret key, the stack's own if none is given."""
    request = AWSRequest(method, str(local.about["aws_endpoint"]) + path, data=body)
    SigV4Auth(Credentials("test", secret or local.token), service, "us-east-1").add_auth(request)
    return {**dict(request.headers.items())}


def test_what_the_pages_send_is_taken_from_a_client_that_is_none(local: Local) -> None:
    messages = local.holds()[2]
    answers = {name: local.send(*request)[0] for name, request in requests(local).items() if name != "reset"}
    local.client("s3").put_object(Bucket=local.bucket, Key="mine", Body=b"x")
    assert local.holds()[2] == messages + 1
    assert {name: status for name, status in answers.items() if status // 100 != 2} == {}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_web_page_may_ask_nothing_and_changes_nothing(local: Local, page: dict[str, str]) -> None:
    before = local.holds()
    answers = {name: local.send(to, m, p, b, h | page) for name, (to, m, p, b, h) in requests(local).items()}
    # waitress itself refuses a request with an empty Host.
    wanted = {421} if page.get("Host") else {421, 400} if "Host" in page else {403}
    assert {name: status for name, (status, _, _) in answers.items() if status not in wanted} == {}
    assert [headers for _, _, headers in answers.values() if any("access-control" in name for name in headers)] == []
    assert local.holds() == before


@pytest.mark.parametrize("to", ["url", "aws_endpoint"])
def test_a_browser_that_asks_first_gets_no_leave(local: Local, to: str) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-firn-token"}
    for path in (
        "/v1/streams/shop",
        "/_firn/invoke/dispatch",
        "/moto-api/reset",
        f"/{local.bucket}/mine",
        "/applications",
    ):
        status, _, headers = local.send(to, "OPTIONS", path, headers={"Origin": "http://evil.example", **asks})
        assert (status, [name for name in headers if "access-control" in name]) == (403, [])


def test_a_bucket_that_allows_pages_allows_none(local: Local) -> None:
    rule = {"AllowedOrigins": ["*"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["*"]}
    local.client("s3").put_bucket_cors(Bucket=local.bucket, CORSConfiguration={"CORSRules": [rule]})
    own = str(local.about["aws_endpoint"])
    headers = {"Origin": own, "Authorization": s3_authorization()}
    status, body, told = local.send("aws_endpoint", "GET", f"/{local.bucket}/mine", headers=headers)
    assert (status, body) == (200, b"x"), "a page of its own may ask"
    assert [name for name in told if "access-control" in name] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9", "[::1]:80"])
def test_clients_of_this_machine_come_by_any_of_its_names(local: Local, host: str) -> None:
    own = {"Host": host, "Origin": f"http://{host.lower()}", "Sec-Fetch-Site": "same-origin"}
    assert local.send("url", "GET", "/v1/health", headers=own)[0] == 200
    assert local.send("url", "GET", "/metrics", headers={"Host": host, "Sec-Fetch-Site": "none"})[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "authorization"),
    [
        ("POST", "/moto-api/reset", None),
        ("GET", "/moto-api/data.json", None),
        ("GET", "/moto-api/data.json", "s3"),
        ("GET", "/latest/meta-data/iam/security-credentials/x", None),
        ("GET", "/", None),
        ("POST", "/2015-03-31/functions", "lambda"),
        ("POST", "/lambda_us-east-1/functions", None),
        ("GET", "/lambda_us-east-1/?X-Amz-Credential=a/20260101/us-east-1/lambda/aws4_request", None),
        ("POST", "/", "moto_api"),
        ("POST", "/", "iam"),
    ],
)
def test_motos_other_parts_are_not_here(local: Local, method: str, path: str, authorization: str | None) -> None:
    headers = {"Authorization": s3_authorization().replace("/s3/", f"/{authorization}/")} if authorization else {}
    status, body, _ = local.send("aws_endpoint", method, path, headers=headers)
    # As a name of S3 it is a bucket that is not there.
    assert status == (404 if authorization == "s3" else 403), body
    assert local.holds()[0].count("mine") == 1


@pytest.mark.parametrize(
    "credential",
    [
        "a/b/c/lambda/aws4_request Credential=x/20260101/us-east-1/s3/aws4_request",
        "x/20260101/us-east-1/s3/aws4_request, Credential=x/20260101/us-east-1/lambda/aws4_request",
        "x/20260101/us-east-1/emr-serverless/s3/aws4_request",
        "x/20260101/us-east-1/S3/aws4_request",
        "",
    ],
)
def test_a_signature_is_for_one_service_or_it_is_none(local: Local, credential: str) -> None:
    header = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature={'0' * 64}"
    for path in ("/applications", f"/{local.bucket}/mine"):
        assert local.send("aws_endpoint", "GET", path, headers={"Authorization": header})[0] == 403


# Another user of this machine


def job(local: Local) -> dict[str, Any]:
    driver = {"sparkSubmit": {"entryPoint": "/bin/true"}}
    return {"applicationId": local.application, "executionRoleArn": ROLE_ARN, "jobDriver": driver, "clientToken": "t"}


@pytest.mark.parametrize("secret", ["test", "wrong"])
def test_another_user_starts_no_job(local: Local, secret: str) -> None:
    before, emr = local.holds(), local.client("emr-serverless", secret)
    for call in (lambda: emr.start_job_run(**job(local)), emr.list_applications):
        with pytest.raises(ClientError, match="AccessDenied"):
            call()
    assert local.holds() == before
    reads = {"secretsmanager": "list_secrets", "ssm": "describe_parameters", "glue": "get_databases"}
    for service, operation in reads.items():
        ask = getattr(local.client(service, secret), operation)
        with pytest.raises(ClientError, match="AccessDenied"):
            ask()


def test_the_owner_speaks_every_dialect_of_emr(local: Local) -> None:
    emr = local.client("emr-serverless", local.token)
    arn = emr.get_application(applicationId=local.application)["application"]["arn"]
    emr.tag_resource(resourceArn=arn, tags={"a b": "c/d"})
    assert emr.list_tags_for_resource(resourceArn=arn)["tags"]["a b"] == "c/d"
    emr.untag_resource(resourceArn=arn, tagKeys=["a b"])
    listed = emr.list_job_runs(applicationId=local.application, states=["RUNNING", "FAILED"], maxResults=5)
    assert "jobRuns" in listed


def test_a_signature_is_over_this_request_and_of_this_time(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    path, body = f"/applications/{local.application}/jobruns", json.dumps(job(local)).encode()
    good = signed(local, "GET", path)

    def status(method: str = "GET", path: str = path, body: bytes = b"", **changed: str) -> int:
        return local.send(
            "aws_endpoint", method, path, body, good | {k.replace("_", "-"): v for k, v in changed.items()}
        )[0]

    assert status() == 200
    assert status("POST", body=body) == 403
    assert status(path=f"{path}?maxResults=5") == 403
    assert status(path=f"/applications/{local.application}") == 403
    assert status(body=b"x") == 403
    date = good["X-Amz-Date"]
    assert status(X_Amz_Date=date[:-2] + ("1Z" if date[-2] != "1" else "2Z")) == 403
    assert status(X_Amz_Date="soon") == 403
    assert status(Authorization=good["Authorization"].replace("host;", "")) == 403
    query = urlencode({"X-Amz-Credential": good["Authorization"].split("Credential=")[1].split(",")[0]})
    assert local.send("aws_endpoint", "GET", f"{path}?{query}")[0] == 403

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Later":
            return cls.fromtimestamp((datetime.now(UTC) + timedelta(seconds=signatures.WINDOW + 5)).timestamp(), tz)

    monkeypatch.setattr("firn_local.aws.datetime", Later)
    assert status() == 403


def test_a_signature_for_s3_opens_nothing_else(local: Local) -> None:
    path = f"/applications/{local.application}/jobruns"
    headers = signed(local, "GET", path, service="s3")
    assert local.send("aws_endpoint", "GET", path, headers=headers)[0] == 404, "S3 has no such bucket"


@pytest.mark.parametrize("token", [None, "", "test", "\u00e9"])
@pytest.mark.parametrize(
    "path", ["health", "invoke/dispatch", "invoke/nosuch", "lifecycle", "", "../_firn/invoke/dispatch"]
)
def test_without_the_runs_token_the_host_does_nothing(local: Local, path: str, token: str | None) -> None:
    headers = {} if token is None else {"X-Firn-Token": token}
    for method in ("GET", "POST"):
        status, body, _ = local.send("url", method, f"/_firn/{path}", b"{}", headers)
        assert (status, local.token.encode() in body) == (401, False)


@pytest.mark.parametrize(
    "context",
    [
        {"identity": {"userArn": ARN}},
        {"authorizer": {"iam": {"userArn": ARN}}},
        {"http": {"method": "POST"}, "authorizer": {"iam": {"userArn": ARN}}},
        {"identity": [ARN]},
        [{"identity": {"userArn": ARN}}],
    ],
)
def test_an_event_that_says_who_signed_it_is_not_invoked(local: Local, context: Any) -> None:
    event = {
        "httpMethod": "POST", "path": "/v1/streams/signed", "rawPath": "/v1/streams/signed", "headers": {},
        "body": EVENT.decode(), "requestContext": context,
    }  # fmt: skip
    before, token = local.holds(), {"X-Firn-Token": local.token}
    status, body, _ = local.send("url", "POST", "/_firn/invoke/IngestHttp", json.dumps(event).encode(), token)
    assert status == 403, body
    assert local.holds() == before


def test_no_header_of_a_request_makes_a_caller(local: Local) -> None:
    forged = {"X-Amzn-Iam-User-Arn": ARN, "X-Forwarded-For": "127.0.0.1", "Requestcontext": ARN}
    forged["Authorization"] = s3_authorization().replace("/s3/", "/execute-api/")
    assert local.send("url", "POST", "/v1/streams/signed", EVENT, forged)[0] == 401


def test_the_token_is_the_owners_alone_and_of_this_run(local: Local) -> None:
    file = local.folder / "stack.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(local.token) >= 32
    assert local.token in file.read_text()
    found = []
    for path in local.folder.rglob("*"):
        with suppress(FileNotFoundError):  # the catalog's journal comes and goes
            if path.is_file() and path != file and local.token.encode() in path.read_bytes():
                found.append(path)
    assert found == []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert local.token.encode() not in process.read_bytes(), "everybody may read a command line"
        except (FileNotFoundError, ProcessLookupError):
            continue
