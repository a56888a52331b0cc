"""Requests to a REST catalog that AWS's signatures let in: Glue's Iceberg endpoint and S3 Tables, by their settings."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import ValidationError
from pyiceberg.catalog import Catalog

from firn.errors import ConfigError
from firn_lake.catalogs.catalog import open_catalog
from tests.aws_signatures import Signer

REGION, KEY, SECRET = "eu-central-1", "AKIAFIRN", "c4nary/secret+key"
DEAD = "http://127.0.0.1:1,"
# Enough of an answer to any question.
ANSWER = {
    "defaults": {},
    "overrides": {},
    "namespaces": [["a"]],
    "identifiers": [],
    "namespace": ["a"],
    "properties": {},
}


class Signed:
    """A server that lets in whom `signer` lets in. `asked`: method, path and why it was refused."""

    def __init__(self, signer: Signer) -> None:
        self.signer, self.asked = signer, list[tuple[str, str, str | None]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                why = outer.signer.refusal(self.command, outer.url + self.path, dict(self.headers), body)
                outer.asked.append((self.command, self.path, why))
                data = json.dumps(ANSWER).encode()
                self.send_response(403 if why else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = any

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Signed]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    running = Signed(Signer(KEY, SECRET, REGION, "s3tables"))
    yield running
    running.stop()


def opened(url: str, folder: Path, service: str = "s3tables", region: str = REGION) -> Catalog:
    """As docs/catalogs.md has it."""
    told = f"rest.sigv4-enabled=true&rest.signing-name={service}&rest.signing-region={region}"
    return open_catalog(f"{url}#{told}", f"file://{folder}/warehouse", {})


@pytest.mark.parametrize("service", ["s3tables", "glue"])
@pytest.mark.parametrize("before", ["", DEAD])
def test_each_request_is_signed_whatever_is_asked_and_whichever_server_gets_it(
    signed: Signed, service: str, before: str, tmp_path: Path
) -> None:
    signed.signer = Signer(KEY, SECRET, REGION, service)
    with opened(before + signed.url, tmp_path, service) as catalog:
        asks: list[Callable[[], object]] = [
            catalog.list_namespaces,
            lambda: catalog.list_namespaces(("größe", "%2F +")),
            lambda: catalog.create_namespace(("größe", "b"), {"ä": "=&?"}),
            lambda: catalog.list_tables("größe %2F+"),
            lambda: catalog.drop_table("a.größe %2F+"),
            lambda: catalog.load_table("a.b c~*'()!"),
            lambda: catalog.rename_table("a.b", "a.c"),
            lambda: catalog.drop_namespace("ä/b?#"),
        ]
        for ask in asks:
            with suppress(ValidationError):  # of a table there is no answer here
                ask()
    assert {method for method, _, _ in signed.asked} == {"GET", "POST", "DELETE"}
    assert len(signed.asked) > len(asks)
    assert [one for one in signed.asked if one[2]] == []


@pytest.mark.parametrize(
    ("service", "region", "key"),
    [("execute-api", REGION, KEY), ("s3tables", "us-east-1", KEY), ("s3tables", REGION, "AKIASTRANGER")],
)
def test_a_signature_for_something_else_or_by_a_stranger_is_refused_with_the_setting(
    signed: Signed, service: str, region: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    with pytest.raises(ConfigError, match=r"AWS_\* for Glue and for requests that AWS signs") as caught:
        opened(signed.url, tmp_path, service, region)
    assert SECRET not in str(caught.value)


def test_another_secret_makes_another_signature_and_without_the_setting_there_is_none(
    signed: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="refuses GET /v1/config"):
        open_catalog(signed.url, f"file://{tmp_path}/warehouse", {})
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ConfigError, match="refuses GET /v1/config"):
        opened(signed.url, tmp_path)
    assert [why for _, _, why in signed.asked] == ["there is no signature", "the signature is wrong"]
