"""The Lambda runtime API for one process: it asks for the next event and posts back what came of it.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html, version 2018-06-01. Loopback, a free port.
"""

import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

ROOT = "/2018-06-01/runtime"


class Invocation(NamedTuple):
    """One event on its way to the function; `deadline` in ms since the epoch."""

    id: str
    payload: bytes
    deadline: int
    arn: str
    trace: str


class RuntimeApi:
    """Serves one process. `ready()` at its first question, `answered(id, body, failed)`, `init_failed(body)`."""

    def __init__(
        self,
        ready: Callable[[], None],
        answered: Callable[[str, bytes, bool], None],
        init_failed: Callable[[bytes], None],
    ) -> None:
        self.ready, self.answered, self.init_failed = ready, answered, init_failed
        self._waiting: queue.Queue[Invocation | None] = queue.Queue()
        self._server = _Server(self)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def give(self, invocation: Invocation) -> None:
        """Hand the process its next event."""
        self._waiting.put(invocation)

    def next(self) -> Invocation | None:
        """Wait for it; None when the API is closed."""
        self.ready()
        return self._waiting.get()

    def close(self) -> None:
        """Stop serving; a process that waits for an event gets none."""
        self._waiting.put(None)
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: RuntimeApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the function's own log tells enough."""

    def do_GET(self) -> None:
        """GET invocation/next."""
        if self.path != f"{ROOT}/invocation/next":
            return self._answer(404)
        found = self.server.api.next()
        if found is None:
            self.close_connection = True
            return None
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": found.id,
            "Lambda-Runtime-Deadline-Ms": str(found.deadline),
            "Lambda-Runtime-Invoked-Function-Arn": found.arn,
            "Lambda-Runtime-Trace-Id": found.trace,
        }
        return self._answer(200, found.payload, headers)

    def do_POST(self) -> None:
        """POST init/error, invocation/{id}/response, invocation/{id}/error."""
        body, api = self._body(), self.server.api
        id, _, what = self.path.removeprefix(f"{ROOT}/invocation/").partition("/")
        if self.path == f"{ROOT}/init/error":
            api.init_failed(body)
        elif what in ("response", "error"):
            api.answered(id, body, what == "error")
        else:
            return self._answer(404)
        return self._answer(202, b'{"status":"OK"}', {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers, then the empty line
            pass
        return b"".join(parts)
