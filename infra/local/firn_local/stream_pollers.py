"""What feeds the streams of firn.yaml, polled as Lambda's event source mappings would: Kinesis and DynamoDB Streams of
the stack's own endpoint, each shard by a thread of its own, parents before children; Kafka by a process
(kafka_poller.py).

The Kinesis stream that firn.yaml names is made if it is not there; a table is its owner's to make, with a stream. What
a shard was read to is in memory, like the streams themselves.
"""

import base64
import json
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from firn.config.model import StreamConfig
from firn_local.aws import ACCESS_KEY, REGION, SECRET_KEY
from firn_local.environment import REPOSITORY
from firn_local.functions import FunctionRunner
from firn_local.stream_mapping import bring
from firn_local.template import StreamMapping

KAFKA_PYTHON: Final = REPOSITORY / ".venv-kafka" / "bin" / "python"
"""The Python of the Kafka client, where `make setup-kafka` has installed it."""

_PARENTS: Final = ("ParentShardId", "AdjacentParentShardId")
_POLL_SECONDS: Final = 0.25
_LOOK_SECONDS: Final = 1.0  # for new shards, and for a table that is not there yet
_log = logging.getLogger("firn.local")


class StreamPollers:
    """All of them. `apply` says what firn.yaml names now; what it names no more is polled no more."""

    def __init__(
        self, function: FunctionRunner, mappings: Mapping[str, StreamMapping], endpoint: str, host: str,
        token: str, logs: Path, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`endpoint`: of AWS; `host`: the function host's address, by which Kafka's process triggers the function."""
        self._function, self._mappings, self._endpoint = function, mappings, endpoint
        self._host, self._token, self._logs, self._say = host, token, logs, say
        self._running: dict[tuple[Any, ...], _Source | _KafkaProcess] = {}

    def apply(self, streams: Iterable[StreamConfig]) -> None:
        """Poll what feeds these streams."""
        wanted: dict[tuple[Any, ...], Callable[[], _Source | _KafkaProcess]] = {}
        for stream in streams:
            fed_by = stream.fed_by
            kinesis = [fed_by.kinesis] if fed_by.kinesis else []
            wanted |= {("kinesis", arn): partial(self._source, "kinesis", arn) for arn in kinesis}
            wanted |= {("dynamodb", arn): partial(self._source, "dynamodb", arn) for arn in fed_by.dynamodb}
            if fed_by.kafka is not None:
                servers, topics = fed_by.kafka.cluster, fed_by.kafka.topics
                if not servers or servers.startswith("arn:"):
                    self._say(f"{stream.name}: no Kafka is polled here: write kafka: {{cluster: HOST:PORT}} for one")
                else:
                    wanted["kafka", servers, topics] = partial(self._kafka, servers, topics)
        for gone in self._running.keys() - wanted.keys():
            self._running.pop(gone).stop()
        for new in wanted.keys() - self._running.keys():
            self._running[new] = wanted[new]()
            self._running[new].start()

    def stop(self) -> None:
        """Take no further batch."""
        for one in self._running.values():
            one.stop()
        self._running.clear()

    def _source(self, kind: str, arn: str) -> "_Source":
        make = _Kinesis if kind == "kinesis" else _DynamoDb
        return _Source(make(arn, self._endpoint), self._function, self._mappings[kind])

    def _kafka(self, servers: str, topics: Sequence[str]) -> "_KafkaProcess":
        settings = self._mappings["kafka"]
        asked = {
            "url": f"{self._host}/_firn/invoke/{self._function.spec.name}", "token": self._token, "servers": servers,
            "topics": list(topics), "batch_size": settings.batch_size, "window": settings.window,
        }  # fmt: skip
        return _KafkaProcess(asked, self._logs / "kafka.log", self._say)


class _KafkaProcess:
    """kafka_poller.py for one cluster's topics, started again when it ends."""

    def __init__(self, asked: Mapping[str, Any], log: Path, say: Callable[[str], None]) -> None:
        self._asked, self._log_file, self._say = json.dumps(asked), log, say
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="kafka", daemon=True)

    def start(self) -> None:
        if not KAFKA_PYTHON.exists():
            self._say("Kafka is not polled: its client is not there; run `make setup-kafka` and start again")
            return
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()

    def _run(self) -> None:
        poller = Path(__file__).with_name("kafka_poller.py")
        while not self._stopping.is_set():
            with self._log_file.open("ab") as log:
                self._process = subprocess.Popen(
                    [str(KAFKA_PYTHON), "-P", str(poller)], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
                    start_new_session=True,
                )  # fmt: skip
            assert self._process.stdin is not None  # noqa: S101
            with suppress(OSError):
                # Not among its arguments, which everybody on this machine may read. It ends when this pipe does.
                self._process.stdin.write(self._asked + "\n")
                self._process.stdin.flush()
            self._process.wait()
            self._stopping.wait(1)


