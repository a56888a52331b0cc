"""Polls topics of a Kafka and triggers a function with their records, as Lambda's event source mapping would: one topic
an event, its partitions in their order, offsets committed once the function has taken them.

A process by itself, in the environment that `make setup-kafka` makes (confluent-kafka); nothing of Firn is imported. On
the first line of standard input, whose end means that the parent is gone, as JSON: `url` and `token` (of the function
host), `servers`, `topics` (names, or patterns with *), `batch_size`, `window` (s), `group`, and `until_read`: whether
to end, with the number of messages on standard output, once all is read that is there.

Event: Lambda Developer Guide, "Using Lambda with self-managed Apache Kafka", "Example event".
"""

import base64
import json
import logging
import os
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition

MOST_BYTES = 3_000_000  # of keys and values in one event, which Lambda takes up to 6 MB of, in Base64
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds before a batch comes again, the last for good
Place = tuple[str, int]  # topic and partition
log = logging.getLogger("kafka-poller")


def pattern(topic: str) -> str:
    """What a topic of firn.yaml subscribes to: its name, or a regular expression for one with *."""
    return topic if "*" not in topic else f"^{'.*'.join(map(re.escape, topic.split('*')))}$"


def event(messages: Iterable[Message], servers: str) -> dict[str, Any]:
    """What Lambda hands over for messages of one topic."""
    records: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        kind, time_ms = message.timestamp()
        record: dict[str, Any] = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": time_ms,
            "timestampType": "LOG_APPEND_TIME" if kind == TIMESTAMP_LOG_APPEND_TIME else "CREATE_TIME",
            "headers": [{name: _signed(value)} for name, value in message.headers() or ()],
        }
        for name, data in (("key", message.key()), ("value", message.value())):
            if data is not None:
                record[name] = base64.b64encode(data).decode()
        records.setdefault(f"{message.topic()}-{message.partition()}", []).append(record)
    return {"eventSource": "SelfManagedKafka", "bootstrapServers": servers, "records": records}


def _signed(value: bytes | None) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in value or b""]


class Poller:
    """One thread, one batch at a time; Kafka keeps what the function is not ready for."""

    def __init__(self, consumer: Consumer, asked: Mapping[str, Any]) -> None:
        self._consumer, self._asked = consumer, asked
        self.stopping = threading.Event()
        self.batches = self.failures = self.messages = 0
        self._read: set[Place] = set()  # partitions read to their end

    def run(self) -> None:
        """Poll until `stopping`. Raises KafkaException."""
        there = self._there() if self._asked.get("until_read") else None
        self._consumer.subscribe([pattern(topic) for topic in self._asked["topics"]])
        while not self.stopping.is_set() and (there is None or not there <= self._read):
            by_topic: dict[str, list[Message]] = {}
            for message in self._batch():
                by_topic.setdefault(message.topic(), []).append(message)
            for messages in by_topic.values():
                for part in self._parts(messages):
                    self._bring(part)

    def _there(self) -> set[Place]:
        """All partitions of the topics, as Kafka has them now."""
        patterns = [re.compile(pattern(topic).strip("^$")) for topic in self._asked["topics"]]
        known = self._consumer.list_topics(timeout=30).topics.values()
        wanted = [one for one in known if any(found.fullmatch(one.topic) for found in patterns)]
        return {(one.topic, number) for one in wanted for number in one.partitions}

    def _batch(self) -> list[Message]:
        """Up to batch_size messages, gathered for at most `window` seconds after the first."""
        found: list[Message] = []
        deadline: float | None = None
        while len(found) < self._asked["batch_size"] and not self.stopping.is_set():
            wait = 0.5 if deadline is None else max(0.0, deadline - time.monotonic())
            for message in self._consumer.consume(self._asked["batch_size"] - len(found), timeout=wait):
                place = message.topic(), message.partition()
                if message.error() is None:
                    found.append(message)
                    self._read.discard(place)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    self._read.add(place)
                elif not message.error().retriable() and message.error().code() not in _PASSING:
                    raise KafkaException(message.error())
            if deadline is None and found:
                deadline = time.monotonic() + self._asked["window"]
            if not found or (deadline is not None and time.monotonic() >= deadline):
                break
        return found

    @staticmethod
    def _parts(messages: Sequence[Message]) -> Iterable[list[Message]]:
        part: list[Message] = []
        size = 0
        for message in messages:
            size += len(message) + 200
            if part and size > MOST_BYTES:
                yield part
                part, size = [], len(message) + 200
            part.append(message)
        if part:
            yield part

    def _bring(self, messages: list[Message]) -> None:
        """Trigger the function until it has taken them, then commit."""
        tries = 0
        while not self.stopping.is_set():
            if self._invoked(event(messages, self._asked["servers"])):
                break
            self.failures += 1
            self.stopping.wait(PAUSES[min(tries, len(PAUSES) - 1)])
            tries += 1
        else:
            return
        self.batches += 1
        self.messages += len(messages)
        after: dict[Place, int] = {}
        for one in messages:
            place = one.topic(), one.partition()
            after[place] = max(after.get(place, 0), one.offset() + 1)
        try:
            offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in after.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:  # they come again, by whoever has the partition then
            log.warning("offsets are not committed: %s", error)

    def _invoked(self, batch: Mapping[str, Any]) -> bool:
        headers = {"X-Firn-Token": self._asked["token"], "Content-Type": "application/json"}
        request = urllib.request.Request(self._asked["url"], json.dumps(batch).encode(), headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 (a loopback address of ours)
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            log.warning(
                "the function did not take a batch: %s %s", error.code, error.read(500).decode("utf-8", "replace")
            )
        except OSError as error:
            log.warning("the function can't be asked: %s", error)
        return False


_PASSING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE,
            KafkaError.UNKNOWN_TOPIC_OR_PART)  # fmt: skip


def _follow_parent() -> None:
    while os.read(0, 64):
        pass
    os._exit(1)  # at once: the next one has this one's partitions only when Kafka knows that it is gone


def main() -> int:
    """Run it; -> its exit code."""
    asked = json.loads(sys.stdin.readline())
    if not asked.get("until_read"):
        threading.Thread(target=_follow_parent, daemon=True).start()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    consumer = Consumer(
        {
            "bootstrap.servers": asked["servers"],
            "group.id": asked.get("group", "firn-local"),
            "enable.auto.commit": False,
            "enable.partition.eof": bool(asked.get("until_read")),
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 2_000,  # a new table is a new topic, and topics get partitions
            "session.timeout.ms": 10_000,
            "max.poll.interval.ms": 1_800_000,  # longer than a batch waits for a function that does not take it
        }
    )
    poller = Poller(consumer, asked)
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: poller.stopping.set())
    try:
        poller.run()
    except KafkaException as error:
        log.error("%s", error)
        return 1
    finally:
        consumer.close()
        log.info("%d batches taken, %d tries failed", poller.batches, poller.failures)
    if asked.get("until_read"):
        print(json.dumps({"messages": poller.messages}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
