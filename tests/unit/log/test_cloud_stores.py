"""How Azure's and Google's storage are opened: by which account, identity and endpoint."""

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, ClassVar

import obstore.store
import pytest
from obstore.exceptions import GenericError

from firn.errors import ConfigError, StorageUnavailable, UnknownOutcome
from firn.log import cloud_stores
from firn.log.cloud_stores import azure_account, azure_options, google_emulator, google_options, with_cloud_secrets
from firn.log.store import get, get_version, open_store, paths, put_if_absent, versions
from tests.unit.log.storage_faults import FaultyStore

PLACE = "abfss://lake@acme.dfs.core.windows.net/staging"
KEY = "Zm9yIGV2ZXJ5Ym9keQ=="


def test_the_account_is_the_addresss_and_else_the_environments() -> None:
    assert azure_account(PLACE, {"AZURE_STORAGE_ACCOUNT_NAME": "other"}) == "acme"
    assert azure_account("az://lake/staging", {"AZURE_STORAGE_ACCOUNT_NAME": "other"}) == "other"
    with pytest.raises(
        ConfigError, match=r"az://lake names no storage account: write abfss://.*AZURE_STORAGE_ACCOUNT_"
    ):
        azure_options("az://lake", {})


def test_obstore_is_told_only_what_it_does_not_read_in_the_address_and_the_environment() -> None:
    assert azure_options(PLACE, {}) == {}
    environment = {"AZURE_STORAGE_ACCOUNT_NAME": "acme", "AZURE_STORAGE_ACCOUNT_KEY": KEY}
    assert azure_options(PLACE, environment) == {"account_key": KEY}
    assert azure_options("az://lake", environment) == {"account_name": "acme", "account_key": KEY}
    emulated = {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/devstoreaccount1/"}
    assert azure_options(PLACE, emulated) == {"endpoint": "http://127.0.0.1:10000/devstoreaccount1"}


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"AZURE_STORAGE_SAS_TOKEN": "sv=1&se=hunter 2"}, "AZURE_STORAGE_SAS_TOKEN is not a shared access signature"),
        ({"AZURE_STORAGE_SAS_TOKEN": "?hunter 2"}, "AZURE_STORAGE_SAS_TOKEN is not a shared access signature"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "hunter 2"}, "AZURE_STORAGE_ACCOUNT_KEY is not a storage account's key"),
        (
            {"AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_STORAGE_ACCOUNT_NAME": "other"},
            r"is the key of other .*lies in acme: use an identity",
        ),
        ({"AZURE_CLIENT_SECRET": "hunter2"}, "AZURE_CLIENT_SECRET is set and AZURE_CLIENT_ID and AZURE_TENANT_ID"),
        (
            {"AZURE_FEDERATED_TOKEN_FILE": "/t", "AZURE_CLIENT_ID": "a"},
            "AZURE_FEDERATED_TOKEN_FILE is set and AZURE_TENANT_ID is not",
        ),
    ],
)
def test_half_of_an_identity_and_a_wrong_key_are_refused_and_not_told(environment: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        azure_options(PLACE, environment)
    assert "hunter" not in str(raised.value)
    assert KEY not in str(raised.value)


def test_a_key_is_fetched_from_the_place_that_the_environment_names(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert with_cloud_secrets({"FIRN_AZURE_KEY": f"file:{tmp_path}/key"})["AZURE_STORAGE_ACCOUNT_KEY"] == KEY
    assert with_cloud_secrets({"A": "b"}) == {"A": "b"}
    with pytest.raises(ConfigError, match=r"no key of a storage account at file:.*, which FIRN_AZURE_KEY names"):
        with_cloud_secrets({"FIRN_AZURE_KEY": f"file:{tmp_path}/none"})
    with pytest.raises(ConfigError, match="FIRN_AZURE_KEY is not a place of a secret, and no secret belongs here") as e:
        with_cloud_secrets({"FIRN_AZURE_KEY": KEY})
    assert KEY not in str(e.value)


class _Entra(BaseHTTPRequestHandler):
    """Entra's token endpoint and a container, in one server."""

    forms: ClassVar[list[str]] = []
    bearers: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._say(200, b'{"access_token": "entra", "token_type": "Bearer", "expires_in": 3600}')

    def do_GET(self) -> None:
        self.bearers.append(self.headers.get("Authorization"))
        self._say(404, b"<Error><Code>BlobNotFound</Code></Error>")

    def _say(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_service_principals_secret_is_fetched_from_its_place_and_sent_to_nobody_but_entra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Entra, "forms", [])
    monkeypatch.setattr(_Entra, "bearers", [])
    server = HTTPServer(("127.0.0.1", 0), _Entra)
    Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "secret").write_text("c4nary~\n")
    for name, value in (
        ("AZURE_CLIENT_ID", "firn"), ("AZURE_TENANT_ID", "acme"), ("AZURE_AUTHORITY_HOST", at),
        ("FIRN_AZURE_CLIENT_SECRET", f"file:{tmp_path}/secret"), ("AZURE_STORAGE_ENDPOINT", f"{at}/acme"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    try:
        store = open_store(PLACE)
        assert get(store, "a") is None
    finally:
        server.shutdown()
        server.server_close()
    assert len(_Entra.forms) == 1
    assert all(part in _Entra.forms[0] for part in ("client_id=firn", "client_secret=c4nary", "grant_type=client_cred"))
    assert _Entra.bearers == ["Bearer entra"]
    assert "c4nary" not in repr(store)


def test_googles_credentials_come_from_a_place_whole(tmp_path: Path) -> None:
    def told(text: str) -> dict[str, Any]:
        cloud_stores._text_at.cache_clear()
        (tmp_path / "google").write_text(text)
        return google_options({"FIRN_GOOGLE_CREDENTIALS": f"file:{tmp_path}/google"})

    key = json.dumps({"type": "service_account", "private_key": "a\nb c"}, indent=2)
    assert told(key) == {"service_account_key": key}
    for text, said in (
        ('{"type": "authorized_user"}', "a user's own credentials: name their file by GOOGLE_APPLICATION_CREDENTIALS"),
        ("hunter2", "that is no key"),
        (" ", "no credentials of Google at file:.*, which FIRN_GOOGLE_CREDENTIALS names"),
    ):
        with pytest.raises(ConfigError, match=said) as raised:
            told(text)
        assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigError, match="FIRN_GOOGLE_CREDENTIALS is not a place of a secret") as raised:
        google_options({"FIRN_GOOGLE_CREDENTIALS": key})
    assert "private_key" not in str(raised.value)


class _Asked(BaseHTTPRequestHandler):
    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("by", ["place", "environment"])
def test_a_signature_is_sent_wherever_it_is_and_never_told(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Asked, "paths", [])
    server = HTTPServer(("127.0.0.1", 0), _Asked)
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "sas").write_text("?sv=2024-11-04&sp=rl&sig=c4nary%3D\n")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{server.server_port}/acme")
    if by == "place":
        monkeypatch.setenv("FIRN_AZURE_SAS", f"file:{tmp_path}/sas")
    else:
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", (tmp_path / "sas").read_text().strip())
    try:
        store = open_store(PLACE)
        with suppress(StorageUnavailable):
            get(store, "a")
    finally:
        server.shutdown()
        server.server_close()
    assert _Asked.paths
    assert all("sv=2024-11-04" in one and one.count("sig=c4nary%3D") == 1 for one in _Asked.paths), _Asked.paths
    assert "c4nary" not in repr(store)


def test_a_signature_that_is_not_where_the_environment_says_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no shared access signature at file:.*, which FIRN_AZURE_SAS names"):
        with_cloud_secrets({"FIRN_AZURE_SAS": f"file:{tmp_path}/none"})
    with pytest.raises(ConfigError, match=r"FIRN_AZURE_SAS is not a place of a secret") as caught:
        with_cloud_secrets({"FIRN_AZURE_SAS": "sv=1&sig=c4nary"})
    assert "c4nary" not in str(caught.value)


def test_googles_key_file_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="GOOGLE_APPLICATION_CREDENTIALS names /nowhere, which can't be read"):
        google_options({"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"})
    key = tmp_path / "key.json"
    for text, told in (
        ('{"type": "external_account"}', "of type 'external_account' without audience: write the file as `gcloud"),
        ('{"type": "gdch_service_account"}', "of type 'gdch_service_account': write that of a service account's key"),
        ('{"private_key": "hunter2"}', "that is no key"),
        ('["hunter2"]', "that is no key"),
        ('"hunter2', "that is no key"),
    ):
        key.write_text(text)
        with pytest.raises(ConfigError, match=told) as raised:
            google_options({"GOOGLE_APPLICATION_CREDENTIALS": str(key)})
        assert "hunter2" not in str(raised.value)
    key.write_text('{"type": "service_account"}')
    assert google_options({"GOOGLE_APPLICATION_CREDENTIALS": str(key)}) == {}


