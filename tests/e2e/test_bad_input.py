"""Hostile and broken requests: each gets its status or its dead letter, and the good events beside it land."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Stack

STREAMS = """
  shop:
    tables:
      public.t: {to: shop.t, key: [id]}
"""


def event(n: int, **changes: object) -> dict[str, object]:
    source = {"connector": "postgresql", "schema": "public", "table": "t", "ts_ms": n, "sequence": f'["1","{n}"]'}
    return {"op": "c", "before": None, "after": {"id": n, "v": f"v{n}"}, "source": source} | changes


def send(stack: Stack) -> None:
    """A thousand events, one of them bad."""
    events = [event(n) for n in range(1000)]
    events[500] = event(500, op="sideways")
    status, answer = stack.post("shop", json.dumps(events).encode())
    assert status == 202
    assert (answer["accepted"], answer["rejected"]) == (999, 1)
    assert answer["errors"][0]["index"] == 500


def bomb() -> bytes:
    return gzip.compress(b"[" + b" " * 200_000_000 + b"]", 9)


@pytest.mark.stack
@pytest.mark.parametrize(
    ("what", "status", "body", "headers"),
    [
        ("malformed JSON", 400, b'{"op": "c", ', {}),
        ("an empty body", 400, b"", {}),
        ("a truncated gzip", 400, gzip.compress(json.dumps([event(1)]).encode())[:-9], {"Content_Encoding": "gzip"}),
        ("bytes that are no gzip", 400, b"not gzip at all", {"Content_Encoding": "gzip"}),
        ("bytes that are no zstd", 400, zlib.compress(b"[]"), {"Content_Encoding": "zstd"}),
        ("a 200 MB inflate of a 200 KB body", 413, bomb, {"Content_Encoding": "gzip"}),
        ("a body over the limit", 413, json.dumps([event(1, pad="x" * 5_000_000)]).encode(), {}),
        ("a wrong content type", 415, b"<xml/>", {"Content_Type": "application/xml"}),
        ("an unknown content encoding", 415, b"[]", {"Content_Encoding": "br"}),
        ("bytes that are no UTF-8", 400, b'[{"op": "c", "x": "\xff\xfe"}]', {}),
    ],
)
def test_a_request_that_cannot_be_read_is_refused(
    shared: Stack, what: str, status: int, body: bytes | Callable[[], bytes], headers: dict[str, str]
) -> None:
    got, answer = shared.post("shop", body if isinstance(body, bytes) else body(), **headers)
    assert got == status, (what, answer)
    assert answer["message"], "the answer says what is wrong"


@pytest.mark.stack
def test_an_unknown_stream_is_not_found(shared: Stack) -> None:
    status, answer = shared.post("nosuch", b"[]")
    assert status == 404
    assert "nosuch" in answer["message"]


@pytest.mark.stack
def test_a_flush_of_an_unknown_stream_says_so(shared: Stack) -> None:
    done = shared.firn("flush", "nosuch", check=False)
    assert done.returncode == 1
    assert "no stream 'nosuch'" in done.stderr


@pytest.mark.stack
def test_events_without_op_or_table_are_rejected_and_named(shared: Stack) -> None:
    no_op = event(1)
    del no_op["op"]
    no_table = event(2, source={"connector": "postgresql", "ts_ms": 1, "sequence": '["1","2"]'})
    status, answer = shared.post("shop", json.dumps([no_op, no_table]).encode())
    assert status == 202
    assert (answer["accepted"], answer["rejected"]) == (0, 2)
    assert [error["index"] for error in answer["errors"]] == [0, 1]


@pytest.mark.spark
def test_of_a_thousand_events_with_one_bad_the_good_999_land(committed: Stack) -> None:
    ids = committed.read("shop", "t")["id"].to_pylist()
    assert sorted(ids) == [n for n in range(1000) if n != 500]
