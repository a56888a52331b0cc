"""A server of the console's pages whose answers a test chooses: of the contract's types, or the query function's.

So a page is seen in every state, quickly and the same each time; tests/e2e/test_console.py shows it on a real stack.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from firn_console.responses import SECURITY

ASSETS = Path(__file__).parents[3] / "layers/console/python/firn_console/assets"
POLICY = SECURITY["Content-Security-Policy"]
_KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

Fields = Mapping[str, str]
Answer = Callable[[Fields, bytes], Any]


class Refused(Exception):
    """What an answer raises to be one of the API's errors."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": error, "message": message}


class StandIn:
    """`answers`: a pattern of the path below /v1/ -> what it answers: a value, or a function of the parameters and the
    body. The last one that fits counts. `asked`: what came, as (method, path with its parameters, headers, body)."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, Mapping[str, str], bytes]] = []
        self.unchanged = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, target: str, body: bytes) -> Any:
        """The value for a path below /v1/. Raises Refused."""
        split = urlsplit(target)
        path = split.path.removeprefix("/v1/")
        for pattern, found in reversed(self.answers.items()):
            if re.fullmatch(pattern, unquote(path)):
                fields = {name: values[-1] for name, values in parse_qs(split.query).items()}
                return found(fields | {"path": unquote(path)}, body) if callable(found) else found
        raise Refused(404, "not_found", f"nothing is at {path}")


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = urlsplit(self.path).path
            if name.startswith("/console/"):
                file = (ASSETS / (name.removeprefix("/console/") or "index.html")).resolve()
                there = file.is_file() and ASSETS in file.parents
                return self._send(200 if there else 404, file.read_bytes() if there else b"", _KINDS.get(file.suffix))
            return self._call(b"")

        def do_POST(self) -> None:
            self._call(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _call(self, body: bytes) -> None:
            stand_in.asked.append((self.command, self.path, dict(self.headers), body))
            try:
                content = msgspec.json.encode(stand_in.answer(self.path, body))
            except Refused as refused:
                return self._send(refused.status, msgspec.json.encode(refused.body), "application/json")
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            if self.headers.get("If-None-Match") == tag:
                stand_in.unchanged += 1
                return self._send(304, b"", None, tag)
            return self._send(200, content, "application/json", tag)

        def _send(self, status: int, content: bytes, kind: str | None, tag: str | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            for name, value in (("Content-Type", kind), ("ETag", tag)):
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    return Handler
