"""Kinesis and DynamoDB Streams through the embedded stack, polled as Lambda's mappings would: nothing lost, doubled or
out of order, though the function dies in the midst."""

import io
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
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
from firn_local.stream_pollers import StreamPollers, _client
from firn_local.template import read

pytestmark = pytest.mark.stack

STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/orders"
CONFIG = f"""
streams:
  clicks:
    envelope: rows
    kinesis: {STREAM}
    tables: {{users: {{to: web.users, key: [id]}}}}
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
        self.kinesis, self.dynamodb = (_client(service, self.aws.url) for service in ("kinesis", "dynamodb"))
        self.pollers = StreamPollers(
            self._function, template.mappings, self.aws.url, "http://127.0.0.1:1", "", folder / "logs", print
        )
        self.pollers.apply(config.streams.values())

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
            image = json.loads(one["after"] or one["before"])
            value = None if one["op"] == "d" else image
            found[image["id"]] = max(found.get(image["id"], (b"", None)), (where, value), key=lambda it: it[0])
        return {key: value for key, (_, value) in found.items() if value is not None}

    def wait(self, stream: str, rows: int) -> None:
        deadline = time.monotonic() + 60
        while len({(one["order"], one["after"] or one["before"]) for one in self.staged(stream)}) < rows:
            assert time.monotonic() < deadline, (self.dir / "logs" / "ingest_stream.log").read_text()[-3000:]
            time.sleep(0.2)

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

    def kill() -> None:
        until = time.monotonic() + 10
        while time.monotonic() < until and len(killed) < 2:
            process = ground.function()
            if process is not None and process not in killed:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    for version in range(20):
        rows = [{"id": key, "v": version} for key in range(10)]
        entries = [{"Data": json.dumps(row).encode(), "PartitionKey": str(row["id"])} for row in rows]
        ground.kinesis.put_records(StreamName="clicks", Records=entries)
    ground.kinesis.put_record(StreamName="clicks", Data=b"\xff poison", PartitionKey="1")
    ground.kinesis.put_record(StreamName="clicks", Data=b'{"id": 99, "v": 1}', PartitionKey="1")
    killer.join()
    places = ground.places("clicks")
    assert len(places) >= 201
    ground.wait("clicks", len(places))
    assert killed
    assert ground.newest("clicks") == {key: {"id": key, "v": 19} for key in range(10)} | {99: {"id": 99, "v": 1}}
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
    for version in range(12):
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
        process = ground.function() if version in (3, 8) else None
        if process is not None:
            os.kill(process, signal.SIGKILL)
    ground.wait("orders", changes)
    assert ground.newest("orders") == expected
    assert len({one["order"] for one in ground.staged("orders")}) == changes
