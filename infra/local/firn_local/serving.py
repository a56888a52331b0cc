"""WSGI on a loopback port: waitress in a thread, and the few lines of JSON over WSGI that the stack needs."""

import contextlib
import io
import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server

from firn_local.guard import guarded

LOOPBACK = "127.0.0.1"


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """Does not ask for a body that is not there: waitress would wait for it for ever. Arrow's S3 client sends
    `Expect: 100-continue` with empty objects too (the folders that it makes, and looks after when it deletes)."""

    def parse_header(self, header_plus: bytes) -> None:
        """Reads the headers."""
        super().parse_header(header_plus)
        if not (self.content_length or self.chunked):
            self.expect_continue = False


class _Channel(HTTPChannel):  # type: ignore[misc]
    parser_class = _Parser


class PortInUse(Exception):
    """The port that was asked for can't be bound. The text says what to do."""


class Server:
    """One WSGI application on 127.0.0.1, served by `threads` threads with HTTP/1.1 keep-alive and chunked bodies. Web
    pages of other sites get nothing of it (firn_local.guard).

    `port` 0 picks a free one. waitress never upgrades a connection, so the `Upgrade: h2c` that Java's HTTP client sends
    with its first request is ignored, as RFC 9110 section 7.8 allows.
    """

    def __init__(self, app: WSGIApplication, port: int = 0, *, threads: int = 8, max_body: int = 1 << 30) -> None:
        # A long poll keeps a thread for seconds on purpose; waitress would warn about each.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._channels: dict[int, Any] = {}
        self._stopping = threading.Event()
        try:
            self._server = create_server(
                guarded(app),
                map=self._channels,
                host=LOOPBACK,
                port=port,
                threads=threads,
                ident="firn",
                max_request_body_size=max_body,
                # Bodies below this stay in memory. A request of 10 MB must not cost a temporary file.
                inbuf_overflow=16 << 20,
                outbuf_overflow=64 << 20,
                connection_limit=500,
                channel_timeout=300,
                clear_untrusted_proxy_headers=True,
            )
        except OSError as error:
            raise PortInUse(
                f"port {port} on {LOOPBACK} can't be used ({error.strerror}): "
                "stop what listens there, or let --port 0 pick a free one"
            ) from error
        self._server.channel_class = _Channel
        self.port: int = int(self._server.effective_port)
        self._thread = threading.Thread(target=self._run, name=f"http-{self.port}", daemon=True)

    @property
    def url(self) -> str:
        """The address to give to clients, without a trailing slash."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Serve in a thread of its own. The port is bound since the constructor, so clients may connect already."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and all connections. Requests that are being worked on get no answer."""
        self._stopping.set()
        self._server.task_dispatcher.set_thread_count(0)
        with contextlib.suppress(OSError):
            self._server.pull_trigger()
        if self._thread.ident is not None:
            self._thread.join(3)

    def _run(self) -> None:
        # waitress's own run() has no way to be stopped from another thread.
        while not self._stopping.is_set():
            wasyncore.loop(timeout=1, use_poll=True, map=self._channels, count=1)
        wasyncore.close_all(self._channels, ignore_all=True)


@dataclass(frozen=True)
class Response:
    """What an application answers: bytes and headers."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = field(default=(("Content-Type", "application/json"),))

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        """Hand this to the WSGI server."""
        names = {name.lower() for name, _ in self.headers}
        extra = [] if "content-length" in names else [("Content-Length", str(len(self.body)))]
        start_response(f"{self.status} {_reason(self.status)}", [*self.headers, *extra])
        return [self.body]


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # a handler's own number
        return "Unknown"


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; `headers` come after its Content-Type."""
    return Response(
        status,
        json.dumps(body, separators=(",", ":")).encode(),
        (("Content-Type", "application/json"), *(headers or {}).items()),
    )


def read_body(environ: WSGIEnvironment) -> bytes:
    """The whole request body. waitress has undone chunking and set CONTENT_LENGTH."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    return body


def peeked_body(environ: WSGIEnvironment) -> bytes:
    """The whole request body, which can be read again."""
    body = read_body(environ)
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def raw_path(environ: WSGIEnvironment) -> str:
    """The decoded path as text: PATH_INFO holds UTF-8 bytes as latin-1 (PEP 3333)."""
    return str(environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")


def sent_path(environ: WSGIEnvironment) -> str:
    """The path as it was sent, percent-encoded: so a REST API and a function URL give it to their functions."""
    sent = str(environ.get("REQUEST_URI", "")).partition("?")[0]
    return sent if sent.startswith("/") else quote(raw_path(environ))


def request_headers(environ: WSGIEnvironment) -> dict[str, str]:
    """Headers in Title-Case, which is how API Gateway passes the well-known ones on."""
    headers = {
        name[5:].replace("_", "-").title(): str(value) for name, value in environ.items() if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").title()] = str(environ[name])
    return headers


class Held:
    """A start_response that keeps the status line, so that an answer can be thrown away."""

    status = ""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: object = None, /) -> Any:  # noqa: ARG002
        """Keeps status and headers; what is written by the old way is dropped."""
        self.status, self.headers = status, headers
        return lambda _data: None
