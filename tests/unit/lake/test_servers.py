"""Which server of a catalog a request goes to, by small servers that answer, hang up or are not ready."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from requests import Session

from firn.errors import ConfigError, TransientError, UnknownOutcome
from firn_lake.catalogs.rest import _Servers


class Place:
    """A server that answers all with a status; 0: it takes the request and hangs up."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.asked: list[str] = []
        place = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                place.asked.append(self.command)
                if place.status:
                    said = f"I was asked with {self.headers.get('Authorization')}".encode()
                    self.send_response(place.status)
                    self.send_header("Content-Length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said if self.command != "HEAD" else b"")

            do_GET = do_HEAD = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@contextmanager
def places(*statuses: int) -> Iterator[tuple[Session, list[Place]]]:
    """Servers with these statuses, and a session that knows them in this order."""
    found = [Place(status) for status in statuses]
    session = Session()
    session.mount("http://", _Servers(tuple(place.url for place in found), (2, 2)))
    try:
        yield session, found
    finally:
        for place in found:
            place.server.shutdown()
            place.server.server_close()


@pytest.mark.parametrize("status", [0, 502, 503, 504])
def test_a_read_is_asked_of_the_next_server_which_is_the_first_from_then_on(status: int) -> None:
    with places(status, 200) as (session, (first, second)):
        for _ in range(2):
            assert session.get(f"{first.url}/v1/x").status_code == 200
        assert second.asked == ["GET", "GET"]
        assert set(first.asked) == {"GET"}
        assert len(first.asked) <= 2


@pytest.mark.parametrize("status", [0, 500, 502, 503, 504])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_write_that_was_sent_goes_nowhere_else(method: str, status: int) -> None:
    with places(status, 200) as (session, (first, second)):
        with pytest.raises(UnknownOutcome, match="not known whether it was done"):
            session.request(method, f"{first.url}/v1/x", data=b"{}")
        assert (first.asked, second.asked) == ([method], [])


def test_a_write_that_reached_nobody_goes_to_the_next_server() -> None:
    with places(200, 200) as (session, (first, second)):
        first.server.shutdown()
        first.server.server_close()
        assert session.post(f"{first.url}/v1/x", data=b"{}").status_code == 200
        assert second.asked == ["POST"]


def test_what_a_server_refuses_is_its_answer() -> None:
    with places(409, 200) as (session, (first, second)):
        assert session.post(f"{first.url}/v1/x").status_code == 409
        assert second.asked == []


def test_where_nobody_answers_all_are_named() -> None:
    with places(503, 0) as (session, (first, second)):
        with pytest.raises(TransientError) as caught:
            session.get(f"{first.url}/v1/x")
        assert first.url in str(caught.value)
        assert second.url in str(caught.value)


def test_a_request_to_another_address_is_sent_there_and_nowhere_else() -> None:
    with places(200) as (session, (_known,)), places(503) as (_, (other,)):
        with pytest.raises(TransientError):
            session.get(f"{other.url}/token")
        assert other.asked == ["GET"]


@pytest.mark.parametrize(("status", "kind"), [(401, ConfigError), (403, ConfigError), (500, UnknownOutcome)])
def test_what_a_server_says_is_told_without_the_token_that_it_repeats(status: int, kind: type[Exception]) -> None:
    with places(status) as (session, (only,)):
        with pytest.raises(kind) as caught:
            session.post(f"{only.url}/v1/x", data=b"1", headers={"Authorization": "Bearer s3cret/token"})
        assert "I was asked with Bearer ***" in str(caught.value)
        assert "s3cret" not in str(caught.value)
