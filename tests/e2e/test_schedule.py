"""Nobody flushes: the template's schedule commits what came over the queue and over HTTP."""

import json
import urllib.request
from typing import Any

import boto3
import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.e2e.conftest import Stack
from tests.e2e.killing import until

OPTIONS = ("--schedule-seconds", "2")
CONFIG = """
streams:
  shop:
    commit: {every: 1s}
    tables:
      public.t: {to: shop.t, key: [id]}
"""


def event(n: int) -> str:
    source = {"connector": "postgresql", "schema": "public", "table": "t", "sequence": f'["1","{n}"]'}
    return json.dumps({"op": "c", "before": None, "after": {"id": n}, "source": source})


def ids(stack: Stack) -> list[int]:
    try:
        return sorted(stack.read("shop", "t")["id"].to_pylist())
    except NoSuchTableError:
        return []


def status(stack: Stack) -> dict[str, Any]:
    shop: dict[str, Any] = json.loads(stack.firn("status", "--json").stdout)[0]
    return shop


def scraped(stack: Stack) -> dict[str, float]:
    """GET /metrics, as series to value."""
    with urllib.request.urlopen(f"{stack.about['url']}/metrics", timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.spark
def test_the_schedule_alone_commits_what_came_by_queue_and_by_http(stack: Stack) -> None:
    url = stack.about["queues"]["Queue"]
    env = stack.about["env"]
    sqs = boto3.client(
        "sqs",
        endpoint_url=stack.about["aws_endpoint"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )
    to_shop = {"stream": {"DataType": "String", "StringValue": "shop"}}
    sqs.send_message(QueueUrl=url, MessageBody=event(1), MessageAttributes=to_shop)
    sqs.send_message(QueueUrl=url, MessageBody="{ not JSON", MessageAttributes=to_shop)
    assert stack.post("shop", event(2).encode())[0] == 202
    until("the rows", 240, lambda: ids(stack) == [1, 2])
    until("the dead letter", 240, lambda: status(stack)["dead_letters"] == 1)
    assert stack.firn("query", "--json", "SELECT count(*) AS n FROM shop.t").stdout.replace(" ", "").count('"n":2') == 1
    until("the freshness", 240, lambda: status(stack)["freshness"]["events"])
    freshness = status(stack)["freshness"]
    assert 0 < freshness["p50"] <= freshness["p99"] < 300
    until("the metrics", 240, lambda: 'firn_freshness_p99_seconds{stream="shop"}' in scraped(stack))  # after its cut
    metrics = scraped(stack)
    assert metrics['firn_freshness_p99_seconds{stream="shop"}'] > 0
    assert metrics['firn_job_events_total{stream="shop"}'] >= 1
    assert metrics['firn_accepted_total{service="ingest_http",stream="shop"}'] == 1
