"""Google's storage for tests: fake-gcs-server, in memory, with one bucket `lake`, behind an adapter.

`make setup-servers` builds it (with Go); tests that find none are skipped. Its JSON API is right: of 16 requests with
ifGenerationMatch=0 one wins. Its XML API reads and lists, and takes no object: but obstore writes by XML. `_Adapter`
stands before it and turns such a write into the JSON upload with the same precondition, so that the server, not the
adapter, decides who was first. Its rewrites pass the storage class and the precondition over: the adapter looks at the
generation before, and sets the class by a request of its own after. Everything else goes through as it came.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest

from examples.sources.processes import Server, free_port

ROOT = Path(__file__).resolve().parents[1]
_BINARY = ROOT / ".cache" / "servers" / "fake-gcs-server" / "fake-gcs-server"
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "expect"})


@dataclass(frozen=True)
class FakeGcs:
    """`endpoint`: the adapter's address."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process that stores there has in its environment."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint}

    def url(self, prefix: str, bucket: str = "lake") -> str:
        return f"gs://{bucket}/{prefix}"


def missing() -> str | None:
    """Why there is none here, as a reason to skip; None if there is."""
    return None if _BINARY.exists() else "fake-gcs-server is not installed: run `make setup-servers`"


@contextmanager
def fake_gcs(folder: Path) -> Iterator[FakeGcs]:
    """One that is ready. `folder` gets its log."""
    if why := missing():
        pytest.skip(why)
    port = free_port()
    adapter = ThreadingHTTPServer(("127.0.0.1", 0), type("Adapter", (_Adapter,), {"upstream": port, "uploads": {}}))
    adapter.daemon_threads = True
    url = f"http://127.0.0.1:{adapter.server_port}"
    listen = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory")
    server = Server("fake-gcs-server", [_BINARY, *listen, "-external-url", url, "-public-host", "127.0.0.1"], folder)
    server.start()
    threading.Thread(target=adapter.serve_forever, name="gcs-adapter", daemon=True).start()
    try:
        server.wait(lambda: _made(url, "lake"), 30)
        yield FakeGcs(url)
    finally:
        adapter.shutdown()
        adapter.server_close()
        server.kill()


def _made(url: str, bucket: str) -> bool:
    body, headers = f'{{"name": "{bucket}"}}'.encode(), {"Content-Type": "application/json"}
    try:
        with urlopen(Request(f"{url}/storage/v1/b?project=p", body, headers), timeout=5) as told:
            return bool(told.status == 200)
    except OSError:
        return False


class _Adapter(BaseHTTPRequestHandler):
    """XML writes become JSON uploads ("XML API: PUT Object, multipart uploads" in Google's documents)."""

    protocol_version = "HTTP/1.1"
    upstream: int
    uploads: dict[str, dict[int, bytes]]

    def _do(self) -> None:
        body = self._body()
        path, _, query = self.path.partition("?")
        asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
        bucket, _, key = path.lstrip("/").partition("/")
        is_xml = bool(key) and bucket not in ("storage", "upload", "download", "resumable", "batch", "b")
        if is_xml and self.command == "POST" and "uploads" in asked:
            number = uuid.uuid4().hex
            self.uploads[number] = {}
            self._answer(200, _xml("InitiateMultipartUploadResult", UploadId=number, Bucket=bucket, Key=unquote(key)))
        elif is_xml and self.command == "PUT" and "uploadId" in asked:
            self.uploads[asked["uploadId"]][int(asked["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{asked["partNumber"]}"'})
        elif is_xml and self.command == "POST" and "uploadId" in asked:
            parts = self.uploads.pop(asked["uploadId"])
            status, _, told = self._upload(bucket, unquote(key), b"".join(parts[n] for n in sorted(parts)))
            done = _xml("CompleteMultipartUploadResult", Bucket=bucket, Key=unquote(key), ETag=told.get("ETag", '"x"'))
            self._answer(status, done if status == 200 else b"")
        elif is_xml and self.command == "DELETE" and "uploadId" in asked:
            self.uploads.pop(asked["uploadId"], None)
            self._answer(204, b"")
        elif is_xml and self.command == "PUT":
            status, said, told = self._upload(bucket, unquote(key), body)
            self._answer(status, b"" if status == 200 else said, told)
        elif "/rewriteTo/" in path and asked.get("ifGenerationMatch", self._generation(path)) != self._generation(path):
            self._answer(412, b"{}")
        elif "/rewriteTo/" in path:
            self._answer(*self._rewritten(path, body))
        else:
            self._answer(*self._passed(self.command, self.path, body, dict(self.headers.items())))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _do

    def _upload(self, bucket: str, key: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        match = self.headers.get("x-goog-if-generation-match")
        given = {"uploadType": "media", "name": key} | ({"ifGenerationMatch": match} if match is not None else {})
        kind = {"Content-Type": self.headers.get("Content-Type") or "application/octet-stream"}
        status, said, _ = self._passed("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(given)}", body, kind)
        if status != 200:
            return status, said, {}
        # The tag that a read of it will have.
        _, _, told = self._passed("HEAD", urlsplit(self.path).path, b"", {})
        return 200, b"", {name: told[name] for name in ("ETag", "x-goog-generation") if name in told}

    def _generation(self, path: str) -> str:
        _, said, _ = self._passed("GET", path.partition("/rewriteTo/")[0], b"", {})
        return str(json.loads(said).get("generation", ""))

    def _rewritten(self, path: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        kind = {"Content-Type": "application/json"}
        status, said, told = self._passed("POST", self.path, body, kind)
        wanted = json.loads(body or b"{}").get("storageClass")
        if status == 200 and wanted:
            patch = json.dumps({"storageClass": wanted}).encode()
            _, now, _ = self._passed("PATCH", path.partition("/rewriteTo/")[0], patch, kind)
            said = json.dumps({**json.loads(said), "resource": json.loads(now)}).encode()
        return status, said, {"Content-Type": told.get("content-type", "application/json")}

    def _passed(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:  # a server that is not up yet says 503, as one that is busy would
            kept = {name: value for name, value in headers.items() if name.lower() not in _HOP}
            connection.request(method, path, body or None, kept)
            answer = connection.getresponse()
            told = {_title(name): value for name, value in answer.getheaders()}
            return answer.status, answer.read(), told
        except ConnectionRefusedError:
            return 503, b"", {}
        finally:
            connection.close()

    def _body(self) -> bytes:
        if (self.headers.get("Transfer-Encoding") or "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        told = headers or {}
        for name, value in told.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = told.get("Content-Length", str(len(body))) if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


def _title(name: str) -> str:
    return {"etag": "ETag", "content-length": "Content-Length"}.get(name.lower(), name.lower())


def _xml(name: str, **fields: str) -> bytes:
    text = "".join(f"<{field}>{value}</{field}>" for field, value in fields.items())
    return f'<?xml version="1.0" encoding="UTF-8"?><{name}>{text}</{name}>'.encode()
