"""Kinesis and DynamoDB Streams through the embedded stack, polled as Lambda's mappings would: nothing lost, doubled or
out of order, though the function dies in the midst."""

import io
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.changes.positions import position
from firn.log import published_configs
from firn.log.store import open_store
from firn_local.aws import AwsEndpoint
from firn_local.environment import TEMPLATE
from firn_local.functions import FunctionRunner
from firn_local.stack import local_parameters
from firn_local.stream_pollers import StreamPollers, _client, _Kinesis, _Source
from firn_local.template import read
from tests.soak import LONG, long_only, seeds, times

pytestmark = pytest.mark.stack

STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
SPLIT = "arn:aws:kinesis:eu-central-1:123456789012:stream/views"
TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/orders"
FIRST_NUMBER = 49590338271490256608559692538361571095921575989136588898
CONFIG = f"""
streams:
  clicks:
    envelope: rows
    kinesis: {STREAM}
    tables: {{users: {{to: web.users, key: [id]}}}}
  views:
    envelope: rows
    kinesis: {SPLIT}
    tables: {{users: {{to: web.views, key: [id]}}}}
  orders:
    envelope: dynamodb
    dynamodb: {TABLE}
    tables: {{orders: {{to: shop.orders}}}}
"""


class Ground:
    """The endpoint with its streams, the function in a process of its own, and what polls for it."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.aws = AwsEndpoint()
        self.aws.start()
        template = read(TEMPLATE, local_parameters(TEMPLATE, {"EmrApplicationId": "00local"}), queue_urls=self.aws.url)
        [spec] = [one for one in template.functions if one.name == "ingest_stream"]
        (folder / "staging").mkdir()
        environment = {**self.aws.credentials, "FIRN_STAGING": f"file://{folder}/staging"}
        config = published_configs.publish(open_store(environment["FIRN_STAGING"]), CONFIG)
        self._function = FunctionRunner(spec, environment, folder / "logs")
        self._mappings = template.mappings
        self.kinesis, self.dynamodb = (_client(service, self.aws.url) for service in ("kinesis", "dynamodb"))
        self.pollers = StreamPollers(
            self._function, template.mappings, self.aws.url, "http://127.0.0.1:1", "", folder / "logs", print
        )
        self.pollers.apply(config.streams.values())

    def poll(self, shards: "Shards") -> _Source:
        """Shards of our own, as the mapping of Kinesis polls its."""
        source = _Source(shards, self._function, self._mappings["kinesis"])
        source.start()
        return source

    def stop(self) -> None:
        self.pollers.stop()
        self._function.close()
        self.aws.stop()

    def staged(self, stream: str) -> list[dict[str, Any]]:
        folder = self.dir / "staging" / "staged" / stream
        found: list[dict[str, Any]] = []
        for path in sorted(folder.rglob("*.parquet")):
            found += pq.read_table(io.BytesIO(path.read_bytes())).to_pylist()
        return found

    def places(self, stream: str) -> set[str]:
        """The orders of the records that a Kinesis stream holds, but for the poison: a client that tries again after a
        lost answer puts a record twice."""
        shard = self.kinesis.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
        asked = {"StreamName": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = self.kinesis.get_shard_iterator(**asked)["ShardIterator"]
        found: set[str] = set()
        while records := (answer := self.kinesis.get_records(ShardIterator=iterator))["Records"]:
            found |= {f"@kinesis:{one['SequenceNumber']}:0:0" for one in records if one["Data"].startswith(b"{")}
            iterator = answer["NextShardIterator"]
        return found

    def newest(self, stream: str) -> dict[int, dict[str, Any]]:
        """The mirror that the staged changes make: of each key the one with the highest position."""
        found: dict[int, tuple[bytes, dict[str, Any] | None]] = {}
        for one in self.staged(stream):
            where = position(one.get("connector") or "", one["op"], one["order"], 0)
            assert where is not None
            image = json.loads(one.get("after") or one["before"])
            value = None if one["op"] == "d" else image
            found[image["id"]] = max(found.get(image["id"], (b"", None)), (where, value), key=lambda it: it[0])
        return {key: value for key, (_, value) in found.items() if value is not None}

    def wait(self, stream: str, rows: int) -> None:
        deadline = time.monotonic() + times(60, 900)
        while len({(one["order"], one.get("after") or one.get("before")) for one in self.staged(stream)}) < rows:
            assert time.monotonic() < deadline, (self.dir / "logs" / "ingest_stream.log").read_text()[-3000:]
            time.sleep(0.2)

    def kill(self, *, of_last: int = 0) -> int:
        """SIGKILL of the function's process, unless it is `of_last` or not there -> which it was, or 0."""
        process = self.function()
        if process is None or process == of_last:
            return 0
        os.kill(process, signal.SIGKILL)
        return process

    def function(self) -> int | None:
        """The process of the function, if there is one (Linux)."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
                parent = f"PPid:\t{os.getpid()}\n" in (entry / "status").read_text()
            except OSError:
                continue
            if parent and b"AWS_LAMBDA_FUNCTION_NAME=ingest_stream" in words:
                return int(entry.name)
        return None


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    made = Ground(tmp_path_factory.mktemp("streams"))
    yield made
    made.stop()


def test_kinesis_is_staged_in_order_while_its_function_is_killed(ground: Ground) -> None:
    deadline = time.monotonic() + 30
    while "clicks" not in ground.kinesis.list_streams()["StreamNames"]:  # the stack makes what firn.yaml names
        assert time.monotonic() < deadline
        time.sleep(0.1)
    killed: list[int] = []
    versions, kills = times(20, 400), times(2, 40)

    def kill() -> None:
        until = time.monotonic() + times(10, 120)
        while time.monotonic() < until and len(killed) < kills:
            if process := ground.kill(of_last=killed[-1] if killed else 0):
                killed.append(process)
            time.sleep(times(50, 500) / 1000)

    killer = threading.Thread(target=kill)
    killer.start()
    for version in range(versions):
        rows = [{"id": key, "v": version} for key in range(10)]
        entries = [{"Data": json.dumps(row).encode(), "PartitionKey": str(row["id"])} for row in rows]
        ground.kinesis.put_records(StreamName="clicks", Records=entries)
        time.sleep(0.05 * LONG)
    ground.kinesis.put_record(StreamName="clicks", Data=b"\xff poison", PartitionKey="1")
    ground.kinesis.put_record(StreamName="clicks", Data=b'{"id": 99, "v": 1}', PartitionKey="1")
    killer.join()
    places = ground.places("clicks")
    assert len(places) >= 10 * versions + 1
    ground.wait("clicks", len(places))
    assert len(killed) >= times(1, kills // 2)
    assert ground.newest("clicks") == {key: {"id": key, "v": versions - 1} for key in range(10)} | {
        99: {"id": 99, "v": 1}
    }
    assert {one["order"] for one in ground.staged("clicks")} == places
    assert list((ground.dir / "staging" / "dead" / "clicks").rglob("*.parquet"))


def test_dynamodb_is_staged_in_order_while_its_function_is_killed(ground: Ground) -> None:
    ground.dynamodb.create_table(
        TableName="orders",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    expected: dict[int, dict[str, Any]] = {}
    changes = 0
    versions, killed = times(12, 400), 0
    for version in range(versions):
        for key in range(5):
            named = {"id": {"N": str(key)}}
            if (version + key) % 4 == 3:
                changes += key in expected
                expected.pop(key, None)
                ground.dynamodb.delete_item(TableName="orders", Key=named)
            else:
                changes += 1
                expected[key] = {"id": key, "v": version}
                ground.dynamodb.put_item(TableName="orders", Item={**named, "v": {"N": str(version)}})
        if version % times(5, 10) == 3:
            killed += bool(ground.kill())
        time.sleep(0.05 * LONG)
    print(f"{changes} changes, {killed} kills")
    ground.wait("orders", changes)
    assert ground.newest("orders") == expected
    assert len({one["order"] for one in ground.staged("orders")}) == changes


@dataclass
class Shard:
    """`low` to `high`: of the hashes of its keys, the second not in it."""

    name: str
    low: float
    high: float
    parents: set[str] = field(default_factory=set)
    records: list[dict[str, Any]] = field(default_factory=list)
    is_open: bool = True


class Shards(_Kinesis):
    """A Kinesis stream in memory that is split and merged as AWS does it: a shard that is closed keeps its records and
    ends behind them, and sequence numbers of the shards after it are higher (Kinesis Data Streams Developer Guide,
    "Resharding"). Those of shards beside each other have no order."""

    def __init__(self, draw: random.Random, seed: int) -> None:
        self.arn, self._draw, self._lock = SPLIT, draw, threading.Lock()
        self._all = {"shardId-0": Shard("shardId-0", 0.0, 1.0)}
        self._numbers = {"shardId-0": FIRST_NUMBER + (seed << 96)}

    def put(self, row: dict[str, Any]) -> None:
        with self._lock:
            place = random.Random(row["id"]).random()
            shard = next(one for one in self._open() if one.low <= place < one.high)
            self._numbers[shard.name] = number = self._numbers[shard.name] + self._draw.choice([1, 1, 2, 16])
            shard.records.append({
                "Data": json.dumps(row).encode(), "PartitionKey": str(row["id"]), "SequenceNumber": str(number),
                "ApproximateArrivalTimestamp": datetime.now(UTC),
            })  # fmt: skip

    def reshard(self) -> None:
        """Split one, or merge two neighbours."""
        with self._lock:
            some = sorted(self._open(), key=lambda one: one.low)
            if len(some) > 1 and (self._draw.random() < 0.5 or len(some) > 5):
                at = self._draw.randrange(len(some) - 1)
                self._close(some[at], some[at + 1])
                self._new(some[at].low, some[at + 1].high, some[at], some[at + 1])
                return
            one = self._draw.choice(some)
            middle = self._draw.uniform(one.low, one.high)
            self._close(one)
            self._new(one.low, middle, one)
            self._new(middle, one.high, one)

    def _open(self) -> list[Shard]:
        return [one for one in self._all.values() if one.is_open]

    def _close(self, *shards: Shard) -> None:
        for one in shards:
            one.is_open = False

    def _new(self, low: float, high: float, *parents: Shard) -> None:
        name = f"shardId-{len(self._all)}"
        self._numbers[name] = max(self._numbers[one.name] for one in parents) + (len(self._all) << 64)
        self._all[name] = Shard(name, low, high, {one.name for one in parents})

    def shards(self) -> dict[str, set[str]]:
        with self._lock:
            return {one.name: one.parents for one in self._all.values()}

    def iterator(self, shard: str) -> str:
        return f"{shard}/0"

    def records(self, iterator: str, most: int) -> tuple[list[Any], str | None]:
        name, _, at = iterator.partition("/")
        with self._lock:
            shard, end = self._all[name], int(at) + most
            ends = not shard.is_open and end >= len(shard.records)
            found = shard.records[int(at) : end]
        return found, None if ends else f"{name}/{int(at) + len(found)}"

    def places(self) -> list[str]:
        """The sequence numbers of all records."""
        return [one["SequenceNumber"] for shard in self._all.values() for one in shard.records]


@long_only
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_shards_that_are_split_and_merged_are_staged_in_order_while_the_function_is_killed(
    ground: Ground, seed: int
) -> None:
    draw = random.Random(seed)
    shards, killed, newest = Shards(draw, seed), 0, Counter[int]()
    source = ground.poll(shards)
    for step in range(600):
        for _ in range(10):
            key = draw.randrange(100)
            newest[key] += 1
            shards.put({"id": key + 1000 * seed, "v": newest[key]})
        if step % 20 == 7:
            shards.reshard()
        if step % 20 == 13:
            killed += bool(ground.kill())
        time.sleep(0.05)
    places = shards.places()
    mine = {key + 1000 * seed: {"id": key + 1000 * seed, "v": version} for key, version in newest.items()}
    deadline = time.monotonic() + 300
    while not {one["order"].split(":")[1] for one in ground.staged("views")} >= set(places):
        assert time.monotonic() < deadline
        time.sleep(1)
    source.stop()
    print(f"{len(places)} records, {len(shards.shards())} shards, {killed} kills")
    assert killed > 15
    assert len(places) == len(set(places)) == 6000
    staged = [one for one in ground.staged("views") if json.loads(one["after"])["id"] // 1000 == seed]
    assert {one["order"].split(":")[1] for one in staged} == set(places)
    found = ground.newest("views")
    assert {key: row for key, row in found.items() if key // 1000 == seed} == mine
