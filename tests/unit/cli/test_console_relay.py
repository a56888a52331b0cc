"""`firn console --target NAME`: the real command in a process of its own, in front of the real console function.

The deployment is one server on loopback, as LocalStack is: CloudFormation's answer, and function URLs that check the
signature of each request (firn_local.signatures) and say who signed it, as Lambda does.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.sax.saxutils import escape

import pytest

from firn.log import pause
from firn.log.published_configs import publish
from firn_cli.console_relay import MOST_BODY, Answer, Deployed, Place, Relay, Unreachable, key_sender
from firn_local.signatures import is_signed_with, signature_of
from tests.unit.functions.conftest import CONFIG
from tests.unit.functions.conftest import load as load
from tests.unit.functions.conftest import store as store
from tests.unit.log.storage_faults import FaultyStore

SECRET, ARN = "a-secret", "arn:aws:sts::123456789012:assumed-role/ops/me"
OUTPUTS = {
    "Url": "https://a1.execute-api.us-east-1.amazonaws.com/dev", "Staging": "s3://x", "Warehouse": "s3://y",
    "DispatchFunction": "dispatch", "ConsoleUrl": "https://a1.execute-api.us-east-1.amazonaws.com/dev/console/",
    "SignedConsoleUrl": "https://con.lambda-url.us-east-1.on.aws/", "QueryUrl": "https://que.lambda-url.us-east-1.on.aws/",
}  # fmt: skip
IAM = f"console:\n  auth: {{by: iam}}\n  actions: {{auth: {{by: iam, iam: ['{ARN}']}}}}\n"


class Deployment:
    """`asked`: (host, method, target) of each signed request, and what came of the others."""

    def __init__(self, app: ModuleType) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, app))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(deployment: Deployment, app: ModuleType) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/":
                return self._send(200, _stack().encode(), {"Content-Type": "text/xml"})
            headers = {name.lower(): value for name, value in self.headers.items()}
            environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
            environ |= {"REQUEST_METHOD": self.command, "REQUEST_URI": self.path}
            environ |= {"CONTENT_TYPE": headers.get("content-type", "")}
            environ["QUERY_STRING"] = self.path.partition("?")[2]
            signed = signature_of(environ)
            if not signed or not is_signed_with(SECRET, signed, environ, body, datetime.now(UTC)):
                return self._send(403, b'{"Message":"Forbidden"}', {})
            assert signed.service == "lambda"
            deployment.asked.append((headers["host"], self.command, self.path))
            deployment.headers.append(headers)
            path, _, query = self.path.partition("?")
            event = {
                "rawPath": path, "rawQueryString": query, "headers": headers, "body": body.decode(),
                "requestContext": {"http": {"method": self.command}, "authorizer": {"iam": {"userArn": ARN}}},
            }  # fmt: skip
            answer = app.handler(event, None)
            told = {**answer["headers"], "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*"}
            return self._send(answer["statusCode"], answer["body"].encode(), told)

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _serve

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    return Handler


def _stack() -> str:
    outputs = "".join(
        f"<member><OutputKey>{key}</OutputKey><OutputValue>{escape(value)}</OutputValue></member>"
        for key, value in OUTPUTS.items()
    )
    return (
        '<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks>'
        "<member><StackName>firn-dev</StackName><StackStatus>CREATE_COMPLETE</StackStatus>"
        f"<CreationTime>2026-01-01T00:00:00Z</CreationTime><Outputs>{outputs}</Outputs></member>"
        "</Stacks></DescribeStacksResult></DescribeStacksResponse>"
    )


@pytest.fixture
def deployment(load: Callable[..., ModuleType], store: FaultyStore) -> Iterator[Deployment]:
    publish(store, CONFIG + IAM)
    made = Deployment(load("console"))
    yield made
    made.stop()


def ask(
    port: int, method: str, target: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_signs_and_ends_on_a_signal(
    deployment: Deployment, store: FaultyStore, tmp_path: Path, sign: signal.Signals
) -> None:
    streams = "streams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}"
    targets = f"targets: {{dev: {{region: us-east-1, endpoint: '{deployment.url}'}}}}"
    (tmp_path / "firn.yaml").write_text(f"{targets}\n{streams}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-m", "firn_cli.main", "console", "--target", "dev", "--port", "0"]
    running = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],  # as in a script's background, which ignores Ctrl-C
        cwd=tmp_path, env={**kept, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, running.communicate()
        address, _, token = line.split(": ")[1].strip().partition("#session=")
        port = int(address.split(":")[2].partition("/")[0])
        page = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}
        mine = {**page, "X-Firn-Session": token}
        status, headers, body = ask(port, "GET", "/console/", page)
        assert (status, b"<title>Firn</title>" in body) == (200, True)
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert not {"set-cookie", "access-control-allow-origin"} & set(headers)
        session = json.loads(ask(port, "GET", "/v1/console/session", mine)[2])
        assert session["rights"] == ["look", "events", "act"]
        assert ask(port, "GET", "/v1/console/tables?like=a%20b%2F&limit=5", mine)[0] == 200
        act = {**mine, "Content-Type": "application/json", "X-Firn-Console": "1"}
        assert ask(port, "POST", "/v1/console/actions/pause", act, b"{}")[0] == 200
        assert pause.since(store) is not None
        ask(port, "GET", "/v1/tables/shop.orders/schema", mine)
        assert {host for host, _, _ in deployment.asked} == {
            "con.lambda-url.us-east-1.on.aws",
            "que.lambda-url.us-east-1.on.aws",
        }
        assert not any("x-firn-session" in one for one in deployment.headers)
    finally:
        running.send_signal(sign)
        assert running.wait(10) == 0, running.communicate()


TOKEN = "t" * 43


@pytest.fixture
def relay() -> Iterator[tuple[Relay, list[tuple[str, str]]]]:
    """A relay, and what it sent on."""
    sent: list[tuple[str, str]] = []

    def send(method: str, url: str, _headers: Any, _body: bytes) -> Answer:
        sent.append((method, url))
        return Answer(200, {"Content-Type": "application/json"}, b"{}")

    one = Relay(Deployed(Place("http://console"), Place("http://query"), send), TOKEN)
    thread = one.start()
    yield one, sent
    one.stop()
    thread.join(5)


HOST = "127.0.0.1:{port}"
ACT = {
    "Host": HOST, "Origin": f"http://{HOST}", "Content-Type": "application/json", "X-Firn-Console": "1",
    "X-Firn-Session": TOKEN,
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (200, {}),
        (421, {"Host": "evil.example"}), (421, {"Host": "evil.example:{port}"}), (421, {"Host": "127.0.0.1"}),
        (421, {"Host": "127.0.0.1:1"}), (421, {"Host": "localhost.evil.example:{port}"}), (421, {"Host": ""}),
        (403, {"Origin": "http://evil.example"}), (403, {"Origin": "null"}), (403, {"Origin": "http://127.0.0.1:1"}),
        (403, {"Origin": "https://127.0.0.1:{port}"}), (403, {"Origin": "http://localhost:{port}"}),
        (403, {"Origin": ""}),
        (403, {"Sec-Fetch-Site": "cross-site"}), (403, {"Sec-Fetch-Site": "same-site"}),
        (401, {"X-Firn-Session": ""}), (401, {"X-Firn-Session": TOKEN[:-1]}), (401, {"X-Firn-Session": "\xe9" * 43}),
        (401, {"X-Firn-Session": f"{TOKEN}, {TOKEN}"}),
    ],
)  # fmt: skip
def test_only_the_page_of_this_session_writes_or_reads(
    relay: tuple[Relay, list[tuple[str, str]]], status: int, changed: dict[str, str]
) -> None:
    one, sent = relay
    headers = {name: value.replace("{port}", str(one.port)) for name, value in {**ACT, **changed}.items()}
    for method, target in (
        ("POST", "/v1/console/actions/pause"),
        ("POST", "/v1/query"),
        ("GET", "/v1/console/overview"),
    ):
        found, told, _ = ask(one.port, method, target, headers, b"{}" if method == "POST" else None)
        assert found == status
        assert told["x-frame-options"] == "DENY"
    assert len(sent) == (3 if status == 200 else 0)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/streams/shop"), ("GET", "/v1/batches/x"), ("POST", "/v1/console/overview"), ("PUT", "/v1/query"),
        ("POST", "/console/"), ("DELETE", "/v1/tables/shop.orders"), ("OPTIONS", "/v1/query"), ("GET", "http://evil/v1/x"),
        ("GET", "//evil.example/"), ("GET", "/_firn/invoke/dispatch"), ("PATCH", "/v1/console/actions/pause"),
        ("GET", "@evil.example/v1/tables"), ("POST", "/v1/console/actions/pause/more"),
    ],
)  # fmt: skip
def test_nothing_but_what_the_pages_ask_is_sent_on(
    relay: tuple[Relay, list[tuple[str, str]]], method: str, target: str
) -> None:
    one, sent = relay
    headers = {name: value.replace("{port}", str(one.port)) for name, value in ACT.items()}
    assert ask(one.port, method, target, headers)[0] in (400, 404)
    assert sent == []


def test_bodies_are_bounded_and_have_one_length(relay: tuple[Relay, list[tuple[str, str]]]) -> None:
    one, sent = relay
    headers = {name: value.replace("{port}", str(one.port)) for name, value in ACT.items()}
    for more, status in (
        ({"Content-Length": str(MOST_BODY + 1)}, 413),
        ({"Content-Length": "-1"}, 413),
        ({"Content-Length": "0", "Transfer-Encoding": "chunked"}, 400),
        ({"content-length": "0", "Content-Length": "2"}, 400),
    ):
        assert ask(one.port, "POST", "/v1/query", {**headers, **more})[0] == status
    assert sent == []


def test_what_aws_refuses_is_told_with_what_to_do(relay: tuple[Relay, list[tuple[str, str]]]) -> None:
    def lost(*_: Any) -> Answer:
        raise Unreachable("the deployment does not answer (X); try again")

    def forbidden(*_: Any) -> Answer:
        return Answer(403, {"content-type": "application/json"}, b'{"Message":"Forbidden"}')

    for send, status, text in ((lost, 502, b"try again"), (forbidden, 403, b"lambda:InvokeFunctionUrl")):
        one = Relay(Deployed(Place("http://a"), Place("http://a"), send), TOKEN)
        thread = one.start()
        headers = {"Host": f"127.0.0.1:{one.port}", "X-Firn-Session": TOKEN}
        found, _, body = ask(one.port, "GET", "/v1/tables", headers)
        one.stop()
        thread.join(5)
        assert (found, text in body) == (status, True)


def test_a_readers_key_goes_along_unless_the_page_has_one(deployment: Deployment) -> None:
    seen: list[str] = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["x-api-key"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/dev"
    send = key_sender("the-readers-key")
    assert send("GET", f"{url}/v1/tables", {}, b"").status == 200
    assert send("GET", f"{url}/v1/tables", {"x-api-key": "another"}, b"").body == b"{}"
    server.shutdown()
    server.server_close()
    assert seen == ["the-readers-key", "another"]
    with pytest.raises(Unreachable):
        send("GET", f"{url}/v1/tables", {}, b"")
