"""Requests exactly as Debezium Server's HTTP sink sent them: answered 2xx, and their rows land right."""

import gzip
import http.client
import json
from decimal import Decimal
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import CORPUS, Stack

SAVED = sorted(file.name.removesuffix(".ndjson.gz") for file in (CORPUS / "http_raw").glob("*.ndjson.gz"))
STREAMS = "".join(
    f"""
  {name}:
    envelope: auto
    tables:
      raw.c: {{to: {name}.c, key: [id], columns: {{amt: "decimal(10,2)"}}}}
      "*": {{to: "{name}.{{table}}"}}
"""
    for name in SAVED
)


def replay(stack: Stack, name: str) -> list[int]:
    """Send each saved request with its own headers and body; the path alone is ours. Returns the statuses."""
    at = urlsplit(stack.about["url"])
    statuses = []
    for line in gzip.decompress((CORPUS / "http_raw" / f"{name}.ndjson.gz").read_bytes()).splitlines():
        saved = json.loads(line)
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
        connection.putrequest("POST", f"/v1/streams/{name}", skip_host=True, skip_accept_encoding=True)
        for header, value in saved["headers"]:
            connection.putheader(header, f"{at.hostname}:{at.port}" if header == "Host" else value)
        connection.endheaders(saved["body"].encode())
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
        connection.close()
    return statuses


def send(stack: Stack) -> None:
    """Each saved request twice: duplicates change nothing."""
    for name in (*SAVED, *SAVED):
        replay(stack, name)


@pytest.mark.stack
@pytest.mark.parametrize("name", SAVED)
def test_each_saved_request_is_answered_2xx(shared: Stack, name: str) -> None:
    statuses = replay(shared, name)
    assert statuses
    assert all(200 <= status < 300 for status in statuses), statuses


@pytest.mark.spark
def test_what_debezium_server_sent_lands_right(committed: Stack) -> None:
    for name in SAVED:
        rows = sorted(committed.read(name, "c").select(["id", "name", "amt"]).to_pylist(), key=lambda row: row["id"])
        assert rows == [
            {"id": 1, "name": "a", "amt": Decimal("1.50")},
            {"id": 2, "name": "b", "amt": None},
        ], name
