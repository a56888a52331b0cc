"""An OAuth2 token endpoint for tests: client credentials (RFC 6749, 4.4), short-lived tokens, and what goes wrong."""

import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs


class TokenServer:
    """On loopback at `url`. `asked` are the forms that came. What may be changed while it runs:

    lives    seconds that a token is good for, and is said to be
    says     whether it tells that, as `expires_in`
    status   answers this in place of a token: with OAuth2's error where it is 400 or 401
    hangs    takes a request and never answers it
    answers  this text in place of a token
    description  what an error says for people
    """

    client, secret = "firn", "s3cret-of-firn"

    def __init__(self, lives: float = 3600.0) -> None:
        self.lives, self.says = lives, True
        self.status: int | None = None
        self.hangs = False
        self.answers: str | None = None
        self.description = "no such client"
        self.asked: list[dict[str, str]] = []
        self._good: dict[str, float] = {}
        self._over = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout: ClassVar[int] = 60

            def do_POST(self) -> None:
                said = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                outer.asked.append({name: values[0] for name, values in parse_qs(said).items()})
                if outer.hangs:
                    outer._over.wait(60)
                    self.close_connection = True
                    return
                status, text = outer._answer(outer.asked[-1])
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/oauth/tokens"
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def credential(self) -> str:
        """As the catalog's property of that name."""
        return f"{self.client}:{self.secret}"

    def knows(self, header: str | None) -> bool:
        """Whether an Authorization holds a token that is good now."""
        return self._good.get((header or "").removeprefix("Bearer "), 0.0) > time.monotonic()

    def forget(self) -> None:
        """No token that was given is good any more."""
        self._good.clear()

    def stop(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, form: dict[str, str]) -> tuple[int, str]:
        if self.status is not None:
            return self.status, json.dumps({"error": "invalid_client", "error_description": self.description})
        if self.answers is not None:
            return 200, self.answers
        if form.get("grant_type") != "client_credentials":
            return 400, json.dumps({"error": "unsupported_grant_type"})
        if (form.get("client_id"), form.get("client_secret")) != (self.client, self.secret):
            return 401, json.dumps({"error": "invalid_client", "error_description": self.description})
        token = secrets.token_urlsafe(24)
        self._good[token] = time.monotonic() + self.lives
        told = {"access_token": token, "token_type": "bearer"} | ({"expires_in": int(self.lives)} if self.says else {})
        return 200, json.dumps(told)
