"""The log on each cloud's storage: what create-if-absent, listings, ranges and errors rest on."""

from pathlib import Path
from typing import Any

import pytest

from firn.errors import ConfigError, StorageUnavailable
from firn.log import store as objects
from firn.log.store import ObjectFile, ObjectWriter, get, get_version, open_store, paths, put, put_if_absent, versions
from tests.racing import together
from tests.soak import times

ROUNDS = times(5, 30)


def test_of_sixteen_writers_one_creates_the_object_in_every_round(cloud: Any) -> None:
    store = open_store(cloud.url("race"))
    for number in range(ROUNDS):
        path = f"epochs/s/{number}"
        won = together(16, lambda n, path=path: put_if_absent(store, path, f"writer {n}".encode()))
        assert won.count(True) == 1
        assert get(store, path) == f"writer {won.index(True)}".encode()


def test_what_is_put_is_listed_read_and_gone_after_it_was_removed(cloud: Any) -> None:
    store = open_store(cloud.url("a b/staging"))
    names = [f"epochs/web/{n:020d}.json" for n in range(30)] + ["epochs/web2/0.json", "odd/ä=%20 ?#+.parquet"]
    for name in names:
        put(store, name, name.encode())
        assert name in paths(store, name.rpartition("/")[0])
    assert paths(store, "epochs/web") == names[:30]
    assert paths(store, "epochs/web", names[12]) == names[13:30]
    assert get(store, names[-1]) == names[-1].encode()
    objects.remove(store, [*names, "never there"])
    assert paths(store, "") == []
    assert get(store, names[0]) is None


def test_a_version_is_the_same_in_a_listing_and_at_a_read_and_another_after_a_put(cloud: Any) -> None:
    store = open_store(cloud.url("versions"))
    put(store, "e/1", b"one")
    listed, read = versions(store, "e"), get_version(store, "e/1")
    assert read == (b"one", listed["e/1"])
    put(store, "e/1", b"two")
    assert versions(store, "e") != listed


def test_parts_of_an_object_are_read_alone_and_a_large_one_is_written_in_parts(cloud: Any) -> None:
    store = open_store(cloud.url("parts"))
    writer = ObjectWriter(store, "large")
    for number in range(5):
        writer.write(bytes([number]) * 4_000_000)
    assert get(store, "large") is None
    writer.close()
    file = ObjectFile(store, "large")
    assert file.seek(0, 2) == 20_000_000
    file.seek(-2, 2)
    assert file.read() == b"\4\4"
    file.seek(3_999_999)
    assert file.read(2) == b"\0\1"
    assert objects.tail(store, "large", 3) == b"\4\4\4"


def test_a_bucket_that_is_not_there_is_told_from_an_object_that_is_not(cloud: Any) -> None:
    store = open_store(cloud.url("x", "nobody-made-this"))
    with pytest.raises(StorageUnavailable, match="check that the bucket exists"):
        put_if_absent(store, "a", b"x")
    if cloud.url("x").startswith("gs:"):
        return  # fake-gcs-server lists nothing there, and says of an object what it says in any bucket
    for call in (lambda: get(store, "a"), lambda: paths(store, "a")):
        with pytest.raises(StorageUnavailable, match="check that the bucket exists"):
            call()


def test_a_wrong_key_is_refused_and_told(server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if "AZURE_STORAGE_ACCOUNT_KEY" not in server.environment:
        pytest.skip("fake-gcs-server asks for no credentials")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "key").write_text(server.environment["AZURE_STORAGE_ACCOUNT_KEY"])
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("FIRN_AZURE_KEY", f"file:{tmp_path}/key")
    assert put_if_absent(open_store(server.url("keys")), "a", b"x")
    monkeypatch.delenv("FIRN_AZURE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    store = open_store(server.url("keys"))
    for call in (lambda: get(store, "a"), lambda: paths(store, ""), lambda: put_if_absent(store, "b", b"x")):
        with pytest.raises(StorageUnavailable, match="check the credentials") as told:
            call()
        assert "d3Jvbmc" not in str(told.value)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    with pytest.raises(ConfigError, match="is the key of other"):
        open_store(server.url("keys"))


def test_azures_short_form_is_the_same_container(cloud: Any) -> None:
    if not cloud.url("x").startswith("abfss:"):
        pytest.skip("Azure's alone")
    put(open_store("az://lake/short/form"), "a", b"x")
    assert get(open_store(cloud.url("short/form")), "a") == b"x"
    assert paths(open_store("az://lake/short"), "form") == ["form/a"]
