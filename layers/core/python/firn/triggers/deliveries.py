"""What Lambda hands to a function for a batch of Kinesis, DynamoDB Streams or Kafka, as records. Pure.

Shapes: Lambda Developer Guide, "Using Lambda to process records from Amazon Kinesis Data Streams", "Using AWS Lambda
with Amazon DynamoDB", "Using Lambda with Amazon MSK" and "… with self-managed Apache Kafka" ("Example event" in each).
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from firn.changes.record import BY_TIME, Record
from firn.config.event_sources import Kind
from firn.errors import EventError

_SOURCES: Final[Mapping[str, Kind]] = {
    "aws:kinesis": "kinesis",
    "aws:dynamodb": "dynamodb",
    "aws:kafka": "kafka",
    "SelfManagedKafka": "kafka",
}
_SHARD: Final = re.compile(r"shardId-0*([0-9]{1,9}):")
_LONGEST_HEADERS: Final = 16_384  # bytes of a record's headers that are kept


@dataclass(frozen=True)
class Entry:
    """A record of a batch.

    id         what `batchItemFailures` names it by: its sequence number; "" in Kafka
    data       its value as bytes, None for none
    place      the beginning of its order text (firn.changes.record)
    key        its key as bytes, None for none
    shard      of Kinesis, by its number: two shards may give one number
    topic, headers, timestamp (ms)   of Kafka
    unreadable why not even its bytes can be had
    """

    id: str
    data: bytes | None
    place: str
    key: bytes | None = None
    shard: int = 0
    topic: str = ""
    headers: Sequence[tuple[str, str]] = ()
    timestamp: int = 0
    unreadable: EventError | None = None

    def record(self, sub: int = 0, key: str | None = None, *, by_time: bool = False) -> Record:
        """What its events are placed by. `sub`: which user record of an aggregated one."""
        place = self.place if self.topic else f"{self.place}:{self.shard << 32 | sub}"
        if by_time:
            place = f"{BY_TIME}{max(self.timestamp, 0)}:{place.partition(':')[2]}"
        return Record(place, self.topic, key, list(self.headers), gone=self.data is None)


@dataclass(frozen=True)
class Delivery:
    """A batch, its records in their order. `arn`: the stream's, or the MSK cluster's; `clusters`: by what a Kafka
    cluster may be named."""

    kind: Kind
    arn: str
    entries: Sequence[Entry] = ()
    clusters: frozenset[str] = field(default_factory=frozenset)


class NoDelivery(Exception):
    """The event is none of an event source mapping's: the function was wired to something else."""


def read_delivery(event: Mapping[str, Any]) -> Delivery:
    """The batch in an event. Raises NoDelivery."""
    records = event.get("Records") or event.get("records") or ()
    first = records[0] if isinstance(records, list) and records and isinstance(records[0], Mapping) else event
    kind = _SOURCES.get(str(first.get("eventSource")))
    if kind is None:
        raise NoDelivery(f"the event is of {first.get('eventSource')!r}, and not of Kinesis, DynamoDB Streams or Kafka")
    if kind == "kafka":
        return _kafka(event)
    read = _of_kinesis if kind == "kinesis" else _of_dynamodb
    return Delivery(kind, str(first.get("eventSourceARN", "")), [read(one) for one in records])


def _of_kinesis(one: Mapping[str, Any]) -> Entry:
    inner = one["kinesis"]
    number = str(inner["sequenceNumber"])
    data, wrong = _bytes(inner.get("data") or "")
    shard = _SHARD.match(str(one.get("eventID", "")))
    return Entry(number, data, f"@kinesis:{number}", shard=int(shard[1]) if shard else 0, unreadable=wrong)


def _of_dynamodb(one: Mapping[str, Any]) -> Entry:
    number = str(one["dynamodb"]["SequenceNumber"])
    return Entry(number, msgspec.json.encode(one), f"@dynamodb:{number}")


def _kafka(event: Mapping[str, Any]) -> Delivery:
    arn = str(event.get("eventSourceArn") or "")
    servers = str(event.get("bootstrapServers") or "").split(",")
    found = [_of_kafka(one) for records in event["records"].values() for one in records]
    return Delivery("kafka", arn, found, frozenset(name.strip() for name in (arn, *servers)) - {""})


def _of_kafka(one: Mapping[str, Any]) -> Entry:
    value, wrong = (None, None) if one.get("value") is None else _bytes(one["value"])
    key, wrong_key = (None, None) if one.get("key") is None else _bytes(one["key"])
    headers = list(_headers(one.get("headers") or ()))
    place = f"@kafka:{int(one['offset'])}:{int(one['partition'])}"
    time = int(one.get("timestamp") or 0)
    wrong = wrong or wrong_key
    return Entry("", value, place, key, 0, str(one["topic"]), headers, time, unreadable=wrong)


def _headers(headers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    left = _LONGEST_HEADERS
    for header in headers:
        for name, value in header.items():
            # Lambda has them as numbers; a byte of Java has a sign.
            text = bytes(byte & 0xFF for byte in value or ()).decode("utf-8", "replace")
            left -= len(name) + len(text)
            if left < 0:
                return
            yield name, text


def _bytes(text: str) -> tuple[bytes, EventError | None]:
    try:
        return base64.b64decode(text, validate=True), None
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace"), EventError("bad_record", "its data is not Base64, as Lambda writes it")
