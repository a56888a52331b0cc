"""Azure's and Google's classes without a server: what is signed, what an odd answer means, and who gets a token."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from firn.errors import ArchivedObject, ConfigError, StorageUnavailable, TerminalError, TransientError
from firn_lake.reading.unreadable import UnreadableFile, reading
from firn_lake.tiering import azure_classes, google_classes
from firn_lake.tiering.azure_classes import AzureClasses, to_sign
from firn_lake.tiering.class_port import NoClasses, Place, Returned
from firn_lake.tiering.cloud_calls import Answer, call
from firn_lake.tiering.cloud_tokens import Tokens, azure_token, google_token, sign_rs256
from firn_lake.tiering.google_classes import WRITTEN, GoogleClasses
from firn_lake.tiering.storages import open_classes

LAKE = Place("lake", "w/a b.parquet")
BLOB = Place("lake@acme", "w/a b.parquet")
OLD = "2026-01-01T00:00:00+00:00"


class Server:
    """Answers each request with the next of `answers`, a status and a body; `asked` are what came."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, str], str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                said = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                outer.asked.append((f"{self.command} {self.path}", dict(self.headers.items()), said))
                status, body = outer.answers.pop(0)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            do_GET = do_POST = _do

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def test_an_address_says_whose_classes_its_files_have() -> None:
    azure = open_classes("abfss://lake@acme.dfs.core.windows.net/w")
    assert azure.place("abfss://lake@acme.dfs.core.windows.net/w/ä %2F.parquet") == Place(
        "lake@acme", "w/ä %2F.parquet"
    )
    assert open_classes("gs://lake/w").place("gs://lake/w/x") == Place("lake", "w/x")
    assert azure.place("gs://lake/w/x") is None
    for none in ("file:///tmp/w", "/tmp/w", "memory://x"):
        with pytest.raises(NoClasses, match="in S3, Azure and Google Cloud Storage; a folder has none"):
            open_classes(none)


def test_azure_is_signed_what_it_asks_to_be_signed() -> None:
    headers = {"x-ms-version": "2021-12-02", "x-ms-date": "now", "x-ms-access-tier": "Cool", "Other": "not signed"}
    assert to_sign("PUT", headers, "acme", "/lake/a%20b", {"comp": "tier", "a": "1"}) == (
        "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-access-tier:Cool\nx-ms-date:now\nx-ms-version:2021-12-02\n"
        "/acme/lake/a%20b\na:1\ncomp:tier"
    )


@pytest.mark.parametrize(
    ("status", "code", "kind", "moved"),
    [
        (200, "", "Cool", True),
        (202, "", "Hot", True),
        (404, "BlobNotFound", "Cool", False),
        (409, "BlobBeingRehydrated", "Hot", True),
        (409, "BlobBeingRehydrated", "Cool", False),
        (412, "LeaseIdMissing", "Cool", False),
    ],
)
def test_what_azure_says_of_a_move(
    status: int, code: str, kind: str, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_classes, "call", lambda *_, **__: Answer(status, {"x-ms-error-code": code}, b""))
    assert AzureClasses({"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=s"}).move(BLOB, kind) is moved


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (403, "AuthorizationPermissionMismatch", "check the credentials, and what they may do"),
        (404, "ContainerNotFound", "check that the bucket exists"),
        (400, "AccessTierNotSupportedForBlobType", "400 AccessTierNotSupportedForBlobType"),
    ],
)
def test_what_azure_refuses_is_told_without_the_signature(
    status: int, code: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_classes, "call", lambda *_, **__: Answer(status, {"x-ms-error-code": code}, b""))
    classes = AzureClasses({"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=secret"})
    for ask in (lambda: classes.move(BLOB, "Cool"), lambda: classes.look(BLOB), lambda: classes.listing(BLOB)):
        with pytest.raises(TerminalError, match=told) as raised:
            ask()
        assert "secret" not in str(raised.value)


