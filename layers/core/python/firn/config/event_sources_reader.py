"""`kinesis`, `dynamodb` and `kafka` of a stream, from the YAML tree."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from firn.config.event_sources import ID_BYTES, EventSources, Kafka, KafkaOrder, Registry
from firn.config.model import StreamConfig
from firn.config.problems import Section, shown, words
from firn.config.secret_addresses import checked_place

KEYS: Final = ("kinesis", "dynamodb", "kafka")
_ARNS: Final = {
    "kinesis": (r"arn:[a-z-]+:kinesis:[a-z0-9-]+:\d{12}:stream/[A-Za-z0-9_.-]{1,128}", "a Kinesis stream", "stream"),
    "dynamodb": (r"arn:[a-z-]+:dynamodb:[a-z0-9-]+:\d{12}:table/[A-Za-z0-9_.-]{3,255}", "a DynamoDB table", "table"),
}
_TOPIC: Final = re.compile(r"[A-Za-z0-9._*-]{1,249}")
_MOST_TOPICS: Final = 1_000


def read_event_sources(section: Section) -> EventSources:
    """What feeds a stream; every problem is noted."""
    there = [key for key in KEYS if key in section.names]
    if len(there) > 1:
        section.note(
            there[1],
            f"stands beside {there[0]}, and places in two sources don't compare; write a stream for each of them",
        )
    kinesis = _arns(section, "kinesis")
    if len(kinesis) > 1:
        section.note("kinesis", "names several, and their sequence numbers don't compare; write a stream for each")
    return EventSources("".join(kinesis[:1]), _arns(section, "dynamodb"), _kafka(section))


def _arns(section: Section, key: str) -> tuple[str, ...]:
    pattern, what, kind = _ARNS[key]
    example = f"arn:aws:{key}:eu-central-1:123456789012:{kind}/orders"
    found = []
    for item in section.texts(key, f"{key}: {example}"):
        if re.fullmatch(pattern, item.text):
            found.append(item.text)
        else:
            where = section.below(key)
            section.problems.add(item.line, where, f"{shown(item.text)} is not the ARN of {what}; write {example}")
    return tuple(dict.fromkeys(found))


def _kafka(section: Section) -> Kafka | None:
    if "kafka" not in section.names:
        return None
    kafka = section.section("kafka")
    kafka.allow_only(("topics", "cluster", "registry", "order"))
    topics = []
    for item in kafka.texts("topics", "topics: [bank.public.accounts], or a pattern such as 'bank.*'"):
        if _TOPIC.fullmatch(item.text):
            topics.append(item.text)
        else:
            text = f"{shown(item.text)} is not a topic; its name has letters, digits, . _ and -, a pattern has *"
            kafka.problems.add(item.line, kafka.below("topics"), text)
    if not kafka.has("topics"):
        kafka.note("topics", "is missing; write topics: [bank.public.accounts]")
    if len(topics) > _MOST_TOPICS:
        kafka.note("topics", f"names {len(topics):,} topics, and {_MOST_TOPICS:,} are read; write patterns with *")
    cluster = kafka.text("cluster", "the ARN of the MSK cluster, or the bootstrap servers of another") or ""
    order: KafkaOrder = kafka.choice("order", KafkaOrder, "order", "offset")
    return Kafka(tuple(dict.fromkeys(topics)), cluster, _registry(kafka), order)


def _registry(kafka: Section) -> Registry | None:
    if "registry" not in kafka.names:
        return None
    section = kafka.section("registry")
    section.allow_only(("url", "secret", "id_bytes"))
    url = section.parsed("url", _url, "", "https://registry.example.org")
    if not section.has("url"):
        section.note("url", "is missing; write url: https://registry.example.org")
    secret = section.parsed(
        "secret", checked_place, "", "where user:password is: secretsmanager:NAME, ssm:/NAME, file:/PATH"
    )
    length = section.integer("id_bytes", min(ID_BYTES), max(ID_BYTES), 4)
    if length not in ID_BYTES:
        known = words(tuple(map(str, ID_BYTES)))
        section.note("id_bytes", f"is {known}: 4 of Confluent's wire format, 8 of Apicurio's own")
        length = 4
    return Registry(url, secret, length)


def _url(text: str) -> str:
    """Raises ValueError, which never repeats what may be a password."""
    parts = urlsplit(text)
    if "@" in parts.netloc:
        raise ValueError("holds a password, and this file is stored beside the data; write secret: PLACE instead")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{shown(text)} is not the address of a registry; write https://registry.example.org")
    return text.rstrip("/")


def check_event_sources(section: Section, streams: Mapping[str, StreamConfig]) -> None:
    """Notes what feeds two streams: each record belongs to one. `section`: that of all streams."""
    owners: dict[tuple[str, str], str] = {}
    for name, stream in streams.items():
        fed_by = stream.fed_by
        kafka = fed_by.kafka or Kafka(())
        named = [("kinesis", fed_by.kinesis), *(("dynamodb", arn) for arn in fed_by.dynamodb)]
        named += [("kafka", f"{kafka.cluster} {topic}") for topic in kafka.topics]
        for what in named:
            owner = owners.setdefault(what, name)
            if owner != name and what[1]:
                text = f"{what[1].strip()} feeds the stream {owner} already; a record belongs to one, take it out here"
                section.section(name).note(what[0], text)
