"""Google's storage by a workload identity federation: tokens of the machine's own, exchanged for Google's."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from obstore.store import GCSStore

from firn.errors import ConfigError, StorageUnavailable
from firn.log.cloud_stores import google_options
from firn.log.google_federation import FederatedIdentity
from firn.log.store import get

AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/a"
SECRET = "c4nary"


class Google:
    """Google's token service, its service accounts and its storage on loopback. `status`: what tokens are answered
    with; `forms`: what was exchanged; `bearers`: what the storage was asked with."""

    def __init__(self) -> None:
        self.status = 200
        self.forms: list[dict[str, str]] = []
        self.bearers: list[str | None] = []
        self.bodies: list[Any] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answered(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                bearer = self.headers.get("Authorization")
                match urlsplit(self.path).path:
                    case "/v1/token":
                        outer.forms.append({name: value for name, (value,) in parse_qs(sent).items()})
                        told = {"access_token": "federated", "expires_in": 3600}
                        if outer.status != 200:
                            told = {"error": "invalid_grant", "error_description": sent}
                        self.said(outer.status, told)
                    case "/account:generateAccessToken":
                        outer.bodies.append(json.loads(sent))
                        ok = bearer == "Bearer federated"
                        self.said(200 if ok else 401, {"accessToken": "accounts", "expireTime": "2126-01-01T00:00:00Z"})
                    case "/subject":
                        self.said(200, {"id": SECRET if self.headers.get("Metadata") == "true" else ""})
                    case _:
                        outer.bearers.append(bearer)
                        self.said(200, {"a": "b"})

            do_GET = do_POST = answered

            def said(self, status: int, told: Any) -> None:
                data = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                self.send_header("ETag", '"a"')
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def file(self, source: Any, **more: Any) -> dict[str, Any]:
        """A credentials file."""
        told = {"type": "external_account", "audience": AUDIENCE, "token_url": f"{self.url}/v1/token"}
        kind = {"subject_token_type": "urn:ietf:params:oauth:token-type:jwt"}
        return {**told, **kind, "credential_source": source, **more}

    def store(self, identity: Any) -> Any:
        """The storage, as that identity asks it."""
        told = google_options({"STORAGE_EMULATOR_HOST": self.url})  # which is its address
        options: Any = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
        return GCSStore("lake", credential_provider=identity, **told, **options)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def google() -> Iterator[Google]:
    running = Google()
    yield running
    running.stop()


def test_a_token_file_is_exchanged_and_the_storage_asked_with_what_came(google: Google, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "file.json").write_text(json.dumps(google.file({"file": f"{tmp_path}/token"}), indent=1))
    for named in (
        {"GOOGLE_APPLICATION_CREDENTIALS": f"{tmp_path}/file.json"},
        {"FIRN_GOOGLE_CREDENTIALS": f"file:{tmp_path}/file.json"},
    ):
        options = google_options(named)
        assert get(google.store(options["credential_provider"]), "a") == b'{"a": "b"}'
    assert {form["subject_token"] for form in google.forms} == {SECRET}
    assert {form["audience"] for form in google.forms} == {AUDIENCE}
    assert google.forms[0]["scope"].endswith("devstorage.read_write")
    assert set(google.bearers) == {"Bearer federated"}


def test_a_servers_token_becomes_a_service_accounts_for_as_long_as_the_file_says(google: Google) -> None:
    source = {"url": f"{google.url}/subject", "headers": {"Metadata": "true"},
              "format": {"type": "json", "subject_token_field_name": "id"}}  # fmt: skip
    more = {"service_account_impersonation_url": f"{google.url}/account:generateAccessToken",
            "service_account_impersonation": {"token_lifetime_seconds": 600}}  # fmt: skip
    found = FederatedIdentity(google.file(source, **more), "x")()
    assert (found["token"], found["expires_at"].year) == ("accounts", 2126)
    assert google.forms[0]["scope"].endswith("cloud-platform")
    assert google.bodies[0]["lifetime"] == "600s"


def test_an_identity_of_aws_is_proved_by_a_signed_question_for_that_audience_alone(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", "AKIAX"), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", "t")):
        monkeypatch.setenv(name, value)
    given = google.file({"environment_id": "aws1"}, subject_token_type="urn:ietf:params:aws:token-type:aws4_request")
    assert FederatedIdentity(given, "x", {"AWS_REGION": "eu-central-1"})()["token"] == "federated"
    proof = json.loads(unquote(google.forms[0]["subject_token"]))
    headers = {one["key"].lower(): one["value"] for one in proof["headers"]}
    assert (proof["method"], urlsplit(proof["url"]).hostname) == ("POST", "sts.eu-central-1.amazonaws.com")
    assert headers["x-goog-cloud-target-resource"] == AUDIENCE
    assert headers["x-amz-security-token"] == "t"
    assert "Credential=AKIAX/" in headers["authorization"]
    assert "x-goog-cloud-target-resource" in headers["authorization"].partition("SignedHeaders=")[2]
    assert SECRET not in json.dumps(proof)


def test_what_google_refuses_is_said_without_what_was_sent(google: Google, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    google.status = 400
    identity = FederatedIdentity(google.file({"file": f"{tmp_path}/token"}), "FIRN_GOOGLE_CREDENTIALS names ssm:/g")
    with pytest.raises(
        StorageUnavailable, match=r"names ssm:/g: 127\.0\.0\.1 gives no token \(400, invalid_grant\)"
    ) as e:
        identity()
    assert SECRET not in str(e.value) + repr(identity)
    with pytest.raises(StorageUnavailable, match="gives no token"):
        get(google.store(identity), "a")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"audience": ""}, "without audience: write the file as `gcloud"),
        ({"token_url": "http://sts.example.org/v1/token"}, "its token_url is not https"),
        ({"token_url": 5}, "without token_url"),
        ({"credential_source": {"executable": {"command": "rm"}}}, "an executable, which Firn runs none of"),
        ({"credential_source": {"url": "http://internal.example.org/"}}, "its url is not https"),
        ({"credential_source": []}, "nothing that Firn knows"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_is_asked(
    google: Google, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        FederatedIdentity({**google.file({"file": "/t"}), **change}, "the file")
    assert google.forms == []


def test_a_token_that_is_not_there_is_told_by_its_place(google: Google, tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="the token file /nowhere can't be read"):
        FederatedIdentity(google.file({"file": "/nowhere"}), "x")()
    (tmp_path / "token").write_text('["hunter2"]')
    form = {"type": "json", "subject_token_field_name": "jwt"}
    with pytest.raises(StorageUnavailable, match="has no token in jwt") as raised:
        FederatedIdentity(google.file({"file": f"{tmp_path}/token", "format": form}), "x")()
    assert "hunter2" not in str(raised.value)