def test_azures_listing_has_pages_names_of_all_kinds_and_accounts_without_tiers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def blob(name: str, more: str) -> str:
        when = "<Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Content-Length>5</Content-Length>"
        return f"<Blob>{name}<Properties>{when}{more}</Properties></Blob>"

    back = "<AccessTier>Hot</AccessTier><AccessTierChangeTime>Sun, 01 Feb 2026 00:00:00 GMT</AccessTierChangeTime>"
    pages = [
        blob("<Name>a&amp;b</Name>", "<AccessTier>Cool</AccessTier>") + "</Blobs><NextMarker>2</NextMarker>",
        blob('<Name Encoded="true">c%EF%BF%BF</Name>', "") + blob("<Name>d</Name>", back) + "</Blobs><NextMarker/>",
    ]
    asked = []

    def answer(method: str, url: str, *_: Any, **__: Any) -> Answer:
        asked.append(url)
        text = f"<EnumerationResults><Blobs>{pages[len(asked) - 1]}</EnumerationResults>"
        return Answer(200, {}, text.encode())

    monkeypatch.setattr(azure_classes, "call", answer)
    found = AzureClasses({"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=s"}).listing(BLOB)
    assert {name: one.kind for name, one in found.items()} == {"a&b": "Cool", "c\uffff": "Hot", "d": "Hot"}
    assert "marker=2" in asked[1]
    assert found["a&b"].modified == datetime(2026, 1, 1, tzinfo=UTC)
    assert found["d"].modified == datetime(2026, 2, 1, tzinfo=UTC), "it came back then"


