"""A small HTTP ingress for tests: records what it is sent and answers as it is told."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Ingress:
    """`planned` holds (status, headers, answer) for the next requests, "drop" to close the connection without one."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    planned: list[Any] = field(default_factory=list)
    staged: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events staged, in order."""
        return [json.loads(line) for _, body in self.staged.values() for line in body.splitlines()]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ingress: Ingress

    def do_GET(self) -> None:
        answer = self.ingress.answers.get(self.path)
        self._answer(200 if answer is not None else 404, {}, answer or {"error": "unknown_batch", "message": "no"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
        key = self.headers.get("Idempotency-Key", "")
        self.ingress.requests.append({"path": self.path, "headers": dict(self.headers), "body": body, "key": key})
        plan = self.ingress.planned.pop(0) if self.ingress.planned else None
        if plan == "drop":
            self._stage(key, body)
            self.close_connection = True
            return
        if plan is not None:
            self._answer(*plan)
            return
        if (answer := self.ingress.answers.get(self.path)) is not None:
            self._answer(200, {}, answer)
            return
        duplicate = key in self.ingress.staged
        batch = self._stage(key, body)
        accepted = len(body.splitlines())
        answer = {"batch_id": batch, "accepted": accepted, "rejected": 0, "duplicate": duplicate, "errors": []}
        self._answer(202, {}, answer)

    def _stage(self, key: str, body: bytes) -> str:
        return self.ingress.staged.setdefault(key, (f"batch-{len(self.ingress.staged) + 1}", body))[0]

    def _answer(self, status: int, headers: dict[str, str], answer: Any) -> None:
        text = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running_ingress() -> Iterator[Ingress]:
    """An ingress on a free loopback port."""
    ingress = Ingress()
    handler = type("Handler", (_Handler,), {"ingress": ingress})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    ingress.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield ingress
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
