"""The Lambda runtime API, as awslambdaric speaks it."""

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from firn_lambda.runtime_api import ROOT, Invocation, RuntimeApi


class Heard:
    def __init__(self) -> None:
        self.ready = threading.Event()
        self.answers: list[tuple[str, bytes, bool]] = []
        self.failures: list[bytes] = []


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def api(heard: Heard) -> Iterator[RuntimeApi]:
    running = RuntimeApi(
        heard.ready.set, lambda id, body, failed: heard.answers.append((id, body, failed)), heard.failures.append
    )
    yield running
    running.close()


def post(api: RuntimeApi, path: str, body: bytes) -> int:
    request = urllib.request.Request(f"http://{api.address}{ROOT}/{path}", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status


def test_an_event_goes_out_with_what_the_runtime_needs_to_know(api: RuntimeApi, heard: Heard) -> None:
    api.give(Invocation("one", b'{"a": 1}', 1234, "arn:f", "Root=1"))
    with urllib.request.urlopen(f"http://{api.address}{ROOT}/invocation/next", timeout=10) as answer:
        assert answer.read() == b'{"a": 1}'
        assert answer.headers["Lambda-Runtime-Aws-Request-Id"] == "one"
        assert answer.headers["Lambda-Runtime-Deadline-Ms"] == "1234"
        assert answer.headers["Lambda-Runtime-Invoked-Function-Arn"] == "arn:f"
    assert heard.ready.is_set()


def test_results_errors_and_failed_starts_come_back(api: RuntimeApi, heard: Heard) -> None:
    assert post(api, "invocation/one/response", b"42") == 202
    assert post(api, "invocation/two/error", b"{}") == 202
    assert post(api, "init/error", b"no module") == 202
    assert heard.answers == [("one", b"42", False), ("two", b"{}", True)]
    assert heard.failures == [b"no module"]


def test_a_streamed_body_is_put_together(api: RuntimeApi, heard: Heard) -> None:
    connection = http.client.HTTPConnection(api.address, timeout=10)
    connection.request("POST", f"{ROOT}/invocation/one/response", body=iter([b"abc", b"de"]), encode_chunked=True)
    assert connection.getresponse().status == 202
    connection.close()
    assert heard.answers == [("one", b"abcde", False)]


def test_anything_else_is_not_found(api: RuntimeApi) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{api.address}/somewhere", timeout=10)


def test_who_waits_for_an_event_is_let_go_when_the_api_closes(heard: Heard) -> None:
    running = RuntimeApi(heard.ready.set, lambda *_: None, lambda _: None)
    connection = http.client.HTTPConnection(running.address, timeout=10)
    connection.request("GET", f"{ROOT}/invocation/next")
    assert heard.ready.wait(10)
    running.close()
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    connection.close()
