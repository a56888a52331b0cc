"""Topics from outside: rows that somebody writes, partitions that somebody adds, and how far a group has come.

    python topics.py write --brokers HOST:PORT --topic users --keys 200 --records 8000 --rate 400
    python topics.py grow  --brokers HOST:PORT --topics '^bank[.]' --partitions 6
    python topics.py lag   --brokers HOST:PORT --group firn-local

`write` prints the rows that are left in the end as JSON, by key; records without a value (tombstones) take some away.
`lag` prints how many messages the group has not committed.
"""

import argparse
import json
import re
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

SECONDS = 30.0


def write(brokers: str, topic: str, keys: int, records: int, rate: float, partitions: int) -> dict[str, int]:
    """Versions of rows, each key after another, every 17th a tombstone -> key: version of what is left."""
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS)
    # A broker that is away is waited for; nothing is written twice, or out of a key's order.
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "enable.idempotence": True,
            "delivery.timeout.ms": 300_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            "linger.ms": 5,
        }
    )
    failed: list[str] = []
    left: dict[str, int] = {}
    started = time.monotonic()
    for number in range(records):
        key, gone = str(number % keys), number % 17 == 16
        value = None if gone else json.dumps({"v": number, "text": "x" * (number % 50)}).encode()
        producer.produce(
            topic, value, key.encode(), on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
        if gone:
            left.pop(key, None)
        else:
            left[key] = number
        producer.poll(max(0.0, started + number / rate - time.monotonic()))
    producer.flush()
    if failed:
        raise SystemExit(f"{len(failed)} records were not written: {failed[0]}")
    return left


def grow(brokers: str, topics: str, partitions: int) -> list[str]:
    """Give topics more partitions -> those that got some."""
    admin = AdminClient({"bootstrap.servers": brokers})
    there = admin.list_topics(timeout=SECONDS).topics
    few = [name for name, one in there.items() if re.match(topics, name) and len(one.partitions) < partitions]
    for done in admin.create_partitions([NewPartitions(name, partitions) for name in few]).values() if few else ():
        done.result(SECONDS)
    return few


def lag(brokers: str, group: str) -> int:
    """Messages of all topics that the group has not committed."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group, "enable.auto.commit": False})
    try:
        topics = consumer.list_topics(timeout=SECONDS).topics
        places = [
            TopicPartition(name, number)
            for name, one in topics.items()
            if not name.startswith("__")
            for number in one.partitions
        ]
        behind = 0
        for place in consumer.committed(places, timeout=SECONDS):
            low, high = consumer.get_watermark_offsets(TopicPartition(place.topic, place.partition), timeout=SECONDS)
            behind += high - max(place.offset, low)
        return behind
    finally:
        consumer.close()


def main() -> int:
    """Run it; -> its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("what", choices=["write", "grow", "lag"])
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", default="users")
    parser.add_argument("--topics", default="^")
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--records", type=int, default=8_000)
    parser.add_argument("--rate", type=float, default=400)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--group", default="firn-local")
    given = parser.parse_args()
    try:
        match given.what:
            case "write":
                said: object = write(
                    given.brokers, given.topic, given.keys, given.records, given.rate, given.partitions
                )
            case "grow":
                said = grow(given.brokers, given.topics, given.partitions)
            case _:
                said = lag(given.brokers, given.group)
    except KafkaException as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