class Google:
    """One object as Google has it, in turns: `resource`, and what rewrites answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *rewrites: tuple[int, dict[str, Any]], **resource: Any) -> None:
        self.resource = {"name": LAKE.key, "size": "5", "timeCreated": OLD, "generation": "7", **resource}
        self.rewrites, self.asked = list(rewrites), []
        monkeypatch.setattr(google_classes, "call", self._call)
        self.classes = GoogleClasses({"STORAGE_EMULATOR_HOST": "127.0.0.1:1"})

    def _call(self, method: str, url: str, headers: Any, body: bytes | None = None, **_: Any) -> Answer:
        if method == "GET":
            return Answer(200, {}, json.dumps(self.resource).encode())
        self.asked.append((url, json.loads(body or b"{}")))
        status, told = self.rewrites.pop(0)
        return Answer(status, {}, json.dumps(told).encode())


def test_google_rewrites_a_large_object_in_turns_and_keeps_what_it_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    google = Google(
        monkeypatch,
        (200, {"done": False, "rewriteToken": "t1"}),
        (200, {"done": True, "resource": {"storageClass": "NEARLINE"}}),
        storageClass="STANDARD", contentType="application/x", metadata={"kept": "yes"},
    )  # fmt: skip
    assert google.classes.move(LAKE, "NEARLINE")
    (first, body), (second, same) = google.asked
    assert body == same
    assert body["metadata"] == {"kept": "yes", WRITTEN: OLD}
    assert (body["storageClass"], body["contentType"]) == ("NEARLINE", "application/x")
    assert "ifGenerationMatch=7" in first
    assert "rewriteToken=t1" in second
    assert "/lake/o/w%2Fa%20b.parquet/rewriteTo/b/lake/o/w%2Fa%20b.parquet?" in first


@pytest.mark.parametrize(("now", "moved"), [("NEARLINE", True), ("STANDARD", False)])
def test_a_rewrite_that_finds_another_generation_looks_who_made_it(
    now: str, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    google = Google(monkeypatch, (412, {}), storageClass="STANDARD")
    looks = iter(("STANDARD", now))
    real = google.classes._object
    monkeypatch.setattr(google.classes, "_object", lambda where: {**(real(where) or {}), "storageClass": next(looks)})
    assert google.classes.move(LAKE, "NEARLINE") is moved


def test_a_bucket_that_chooses_classes_itself_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    google = Google(monkeypatch, (200, {"done": True, "resource": {"storageClass": "STANDARD"}}))
    with pytest.raises(TerminalError, match="Autoclass"):
        google.classes.move(LAKE, "NEARLINE")


def test_when_a_moved_object_was_written_is_taken_from_its_metadata_while_it_is_cold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = "2026-06-01T00:00:00+00:00"
    for kind, noted, when in (
        ("COLDLINE", OLD, OLD), ("STANDARD", OLD, moved), ("REGIONAL", OLD, moved), ("COLDLINE", "no time", moved),
        ("COLDLINE", "2026-01-01T00:00:00", moved), ("COLDLINE", "2030-01-01T00:00:00+00:00", moved),
    ):  # fmt: skip
        google = Google(monkeypatch, storageClass=kind, timeCreated=moved, metadata={WRITTEN: noted})
        found = google.classes.look(LAKE)
        assert found is not None
        assert found.modified == datetime.fromisoformat(when), (kind, noted)
        assert found.kind == ("STANDARD" if kind == "REGIONAL" else kind)
    google = Google(
        monkeypatch, (200, {"done": True, "resource": {}}), storageClass="ARCHIVE", metadata={WRITTEN: OLD, "a": "b"}
    )
    assert google.classes.warm(LAKE) == Returned(5)
    assert google.asked[0][1]["metadata"] == {"a": "b"}


def test_a_tokens_signature_is_that_of_rsa_with_sha256() -> None:
    for size in (1024, 2048, 2049):
        key = rsa.generate_private_key(65537, size)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        signed = sign_rs256(pem, b"what is said")
        assert signed == key.sign(b"what is said", padding.PKCS1v15(), hashes.SHA256())
    lines = pem.splitlines()
    for bad in ("", "no key", "\n".join(lines[:5]), pem.replace(lines[1], lines[1][:-4])):
        with pytest.raises(ConfigError, match="private_key is none"):
            sign_rs256(bad, b"x")


def test_a_service_of_google_asks_by_its_key_and_the_machine_by_its_own_identity(
    server: Server, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(65537, 1024)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    token_uri = f"http://{server.host}/token"
    about = {"type": "service_account", "client_email": "a@b", "private_key": pem, "token_uri": token_uri}
    (tmp_path / "key.json").write_text(json.dumps(about))
    server.answers = [
        (200, {"access_token": "t", "expires_in": 3600}),
        (200, {"access_token": "own", "expires_in": 60}),
    ]
    assert google_token({"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")}) == ("t", 3600)
    head, claims, signed = parse_qs(server.asked[0][2])["assertion"][0].split(".")
    key.public_key().verify(
        base64.urlsafe_b64decode(signed + "=="), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (told["iss"], told["aud"], told["exp"] - told["iat"]) == ("a@b", token_uri, 3600)
    assert google_token({"GCE_METADATA_HOST": server.host, "HOME": str(tmp_path)}) == ("own", 60)
    assert server.asked[1][1]["Metadata-Flavor"] == "Google"


def test_a_service_of_azure_asks_by_its_secret_or_file_and_the_machine_by_its_own_identity(
    server: Server, tmp_path: Path
) -> None:
    host = {"AZURE_AUTHORITY_HOST": f"http://{server.host}", "AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t"}
    (tmp_path / "proof").write_text("jwt\n")
    server.answers = [(200, {"access_token": name, "expires_in": "3600"}) for name in ("one", "two", "three")]
    assert azure_token(host | {"AZURE_CLIENT_SECRET": "s3cret"}) == ("one", 3600)
    assert azure_token(host | {"AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "proof")}) == ("two", 3600)
    own = {"IDENTITY_ENDPOINT": f"http://{server.host}/own", "IDENTITY_HEADER": "h", "AZURE_CLIENT_ID": "c"}
    assert azure_token(own) == ("three", 3600)
    forms = [parse_qs(said) for _, _, said in server.asked]
    assert server.asked[0][0] == "POST /t/oauth2/v2.0/token"
    assert (forms[0]["client_secret"], forms[0]["scope"]) == (["s3cret"], ["https://storage.azure.com/.default"])
    assert forms[1]["client_assertion"] == ["jwt"]
    assert "client_id=c" in server.asked[2][0]
    server.answers = [(401, {"error": "invalid_client", "error_description": "s3cret is wrong"})]
    with pytest.raises(TerminalError, match="401 invalid_client; set credentials") as raised:
        azure_token(host | {"AZURE_CLIENT_SECRET": "s3cret"})
    assert "s3cret" not in str(raised.value)


def test_a_token_is_kept_until_shortly_before_its_end() -> None:
    now, given = [0.0], iter(("one", "two"))
    tokens = Tokens(lambda: (next(given), 600), lambda: now[0])
    assert tokens.header() == tokens.header() == "Bearer one"
    now[0] = 479
    assert tokens.header() == "Bearer one"
    now[0] = 480
    assert tokens.header() == "Bearer two"


def test_a_request_is_asked_again_and_never_over_plain_http_to_elsewhere(server: Server) -> None:
    server.answers = [(503, {}), (200, {"ok": 1})]
    assert call("GET", f"http://{server.host}/x", {}, what="try").status == 200
    server.answers = [(503, {})] * 5
    with pytest.raises(TransientError, match="can't try: 503"):
        call("GET", f"http://{server.host}/x", {}, what="try")
    with pytest.raises(ConfigError, match="spoken on this machine only"):
        call("GET", "http://example.com/x", {}, what="try")


def test_an_archived_file_is_told_from_one_that_is_broken() -> None:
    said = OSError("AWS Error UNKNOWN: Unable to parse ExceptionName: InvalidObjectState Message: The operation ...")
    for error in (said, ArchivedObject("object storage can't read a")):
        with pytest.raises(ArchivedObject, match=r"firn tier shop\.t --warm all") as raised, reading("a", "shop.t", 7):
            raise error
        assert isinstance(raised.value, StorageUnavailable), "nothing is lost, and another try may help"
    with pytest.raises(UnreadableFile), reading("a", "shop.t", 7):
        raise OSError("not a Parquet file")
