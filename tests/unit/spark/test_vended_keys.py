"""Which keys a job uses for a table's files, where its catalog gave some out with it."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from firn.config.names import TableName
from firn.errors import ConfigError, FirnError, StorageUnavailable, TransientError
from firn.tables.outcome import Outcome
from firn_spark import vended_keys
from firn_spark.committer import tried
from firn_spark.failures import failure_of
from firn_spark.tables.objects import Objects

CONFIG = {"s3.access-key-id": "VENDED", "s3.secret-access-key": "c4nary", "s3.session-token": "c4nary-too"}


class Named:
    def __init__(self, **answers: Any) -> None:
        for name, value in answers.items():
            setattr(self, name, lambda value=value: value)


def remember(
    location: str, config: Mapping[str, str], apart: Mapping[str, Mapping[str, str]] = {}, **told: str
) -> None:
    credentials = [Named(prefix=prefix, config=one) for prefix, one in apart.items()]
    kind = Named(getName="org.apache.iceberg.aws.s3.S3FileIO")
    io = Named(properties={"client.region": "eu-central-1", **config}, credentials=credentials, getClass=kind)
    vended_keys.remember(
        Named(io=io),
        location.rpartition("/")[2],
        location,
        {name.replace("_", "."): value for name, value in told.items()},
    )


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vended_keys, "_known", {})
    monkeypatch.setattr(vended_keys, "_lives", {})


def key_of(location: str, owner: str = "") -> str | None:
    found = vended_keys.of(location, owner or "/".join(location.split("/")[:4]))
    return None if found is None else dict(found.options)["access_key_id"]


def test_the_keys_are_those_of_the_table_whose_folder_a_file_lies_in() -> None:
    remember("s3://lake/t", CONFIG)
    remember("s3://lake/u", CONFIG | {"s3.access-key-id": "OTHER"})
    assert key_of("s3://lake/t/data/a.parquet") == "VENDED"
    assert key_of("s3://lake/u/data/a.parquet") == "OTHER"
    assert key_of("s3a://lake/t/data/day=2026-01-01/a%2Fb.parquet") == "VENDED", "as other engines write it"
    assert key_of("s3://lake/t2/data/a.parquet") is None
    assert key_of("s3://elsewhere/t/data/a.parquet") is None
    assert key_of("file:///lake/t/data/a.parquet") is None


def test_a_table_whose_requests_its_catalog_signs_itself_is_refused_by_name_and_not_held_for_it() -> None:
    signs = {"s3.remote-signing-enabled": "true"}
    with pytest.raises(TransientError, match=r"s3\.remote-signing-enabled.*vended-credentials"):
        remember("s3://lake/t", signs)
    remember("s3://lake/t", signs | CONFIG)
    remember("s3://lake/u", signs, {"s3://lake/u": CONFIG})
    assert key_of("s3://lake/u/data/a.parquet") == "VENDED"
    remember("s3://lake/v", {"s3.remote-signing-enabled": "false"})


def test_what_lies_beside_the_table_is_its_own_too_and_the_nearest_prefix_counts() -> None:
    beside = {"s3://lake/t/data": CONFIG | {"s3.access-key-id": "APART", "s3.endpoint": "http://127.0.0.1:9"}}
    remember("s3://lake/t", CONFIG, beside, write_data_path="s3://files/t")
    assert key_of("s3://files/t/a.parquet", "s3://lake/t") == "VENDED"
    assert key_of("s3://lake/t/metadata/a.json") == "VENDED"
    assert key_of("s3://lake/t/data/a.parquet") == "APART"
    found = vended_keys.of("s3://lake/t/data/a.parquet", "s3://lake/t")
    assert found is not None
    assert dict(found.options) == {
        "access_key_id": "APART", "secret_access_key": "c4nary", "token": "c4nary-too", "region": "eu-central-1",
        "endpoint": "http://127.0.0.1:9",
    }  # fmt: skip


def test_keys_to_every_bucket_are_used_for_the_tables_own_files_alone() -> None:
    remember("s3://lake/t", {}, {"s3": CONFIG})
    assert key_of("s3://lake/t/data/a.parquet") == "VENDED"
    assert key_of("s3://lake/u/data/a.parquet") is None


def test_keys_wider_than_a_table_are_not_those_of_the_next_one() -> None:
    other = CONFIG | {"s3.access-key-id": "OTHER"}
    remember("s3://lake/t", {}, {"s3://lake/": CONFIG}, write_data_path="s3://files/t")
    remember("s3://lake/u", {}, {"s3://lake/": other, "s3://lake/u/data": CONFIG | {"s3.access-key-id": "NEAR"}})
    remember("s3://lake/v", {})
    assert key_of("s3://lake/t/data/a") == "VENDED"
    assert key_of("s3://lake/u/metadata/a") == "OTHER"
    assert key_of("s3://lake/u/data/a") == "NEAR"
    assert key_of("s3://lake/v/data/a") is None, "the catalog leaves that one to the job's own"
    assert key_of("s3://files/t/a", "s3://lake/t") is None


def test_of_what_a_catalog_no_longer_speaks_no_older_keys_are_used() -> None:
    remember("s3://lake/t", CONFIG, {"s3://lake/t/data": CONFIG | {"s3.access-key-id": "ENDED"}})
    vended_keys.take(vended_keys.planned())
    remember("s3://lake/t", CONFIG | {"s3.access-key-id": "NEWER"})
    assert key_of("s3://lake/t/data/a") == "NEWER"


def test_a_worker_has_no_keys_of_an_earlier_task() -> None:
    remember("s3://lake/t", CONFIG)
    vended_keys.take(vended_keys.planned())
    vended_keys.take(())
    assert key_of("s3://lake/t/data/a") is None


def test_newer_keys_take_the_place_of_older_ones_and_a_table_may_come_without_any() -> None:
    remember("s3://lake/t", CONFIG)
    remember("s3://lake/t", CONFIG | {"s3.access-key-id": "NEWER"})
    assert key_of("s3://lake/t/a") == "NEWER"
    remember("s3://lake/t", {})
    assert key_of("s3://lake/t/a") is None


def test_tasks_have_the_keys_of_when_they_were_planned_and_no_text_shows_a_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remember("s3://lake/t", CONFIG)
    sent = pickle.dumps(vended_keys.planned())
    assert "c4nary" not in f"{vended_keys.planned()!r} {vended_keys.of('s3://lake/t/a', 's3://lake/t')}"
    monkeypatch.setattr(vended_keys, "_known", {})
    vended_keys.take(pickle.loads(sent))
    assert key_of("s3://lake/t/a") == "VENDED"


def test_keys_without_a_region_are_refused_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no AWS region is set"):
        remember("s3://lake/t", CONFIG | {"client.region": ""})


class Expired(BaseHTTPRequestHandler):
    """An S3 that knows no key any more."""

    protocol_version = "HTTP/1.1"
    status: ClassVar[int] = 403
    tokens: ClassVar[list[str | None]] = []

    def any(self) -> None:
        self.tokens.append(self.headers.get("x-amz-security-token"))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    do_GET = do_HEAD = do_PUT = any

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("status", [400, 403])
def test_keys_that_ended_fail_the_run_and_hold_no_table(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expired, "status", status)
    monkeypatch.setattr(Expired, "tokens", [])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the job's own")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Expired)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    told = CONFIG | {"s3.endpoint": f"http://127.0.0.1:{server.server_port}"}
    remember("s3://lake/t", {name: value for name, value in told.items() if status == 403 or "token" not in name})
    files, path = Objects("s3://lake/t"), "s3://lake/t/data/a.parquet"
    asks: list[Callable[[], object]] = [
        lambda: files.open(path), lambda: files.part(path, 0, 4), lambda: files.write(path, pa.py_buffer(b"x")),
    ]  # fmt: skip
    try:
        for ask in asks:
            with pytest.raises(FirnError) as caught:
                ask()
            assert failure_of(caught.value).kind == "transient"
            assert "c4nary" not in f"{caught.value} {caught.value.__cause__!r}"
    finally:
        server.shutdown()
        server.server_close()
    assert {*Expired.tokens} == ({"c4nary-too"} if status == 403 else {None}), "none of the job's own goes along"


REFUSED = "object storage can't look at t/data/a: Client error with status 403 Forbidden; check the credentials"
ENDED = "…<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
ENDS = "s3.session-token-expires-at-ms"


def outcome_of(error: str, reads: Sequence[str] = ()) -> Outcome:
    def once() -> Outcome:
        raise StorageUnavailable(error)

    return tried(Outcome("t", ()), once, [TableName("lake", one) for one in reads])


@pytest.mark.parametrize("config", [CONFIG, CONFIG | {ENDS: "soon"}, CONFIG | {ENDS: "9" * 30}])
def test_keys_that_never_live_until_the_end_of_a_commit_do_not_start_a_job_for_ever(config: Mapping[str, str]) -> None:
    remember("s3://lake/t", config)
    found = outcome_of(ENDED)
    assert found.failure == "terminal", "three of them hold the table"
    assert "the catalog's keys to the files of t lived at most 0 s" in (found.error or "")
    assert "let the catalog give keys that live longer, or commit less at once (commit.max_size" in (found.error or "")
    assert outcome_of(REFUSED).failure == "transient", "that may be anything"


@pytest.mark.parametrize("apart", [True, False])
def test_how_long_keys_live_is_what_the_catalog_says(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    monkeypatch.setattr(vended_keys.time, "time", lambda: 1_000.0)
    config = CONFIG | {ENDS: "1900000"}
    remember("s3://lake/t", {} if apart else config, {"s3": config} if apart else {})
    assert outcome_of(REFUSED).failure == "transient", "they have not ended"
    monkeypatch.setattr(vended_keys.time, "time", lambda: 2_500.0)
    remember("s3://lake/t", {} if apart else config, {"s3": config} if apart else {})  # looked at again: the same keys
    found = outcome_of(REFUSED)
    assert found.failure == "terminal"
    assert "lived 900 s, and ended while it was worked on, 1500 s after they came" in (found.error or "")
    assert outcome_of("the catalog does not answer").failure == "transient"


def test_what_ends_of_a_table_without_keys_of_its_own_passes() -> None:
    remember("s3://lake/t", CONFIG)
    remember("s3://lake/t", {})
    assert outcome_of(ENDED).failure == "transient"
    remember("s3://lake/t", CONFIG)
    remember("file:///lake/t", CONFIG)
    assert outcome_of(ENDED).failure == "transient"


def test_a_mirrors_base_counts_too() -> None:
    remember("s3://lake/lake.base", CONFIG)
    assert outcome_of(ENDED).failure == "transient"
    assert "files of lake.base" in (outcome_of(ENDED, ["base"]).error or "")


def test_tables_whose_files_lie_in_one_folder_have_keys_of_their_own() -> None:
    """As Iceberg's object storage lays them out: no path says whose file it is."""
    other = CONFIG | {"s3.access-key-id": "OTHER"}
    remember("s3://lake/t", CONFIG, write_data_path="s3://lake/objects")
    remember("s3://lake/u", other, write_data_path="s3://lake/objects")
    remember("s3://lake/v", {}, write_data_path="s3://lake/objects")
    path = "s3://lake/objects/0101/a.parquet"
    vended_keys.take(pickle.loads(pickle.dumps(vended_keys.planned())))
    assert [key_of(path, f"s3a://lake/{name}") for name in "tuv"] == ["VENDED", "OTHER", None]
    assert key_of("s3://lake/u/data/a", "s3://lake/t") is None, "never another table's"


def test_files_of_a_table_are_asked_for_by_its_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []
    monkeypatch.setattr(vended_keys, "open_store", lambda at, keys=None: used.append((at, keys)) or MemoryStore())
    other = CONFIG | {"s3.access-key-id": "OTHER"}
    remember("s3://lake/t", CONFIG, write_data_path="s3://lake/objects")
    remember("s3://lake/u", other, write_data_path="s3://lake/objects")
    for name in "tu":
        Objects(f"s3://lake/{name}").write("s3://lake/objects/0101/a.parquet", pa.py_buffer(b"x"))
    assert [at for at, _ in used] == ["s3://lake", "s3://lake"]
    assert [keys["credential_provider"]()["access_key_id"] for _, keys in used] == ["VENDED", "OTHER"]
