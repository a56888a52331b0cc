"""What Firn asks of a storage, of each that runs here: the log's primitive under a race, and all that it reads by."""

import random
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from firn.errors import StorageUnavailable
from firn.ingest.accept import accept
from firn.log import epochs, published_configs
from firn.log.store import (
    ObjectFile,
    ObjectWriter,
    Store,
    exists,
    get,
    get_version,
    link,
    listing,
    modified,
    open_store,
    paths,
    put,
    put_if_absent,
    remove,
    tail,
    versions,
)
from firn_cli.storage_check import StorageCheck
from firn_lake.catalogs.catalog import open_catalog
from tests.integration.storages.conftest import Place
from tests.racing import together
from tests.s3_servers import WRONG, s3_environment
from tests.soak import times

pytestmark = pytest.mark.stack

NOW = datetime(2026, 11, 26, tzinfo=UTC)
CONFIG = "streams: {web: {envelope: rows, tables: {users: {to: web.users, key: [id]}}}}\n"
PARTS = ("reach", "create", "listing", "order", "ranges", "multipart", "overwrite", "clock", "delete", "remove")


def test_of_sixteen_writers_one_creates_an_object(store: Store) -> None:
    for attempt in range(times(5, 200)):
        path = f"epochs/s/{attempt}"
        won = together(16, lambda n, path=path: put_if_absent(store, path, f"writer {n}".encode()))  # type: ignore[misc]
        assert won.count(True) == 1
        assert get(store, path) == f"writer {won.index(True)}".encode()


def test_of_sixteen_dispatchers_one_seals_an_epoch_and_all_read_it(store: Store) -> None:
    config = published_configs.publish(store, CONFIG)
    for n in range(1, times(3, 50) + 1):
        now = NOW + timedelta(seconds=n)
        staged = [accept(store, config, "web", b'[{"id": %d}]' % k, now=now, table="users").batch_id for k in range(4)]

        def seal(k: int, now: datetime = now) -> epochs.Epoch | None:
            found = epochs.candidates(store, "web", now + timedelta(seconds=1), above=0)
            return epochs.seal(store, "web", found, now=now, config=config.sha, nonce=f"dispatcher {k}")

        sealed = [one for one in together(16, seal) if one is not None and one.batches]
        assert len(sealed) == 1
        assert {one.id for one in sealed[0].batches} == {*staged}
        assert epochs.read(store, "web", sealed[0].n) == sealed[0]
    everything = [one.id for epoch in epochs.read_range(store, "web", 1, 1_000) for one in epoch.batches]
    assert len(everything) == len({*everything}) == 4 * times(3, 50)


def test_a_request_with_a_key_is_staged_once_however_often_it_comes_at_once(store: Store) -> None:
    config = published_configs.publish(store, CONFIG)
    said = together(8, lambda _: accept(store, config, "web", b'[{"id": 1}]', now=NOW, key="k", table="users"))
    assert len({one.batch_id for one in said}) == 1
    assert len(paths(store, "staged")) == 1


def test_an_object_is_in_the_next_listing_and_a_listing_goes_on_from_any(store: Store) -> None:
    def listed(n: int) -> bool:
        path = f"list/{n % 3}/{n:03d}"
        put(store, path, b"x" * n)
        return path in paths(store, "list") and path in paths(store, f"list/{n % 3}")

    assert all(together(30, listed))
    everything = sorted((f"list/{n % 3}/{n:03d}", n) for n in range(30))
    assert listing(store, "list") == everything
    assert paths(store, "list/1", "list/1/013") == [path for path, _ in everything if "list/1/013" < path < "list/2"]
    assert paths(store, "list/9") == []


def test_an_object_that_is_written_again_has_another_version_and_keeps_its_last_bytes(store: Store) -> None:
    for data in (b"old", b"new"):
        put(store, "v/one", data)
        found = get_version(store, "v/one")
        assert found is not None
        assert (found[0], versions(store, "v")) == (data, {"v/one": found[1]})
    at = modified(store, "v/one")
    assert at is not None
    assert abs(datetime.now(UTC) - at) < timedelta(seconds=60)
    remove(store, ["v/one", "v/never"])
    assert (get(store, "v/one"), exists(store, "v/one"), modified(store, "v/one")) == (None, False, None)


