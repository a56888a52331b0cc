"""One try to tell an SNS topic (moto's, read through a queue that subscribed)."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from firn.alerts.alert_message import Message, message_of, message_of_test
from firn.alerts.sns_topic import publish
from firn.config.alerts import Topic
from firn.log.alert_log import Begun, TryResult

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LOCAL = "arn:aws:sns:us-east-1:123456789012:"
BEGUN = Begun(
    1, "late", "freshness", "shop", "shop.b\u202ae", 1, "2026-03-01T00:00:00.000Z", 1, 1, "seconds", "é" * 300, ()
)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "eu-central-1")):
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def topic(aws: None) -> Iterator[tuple[str, Any]]:
    """A FIFO topic and a FIFO queue that gets what is published; in another region than the function's."""
    with mock_aws():
        sns, sqs = (boto3.client(name, region_name="eu-west-1") for name in ("sns", "sqs"))  # type: ignore[call-overload]
        fifo = {"FifoTopic": "true"}
        arn = sns.create_topic(Name="firn.fifo", Attributes=fifo)["TopicArn"]
        url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        about = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=about)

        def received() -> list[dict[str, Any]]:
            got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            return [json.loads(one["Body"]) for one in got]

        yield arn, received


def test_a_topic_gets_json_for_programs_and_a_sentence_for_people(topic: tuple[str, Any]) -> None:
    arn, received = topic
    message = message_of(BEGUN, None, "begun", "prod")
    assert publish(Topic("ops", arn), message, NOW, local="") == TryResult(1, "2026-03-01T00:00:00.000Z", "sent")
    [got] = received()
    body = json.loads(got["Message"])
    assert (body["what"], body["alert"], body["environment"]) == ("begun", "late", "prod")
    assert body["subject"] == "shop.b\\u202ae"  # what steers a terminal is written out
    assert got["Subject"] == "Firn: late has begun"
    assert got["MessageAttributes"]["firn_what"]["Value"] == "begun"


def test_a_fifo_topic_takes_a_second_try_for_the_first(topic: tuple[str, Any]) -> None:
    arn, received = topic
    for _ in range(2):
        assert publish(Topic("ops", arn), message_of_test("ops", "prod", "n1"), NOW, local="").outcome == "sent"
    assert len(received()) == 1


def test_the_embedded_stack_publishes_to_its_own_topic_of_that_name(aws: None) -> None:
    with mock_aws():
        boto3.client("sns", region_name="us-east-1").create_topic(Name="firn")
        there = Topic("ops", "arn:aws:sns:eu-west-1:999999999999:firn")
        message = message_of_test("ops", "", "n1")
        assert publish(there, message, NOW, local=LOCAL).outcome == "sent"
        told = publish(there, message, NOW, local="")
        assert (told.outcome, told.why) == ("failed", "SNS refused it: NotFound: is there such a topic?")


@pytest.mark.parametrize(
    ("answers", "outcome", "why"), [(False, "failed", "can't be reached"), (True, "unknown", "may have arrived")]
)
def test_who_takes_the_request_and_does_not_answer_may_have_it(
    aws: None, monkeypatch: pytest.MonkeyPatch, answers: bool, outcome: str, why: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        if not answers:
            server.close()
        told = _within(message_of_test("ops", "", "n1"), monkeypatch)
    assert (told.outcome, why in told.why) == (outcome, True), told.why


def _within(message: Message, monkeypatch: pytest.MonkeyPatch) -> TryResult:
    monkeypatch.setattr("firn.alerts.sns_topic._SECONDS", 0.3)
    return publish(Topic("ops", LOCAL + "firn"), message, NOW, local=LOCAL)


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    told = publish(Topic("ops", LOCAL + "firn"), message_of_test("ops", "", "n1"), NOW, local="")
    assert (told.outcome, told.why) == ("failed", "SNS can't be asked: NoCredentialsError")
