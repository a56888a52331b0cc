"""`firn doctor --storage`: what it says of storages that hold, of those that lack something, and of none."""

import json
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import MemoryStore

from firn.config.catalog_products import UNTRIED
from firn.config.storage_products import STORAGES, product_at
from firn.errors import StorageUnavailable
from firn.log import store as storage
from firn_cli import storage_check
from firn_cli.check_parts import Check
from firn_cli.main import main
from firn_cli.storage_advice import advice_on, cause_of, where
from firn_cli.storage_check import StorageCheck

PARTS = ["reach", "create", "listing", "order", "ranges", "multipart", "overwrite", "clock", "delete"]
LOST = GenericError("Generic S3 error: operation timed out\n\nDebug source: kind: Timeout")
NOT_IMPLEMENTED = GenericError(
    "Generic S3 error: Error performing PUT https://b/x in 9ms - Server returned non-2xx status code: 501 Not "
    "Implemented: <Error>\n<Code>NotImplemented</Code></Error>"
)


class InMemory(MemoryStore):  # type: ignore[misc]
    """What all of these are but for one thing."""


class Forgetful(InMemory):
    """If-None-Match is passed over."""

    def put(self, path: str, file: Any, **how: Any) -> Any:
        return super().put(path, file, mode="overwrite")


class Racy(InMemory):
    """It looks, and then it writes."""

    def put(self, path: str, file: Any, **how: Any) -> Any:
        if how.get("mode") == "create":
            try:
                self.head(path)
            except FileNotFoundError:
                time.sleep(0.005)
                return super().put(path, file, mode="overwrite")
            raise AlreadyExistsError(path)
        return super().put(path, file, **how)


class Liar(InMemory):
    """The first of each object is told that he created it, and another one's bytes are kept."""

    def put(self, path: str, file: Any, **how: Any) -> Any:
        return super().put(path, b"another's" if how.get("mode") == "create" else file, **how)


class Unconditional(InMemory):
    def put(self, path: str, file: Any, **how: Any) -> Any:
        if how.get("mode") == "create":
            raise NOT_IMPLEMENTED
        return super().put(path, file, **how)


class Late(InMemory):
    """Its listings do not have what was written last."""

    last = ""

    def put(self, path: str, file: Any, **how: Any) -> Any:
        self.last = path
        return super().put(path, file, **how)

    def list(self, prefix: str | None = None, **how: Any) -> Any:
        return [[one for one in chunk if one["path"] != self.last] for chunk in super().list(prefix, **how)]


class NothingFrom(InMemory):
    """A listing from an object on is empty."""

    def list(self, prefix: str | None = None, *, offset: str | None = None, **how: Any) -> Any:
        return super().list(prefix, **how) if offset is None else []


class FromTheStart(InMemory):
    """A range is taken for its length alone."""

    def get_range(self, path: str, **how: Any) -> Any:
        return super().get_range(path, start=0, end=how["end"] - how["start"])


class FirstPart:
    def __init__(self, found: Any) -> None:
        self.meta, self._found = found.meta, found

    def bytes(self) -> bytes:
        return bytes(self._found.bytes())[:8_000_000]


class Short(InMemory):
    """Of an upload in parts only the first is kept."""

    def get(self, path: str, **how: Any) -> Any:
        return FirstPart(super().get(path, **how))


class Tagged(InMemory):
    """A listing has other tags than a read."""

    def list(self, prefix: str | None = None, **how: Any) -> Any:
        return [[{**one, "e_tag": "none"} for one in chunk] for chunk in super().list(prefix, **how)]


class Stale(InMemory):
    """A read gives what was read first."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, Any] = {}

    def get(self, path: str, **how: Any) -> Any:
        return self.seen.setdefault(path, _Copy(super().get(path, **how)))


class _Copy:
    def __init__(self, found: Any) -> None:
        self.meta, self._data = found.meta, bytes(found.bytes())

    def bytes(self) -> bytes:
        return self._data


class Ahead(InMemory):
    def head(self, path: str) -> Any:
        found = super().head(path)
        return {**found, "last_modified": found["last_modified"] + timedelta(minutes=61)}


class Keeping(InMemory):
    """Nothing goes."""

    def delete(self, paths: Any) -> Any:
        return None


class Losing(InMemory):
    """Each object is written, and the first answer of each does not come."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = set[str]()

    def put(self, path: str, file: Any, **how: Any) -> Any:
        said = super().put(path, file, **how)
        if how.get("mode") == "create" and path not in self.lost:
            self.lost.add(path)
            raise LOST
        return said


class Away(InMemory):
    def list(self, prefix: str | None = None, **how: Any) -> Iterable[Sequence[Mapping[str, Any]]]:
        raise GenericError("Generic S3 error: error sending request\n\nDebug source: kind: Connect")