def test_an_emulator_of_google_is_named_with_its_scheme_or_without() -> None:
    assert google_emulator({"STORAGE_EMULATOR_HOST": "127.0.0.1:4443"}) == "http://127.0.0.1:4443"
    assert google_emulator({"STORAGE_EMULATOR_HOST": "http://127.0.0.1:4443/"}) == "http://127.0.0.1:4443"
    told = json.loads(google_options({"STORAGE_EMULATOR_HOST": "127.0.0.1:4443"})["service_account_key"])
    assert (told["gcs_base_url"], told["disable_oauth"]) == ("http://127.0.0.1:4443", True)


@pytest.mark.parametrize("url", [PLACE, "az://lake/staging", "gs://acme-staging/x"])
def test_each_form_opens_and_an_endpoint_that_nobody_listens_on_is_unavailable(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/acme")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1")
    with pytest.raises(StorageUnavailable):
        put_if_absent(open_store(url), "a", b"x", pause=lambda _: None)


def test_plain_http_is_spoken_on_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cloud_stores.is_loopback("http://127.0.0.1:10000/acme")
    assert not cloud_stores.is_loopback("http://storage.example.org")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://storage.invalid/acme")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    with pytest.raises((StorageUnavailable, UnknownOutcome), match=r"URL scheme is not allowed|builder error"):
        put_if_absent(open_store(PLACE), "a", b"x", pause=lambda _: None)


