"""The console of a deployment on loopback: requests of its pages, signed for AWS, which a browser can't do.

What this serves has the rights of whoever started it, so it lets nobody else use them: no page of another site (`Host`,
`Origin`, `Sec-Fetch-Site`), and no other process or user of this machine, who do not know the session's token.
Sources: Fetch Metadata Request Headers, section 2; RFC 9110, section 15.5.20 (421); AWS Lambda Developer Guide,
"Control access to Lambda function URLs" (requests are signed for the service `lambda`).
"""

import hmac
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from firn.errors import FirnError

LOOPBACK: Final = "127.0.0.1"
SESSION: Final = "x-firn-session"
MOST_BODY: Final = 8 << 20  # bytes of a request; Lambda takes 6 MB
_MOST_ANSWER: Final = 32 << 20
_SECONDS: Final = 35  # for an answer: the functions have 29
_IDLE_SECONDS: Final = 60.0  # of a connection
_OWN_SITES: Final = ("", "none", "same-origin")
_PAGES: Final = re.compile(r"/(console|docs)(/.*)?|/", re.DOTALL)
_READS: Final = re.compile(r"/v1/console/.+|/v1/tables(/.+)?", re.DOTALL)
_WRITES: Final = re.compile(r"/v1/query|/v1/console/actions/[^/]+", re.DOTALL)
_QUERIES: Final = re.compile(r"/v1/(query|tables)\b")
_SENT: Final = ("accept", "accept-encoding", "content-type", "if-none-match", "x-api-key", "x-firn-console")
_TOLD: Final = (
    "cache-control", "content-disposition", "content-encoding", "content-type", "date", "etag", "location", "vary",
    "retry-after", "content-security-policy", "referrer-policy", "permissions-policy",
)  # fmt: skip
_ALWAYS: Final = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_STRICT: Final = "default-src 'none'; frame-ancestors 'none'"
_NOT_LET_IN: Final = (
    "AWS does not let you in: the principal that signs needs lambda:InvokeFunctionUrl and lambda:InvokeFunction of "
    "this function; or give a reader's key with --key-file"
)


class PortTaken(FirnError):
    """The port can't be bound. The text says what to do."""


class Unreachable(FirnError):
    """The deployment did not answer. The text holds no address of a request."""


@dataclass(frozen=True)
class Answer:
    """What is answered: status, headers and bytes."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Request:
    """A request of a page. `target`: path and query as sent; `headers`: names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


Send = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""(method, URL, headers, body) -> the deployment's answer. Raises Unreachable."""


@dataclass(frozen=True)
class Place:
    """Where a function is: its URL, without a slash at the end. `host`: what it is called, if that is another name than
    the URL's (LocalStack answers for all functions at one address)."""

    url: str
    host: str | None = None


@dataclass(frozen=True)
class Deployed:
    """The functions that answer. `send` signs, or adds a key."""

    console: Place
    query: Place
    send: Send


def refusal(request: Request, port: int, token: str) -> Answer | None:
    """The answer to a request that may not pass; None if it may."""
    headers = request.headers
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    if host not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
        return told(421, "foreign_host", f"this is {LOOPBACK}:{port}, and answers to no other name")
    if origin is not None and origin.lower() != f"http://{host}":
        return told(403, "foreign_origin", "pages of other sites may ask nothing here")
    if headers.get("sec-fetch-site", "").lower() not in _OWN_SITES:
        return told(403, "foreign_origin", "pages of other sites may ask nothing here: type the address")
    path = request.target.partition("?")[0]
    if request.method in ("GET", "HEAD") and _PAGES.fullmatch(path):
        return None  # what everybody may have; it holds nothing of the deployment's
    allowed = _READS if request.method == "GET" else _WRITES if request.method == "POST" else None
    if allowed is None or not allowed.fullmatch(path):
        return told(404, "no_such_path", "the console has no such path")
    if not hmac.compare_digest(headers.get(SESSION, "").encode("latin-1", "replace"), token.encode()):
        return told(401, "no_session", "open the address that firn console printed: it ends in #session=…")
    if len(request.body) > MOST_BODY:
        return told(413, "too_large", f"the body has more than {MOST_BODY:,} bytes")
    return None