def checked(store: Any, monkeypatch: pytest.MonkeyPatch, **how: Any) -> dict[str, Check]:
    monkeypatch.setattr(storage, "open_store", lambda _url, seconds=8: store)
    return {one.name: one for one in StorageCheck("memory://check", **how).checks()}


def left_in(store: Any) -> list[str]:
    return [one["path"] for chunk in MemoryStore.list(store) for one in chunk]


@pytest.mark.parametrize("kind", [InMemory, Losing])
def test_a_storage_that_holds_is_left_as_it_was(kind: type[InMemory], monkeypatch: pytest.MonkeyPatch) -> None:
    store = kind()
    storage.put(store, "ours", b"x")
    found = checked(store, monkeypatch)
    assert {name: found[name].ok for name in [*PARTS, "remove"]} == dict.fromkeys([*PARTS, "remove"], True), found
    assert "8 of 8 rounds have one winner of 16 writers" in found["create"].found
    assert left_in(store) == ["ours"]


LACKING: list[tuple[type[InMemory], str, str, str]] = [
    (Forgetful, "create", "create one object if it is absent 16 were told", "seal the same epoch"),
    (Racy, "create", "conditional puts (If-None-Match: *) do not hold", "lost or committed twice"),
    (Liar, "create", "does not hold what its writer wrote", "do not let Firn stage here"),
    (Unconditional, "create", "501 Not Implemented", "knows no conditional put"),
    (Late, "listing", "of 48 objects were not in a listing", "missing from fresh reads"),
    (NothingFrom, "order", "from an object on has 0 of 31 objects", "what is left out is not committed"),
    (FromTheStart, "ranges", "bytes 65536 to 66536 of an object are not those", "tables can't be read here"),
    (Short, "multipart", "written in parts is not what was written", "files of tables that Spark writes in parts"),
    (Tagged, "overwrite", "a listing and a read give an object different entity tags", "a state that was replaced"),
    (Stale, "overwrite", "was read as it had been before", "a state that was replaced"),
    (Ahead, "clock", "its clock and this machine's are 36", "set the one that is wrong: Firn bears 60 minutes"),
    (Keeping, "delete", "an object that was deleted is there", "the log and tables keep what is to go"),
    (Away, "reach", "object storage can't list", "see that the place is there"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "part", "found", "so"), LACKING, ids=[kind.__name__ for kind, *_ in LACKING])
def test_what_a_storage_lacks_is_found_out_and_what_does_not_hold_then_is_said(
    kind: type[InMemory], part: str, found: str, so: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kind()
    monkeypatch.setattr(storage, "_PAUSES", (0.0, 0.0))
    report = checked(store, monkeypatch)
    before, after = PARTS[: PARTS.index(part)], PARTS[PARTS.index(part) + 1 :]
    assert {name: report[name].ok for name in before} == dict.fromkeys(before, True), report
    assert (report[part].ok, [report[name].found for name in after]) == (False, ["not tried"] * len(after)), report
    assert found in report[part].found
    assert so in report[part].advice
    assert left_in(store) == [] or kind in (Keeping, Late)


def test_what_it_made_goes_though_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(storage, "open_store", lambda _url, seconds=8: store)
    checks = StorageCheck("memory://check").checks()
    for one in checks:
        if one.name == "ranges":
            break
    assert left_in(store)
    checks.close()  # type: ignore[attr-defined]
    assert left_in(store) == []


def test_what_a_check_left_that_was_killed_goes_with_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = MemoryStore()
    for name in ("firn_check_00000001_abcd/list/1", "firn_check_7fffffff_abcd/list/1", "other"):
        storage.put(store, f"firn_check/{name}", b"x")
    checked(store, monkeypatch)
    assert left_in(store) == ["firn_check/firn_check_7fffffff_abcd/list/1", "firn_check/other"]


def test_it_ends_though_everything_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(MemoryStore(), monkeypatch, seconds=0.0)
    assert (found["create"].ok, found["listing"].found) == (False, "not tried")
    assert "took too long" in found["create"].found
    assert found["remove"].found == "nothing was made"


def test_the_command_says_all_of_it_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "staging"
    given = ["doctor", "--storage", folder.as_uri(), "--dir", str(tmp_path), "--port", "0", "--json"]
    main([*given, "--config", str(tmp_path / "none.yaml")])
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert {name: found[name]["ok"] for name in PARTS} == dict.fromkeys(PARTS, True)
    assert found["storage"]["found"] == f"A folder at {folder.as_uri()}: tried, by every test, on one machine"
    assert [path for path in folder.rglob("*") if path.is_file()] == []


KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "eu-central-1"}


def reached(url: str, monkeypatch: pytest.MonkeyPatch, **env: str) -> tuple[Check, float]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    found = {one.name: one for one in StorageCheck(url).checks()}
    assert found["remove"].found == "nothing was made"
    return found["reach"], time.monotonic() - began


