"""Back-pressure over real HTTP: the backlog's 429, the rate limit's, and what clients do; and /metrics."""

import http.client
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import firn
from firn.client import Retry
from tests.integration.stack.test_stack import CONFIG, Running, change, staged, start
from tests.soak import long_only

pytestmark = pytest.mark.stack
assert start  # the fixture

# Nothing is sealed for an hour, so that no job runs here.
LIMITED = CONFIG.replace("    tables:", "    commit: {every: 1h}\n    backlog: {events: 3}\n    tables:")


def post(running: Running, events: list[dict[str, Any]], **headers: str) -> tuple[int, dict[str, str], Any]:
    at = urlsplit(running.about["url"])
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", "/v1/streams/shop", json.dumps(events), {"Content-Type": "application/json"} | named)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def metrics(running: Running) -> list[str]:
    at = urlsplit(running.about["url"])
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=30)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.getheader("Content-Type", "").startswith("text/plain; version=0.0.4")
    return text.splitlines()


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def test_a_full_backlog_is_a_429_until_the_dispatcher_says_otherwise(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    config = tmp_path / "firn.yaml"
    config.write_text(LIMITED)
    running = start().ready()
    assert post(running, [change(n) for n in range(4)], Idempotency_Key="first")[0] == 202
    [told] = running.call("POST", "/_firn/invoke/dispatch", {})[1]["streams"]
    assert told["sealed"] == []
    state = json.loads((running.dir / "staging" / "state" / "shop.json").read_text())
    assert (state["format"], state["events"], state["over"]) == (1, 4, True)

    until(lambda: post(running, [])[0] == 429)  # the gate looks every 5 s; a request without events stages no change
    before = staged(running)
    status, headers, body = post(running, [change(9)])
    assert (status, headers["Retry-After"], body["error"]) == (429, "30", "backlog_full")
    assert "4 events (limit 3)" in body["message"]
    status, _, again = post(running, [change(n) for n in range(4)], Idempotency_Key="first")
    assert (status, again["duplicate"]) == (202, True)
    assert staged(running) == before

    config.write_text(LIMITED.replace("events: 3", "events: 30"))

    def opened() -> bool:
        running.call("POST", "/_firn/invoke/dispatch", {})
        return post(running, [change(9)], Idempotency_Key="later")[0] == 202

    until(opened)
    shown = metrics(running)
    labels = '{service="ingest_http",stream="shop"}'
    assert f"firn_accepted_total{labels} 5" in shown
    assert any(line.startswith(f"firn_throttled_total{labels} ") for line in shown)
    assert 'firn_backlog_over{service="dispatch",stream="shop"} 0' in shown
    assert any(line.startswith('firn_api_requests_total{status="429"} ') for line in shown)


@long_only
def test_the_rate_limit_asks_to_wait_and_whoever_waits_is_served(start: Callable[..., Running]) -> None:
    running = start("--rate", "1000").ready()
    assert post(running, [change(n) for n in range(60)])[0] == 202  # it may leave the bucket in debt
    status, headers, body = post(running, [change(1)])
    assert (status, body) == (429, {"message": "Too Many Requests"})
    assert 1 <= int(headers["Retry-After"]) <= 10
    before, began = staged(running), time.monotonic()
    with firn.Producer("shop", running.about["url"], batch_size=2, retry=Retry(tries=1)) as producer:
        for n in range(24):
            producer.insert("public.orders", {"id": n, "note": os.urandom(300).hex()})
        flushed = producer.flush()
    assert (flushed.counts["insert"], flushed.duplicates, flushed.rejected) == (24, 0, 0)
    assert staged(running) == before + 12
    assert time.monotonic() - began > 5, "7 kB and more at 1 kB a second, 2 kB at once"


@long_only
def test_a_streams_own_rate_is_kept_within_a_tenth(start: Callable[..., Running], tmp_path: Path) -> None:
    rate, seconds = 20_000, 8
    (tmp_path / "firn.yaml").write_text(CONFIG.replace("    tables:", "    rate: 20KB/s\n    tables:"))
    running = start().ready()
    some = [change(n) for n in range(8)]
    size = len(json.dumps(some))

    def taken(until: float) -> int:
        count = 0
        while time.monotonic() < until:
            status, _, body = post(running, some)
            count += status == 202
            if status != 202:
                assert (status, body["error"]) == (429, "rate_exceeded")
                time.sleep(0.03)
        return count * size

    taken(time.monotonic() + 2)  # what a stream that was idle may take at once
    began = time.monotonic()
    found = taken(began + seconds) / (time.monotonic() - began)
    assert 0.9 * rate <= found <= 1.1 * rate, f"{found:,.0f} bytes a second"