def relayed(request: Request, deployed: Deployed) -> Answer:
    """What the deployment answers to a request that may pass."""
    path = request.target.partition("?")[0]
    place = deployed.query if _QUERIES.match(path) else deployed.console
    headers = {name: request.headers[name] for name in _SENT if name in request.headers}
    headers |= {} if place.host is None else {"host": place.host}
    try:
        found = deployed.send(request.method, place.url + request.target, headers, request.body)
    except Unreachable as error:
        return told(502, "unreachable", str(error))
    if found.status in (401, 403) and b'"error"' not in found.body[:200]:
        return told(403, "not_let_in", _NOT_LET_IN)
    kept = {name: value for name, value in _lower(found.headers).items() if name in _TOLD}
    return Answer(found.status, {"content-security-policy": _STRICT} | kept | _ALWAYS, found.body)


def told(status: int, code: str, message: str) -> Answer:
    """An answer of our own, as the console's API has them."""
    body = json.dumps({"error": code, "message": message}).encode()
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", "Content-Security-Policy": _STRICT}
    return Answer(status, headers | _ALWAYS, body)


class Relay:
    """Serves on 127.0.0.1 until it is stopped. `port` 0 takes a free one. Raises PortTaken."""

    def __init__(self, deployed: Deployed, token: str, port: int = 0) -> None:
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _handler(deployed, token, lambda: self.port))
        except OSError as error:
            raise PortTaken(f"port {port} can't be used ({error.strerror}): let --port 0 take a free one") from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_port
        self.address = f"http://{LOOPBACK}:{self.port}/console/#session={token}"

    def serve(self) -> None:
        """Serve in this thread, until `stop` is called or Ctrl-C is pressed."""
        try:
            self._server.serve_forever(0.05)
        finally:
            self._server.server_close()

    def start(self) -> threading.Thread:
        """Serve in a thread of its own."""
        thread = threading.Thread(target=self.serve, daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()


def _handler(deployed: Deployed, token: str, port: Callable[[], int]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "firn", ""
        timeout = _IDLE_SECONDS

        def _serve(self) -> None:
            pairs = [(name.lower(), value) for name, value in self.headers.items()]
            length = self.headers.get("Content-Length", "0")
            size = int(length) if length.isascii() and length.isdigit() and len(length) < 12 else MOST_BODY + 1
            if len({name for name, _ in pairs}) < len(pairs) or "transfer-encoding" in dict(pairs):
                answer = told(400, "bad_headers", "a header is there twice, or the body has no length")
                self.close_connection = True
            elif size > MOST_BODY:
                answer = told(413, "too_large", f"the body has more than {MOST_BODY:,} bytes")
                self.close_connection = True
            else:
                request = Request(self.command, self.path, dict(pairs), self.rfile.read(size))
                answer = refusal(request, port(), token) or relayed(request, deployed)
            self._send(answer)

        def _send(self, answer: Answer) -> None:
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _serve

        def log_message(self, *_: Any) -> None:
            """Says nothing: an address may hold a name."""

    return Handler


def signing_sender(session: Any, region: str) -> Send:
    """Sends requests signed with the credentials of a boto3 session, which renews them."""
    from botocore.auth import SigV4Auth

    def prepared(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method=method, url=url, headers=dict(headers), data=body, stream_output=True)
        credentials = session.get_credentials()
        if credentials is None:
            raise Unreachable("no AWS credentials were found: set AWS_PROFILE, or profile: of the target in firn.yaml")
        SigV4Auth(credentials.get_frozen_credentials(), "lambda", region).add_auth(request)
        return request.prepare()

    return _sender(prepared)


def key_sender(key: str) -> Send:
    """Sends requests with a key, unless the page has one of its own."""

    def prepared(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        from botocore.awsrequest import AWSRequest

        named = {"x-api-key": key} | dict(headers)
        return AWSRequest(method=method, url=url, headers=named, data=body, stream_output=True).prepare()

    return _sender(prepared)


def _sender(prepared: Callable[[str, str, Mapping[str, str], bytes], Any]) -> Send:
    from botocore.exceptions import BotoCoreError, HTTPClientError
    from botocore.httpsession import URLLib3Session

    http = URLLib3Session(timeout=_SECONDS, max_pool_connections=8)

    def send(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            found = http.send(prepared(method, url, headers, body))
            content = _read(found.raw.stream(1 << 16, decode_content=False))
        except (BotoCoreError, HTTPClientError, OSError) as error:
            raise Unreachable(f"the deployment does not answer ({type(error).__name__}); try again") from error
        return Answer(int(found.status_code), dict(found.headers.items()), content)

    return send


def _read(parts: Iterable[bytes]) -> bytes:
    body = bytearray()
    for part in parts:
        body += part
        if len(body) > _MOST_ANSWER:
            raise Unreachable(f"the deployment answered more than {_MOST_ANSWER:,} bytes")
    return bytes(body)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