def test_each_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody, _ = reached("s3://b/p", monkeypatch, AWS_ENDPOINT_URL_S3="http://127.0.0.1:1", **KEYS)
    assert "AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL) is http://127.0.0.1:1" in nobody.advice
    plain, _ = reached("s3://b/p", monkeypatch, AWS_ENDPOINT_URL_S3="http://10.0.0.1:9000", **KEYS)
    assert "write https://" in plain.advice
    region, _ = reached("s3://b/p", monkeypatch, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x")
    assert "set AWS_REGION" in region.found
    scheme, _ = reached("ftp://b/p", monkeypatch, **KEYS)
    assert "write s3://bucket/prefix" in scheme.found


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_check, "_REQUEST_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        found, seconds = reached("s3://b/p", monkeypatch, AWS_ENDPOINT_URL_S3=endpoint, **KEYS)
    assert (found.ok, seconds < 15) == (False, True)
    assert "does not answer in time" in found.advice


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("404 Not Found: <Error><Code>NoSuchBucket</Code>", "there is no bucket lake: make it"),
        ("403 Forbidden: <Error><Code>InvalidAccessKeyId</Code>", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("403 Forbidden: <Error><Code>AccessDenied</Code>", "list, read, write and delete in lake"),
        ("403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code>", "set this machine's clock"),
        ("400 Bad Request: <Error><Code>AuthorizationHeaderMalformed</Code>", "AWS_REGION is us-east-1"),
        ("301 Moved Permanently: <Error><Code>PermanentRedirect</Code>", "AWS_REGION is us-east-1"),
        ("404 Not Found: <Error><Code>XAdminUserNotFound</Code>", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("404 Not Found: <html>\n\nretry_timeout: 180s", "what answers is no S3"),
        ("HTTP error: error sending request\n\nkind: Timeout", "does not answer in time"),
        ("418 I'm a teapot", "the storage's own log says more"),
    ],
)
def test_what_a_storage_said_becomes_the_setting_to_change(said: str, advice: str) -> None:
    error = StorageUnavailable("object storage can't list firn_check: Generic S3 error")
    error.__cause__ = GenericError(said)
    env = {"AWS_ENDPOINT_URL_S3": "https://user:secret@s3.example.org", "AWS_REGION": "us-east-1"}
    told = advice_on(error, "reach", "s3://lake/p", env)
    assert advice in told
    assert "secret" not in told + where("s3://lake/p", env)
    code = said.partition("<Code>")[2].partition("</Code>")[0]
    assert code in cause_of(error)


@pytest.mark.parametrize(
    ("url", "endpoint", "name"),
    [
        ("file:///a", "", "A folder"),
        ("s3://b", "", "Amazon S3"),
        ("s3://b", "https://s3.eu-central-1.amazonaws.com", "Amazon S3"),
        ("s3://b", "https://0a1b.r2.cloudflarestorage.com", "Cloudflare R2"),
        ("s3://b", "https://s3.eu-central-2.wasabisys.com", "Wasabi"),
        ("s3://b", "https://s3.us-west-004.backblazeb2.com", "Backblaze B2"),
        ("s3://b", "https://storage.googleapis.com", "Google Cloud Storage by its XML API"),
        ("s3://b", "http://127.0.0.1:7070", "Another S3"),
        ("s3://b", "https://amazonaws.com.example.org", "Another S3"),
        ("abfss://lake@acme.dfs.core.windows.net/p", "https://s3.eu-central-2.wasabisys.com", "Azure Blob Storage"),
        ("az://lake/p", "", "Azure Blob Storage"),
        ("gs://lake/p", "https://storage.googleapis.com", "Google Cloud Storage"),
        ("memory://b", "https://s3.eu-central-2.wasabisys.com", "memory://"),
    ],
)
def test_a_storage_is_known_by_its_endpoint(url: str, endpoint: str, name: str) -> None:
    assert product_at(url, {"AWS_ENDPOINT_URL": endpoint}).name == name


@pytest.mark.parametrize("url", ["abfss://lake@acme.dfs.core.windows.net/p", "az://lake/p", "gs://lake/p"])
def test_a_cloud_is_said_to_be_emulated_and_where_it_is_asked(url: str) -> None:
    env = {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1/acme", "STORAGE_EMULATOR_HOST": "127.0.0.1:1"}
    env |= {"AWS_ENDPOINT_URL_S3": "https://s3.example.org"}
    check = next(iter(StorageCheck(url, environment=env).checks()))
    assert check.ok is None
    assert ": emulated, by" in check.found
    assert f"at {url} by http://127.0.0.1:1" in check.found


def test_the_page_of_storages_says_what_the_doctor_says() -> None:
    page = (Path(__file__).parents[3] / "docs/storages.md").read_text()
    for one in STORAGES:
        assert f"| {one.name} | {one.state} | {one.how} |" in page
        assert one.state != UNTRIED or one.name == "Another S3" or f"\n| {one.name} | `" in page
