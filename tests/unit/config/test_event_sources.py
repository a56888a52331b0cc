"""Which streams event sources feed, and what is wrong with how firn.yaml says it."""

import pytest

from firn.config.event_sources import Kafka, Registry, fed_by_arn, fed_by_topic
from firn.config.reader import parse
from firn.config.writers import refuses_queue
from firn.errors import ConfigError

STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/orders"


def of(**streams: str) -> str:
    lines = [f"  {name}: {{{text}, tables: {{'*': {{to: '{name}.{{table}}'}}}}}}" for name, text in streams.items()]
    return "\n".join(["streams:", *lines])


def test_a_batch_finds_its_stream_by_what_lambda_says_of_it() -> None:
    streams = parse(of(a=f"kinesis: '{STREAM}'", b=f"dynamodb: ['{TABLE}', '{TABLE}2']")).streams.values()
    for arn, name in (
        (STREAM, "a"), (f"{STREAM}/consumer/firn:1700000000", "a"), (f"{TABLE}/stream/2026-01-01T00:00:00.000", "b"),
        (f"{TABLE}2/stream/x", "b"), (f"{STREAM}2", None), (f"{TABLE}3/stream/x", None),
    ):  # fmt: skip
        found = fed_by_arn(streams, arn)
        assert (found and found.name) == name, arn


def test_a_topic_finds_its_stream_by_its_own_name_then_by_the_longest_pattern() -> None:
    text = of(
        exact="kafka: {topics: [bank.public.cards]}",
        short="kafka: {topics: ['bank.*']}",
        long="kafka: {topics: ['bank.public.*']}",
        other="kafka: {topics: ['*'], cluster: 'b-1:9092,b-2:9092'}",
    )
    streams = parse(text).streams.values()
    for topic, clusters, name in (
        ("bank.public.cards", ["b-1:9092"], "exact"), ("bank.public.x", [], "long"), ("bank.x", [], "short"),
        ("shop.x", ["b-2:9092"], "other"), ("shop.x", ["c:9092"], None), ("bankXpublic", [], None),
    ):  # fmt: skip
        found = fed_by_topic(streams, clusters, topic)
        assert (found and found.name) == name, topic


def test_a_stream_that_an_event_source_feeds_takes_nothing_else_unless_it_says_so() -> None:
    config = parse(of(a=f"kinesis: '{STREAM}'", b=f"dynamodb: '{TABLE}', accept: [http]", c="envelope: auto"))
    assert [config.streams[name].ways for name in "abc"] == [(), ("http",), ("http", "sqs")]
    assert refuses_queue(config, "a", "a") is not None


def test_a_registry_says_where_its_secret_is() -> None:
    text = of(a="kafka: {topics: [x], registry: {url: 'https://r/', secret: 'ssm:/r', id_bytes: 8}, order: timestamp}")
    assert parse(text).streams["a"].fed_by.kafka == Kafka(("x",), "", Registry("https://r", "ssm:/r", 8), "timestamp")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("kinesis: orders", "streams.a.kinesis: 'orders' is not the ARN of a Kinesis stream; write arn:aws:kinesis:"),
        (f"kinesis: ['{STREAM}', '{STREAM}2']", "streams.a.kinesis: names several"),
        (f"dynamodb: '{STREAM}'", "is not the ARN of a DynamoDB table; write arn:aws:dynamodb:"),
        (f"dynamodb: '{TABLE}/stream/2026'", "is not the ARN of a DynamoDB table"),
        (f"kinesis: '{STREAM}', dynamodb: '{TABLE}'", "streams.a.dynamodb: stands beside kinesis"),
        ("kafka: {}", "streams.a.kafka.topics: is missing; write topics: [bank.public.accounts]"),
        ("kafka: {topics: ['a b']}", "streams.a.kafka.topics: 'a b' is not a topic"),
        ("kafka: {topics: [x], order: time}", "'time' is not an order; write offset or timestamp"),
        ("kafka: {topics: [x], registry: {}}", "streams.a.kafka.registry.url: is missing"),
        ("kafka: {topics: [x], registry: {url: 'ftp://r'}}", "'ftp://r' is not the address of a registry"),
        ("kafka: {topics: [x], registry: {url: 'https://me:hush@r'}}", "holds a password"),
        ("kafka: {topics: [x], registry: {url: 'https://r', id_bytes: 5}}", "id_bytes: is 4 or 8"),
        ("kafka: {topics: [x], registry: {url: 'https://r', secret: hush}}", "is not a place of a secret"),
        ("kafka: {topic: [x]}", "streams.a.kafka.topic: is not a setting; write topics"),
    ],
)
def test_each_problem_names_its_line_and_what_to_write(setting: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(of(a=setting))
    assert str(caught.value).startswith("firn.yaml:2: ")
    assert problem in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("setting", [f"kinesis: '{STREAM}'", f"dynamodb: '{TABLE}'", "kafka: {topics: [x]}"])
def test_a_source_feeds_one_stream(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"firn.yaml:3: streams.b.\w+: .* feeds the stream a already"):
        parse(of(a=setting, b=setting))
