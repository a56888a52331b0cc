"""StreamClient against an ingress that is busy."""

import logging
from pathlib import Path

import pytest
from ingress import Ingress

from firn.client import Retry, StreamClient, StreamUnreachable
from firn.deployment.delivery import Sent, post
from firn.deployment.event_files import read_batches
from firn.deployment.stack import NoStack, Stack

FULL = {"error": "backlog_full", "message": "nothing was taken: 12 MB staged (limit 10 MB)", "retry_after": 30}


def client(ingress: Ingress, slept: list[float], **retry: float) -> StreamClient:
    return StreamClient(ingress.url, retry=Retry(tries=2, **retry), sleep=slept.append)  # type: ignore[arg-type]


def test_a_busy_stream_is_asked_again_when_it_says_and_that_is_no_failure(
    ingress: Ingress, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []
    ingress.planned = [(429, {"Retry-After": "30"}, FULL)] * 20
    with caplog.at_level(logging.WARNING):
        receipt = client(ingress, slept).post("shop", b"{}\n", key="k")
    assert (receipt.accepted, slept) == (1, [30.0] * 20)
    assert len({one["key"] for one in ingress.requests}) == 1
    [said] = caplog.messages
    assert "12 MB staged (limit 10 MB)" in said


def test_patience_ends_and_the_error_says_why(ingress: Ingress) -> None:
    slept: list[float] = []
    ingress.planned = [(429, {"Retry-After": "30"}, FULL)] * 20
    with pytest.raises(StreamUnreachable, match=r"12 MB staged \(limit 10 MB\), 2 tries, 60 s of waiting"):
        client(ingress, slept, patience=70).post("shop", b"{}\n", key="k")
    assert slept[:2] == [30.0, 30.0]


def test_a_429_that_does_not_say_when_is_a_failure_like_any_other(ingress: Ingress) -> None:
    slept: list[float] = []
    ingress.planned = [(429, {}, {"message": "Too Many Requests"})] * 9
    with pytest.raises(StreamUnreachable, match="HTTP 429: Too Many Requests, 2 tries"):
        client(ingress, slept).post("shop", b"{}\n", key="k")
    assert len(slept) == 1


def test_a_stream_that_asks_for_no_wait_is_not_asked_in_a_loop(ingress: Ingress) -> None:
    slept: list[float] = []
    ingress.planned = [(429, {"Retry-After": "0"}, FULL)] * 3
    client(ingress, slept, first_wait=0.2).post("shop", b"{}\n", key="k")
    assert slept == [0.2] * 3


def test_firn_send_waits_as_it_is_asked_and_goes_on(ingress: Ingress, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text("1\n2\n")
    sent, slept = Sent(), list[float]()
    ingress.planned = [None, (429, {"Retry-After": "7"}, FULL)]
    batches = ((batch, batch.read) for batch in read_batches(file, split=2))
    post(Stack(tmp_path, ingress.url), "shop", batches, sent, client=client(ingress, slept))
    assert (sent.accepted, slept) == (2, [7.0])


def test_firn_send_that_gave_up_says_that_a_rerun_is_safe(ingress: Ingress, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text("1\n")
    ingress.planned = [(429, {"Retry-After": "7"}, FULL)] * 9
    batches = ((batch, batch.read) for batch in read_batches(file))
    busy = client(ingress, [], patience=10)
    with pytest.raises(NoStack, match=r"12 MB staged.*run the same command again"):
        post(Stack(tmp_path, ingress.url), "shop", batches, Sent(), client=busy)
