"""The stack's AWS endpoint: moto's S3, SQS, Kinesis and DynamoDB, made safe for concurrent clients, and EMR Serverless
beside them.

moto is written for tests of one thread. Its S3 checks `If-None-Match` and then writes; its SQS deletes by building the
list of messages again, so that a message sent at that moment is lost; its listings fail when a key is put meanwhile. So
one lock goes around each call to moto: every request is then atomic, and conditional puts have exactly one winner.
Long polls wait outside of the lock (`_receive`).

One port serves all: the service is read from the signature's scope, as AWS's own front ends do. S3, SQS, Kinesis and
DynamoDB take any signature: what they hold is open to whoever reaches the port. What starts processes or holds secrets
takes only those made with the stack's own secret key. Services that Firn does not use, and moto's own pages, are not
here.
"""

import functools
import io
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from firn_local import glue, lifecycle_rules, lifecycle_runner
from firn_local.calls import Call, calls, to_know_it_is_not_there
from firn_local.lifecycle_runner import Done
from firn_local.serving import Held, Server, json_response, peeked_body, read_body
from firn_local.signatures import Signature, is_signed_with, signature_of

ACCOUNT = "123456789012"  # moto's default account
REGION = "us-east-1"
ACCESS_KEY = SECRET_KEY = "test"  # noqa: S105

Observe = Callable[[Call], None]

_OPEN = frozenset({"s3", "sqs", "kinesis", "dynamodb"})
_OF_MOTO = _OPEN | {"glue", "secretsmanager", "sns", "ssm", "sts"}
_POLL_SECONDS = 0.1


def s3_authorization() -> str:
    """A header by which a request goes to S3, which takes any signature."""
    credential = f"{ACCESS_KEY}/20260101/{REGION}/s3/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature={'0' * 64}"


