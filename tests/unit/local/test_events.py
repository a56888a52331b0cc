"""Event shapes, and what a queue's batch result means."""

from typing import Any

import msgspec
import pytest

from firn_local import events
from firn_local.events import HttpRequest, api_event, path_parameters, sqs_event
from firn_local.functions import MAX_PAYLOAD
from firn_local.queues import batches, succeeded
from firn_local.template import ApiEvent

ROUTE = ApiEvent("/v1/streams/{stream}", "POST")


def event(body: bytes, content_type: str, binary_types: list[str]) -> dict[str, Any]:
    request = HttpRequest("POST", "/v1/streams/shop", "", {"Content-Type": content_type}, body)
    return api_event(request, ROUTE, {"stream": "shop"}, stage="dev", binary_types=binary_types)


@pytest.mark.parametrize(
    ("route", "method", "path", "parameters"),
    [
        ("/v1/streams/{stream}", "POST", "/v1/streams/shop", {"stream": "shop"}),
        ("/v1/streams/{stream}", "GET", "/v1/streams/shop", None),
        ("/v1/streams/{stream}", "POST", "/v1/streams/shop/more", None),
        ("/v1/streams/{stream}", "POST", "/v1/streams/", None),
        ("/v1/{rest+}", "POST", "/v1/a/b", {"rest": "a/b"}),
        ("/v1/health", "POST", "/v1/healthy", None),
    ],
)
def test_a_route_takes_only_its_own_paths(route: str, method: str, path: str, parameters: Any) -> None:
    assert path_parameters(ApiEvent(route, "POST"), method, path) == parameters


def test_a_body_is_base64_only_where_the_api_says_so() -> None:
    assert event(b"{}", "application/json", ["*/*"])["body"] == "e30="
    assert event(b"{}", "application/json", ["*/*"])["isBase64Encoded"] is True
    assert event(b"{}", "application/json; charset=utf-8", ["application/json"])["body"] == "e30="
    text = event(b"{}", "application/json", [])
    assert (text["body"], text["isBase64Encoded"]) == ("{}", False)


def test_bytes_that_are_no_text_are_mangled_without_binary_types_as_api_gateway_does() -> None:
    assert event(b"\xff", "application/json", [])["body"] == "\ufffd"


def test_an_absent_body_and_query_are_null() -> None:
    built = event(b"", "application/json", ["*/*"])
    assert (built["body"], built["isBase64Encoded"], built["queryStringParameters"]) == (None, False, None)


def test_the_stage_is_in_the_context_and_not_in_the_path() -> None:
    built = event(b"", "text/plain", [])
    assert (built["path"], built["requestContext"]["path"]) == ("/v1/streams/shop", "/dev/v1/streams/shop")


MESSAGES: list[dict[str, Any]] = [
    {"MessageId": name, "ReceiptHandle": f"handle {name}", "Body": name, "MD5OfBody": "0" * 32} for name in "abc"
]


def test_a_message_becomes_a_record() -> None:
    attributes = {
        "stream": {"DataType": "String", "StringValue": "shop"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\xff"},
    }
    (record,) = sqs_event([{**MESSAGES[0], "MessageAttributes": attributes}], "arn:queue")["Records"]
    assert record["messageId"] == "a"
    assert record["eventSourceARN"] == "arn:queue"
    assert record["messageAttributes"]["stream"]["stringValue"] == "shop"
    assert record["messageAttributes"]["raw"]["binaryValue"] == "/w=="


def kept(result: Any, *, report: bool = True) -> str:
    """The bodies of the messages that are deleted."""
    return "".join(message["Body"] for message in succeeded(MESSAGES, result, report_failures=report))


@pytest.mark.parametrize("result", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}, ""])
def test_an_empty_result_means_that_all_succeeded(result: Any) -> None:
    assert kept(result) == "abc"


def test_only_the_messages_that_are_named_come_back() -> None:
    assert kept({"batchItemFailures": [{"itemIdentifier": "b"}]}) == "ac"


@pytest.mark.parametrize(
    "failures",
    [[{"itemIdentifier": "unknown"}], [{"itemIdentifier": None}], [{"id": "b"}], ["b"], "b", {"itemIdentifier": "b"}],
)
def test_a_malformed_result_means_that_all_failed(failures: Any) -> None:
    assert kept({"batchItemFailures": failures}) == ""


def test_without_report_batch_item_failures_a_result_is_not_looked_at() -> None:
    assert kept({"batchItemFailures": [{"itemIdentifier": "b"}]}, report=False) == "abc"


@pytest.mark.parametrize(("letters", "sizes"), [("x", [6, 4]), ('"', [3, 3, 3, 1])])
def test_a_batch_is_no_larger_than_an_invocation_takes(letters: str, sizes: list[int]) -> None:
    messages = [
        {"MessageId": f"m{n}", "ReceiptHandle": f"r{n}", "Body": letters * 1_000_000, "MD5OfBody": ""}
        for n in range(10)
    ]
    found = list(batches(messages, "arn"))
    assert [len(batch) for batch in found] == sizes
    assert [message for batch in found for message in batch] == messages
    assert all(len(msgspec.json.encode(sqs_event(batch, "arn"))) <= MAX_PAYLOAD for batch in found)


def test_a_message_too_large_for_an_invocation_holds_up_no_other() -> None:
    bodies = ["small", "x" * (MAX_PAYLOAD + 1), "small"]
    messages = [
        {"MessageId": f"m{n}", "ReceiptHandle": f"r{n}", "Body": b, "MD5OfBody": ""} for n, b in enumerate(bodies)
    ]
    assert [len(batch) for batch in batches(messages, "arn")] == [1, 1, 1]
    assert list(batches([], "arn")) == []


def test_a_rule_takes_the_end_of_its_own_applications_runs() -> None:
    run = {
        "applicationId": "00app", "jobRunId": "00run", "arn": "arn:x", "releaseLabel": "emr-spark-8.0.0",
        "state": "SUCCESS", "createdBy": "arn:me", "createdAt": 0.0, "updatedAt": 1.5,
    }  # fmt: skip
    event = events.job_state_event(run, "RUNNING")
    assert (event["detail"]["previousState"], event["detail"]["updatedAt"]) == ("RUNNING", "1970-01-01T00:00:01.500Z")
    pattern = {"source": ["aws.emr-serverless"], "detail": {"applicationId": ["00app"], "state": ["SUCCESS", "FAILED"]}}
    assert events.matches(pattern, event)
    assert not events.matches(pattern, {**event, "source": "aws.s3"})
    assert not events.matches(pattern, events.job_state_event({**run, "state": "RUNNING"}, "SCHEDULED"))
    assert not events.matches(pattern, events.job_state_event({**run, "applicationId": "00else"}, "RUNNING"))
    assert not events.matches({"detail": {"missing": {"deep": ["x"]}}}, event)
