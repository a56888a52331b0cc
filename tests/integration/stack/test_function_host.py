"""The function host over real HTTP and SQS, with small functions that a template of the test declares."""

import base64
import gzip
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from firn_local.aws import AwsEndpoint
from firn_local.host import FunctionHost, HostSettings
from firn_local.queues import create_queues
from firn_local.template import read

pytestmark = pytest.mark.stack
any_client: Any = boto3.session.Session().client

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Color: {Type: String, Default: blue}
Globals:
  Function:
    Runtime: python3.13
    Handler: app.handler
    Timeout: 10
    Environment: {Variables: {COLOR: !Ref Color, BOTH: global}}
Resources:
  Api: {Type: AWS::Serverless::Api, Properties: {StageName: test, BinaryMediaTypes: ['*~1*']}}
  Layer: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: layer/}}
  Echo:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: echo/
      Timeout: 1
      Layers: [!Ref Layer]
      Environment: {Variables: {BOTH: own}}
      Events:
        One: {Type: Api, Properties: {RestApiId: !Ref Api, Path: '/v1/echo/{name}', Method: post}}
        Rest: {Type: Api, Properties: {RestApiId: !Ref Api, Path: '/v1/any/{proxy+}', Method: any}}
  Work:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: work/
      Events:
        Q:
          Type: SQS
          Properties:
            {Queue: !GetAtt Queue.Arn, BatchSize: 5, MaximumBatchingWindowInSeconds: 1,
             FunctionResponseTypes: [ReportBatchItemFailures]}
  Tick:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: tick/
      Events:
        Every: {Type: Schedule, Properties: {Schedule: rate(1 minute)}}
  Dead: {Type: AWS::SQS::Queue}
  Queue:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 2
      RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 2}
"""

ECHO = """
import os, time, colour
calls = 0
def handler(event, context):
    global calls
    calls += 1
    do = (event.get("pathParameters") or {}).get("name", "")
    if do == "raise":
        raise ValueError("on purpose")
    if do == "crash":
        os._exit(7)
    if do == "hang":
        time.sleep(60)
    if do == "malformed":
        return {"no": "status"}
    if do == "binary":
        return {"statusCode": 200, "body": "AP8=", "isBase64Encoded": True,
                "multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"]}}
    import json
    answer = {"event": event, "env": dict(os.environ), "calls": calls, "layer": colour.NAME,
              "left": context.get_remaining_time_in_millis(), "id": context.aws_request_id}
    return {"statusCode": 201, "headers": {"X-Echo": "yes"}, "body": json.dumps(answer)}
"""

WORK = """
import json, pathlib, os
def handler(event, context):
    with open(os.environ["SEEN"], "a") as out:
        out.write(json.dumps(event) + chr(10))
    bad = [r["messageId"] for r in event["Records"] if r["body"].startswith("bad")]
    return {"batchItemFailures": [{"itemIdentifier": i} for i in bad]}
"""

TICK = """
import json, os
def handler(event, context):
    with open(os.environ["SEEN"] + ".tick", "a") as out:
        out.write(json.dumps(event) + chr(10))
    return {"got": event}
