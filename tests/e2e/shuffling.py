"""A corpus as a source's outbox gone mad: any order, doubled, split into requests and queue messages at once."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import boto3

from tests.e2e.conftest import CORPUS, ROOT, Stack

PGBENCH = ROOT / "examples" / "pgbench"
DOUBLED = 0.3
KEYLESS = {"nopk_full", "nopk_insert"}
# These encodings do not say when an event was emitted, so that an event which one request brings twice can't be told
# from two of one content: their keyless tables' events come at most once a request. What comes over the queue is put
# together into requests by Lambda, so these come over HTTP.
NO_TIME = {"flat", "cloudevents"}
_MAX_MESSAGE = 200_000


@dataclass(frozen=True)
class Event:
    """A line to send. `identity`: what tells it from others, where a request must not hold two of it; else None."""

    line: bytes
    identity: str | None = None


@dataclass(frozen=True)
class Request:
    """Some events that go together: the body of a request, or one queue message."""

    queue: bool
    lines: Sequence[bytes]


def corpus(name: str) -> list[Event]:
    """The events of a corpus, in order, as a source would send them."""
    if name == "pgbench":
        file, bare = PGBENCH / "pgbench_plain.ndjson.gz", True
    else:
        # Bare values, as Debezium Server's HTTP sink posts them; whole records where table or key are only there.
        file, bare = CORPUS / "spec" / f"{name}.ndjson.gz", name in {"plain", "cloudevents"}
    found = []
    for line in gzip.decompress(file.read_bytes()).splitlines():
        value = json.loads(line)["value"]
        if bare and value is None:
            continue
        sent = json.dumps(value, ensure_ascii=False).encode() if bare else line
        found.append(Event(sent, identity(name, value) if name in NO_TIME and value else None))
    return found


def table_of(value: dict[str, Any] | None) -> str:
    """The source table of an event's value, "" if it is of none."""
    value = (value or {}).get("payload", value) or {}
    return str(value.get("iodebeziumtable") or value.get("__table") or (value.get("source") or {}).get("table") or "")


def identity(name: str, value: dict[str, Any]) -> str | None:
    """What is known of an event of a keyless table: its place, its op and its row."""
    if table_of(value) not in KEYLESS:
        return None
    told = value if name == "flat" else [value.get(f"iodebezium{n}") for n in ("sequence", "op")] + [value["data"]]
    return json.dumps(told, sort_keys=True)


def shuffled(events: Sequence[Event], dice: random.Random, largest: int) -> list[Request]:
    """All events in any order, each with probability 0.3 twice, in requests of 1 to `largest` and messages of fewer."""
    delivered = [*events, *(event for event in events if dice.random() < DOUBLED)]
    dice.shuffle(delivered)
    found: list[Request] = []
    while delivered:
        queue = dice.random() < 0.5
        size = dice.randint(1, largest // 4 if queue else largest)
        some, held, left = [], Counter[str](), []
        for event in delivered[:size]:
            if event.identity is not None and (queue or held[event.identity]):
                left.append(event)
                continue
            held[event.identity or ""] += event.identity is not None
            some.append(event.line)
        delivered = delivered[size:] + left
        if queue:
            found += [Request(True, group) for group in fitting(some)]
        elif some:
            found.append(Request(False, some))
    return found


def fitting(lines: Iterable[bytes]) -> list[list[bytes]]:
    """Groups that one queue message holds."""
    groups: list[list[bytes]] = []
    size = _MAX_MESSAGE
    for line in lines:
        if size + len(line) + 1 > _MAX_MESSAGE:
            groups.append([])
            size = 0
        groups[-1].append(line)
        size += len(line) + 1
    return groups


def deliver(stack: Stack, stream: str, requests: Sequence[Request]) -> int:
    """Send them over HTTP and by the queue at the same time. -> how many requests the HTTP side sent."""
    with ThreadPoolExecutor(2) as both:
        queued = both.submit(_enqueue, stack, stream, [request for request in requests if request.queue])
        posted = [request for request in requests if not request.queue]
        for request in posted:
            body = gzip.compress(b"\n".join(request.lines), 1)
            status, answer = stack.post(stream, body, Content_Encoding="gzip", Content_Type="application/x-ndjson")
            assert status == 202, answer
            assert answer["rejected"] == 0, answer["errors"][:3]
        queued.result()
    return len(posted)


def _enqueue(stack: Stack, stream: str, requests: Sequence[Request]) -> None:
    url = stack.about["queues"]["Queue"]
    env = stack.about["env"]
    sqs = boto3.session.Session().client(
        "sqs",
        endpoint_url=stack.about["aws_endpoint"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )
    attribute = {"stream": {"DataType": "String", "StringValue": stream}}
    for request in requests:
        sqs.send_message(QueueUrl=url, MessageBody=b"\n".join(request.lines).decode(), MessageAttributes=attribute)


def keyless_rows(name: str, table: str) -> Counter[str]:
    """Ops of a keyless table's distinct events: its final content, whatever way they came."""
    seen = set()
    ops: Counter[str] = Counter()
    for event in corpus(name):
        value = json.loads(event.line)
        value = value.get("value", value) if "destination" in value else value
        if table_of(value) != table or event.identity in seen:
            continue
        if event.identity is not None:
            seen.add(event.identity)
        inner = value.get("payload", value)
        ops[inner.get("iodebeziumop") or inner.get("__op") or inner["op"]] += 1
    return ops
