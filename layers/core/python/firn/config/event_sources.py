"""Which streams the event source mappings of Lambda feed: those of Kinesis, DynamoDB Streams and Kafka. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from firn.config.names import starred

if TYPE_CHECKING:
    from firn.config.model import StreamConfig

Kind = Literal["kinesis", "dynamodb", "kafka"]
KafkaOrder = Literal["offset", "timestamp"]
ID_BYTES: Final = (4, 8)  # of a schema's id in a Kafka value: Confluent's wire format, Apicurio's own


@dataclass(frozen=True)
class Registry:
    """A schema registry: `url`, where the secret of HTTP's basic authentication is (firn.auth.secrets; "" for none),
    and how long its ids are in a record."""

    url: str
    secret: str = ""
    id_bytes: int = 4


@dataclass(frozen=True)
class Kafka:
    """`topics`: names, or patterns with `*`; `cluster`: the ARN of an MSK cluster, or the bootstrap servers of
    another, "" for any; `registry`: what values and keys with a schema's id are decoded by; `order`: what places a
    record whose event has no place of its own."""

    topics: tuple[str, ...]
    cluster: str = ""
    registry: Registry | None = None
    order: KafkaOrder = "offset"


@dataclass(frozen=True)
class EventSources:
    """What feeds a stream besides requests and queue messages. `kinesis`: the ARN of a Kinesis stream; `dynamodb`: the
    ARNs of tables."""

    kinesis: str = ""
    dynamodb: tuple[str, ...] = ()
    kafka: Kafka | None = None

    @property
    def kind(self) -> Kind | None:
        """Which of them feeds it; None for none."""
        return "kinesis" if self.kinesis else "dynamodb" if self.dynamodb else "kafka" if self.kafka else None


NOTHING: Final = EventSources()


def fed_by_arn(streams: "Iterable[StreamConfig]", arn: str) -> "StreamConfig | None":
    """The stream that records of this `eventSourceARN` are for: of a Kinesis stream or a consumer of it, or of a
    table's stream."""
    kinesis, table = arn.partition("/consumer/")[0], arn.partition("/stream/")[0]
    for stream in streams:
        if kinesis == stream.fed_by.kinesis or table in stream.fed_by.dynamodb:
            return stream
    return None


def fed_by_topic(streams: "Iterable[StreamConfig]", clusters: Iterable[str], topic: str) -> "StreamConfig | None":
    """The stream that a topic's records are for. `clusters`: what the event says of its cluster: ARN, bootstrap
    servers. A topic's own name wins over patterns, of these the one with the most literal characters."""
    found: tuple[int, StreamConfig] | None = None
    there = frozenset(clusters)
    for stream in streams:
        kafka = stream.fed_by.kafka
        if kafka is None or (kafka.cluster and there.isdisjoint(_servers(kafka.cluster))):
            continue
        for pattern in kafka.topics:
            rank = len(topic) + 1 if pattern == topic else len(pattern.replace("*", ""))
            if (found is None or rank > found[0]) and starred(pattern).fullmatch(topic):
                found = rank, stream
    return None if found is None else found[1]


def _servers(cluster: str) -> frozenset[str]:
    return frozenset(one.strip() for one in cluster.split(","))