class AwsApplication:
    """Routes requests by their signature to moto or to one of `others` (service name to application)."""

    def __init__(
        self,
        others: Mapping[str, WSGIApplication] | None = None,
        observe: Observe | None = None,
        secret_key: str = SECRET_KEY,
    ) -> None:
        # Imported here: moto costs 45 MB and half a second, and only the process that serves needs it.
        from moto.moto_server.werkzeug_app import create_backend_app

        self._app_of: Callable[[str], WSGIApplication] = functools.cache(create_backend_app)
        self._secret_key = secret_key
        self._lock = threading.Lock()
        self._others = dict(others or {})
        self._observe = observe

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        signed = signature_of(environ)
        if (refused := self._refusal(signed, environ)) is not None or signed is None:
            # Each of AWS's protocols reads the error's name where it expects it.
            name = "AccessDeniedException"
            answer = json_response(403, {"__type": name, "message": refused}, {"x-amzn-ErrorType": name})
            return answer.send(start_response)
        service = signed.service
        if self._observe is not None:
            start_response = self._watched(environ, start_response, self._observe, signed)
        other = self._others.get(service)
        if other is not None:
            return other(environ, start_response)
        if service == "sqs" and (poll := _long_poll(environ)) is not None:
            return self._receive(environ, start_response, *poll)
        bucket = lifecycle_rules.bucket_of(environ) if service == "s3" else None
        with self._lock:
            moto = self._app_of(_backend(service, environ))
            if bucket is not None:
                return list(lifecycle_rules.answer(moto, environ, start_response, bucket, ACCOUNT))
            if service == "glue" and glue.is_stale(environ, ACCOUNT, REGION):
                start_response("400 Bad Request", [("Content-Type", "application/x-amz-json-1.1")])
                return [glue.REFUSED]
            return _whole(moto(environ, start_response))

    def _refusal(self, signed: Signature | None, environ: WSGIEnvironment) -> str | None:
        """Why the request is not taken, None if it is. Leaves the body as it was."""
        if signed is None:
            there = "S3, SQS, Kinesis, DynamoDB and EMR Serverless"
            return f"sign the request (AWS signature version 4): here are {there}, and no pages"
        if signed.service not in _OF_MOTO and signed.service not in self._others:
            return f"{signed.service} is not here"
        if signed.service in _OPEN:
            return None
        body = peeked_body(environ)
        if not is_signed_with(self._secret_key, signed, environ, body, datetime.now(UTC)):
            return "the signature is not by this stack's secret key: AWS_SECRET_ACCESS_KEY of `env` in its stack.json"
        return None

    def run_lifecycle(self, now: datetime) -> list[Done]:
        """Do what the lifecycle rules of all buckets say, as if it were `now` (aware)."""
        with self._lock:
            return lifecycle_runner.run(ACCOUNT, now)

    @staticmethod
    def _watched(
        environ: WSGIEnvironment, start_response: StartResponse, observe: Observe, signed: Signature
    ) -> StartResponse:
        """Tell what the request asks for: now, and what its answer needs besides as soon as there is one."""
        asked = calls(environ, ACCOUNT, signed)
        for call in asked:
            observe(call)

        def answer(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
            if status.startswith("404"):
                for call in map(to_know_it_is_not_there, asked):
                    if call is not None:
                        observe(call)
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        return answer

    def _receive(
        self, environ: WSGIEnvironment, start_response: StartResponse, body: bytes, seconds: float
    ) -> Iterable[bytes]:
        """ReceiveMessage with its wait outside of the lock: ask moto again, until there is a message or time is up."""
        deadline = time.monotonic() + min(20.0, seconds)
        while True:
            answer = Held()
            attempt = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            with self._lock:
                payload = b"".join(_whole(self._app_of("sqs")(attempt, answer)))
            empty = answer.status.startswith("200") and b"MessageId" not in payload
            if not empty or time.monotonic() >= deadline:
                start_response(answer.status, answer.headers)
                return [payload]
            time.sleep(_POLL_SECONDS)


def _backend(service: str, environ: WSGIEnvironment) -> str:
    """Which of moto's parts answers: tables and their streams are two, and both are signed as DynamoDB's."""
    streams = environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDBStreams_")
    return "dynamodbstreams" if service == "dynamodb" and streams else service


def _long_poll(environ: WSGIEnvironment) -> tuple[bytes, float] | None:
    """For a ReceiveMessage: its body with no wait, and the seconds it would wait. None for anything else.

    Both of SQS's protocols: JSON with the operation in a header, and the older form fields.
    """
    if environ.get("HTTP_X_AMZ_TARGET", "").endswith(".ReceiveMessage"):
        request: dict[str, Any] = json.loads(read_body(environ) or b"{}")
        seconds = float(request.get("WaitTimeSeconds") or 0)
        return json.dumps({**request, "WaitTimeSeconds": 0}).encode(), seconds
    if "HTTP_X_AMZ_TARGET" in environ:
        return None
    body = peeked_body(environ)
    form = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
    if form.get("Action") != "ReceiveMessage":
        return None
    seconds = float(form.get("WaitTimeSeconds") or 0)
    return urlencode({**form, "WaitTimeSeconds": 0}, encoding="latin-1").encode(), seconds


def _whole(body: Iterable[bytes]) -> list[bytes]:
    """Draw the body while the lock is held, and close it as WSGI asks for."""
    try:
        return list(body)
    finally:
        close = getattr(body, "close", None)
        if close is not None:
            close()


class AwsEndpoint(Server):
    """S3, SQS and the `others` on one loopback port. What they hold lives in this process's memory.

    `observe` hears of each action that a signed request asks for; it is called by many threads. `secret_key`: by which
    requests are signed that start processes or read secrets.
    """

    def __init__(
        self,
        port: int = 0,
        others: Mapping[str, WSGIApplication] | None = None,
        observe: Observe | None = None,
        secret_key: str = SECRET_KEY,
    ) -> None:
        self._application = AwsApplication(others, observe, secret_key)
        self._secret_key = secret_key
        # Each long poll holds a thread, so there are more than the machine has use for otherwise.
        super().__init__(self._application, port, threads=24)

    def run_lifecycle(self, now: datetime) -> list[Done]:
        """AwsApplication.run_lifecycle."""
        return self._application.run_lifecycle(now)

    @property
    def credentials(self) -> dict[str, str]:
        """What any AWS client needs in its environment to talk to this endpoint and to nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            # No look at the instance metadata service, and no profile of the person at the keyboard.
            "AWS_EC2_METADATA_DISABLED": "true",
        }