"""


class Running:
    def __init__(self, folder: Path) -> None:
        for name, code in (("echo", ECHO), ("work", WORK), ("tick", TICK)):
            (folder / name).mkdir()
            (folder / name / "app.py").write_text(code)
        (folder / "layer" / "python").mkdir(parents=True)
        (folder / "layer" / "python" / "colour.py").write_text("NAME = 'from the layer'")
        (folder / "template.yaml").write_text(TEMPLATE)
        self.seen = folder / "seen"
        self.aws = AwsEndpoint()
        self.aws.start()
        self.sqs: Any = any_client(
            "sqs",
            endpoint_url=self.aws.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"max_attempts": 0}),
        )
        template = read(folder / "template.yaml", {"Color": "green"}, queue_urls=self.aws.url)
        self.queues = create_queues(self.sqs, template.queues)
        environment = {**self.aws.credentials, "SEEN": str(self.seen)}
        self.host = FunctionHost(
            template,
            environment,
            folder / "logs",
            HostSettings(schedule_seconds=0.2, token="t"),
            sqs=self.sqs,
            queue_urls=self.queues,
        )
        self.host.start()

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.host.server.port, timeout=20)
        connection.request(
            method, path, body, {"X-Firn-Token": "t"} | {k.replace("_", "-"): value for k, value in headers.items()}
        )
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, json.loads(data)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.seen.read_text().splitlines()] if self.seen.exists() else []

    def stop(self) -> None:
        self.host.stop()
        self.aws.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    started = Running(tmp_path_factory.mktemp("host"))
    yield started
    started.stop()


def until(condition: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_request_becomes_a_proxy_event_and_the_answer_a_response(running: Running) -> None:
    status, answer = running.call(
        "POST", "/v1/echo/shop%20a?x=1&x=2&y=", b"\xff\x00", Content_Encoding="gzip", X_Id="7"
    )
    event = answer["event"]
    assert status == 201
    assert event["pathParameters"] == {"name": "shop a"}
    assert event["path"] == "/v1/echo/shop%20a", "as it was sent: so a REST API gives it, whose parameters are decoded"
    assert (event["resource"], event["httpMethod"]) == ("/v1/echo/{name}", "POST")
    assert (event["isBase64Encoded"], base64.b64decode(event["body"])) == (True, b"\xff\x00")
    assert event["queryStringParameters"] == {"x": "2", "y": ""}
    assert event["multiValueQueryStringParameters"] == {"x": ["1", "2"], "y": [""]}
    assert event["headers"]["Content-Encoding"] == "gzip"
    assert event["multiValueHeaders"]["X-Id"] == ["7"]
    assert event["requestContext"]["stage"] == "test"
    assert event["requestContext"]["identity"]["sourceIp"] == "127.0.0.1"


def test_a_handler_sees_the_environment_of_its_template_and_no_other(running: Running, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "x")
    environment = running.call("POST", "/v1/echo/a")[1]["env"]
    assert (environment["COLOR"], environment["BOTH"]) == ("green", "own")
    assert environment["AWS_ENDPOINT_URL"] == running.aws.url
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "echo"
    assert "SECRET_OF_THE_SHELL" not in environment


def test_a_handler_is_loaded_once_and_imports_from_its_layer(running: Running) -> None:
    first, second = running.call("POST", "/v1/echo/a")[1], running.call("POST", "/v1/echo/a")[1]
    assert second["calls"] == first["calls"] + 1
    assert second["layer"] == "from the layer"
    assert 0 < second["left"] <= 1000
    assert first["id"] != second["id"]


def test_greedy_parameters_and_any_method(running: Running) -> None:
    status, answer = running.call("DELETE", "/v1/any/a/b/c")
    assert (status, answer["event"]["pathParameters"]) == (201, {"proxy": "a/b/c"})
    assert answer["event"]["body"] is None


def test_an_unknown_route_is_answered_as_api_gateway_does(running: Running) -> None:
    status, answer = running.call("GET", "/v1/echo/a")
    assert (status, answer["message"]) == (403, "Missing Authentication Token")


def test_binary_answers_and_repeated_headers(running: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.host.server.port, timeout=10)
    connection.request("POST", "/v1/echo/binary")
    answer = connection.getresponse()
    assert answer.read() == b"\x00\xff"
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    connection.close()


@pytest.mark.parametrize("how", ["raise", "crash", "hang", "malformed"])
def test_a_handler_that_gives_no_answer_is_a_502_and_the_next_request_works(running: Running, how: str) -> None:
    assert running.call("POST", f"/v1/echo/{how}") == (502, {"message": "Internal server error"})
    assert running.call("POST", "/v1/echo/a")[0] == 201


def test_chunked_bodies_and_many_requests_on_one_connection(running: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.host.server.port, timeout=10)
    socket_used = None
    for n in range(3):
        chunks = iter([f"part {n} ".encode(), b"x" * 100_000])
        connection.request("POST", "/v1/echo/a", chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        body = json.loads(connection.getresponse().read())["event"]["body"]
        assert base64.b64decode(body) == f"part {n} ".encode() + b"x" * 100_000
        assert socket_used in (None, connection.sock)
        socket_used = connection.sock
    connection.close()


def test_an_upgrade_to_http2_is_ignored(running: Running) -> None:
    """What java.net.http.HttpClient, which Debezium Server uses, sends with its first request."""
    request = (
        b"POST /v1/echo/a HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 2\r\nHost: localhost\r\n"
        b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nUpgrade: h2c\r\n"
        b"User-Agent: Java-http-client/21\r\n\r\n{}"
    )
    with socket.create_connection(("127.0.0.1", running.host.server.port), timeout=10) as connection:
        for _ in range(2):  # and the connection stays
            connection.sendall(request)
            reader = connection.makefile("rb")
            assert reader.readline() == b"HTTP/1.1 201 Created\r\n"
            length = 0
            while (line := reader.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            event = json.loads(reader.read(length))["event"]
            assert base64.b64decode(event["body"]) == b"{}"


@pytest.mark.parametrize("size", [11 << 20, 5 << 20])
def test_a_body_over_the_limits_of_api_gateway_or_lambda_is_a_413(running: Running, size: int) -> None:
    """5 MB are under API Gateway's 10 MB, and over Lambda's 6 MB once they are base64."""
    assert running.call("POST", "/v1/echo/a", b"x" * size)[0] == 413


def test_four_megabytes_get_through(running: Running) -> None:
    body = gzip.compress(b"x") + b"y" * (4 << 20)
    status, answer = running.call("POST", "/v1/any/a", body)
    assert (status, len(base64.b64decode(answer["event"]["body"]))) == (201, len(body))


def test_messages_come_in_batches_and_only_the_failed_ones_come_back_and_end_in_the_dead_letter_queue(
    running: Running,
) -> None:
    url, dead = running.queues["Queue"], running.queues["Dead"]
    names = ["good 1", "bad 1", "good 2", "good 3"]
    attribute = {"stream": {"DataType": "String", "StringValue": "shop"}}
    entries = [{"Id": str(n), "MessageBody": name, "MessageAttributes": attribute} for n, name in enumerate(names)]
    running.sqs.send_message_batch(QueueUrl=url, Entries=entries)

    def depth(queue: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        return sum(
            map(int, running.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"].values())
        )

    until(lambda: depth(url) == 0 and depth(dead) == 1, 15)
    batches = [[record["body"] for record in event["Records"]] for event in running.events()]
    assert batches == [names, ["bad 1"]]
    record = running.events()[1]["Records"][0]
    assert record["messageAttributes"]["stream"]["stringValue"] == "shop"
    assert record["attributes"]["ApproximateReceiveCount"] == "2"
    assert record["eventSourceARN"] == "arn:aws:sqs:us-east-1:123456789012:queue"
    assert running.sqs.receive_message(QueueUrl=dead)["Messages"][0]["Body"] == "bad 1"


def test_schedules_invoke_with_a_scheduled_event(running: Running) -> None:
    ticks = running.seen.with_name("seen.tick")
    until(lambda: ticks.exists() and len(ticks.read_text().splitlines()) >= 2)
    event = json.loads(ticks.read_text().splitlines()[0])
    assert (event["source"], event["detail-type"]) == ("aws.events", "Scheduled Event")


def test_functions_are_invoked_by_name_with_any_event(running: Running) -> None:
    assert running.call("POST", "/_firn/invoke/tick", b'{"force":true}') == (200, {"got": {"force": True}})
    assert running.call("POST", "/_firn/invoke/Tick", b"") == (200, {"got": {}})
    status, answer = running.call("POST", "/_firn/invoke/echo", b'{"pathParameters":{"name":"raise"}}')
    assert (status, answer["errorType"], answer["errorMessage"]) == (502, "ValueError", "on purpose")
    status, answer = running.call("POST", "/_firn/invoke/echo", b'{"pathParameters":{"name":"hang"}}')
    assert (status, answer["errorType"]) == (504, "Sandbox.Timedout")
    assert running.call("POST", "/_firn/invoke/nobody")[0] == 404
    assert running.call("POST", "/_firn/invoke/echo", b"not json")[0] == 400
    assert running.call("GET", "/_firn/health")[0] == 200