class _Told(FaultyStore):
    """Fails with this text, as obstore has it of Azure and Google."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def get(self, path: str) -> object:
        raise self.error

    def put(self, path: str, file: bytes, *, mode: str) -> object:
        raise self.error

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> object:  # type: ignore[override]
        raise self.error


def test_a_container_that_is_not_there_is_no_missing_object() -> None:
    text = "Object at location a not found: 404 Not Found: <Code>ContainerNotFound</Code>"
    with pytest.raises(StorageUnavailable, match="check that the bucket exists"):
        get(_Told(FileNotFoundError(text)), "a")
    with pytest.raises(StorageUnavailable, match="check that the bucket exists"):
        paths(_Told(GenericError(f"Generic error: {text}")), "a")
    assert get(_Told(FileNotFoundError("<Code>BlobNotFound</Code>")), "a") is None


def test_a_listing_that_is_refused_says_to_check_the_credentials() -> None:
    with pytest.raises(StorageUnavailable, match="check the credentials"):
        paths(_Told(GenericError("Server returned non-2xx status code: 403 Forbidden: <xml>")), "a")


def test_a_machine_without_an_identity_has_written_nothing_and_says_what_to_set() -> None:
    error = GenericError("Generic error: Error performing token request: GET http://169.254.169.254/ 400")
    with pytest.raises(StorageUnavailable, match=r"own identity gave no token: set credentials \(docs/clouds.md\)"):
        put_if_absent(_Told(error), "a", b"x", pause=lambda _: None)


class _Azure(FaultyStore):
    """Answers as Azure's storage does where Firn has to know it: OneLake's listing from an offset is empty, and tags
    have their quotes only at a read."""

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Any:
        if offset is not None:
            return iter([])
        return ([{**meta, "e_tag": meta["e_tag"].strip('"')} for meta in chunk] for chunk in self.inner.list(prefix))

    def get(self, path: str) -> Any:
        found = self.inner.get(path)
        quoted = {**found.meta, "e_tag": f'"{found.meta["e_tag"].strip(chr(34))}"'}
        return SimpleNamespace(bytes=found.bytes, meta=quoted)


def test_what_lies_behind_an_offset_is_listed_where_the_storage_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstore.store, "AzureStore", _Azure)
    store = _Azure()
    for n in range(3):
        store.inner.put(f"epochs/{n}", b"x")
    assert paths(store, "epochs", "epochs/0") == ["epochs/1", "epochs/2"]


def test_a_version_is_the_same_in_a_listing_and_at_a_read() -> None:
    store = _Azure()
    store.inner.put("epochs/0", b"x")
    assert get_version(store, "epochs/0") == (b"x", versions(store, "epochs")["epochs/0"])
