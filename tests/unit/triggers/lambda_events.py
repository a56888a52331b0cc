"""Events as Lambda hands them over."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/orders"
CLUSTER = "arn:aws:kafka:eu-central-1:123456789012:cluster/bank/1b2c"
FIRST = 49590338271490256608559692538361571095921575989136588898
"""A sequence number of Kinesis: more digits than 128 bits have."""


def kinesis(records: Iterable[tuple[int, bytes]], arn: str = STREAM) -> dict[str, Any]:
    return {
        "Records": [
            {
                "kinesis": {
                    "kinesisSchemaVersion": "1.0", "partitionKey": "1", "sequenceNumber": str(number),
                    "data": base64.b64encode(data).decode(), "approximateArrivalTimestamp": 1_545_084_650.987,
                },
                "eventSource": "aws:kinesis", "eventVersion": "1.0", "eventID": f"shardId-000000000006:{number}",
                "eventName": "aws:kinesis:record", "awsRegion": "eu-central-1", "eventSourceARN": arn,
            }
            for number, data in records
        ]
    }  # fmt: skip


def kafka(
    records: Iterable[tuple[int, int, bytes | None, bytes | None]], topic: str = "users", *, timestamp: int = 0,
    headers: Sequence[dict[str, list[int]]] = (),
) -> dict[str, Any]:  # fmt: skip
    """`records`: partition, offset, key, value."""
    found: dict[str, list[dict[str, Any]]] = {}
    for partition, offset, key, value in records:
        record = {
            "topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp or 1_545_084_650_987,
            "timestampType": "CREATE_TIME", "headers": list(headers),
        }  # fmt: skip
        for name, text in (("key", key), ("value", value)):
            if text is not None:
                record[name] = base64.b64encode(text).decode()
        found.setdefault(f"{topic}-{partition}", []).append(record)
    servers = "b-1.bank:9092,b-2.bank:9092"
    return {"eventSource": "aws:kafka", "eventSourceArn": CLUSTER, "bootstrapServers": servers, "records": found}


def aggregated(datas: Sequence[bytes]) -> bytes:
    """As the Kinesis Producer Library writes it."""
    message = _field(1, b"partition-key")
    for data in datas:
        message += _field(3, b"\x08\x00" + _field(3, data))
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest()


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def change(number: int, version: int = 1) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": f'["1","{version}"]'}
    return {"op": "c", "before": None, "after": {"id": number, "v": version}, "source": source}


def row(number: int, **columns: Any) -> bytes:
    return json.dumps({"id": number, **columns}).encode()
