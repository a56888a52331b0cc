"""A real HTTP receiver of webhooks on loopback: keeps what comes, and answers as it is told."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from firn.auth.signatures import fault, secret_of

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
How = int | Literal["drop", "silence", "drip"]


@dataclass
class Receiver:
    """`planned`: how the next requests are answered; 204 once they are used up."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    planned: list[How] = field(default_factory=list)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The bodies, each of which is signed with KEY."""
        for headers, body in self.got:
            assert fault(headers, body, [secret_of(KEY)], datetime.now(UTC)) is None
        return [json.loads(body) for _, body in self.got]


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        how = self.receiver.planned.pop(0) if self.receiver.planned else 204
        if how == "drop":
            self.connection.close()
        elif how == "silence":
            time.sleep(1)
        elif how == "drip":
            for _ in range(30):
                self.wfile.write(b"H")
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.send_response(int(how))
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None: ...

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None: ...  # a client that has gone, or a connection that was dropped


@contextmanager
def receiving(encrypted: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """`encrypted`: by which it speaks TLS."""
    receiver = Receiver()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"receiver": receiver}))
    if encrypted is not None:
        server.socket = encrypted.wrap_socket(server.socket, server_side=True)
    receiver.url = f"http{'s' if encrypted else ''}://127.0.0.1:{server.server_port}/hook?of=firn"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield receiver
    server.shutdown()
    server.server_close()
    thread.join()