class _Source:
    """One Kinesis stream or table: finds its shards, and reads each in a thread once its parents are read."""

    def __init__(self, reader: "_Kinesis | _DynamoDb", function: FunctionRunner, settings: StreamMapping) -> None:
        self._reader, self._function, self._settings = reader, function, settings
        self._stopping = threading.Event()
        self._begun: set[str] = set()
        self._done: set[str] = set()
        self._thread = threading.Thread(target=self._look, name=f"poll-{reader.arn}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _look(self) -> None:
        while True:
            try:
                shards = self._reader.shards()
                for shard, parents in shards.items():
                    if shard not in self._begun and not parents & shards.keys() - self._done:
                        self._begun.add(shard)
                        threading.Thread(target=self._read, args=(shard,), name=f"poll-{shard}", daemon=True).start()
            except Exception as error:  # noqa: BLE001 - it must outlive whatever happens to one look
                if not self._stopping.is_set():
                    _log.warning("%s can't be looked at: %s; trying again", self._reader.arn, error)
            if self._stopping.wait(_LOOK_SECONDS):
                return

    def _read(self, shard: str) -> None:
        iterator: str | None = None
        begun = False
        while not self._stopping.is_set():
            try:
                if not begun:
                    iterator, begun = self._reader.iterator(shard), True
                if iterator is None:
                    self._done.add(shard)
                    return
                records, iterator = self._gathered(iterator)
                if records:
                    self._bring(shard, records)
                else:
                    self._stopping.wait(_POLL_SECONDS)
            except Exception:  # noqa: BLE001
                if not self._stopping.wait(1):
                    _log.exception("%s: polling %s failed; trying again", self._function.spec.name, shard)

    def _gathered(self, iterator: str) -> tuple[list[Any], str | None]:
        """Up to batch_size records, gathered for at most `window` seconds after the first."""
        found: list[Any] = []
        after: str | None = iterator
        deadline: float | None = None
        while after is not None and len(found) < self._settings.batch_size and not self._stopping.is_set():
            records, after = self._reader.records(after, self._settings.batch_size - len(found))
            found += records
            if deadline is None and found:
                deadline = time.monotonic() + self._settings.window
            if not found or (deadline is not None and time.monotonic() >= deadline):
                break
            if not records:
                self._stopping.wait(_POLL_SECONDS)
        return found, after

    def _bring(self, shard: str, records: Sequence[Any]) -> None:
        def give_up(given: Sequence[Any], why: str) -> None:
            _log.error("%s: %d records of %s are given up: %s", self._function.spec.name, len(given), shard, why)

        bring(
            records,
            self._settings,
            lambda part: self._function.invoke({"Records": [self._reader.event(shard, one) for one in part]}),
            number=self._reader.number,
            made=self._reader.made,
            give_up=give_up,
            wait=self._stopping.wait,
        )


class _Kinesis:
    """A Kinesis stream of the stack's endpoint, by its ARN. It is made if it is not there."""

    def __init__(self, arn: str, endpoint: str) -> None:
        self.arn = arn
        self._name = arn.partition("/")[2]
        self._client = _client("kinesis", endpoint)

    def shards(self) -> dict[str, set[str]]:
        """Shard -> its parents: of one that two were merged into both."""
        if self._name not in self._client.list_streams(Limit=1000)["StreamNames"]:
            self._client.create_stream(StreamName=self._name, ShardCount=1)
        found = self._client.list_shards(StreamName=self._name)["Shards"]
        return {one["ShardId"]: {one[name] for name in _PARENTS if name in one} for one in found}

    def iterator(self, shard: str) -> str:
        """At its oldest record."""
        asked = {"StreamName": self._name, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        return str(self._client.get_shard_iterator(**asked)["ShardIterator"])

    def records(self, iterator: str, most: int) -> tuple[list[Any], str | None]:
        """-> records, and the iterator behind them; None where the shard ends."""
        answer = self._client.get_records(ShardIterator=iterator, Limit=most)
        return answer["Records"], answer.get("NextShardIterator")

    @staticmethod
    def number(record: Any) -> str:
        return str(record["SequenceNumber"])

    @staticmethod
    def made(record: Any) -> float:
        return float(record["ApproximateArrivalTimestamp"].timestamp())

    def event(self, shard: str, record: Any) -> dict[str, Any]:
        """As Lambda hands it over."""
        return {
            "kinesis": {
                "kinesisSchemaVersion": "1.0",
                "partitionKey": record["PartitionKey"],
                "sequenceNumber": record["SequenceNumber"],
                "data": base64.b64encode(record["Data"]).decode(),
                "approximateArrivalTimestamp": self.made(record),
            },
            "eventSource": "aws:kinesis",
            "eventVersion": "1.0",
            "eventID": f"{shard}:{record['SequenceNumber']}",
            "eventName": "aws:kinesis:record",
            "invokeIdentityArn": "arn:aws:iam::123456789012:role/local",
            "awsRegion": REGION,
            "eventSourceARN": self.arn,
        }


class _DynamoDb:
    """The stream of a table of the stack's endpoint, by the table's ARN."""

    def __init__(self, arn: str, endpoint: str) -> None:
        self.arn = arn
        self._table = arn.partition("/")[2]
        self._tables, self._client = _client("dynamodb", endpoint), _client("dynamodbstreams", endpoint)
        self._stream = ""

    def shards(self) -> dict[str, set[str]]:
        """Shard -> its parent; none where the table is not there, or has no stream."""
        if self._table not in self._tables.list_tables()["TableNames"]:
            return {}
        self._stream = self._tables.describe_table(TableName=self._table)["Table"].get("LatestStreamArn", "")
        if not self._stream:
            return {}
        found = self._client.describe_stream(StreamArn=self._stream)["StreamDescription"]["Shards"]
        return {one["ShardId"]: {one[name] for name in _PARENTS if name in one} for one in found}

    def iterator(self, shard: str) -> str:
        """At its oldest record."""
        asked = {"StreamArn": self._stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        return str(self._client.get_shard_iterator(**asked)["ShardIterator"])

    def records(self, iterator: str, most: int) -> tuple[list[Any], str | None]:
        """-> records, and the iterator behind them; None where the shard ends."""
        answer = self._client.get_records(ShardIterator=iterator, Limit=min(most, 1000))
        return answer["Records"], answer.get("NextShardIterator")

    @staticmethod
    def number(record: Any) -> str:
        return str(record["dynamodb"]["SequenceNumber"])

    @staticmethod
    def made(record: Any) -> float:
        return float(record["dynamodb"]["ApproximateCreationDateTime"].timestamp())

    def event(self, _shard: str, record: Any) -> dict[str, Any]:
        """As Lambda hands it over."""
        found: dict[str, Any] = _json(record)
        label = self._stream.rpartition("/")[2]
        return {
            **found,
            "eventSource": "aws:dynamodb",
            "awsRegion": REGION,
            "eventSourceARN": f"{self.arn}/stream/{label}",
        }


def _json(value: Any) -> Any:
    """What boto3 has parsed, as JSON has it: bytes in Base64, times in seconds."""
    if isinstance(value, Mapping):
        return {name: _json(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.timestamp() if isinstance(value, datetime) else value


def _client(service: str, endpoint: str) -> Any:
    import boto3
    from botocore.config import Config

    session: Any = boto3.session.Session()
    return session.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"max_attempts": 1}, read_timeout=30),
    )