def test_parts_are_read_and_large_objects_are_written_in_parts(store: Store) -> None:
    data = random.Random(3).randbytes(9_000_000)
    writer = ObjectWriter(store, "results/large")
    for start in range(0, len(data), 1_000_000):
        writer.write(data[start : start + 1_000_000])
    assert not exists(store, "results/large")
    writer.close()
    file = ObjectFile(store, "results/large")
    file.seek(7_999_990)
    assert file.read(20) == data[7_999_990:8_000_010]
    assert tail(store, "results/large", 9) == data[-9:]
    assert get(store, "results/large") == data
    assert listing(store, "results") == [("results/large", len(data))]


def test_whoever_has_a_link_reads_the_object(store: Store) -> None:
    put(store, "results/one", b"content")
    with urllib.request.urlopen(link(store, "results/one", timedelta(minutes=5)), timeout=10) as answer:
        assert answer.read() == b"content"


def test_a_warehouse_is_written_and_read_by_pyiceberg(place: Place, tmp_path: Path) -> None:
    warehouse = f"{place.url.replace('staging', 'lake')}/warehouse"
    with open_catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse, place.env) as catalog:
        catalog.create_namespace("web")
        rows = pa.table({"id": pa.array(range(20_000), pa.int64()), "v": [f"v{n}" for n in range(20_000)]})
        table = catalog.create_table("web.users", rows.schema)
        table.append(rows)
        catalog.load_table("web.users").delete("id >= 19990")
        read = catalog.load_table("web.users").scan(row_filter="id >= 19980").to_arrow()
        assert sorted(read["id"].to_pylist()) == list(range(19_980, 19_990))
        catalog.purge_table("web.users")
    assert [path for path in paths(open_store(warehouse), "") if path.endswith(".parquet")] == []


def test_the_check_finds_all_that_firn_rests_on_and_leaves_nothing(place: Place) -> None:
    store = place.store("checked")
    put(store, "ours", b"x")
    found = {one.name: one for one in StorageCheck(f"{place.url}/checked").checks()}
    assert {name: found[name].ok for name in PARTS} == dict.fromkeys(PARTS, True), found
    assert paths(store, "") == ["ours"]


@pytest.mark.parametrize("kind", WRONG)
def test_a_storage_that_breaks_the_race_is_refused(kind: str, tmp_path: Path) -> None:
    with s3_environment(kind, tmp_path, kind):
        found = {one.name: one for one in StorageCheck(f"s3://{kind}/staging").checks()}
        assert (found["reach"].ok, found["create"].ok, found["listing"].found) == (True, False, "not tried")
        assert "conditional puts (If-None-Match: *) do not hold" in found["create"].found
        assert "two functions can seal the same epoch" in found["create"].advice
        store = open_store(f"s3://{kind}/race")
        winners = [
            together(16, lambda n, path=f"{attempt}": put_if_absent(store, path, b"%d" % n)).count(True)  # type: ignore[misc]
            for attempt in range(2)
        ]
        assert max(winners) > 1
        assert paths(open_store(f"s3://{kind}"), "staging") == []


def test_wrong_keys_and_a_bucket_that_is_not_there_are_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    if not place.env:
        pytest.skip("a folder has neither")
    missing = {one.name: one for one in StorageCheck("s3://no-such-bucket/staging").checks()}
    assert "there is no bucket no-such-bucket: make it" in missing["reach"].advice
    with pytest.raises(StorageUnavailable, match="check that the bucket exists"):
        put_if_absent(open_store("s3://no-such-bucket"), "a", b"x", pause=lambda _: None)
    if "AWS_ENDPOINT_URL_S3" not in place.env:
        return  # the embedded S3 takes any signature
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "wrong")
            found = {one.name: one for one in StorageCheck("s3://staging/a").checks()}
            assert found["reach"].ok is False
            assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in found["reach"].advice
    monkeypatch.setenv("AWS_REGION", "eu-wrong-1")
    found = {one.name: one for one in StorageCheck("s3://staging/a").checks()}
    assert "AWS_REGION is eu-wrong-1: set the bucket's region" in found["reach"].advice
