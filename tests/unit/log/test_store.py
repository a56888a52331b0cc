import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from firn.errors import ConfigError, StorageUnavailable, UnknownOutcome
from firn.log.store import ObjectFile, Store, get, listing, open_store, paths, put, put_if_absent, tail
from tests.racing import together
from tests.unit.log.storage_faults import FaultyStore


def still(_: float) -> None:
    """No pause."""


def test_the_first_put_wins_and_the_second_changes_nothing() -> None:
    store = FaultyStore()
    assert put_if_absent(store, "a", b"first")
    assert not put_if_absent(store, "a", b"second")
    assert get(store, "a") == b"first"


def test_the_same_bytes_again_count_as_written() -> None:
    store = FaultyStore()
    assert put_if_absent(store, "a", b"x")
    assert put_if_absent(store, "a", b"x")


def test_a_put_whose_answer_was_lost_is_recognised_as_ones_own() -> None:
    store = FaultyStore("lost after")
    assert put_if_absent(store, "a", b"x", pause=still)


def test_a_put_that_never_arrived_is_repeated() -> None:
    store = FaultyStore("lost before", "refused")
    assert put_if_absent(store, "a", b"x", pause=still)
    assert store.puts == ["a", "a", "a"]


def test_a_lost_answer_does_not_claim_anothers_object() -> None:
    store = FaultyStore("lost before")
    store.inner.put("a", b"theirs")
    assert not put_if_absent(store, "a", b"mine", pause=still)


def test_refused_connections_mean_that_nothing_was_written() -> None:
    with pytest.raises(StorageUnavailable, match="try again"):
        put_if_absent(FaultyStore("refused", "refused", "refused"), "a", b"x", pause=still)


def test_one_unclear_answer_leaves_the_outcome_unknown_even_if_later_tries_are_refused() -> None:
    with pytest.raises(UnknownOutcome, match="look at the object"):
        put_if_absent(FaultyStore("lost before", "refused", "refused"), "a", b"x", pause=still)


def test_what_is_refused_as_there_and_is_not_there_is_put_again() -> None:
    store = FaultyStore("in conflict", "in conflict")
    assert put_if_absent(store, "a", b"x", pause=still)
    assert get(store, "a") == b"x"


def test_what_is_refused_as_there_and_never_is_has_an_unknown_outcome() -> None:
    store = FaultyStore("in conflict", "in conflict", "in conflict")
    with pytest.raises(UnknownOutcome, match="as if it were there, and it is not"):
        put_if_absent(store, "a", b"x", pause=still)
    store = FaultyStore("in conflict", "refused", "refused")
    with pytest.raises(UnknownOutcome):
        put_if_absent(store, "a", b"x", pause=still)


def test_of_sixteen_threads_one_creates_the_object(tmp_path: Path) -> None:
    for store in (open_store("memory://sixteen"), open_store(tmp_path.as_uri())):
        won = together(16, lambda n, store=store: put_if_absent(store, "epochs/s/1", str(n).encode()))  # type: ignore[misc]
        assert won.count(True) == 1


def test_a_file_store_is_made_where_there_is_none_and_lists_sorted(tmp_path: Path) -> None:
    store = open_store((tmp_path / "not yet here").as_uri())
    for name in ("b/2", "b/10", "b/1", "c/1"):
        put(store, name, b"x" * len(name))
    assert paths(store, "b") == ["b/1", "b/10", "b/2"]
    assert listing(store, "b", "b/10") == [("b/2", 3)]
    assert paths(store, "nothing") == []


def test_a_memory_store_is_the_same_one_by_name() -> None:
    put(open_store("memory://one"), "a", b"x")
    assert get(open_store("memory://one"), "a") == b"x"
    assert get(open_store("memory://other"), "a") is None


def test_the_end_of_an_object_can_be_read_alone() -> None:
    store = FaultyStore()
    put(store, "a", b"0123456789")
    assert tail(store, "a", 4) == b"6789"
    assert tail(store, "a", 400, size=10) == b"0123456789"
    assert tail(store, "b", 4) is None


@pytest.mark.parametrize("url", ["ftp://x/y", "nonsense"])
def test_an_url_of_no_store_says_what_to_write(url: str) -> None:
    with pytest.raises(StorageUnavailable, match="file:///folder"):
        open_store(url)


def test_storage_that_is_away_says_so_for_every_call() -> None:
    store = FaultyStore()
    store.away = True
    for call in (
        lambda: get(store, "a"),
        lambda: paths(store, "a"),
        lambda: put(store, "a", b""),
        lambda: tail(store, "a", 1),
    ):
        with pytest.raises(StorageUnavailable):
            call()


def test_an_s3_endpoint_that_nobody_listens_on_is_storage_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "eu-central-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(StorageUnavailable):
        put_if_absent(open_store("s3://bucket/prefix"), "a", b"x", pause=still)


def test_a_region_that_nobody_says_is_not_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(ConfigError, match="set AWS_REGION"):
        open_store("s3://bucket/prefix")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    open_store("s3://bucket/prefix")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def parquet(rows: int) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.table({"a": range(rows), "b": [f"{n:0>100}" for n in range(rows)]}), body, compression="none")
    return body.getvalue()


class Reads:
    """A store that notes what is read of its objects, and fails from the read numbered `fails` on."""

    def __init__(self, store: Store, fails: int | None = None) -> None:
        self.store = store
        self.ranges: list[int] = []
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        self.ranges.append(end - start)
        if self._fails is not None and len(self.ranges) > self._fails:
            raise GenericError("connection reset")
        return self.store.get_range(path, start=start, end=end)


def test_of_an_object_as_a_file_only_what_is_wanted_is_read(store: MemoryStore) -> None:
    body = parquet(20_000)
    put(store, "table/one.parquet", body)
    reads = Reads(store)
    with pq.ParquetFile(ObjectFile(reads, "table/one.parquet")) as file:
        assert file.read_row_group(0, columns=["a"]).column(0).to_pylist() == list(range(20_000))
    assert sum(reads.ranges) < len(body) / 4


def test_an_object_as_a_file_reads_like_a_file(store: MemoryStore) -> None:
    put(store, "x", b"0123456789")
    file = ObjectFile(store, "x")
    assert (file.read(3), file.tell(), file.read()) == (b"012", 3, b"3456789")
    assert (file.seek(-2, io.SEEK_END), file.read(9), file.read(9)) == (8, b"89", b"")
    assert (file.seek(4), file.seek(1, io.SEEK_CUR), file.read(1)) == (4, 5, b"5")


def test_an_object_as_a_file_says_that_it_is_not_there_or_that_storage_is_away(store: MemoryStore) -> None:
    with pytest.raises(FileNotFoundError):
        ObjectFile(store, "nothing")
    put(store, "table/one.parquet", parquet(20_000))
    reads = Reads(store)
    with pq.ParquetFile(ObjectFile(reads, "table/one.parquet")):
        opened = len(reads.ranges)
    with (
        pq.ParquetFile(ObjectFile(Reads(store, fails=opened), "table/one.parquet")) as file,
        pytest.raises(StorageUnavailable, match=r"table/one\.parquet"),
    ):
        file.read(columns=["b"])
