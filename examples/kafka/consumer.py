"""Kafka -> Firn: Debezium's messages, with their keys, to a Firn stream. Start several of one group to share the work.

    python consumer.py --brokers 127.0.0.1:9092 --topics '^bank[.]' --url http://127.0.0.1:8181 --stream bank

A range of offsets is one request, and its name (topic, partition, first and last offset) the Idempotency-Key. Before a
range is posted it is written beside the group's committed offset, and after the 202 the offset moves behind it. So a
consumer that dies in between is followed by one that posts the same range again, which Firn answers as a duplicate.
Only a whole range goes on: nothing is lost, and nothing is staged twice.

A stream that asks its senders for a secret gets it from the file that FIRN_SECRET_FILE names. Exit code 1: a range was
refused, or Firn was away for too long; start it again, and it goes on where it was.
"""

import argparse
import json
import logging
import re
import signal
import sys
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from firn.client import StreamClient
from firn.errors import FirnError

MOST_MESSAGES, MOST_BYTES = 2_000, 3_000_000
"""Of one request; Firn takes 4 MB by default."""

Place = tuple[str, int]  # topic and partition
log = logging.getLogger("kafka-to-firn")


def line(message: Message) -> bytes:
    """One line of a request: key, value (null: a tombstone) and headers as Firn reads them from other transports."""
    headers = [[name, (value or b"").decode("utf-8", "replace")] for name, value in message.headers() or []]
    start = json.dumps({"destination": message.topic(), "headers": headers})[:-1].encode()
    # Raw, so that no digit is lost. A line break stands only between the parts of JSON, never inside a text.
    value = (message.value() or b"null").replace(b"\n", b" ")
    return start + b',"key":' + _key(message.key()) + b',"value":' + value + b"}\n"


def _key(key: bytes | None) -> bytes:
    if key is None:
        return b"null"
    try:
        return json.dumps(json.loads(key)).encode()
    except ValueError:  # some key of another producer's
        return json.dumps(key.decode("utf-8", "replace")).encode()


class Forwarder:
    """Reads ranges and posts them. One thread, one range at a time: Kafka keeps what Firn is not ready for."""

    def __init__(self, consumer: Consumer, firn: StreamClient, stream: str) -> None:
        self._consumer, self._firn, self._stream = consumer, firn, stream
        self._waiting: dict[Place, list[Message]] = {}
        self._planned: dict[Place, int] = {}  # the last offset of a range that an earlier consumer may have posted
        self._read: set[Place] = set()  # partitions read to their end
        self.stopping, self.posted, self.duplicates = False, 0, 0

    def run(self, topics: str, *, until_read: bool) -> None:
        """Forward until `stopping`, or until each partition that is there is read. Raises FirnError, KafkaException."""
        # A consumer's first share of the group's partitions may lack topics that are newer than the group knows.
        there = self._there(topics) if until_read else set()
        self._consumer.subscribe([topics], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)
        while not self.stopping:
            self._take(self._consumer.consume(MOST_MESSAGES, timeout=0.5))
            for place in list(self._waiting):
                while messages := self._range(place):
                    self._post(place, messages)
            if until_read and there <= self._read and not any(self._waiting.values()):
                return

    def _there(self, topics: str) -> set[Place]:
        """All partitions of the topics, as Kafka has them now."""
        known = self._consumer.list_topics(timeout=30).topics.values()
        wanted = [one for one in known if (re.match(topics, one.topic) if topics[0] == "^" else one.topic == topics)]
        return {(one.topic, partition) for one in wanted for partition in one.partitions}

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            error, place = message.error(), (message.topic(), message.partition())
            if error is None:
                self._waiting.setdefault(place, []).append(message)
                self._read.discard(place)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read.add(place)
            elif not error.retriable():
                raise KafkaException(error)

    def _range(self, place: Place) -> list[Message]:
        """The next range of a partition: the one that was begun before, whole, or else what is there, up to a limit."""
        waiting, planned = self._waiting[place], self._planned.get(place)
        if planned is not None:
            if not waiting or (waiting[-1].offset() < planned and place not in self._read):
                return []  # not all of it is here yet
            return [message for message in waiting if message.offset() <= planned] or waiting[:1]
        size = 0
        messages: list[Message] = []
        for message in waiting[:MOST_MESSAGES]:
            size += len(message)
            if messages and size > MOST_BYTES:
                break
            messages.append(message)
        return messages

    def _post(self, place: Place, messages: Sequence[Message]) -> None:
        topic, partition = place
        first, last = messages[0].offset(), messages[-1].offset()
        if self._planned.pop(place, None) != last:
            self._commit(TopicPartition(topic, partition, first, metadata=str(last)))
        key = f"{topic}-{partition}-{first}-{last}"
        receipt = self._firn.post(self._stream, b"".join(map(line, messages)), key=key)  # waits while Firn says 429
        self._commit(TopicPartition(topic, partition, last + 1))
        self._waiting[place] = self._waiting[place][len(messages) :]
        self.posted, self.duplicates = self.posted + len(messages), self.duplicates + receipt.duplicate
        log.info("%s: %d messages, batch %s%s", key, len(messages), receipt.batch_id, " again" * receipt.duplicate)
        if receipt.rejected:
            log.warning("%s: %d messages are dead letters: firn dead list", key, receipt.rejected)

    def _commit(self, offset: TopicPartition) -> None:
        for done in self._consumer.commit(offsets=[offset], asynchronous=False):
            if done.error:
                raise KafkaException(done.error)

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in consumer.committed(partitions, timeout=30):
            place = one.topic, one.partition
            if one.offset >= 0 and one.metadata:
                self._planned[place] = int(one.metadata)

    def _revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            place = one.topic, one.partition
            self._read.discard(place)
            self._waiting.pop(place, None)
            self._planned.pop(place, None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; -> its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--brokers", default="127.0.0.1:9092", help="bootstrap servers (127.0.0.1:9092)")
    parser.add_argument("--topics", required=True, help="a topic, or ^ and a regular expression")
    parser.add_argument("--group", default="firn", help="the consumer group, which keeps the offsets (firn)")
    parser.add_argument("--url", default="http://127.0.0.1:8181", help="where Firn is (http://127.0.0.1:8181)")
    parser.add_argument("--stream", required=True, help="Firn's stream")
    parser.add_argument("--instance", help="this consumer's own name in the group: started again, it goes on at once")
    parser.add_argument(
        "--until-read", action="store_true", help="end when all is read that is there; alone in its group"
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    # Without a name of its own a consumer that died is waited for until its session is over.
    member = {"group.instance.id": given.instance} if given.instance else {}
    consumer = Consumer(
        {
            "bootstrap.servers": given.brokers,
            "group.id": given.group,
            "session.timeout.ms": 15_000,
            **member,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "topic.metadata.refresh.interval.ms": 5_000,  # a new table is a new topic
            "max.poll.interval.ms": 1_800_000,  # longer than the client waits for a busy Firn
        }
    )
    with StreamClient(given.url) as firn:
        forwarder = Forwarder(consumer, firn, given.stream)

        def stop(*_: object) -> None:
            forwarder.stopping = True

        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, stop)
        try:
            forwarder.run(given.topics, until_read=given.until_read)
        except (FirnError, KafkaException) as error:
            log.error("%s", error)
            return 1
        finally:
            consumer.close()
    print(json.dumps({"messages": forwarder.posted, "duplicates": forwarder.duplicates}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
