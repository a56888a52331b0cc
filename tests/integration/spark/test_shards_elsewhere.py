"""Shards that lie in warehouses beside the deployment's own, by real jobs: each has all of its files there, and all of
them are one table at each cut."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log.store import objects, open_store
from firn.tables import shard_changes
from firn_cli.main import main
from firn_demo import versitygw
from firn_lake.catalogs import object_io
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake as Reader
from firn_spark import maintenance_job
from firn_spark.tables import fence
from tests.integration.spark.committing import Died
from tests.integration.spark.dying_jobs import delivered, let_go
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_changing_shards import change_map
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_shard_commits import CONFIG, at_the_cut, expected, fresh_rows, rows_at, told
from tests.integration.spark.test_storages import StoredLake
from tests.soak import LONG, SEED, long_only

pytestmark = pytest.mark.spark

REST = "rest.orders"
REGIONS = "{by: geographic(w), to: {de: eu, fr: eu, us: us}, warehouses: {eu: frankfurt, us: ohio}}"


def lake_of(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, shard: str = REGIONS) -> Lake:
    places = {name: f"file://{folder}/{name}" for name in ("frankfurt", "ohio")}
    monkeypatch.setenv("FIRN_WAREHOUSES", ",".join(f"{name}={place}" for name, place in places.items()))
    return Lake(spark, folder, CONFIG.replace("SHARD", shard))


def row(lsn: int, id: int, w: str | None, v: str, op: str = "u") -> dict[str, Any]:
    return event(op, lsn, {"id": id, "w": w, "v": v})


FIRST = [row(100 + n, n, w, f"v{n}", "c") for n, w in enumerate(["de", "fr", "us", "jp", None])]
SECOND = [row(200, 0, "us", "w0"), row(201, 3, "de", "w3"), event("d", 202, None, {"id": 1, "w": "fr"})]
WANTED = {"eu": {3: ("de", "w3")}, "us": {0: ("us", "w0"), 2: ("us", "v2")}, "rest": {4: (None, "v4")}}


def committed(lake: Lake) -> None:
    """Both parts in two epochs; a fresh read before the second is what that makes."""
    lake.land(FIRST)
    lake.post(SECOND)
    fresh = fresh_rows(lake, f"{lake.stream}.orders")
    of_eu = fresh_rows(lake, "eu.orders")
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert rows_at(lake) == WANTED
    assert fresh == {id: one for some in WANTED.values() for id, one in some.items()}
    assert of_eu == WANTED["eu"]


def tables_in(url: str) -> set[str]:
    """Which tables have files in a warehouse, by their folders."""
    return {"/".join(one.path.split("/")[:2]) for one in objects(open_store(url), "")}


def test_shards_move_between_warehouses_by_command_and_by_no_other_way(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit_in("driver", monkeypatch)
    lake = lake_of(spark, tmp_path, monkeypatch)
    committed(lake)
    here = {"staging": lake.staging, "warehouse": lake.warehouse, "catalog_uri": lake.catalog_uri}
    (tmp_path / "stack.json").write_text(json.dumps(here | {"url": "http://127.0.0.1:9"}))

    def firn(*arguments: str) -> str:
        main(["shards", *arguments, "--dir", str(tmp_path)])
        return "".join(capsys.readouterr())

    assert "frankfurt" in firn("list", REST)
    assert "the warehouse mars, and this deployment knows frankfurt, ohio" in firn(
        "move", REST, "us", "big.us", "--warehouse", "mars"
    )
    assert "needs a table of another name" in firn("move", REST, "us", "us.orders", "--warehouse", "frankfurt")
    assert "this is version 2" in firn("move", REST, "us", "big.us", "--warehouse", "frankfurt")
    real, calls = fence.commit, Counter[str]()

    def dying(*args: Any) -> None:
        calls["commits"] += 1
        if calls["commits"] == 2:
            raise Died
        real(*args)

    lake.post([row(300, 4, "us", "x4")])
    last = lake.seal()
    with monkeypatch.context() as patch, suppress(Died):  # one of two shards has been brought
        patch.setattr(fence, "commit", dying)
        lake.commit(last)
    assert rows_at(lake) == WANTED, "the cut is where it was"
    assert lake.commit(last) == 0, lake.lines
    wanted = {"eu": WANTED["eu"], "big": WANTED["us"] | {4: ("us", "x4")}, "rest": {}}
    assert rows_at(lake) == wanted
    assert [tables_in(f"file://{tmp_path}/{of}") for of in ("frankfurt", "ohio", "warehouse")] == [
        {"eu/orders", "big/us"}, {"us/orders"}, {"rest/orders", "rest/orders__deletes"}
    ]  # fmt: skip
    assert "us.orders is there already, in the warehouse ohio, and would have to lie in the deployment's own" in firn(
        "move", REST, "us", "us.orders", "--warehouse", "own"
    )
    # Another place under a name whose tables are where they were: nothing is written to either.
    before = os.environ["FIRN_WAREHOUSES"]
    monkeypatch.setenv("FIRN_WAREHOUSES", before.replace("/frankfurt", "/elsewhere"))
    lake.post([row(400, 5, "de", "v5")])
    last = lake.seal()
    assert lake.commit(last) != 0
    assert "is file://" in str(lake.lines)
    assert "by now: say in FIRN_WAREHOUSES where it was" in str(lake.lines)
    assert rows_at(lake) == wanted
    monkeypatch.setenv("FIRN_WAREHOUSES", before)
    lake.commit(last)
    let_go(lake)
    assert "removed" in firn("remove-former", REST)
    assert tables_in(f"file://{tmp_path}/ohio") == set()


@long_only  # files that are written elsewhere are no other commits: test_changing_shards.py has them
@pytest.mark.parametrize("seed", range(SEED, SEED + (8 if LONG else 1)))
def test_every_cut_is_what_fold_places_whoever_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    where = "{by: geographic(w), to: {a: one, b: one, c: two}, warehouses: {one: frankfurt, two: ohio}}"
    lake, dice = lake_of(spark, tmp_path, monkeypatch, where), random.Random(f"elsewhere {seed}")

    def check(done: list[dict[str, Any]]) -> None:
        assert at_the_cut(lake) == expected(lake, done), seed

    print(seed, delivered(lake, told(seed, 200, 8), dice, monkeypatch, 20, check))


@dataclass(frozen=True)
class TwoServers:
    """An S3 with the deployment's bucket, and one in another region, below `folder`, that takes no request for the
    first one's."""

    folder: Path

    def put_old(self, key: str) -> None:
        """An object in the other one that is nine days old."""
        file = self.folder / "other" / "data" / "acme-eu" / key
        file.write_bytes(b"x")
        os.utime(file, (time.time() - 9 * 86_400,) * 2)


@pytest.fixture
def servers(spark: SparkSession, tmp_path: Path) -> Iterator[TwoServers]:
    with both(spark, tmp_path) as found:
        yield found


@contextmanager
def both(spark: SparkSession, folder: Path) -> Iterator[TwoServers]:
    if why := versitygw.missing():
        pytest.skip(why)
    with (
        versitygw.versitygw(folder / "own", "lake", secret_key="a key of both") as own,
        versitygw.versitygw(folder / "other", "acme-eu", secret_key="a key of both", region="eu-central-1") as other,
        pytest.MonkeyPatch.context() as patch,
    ):
        frankfurt = f"s3://acme-eu/lake?region=eu-central-1&endpoint={other['AWS_ENDPOINT_URL_S3']}"
        said = {"AWS_ENDPOINT_URL": own.pop("AWS_ENDPOINT_URL_S3"), **own}
        said |= {"FIRN_WAREHOUSES": f"frankfurt={frankfurt},ohio=s3://lake/ohio"}
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        for name, value in said.items():
            patch.setenv(name, value)
        # The JVM has the environment that it was started in, and so have its Python workers.
        system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
        system.setProperty("aws.accessKeyId", own["AWS_ACCESS_KEY_ID"])
        system.setProperty("aws.secretAccessKey", own["AWS_SECRET_ACCESS_KEY"])
        patch.setattr(spark.sparkContext, "environment", {**spark.sparkContext.environment, **said})
        object_io._store.cache_clear()  # of servers that had these buckets before
        yield TwoServers(folder)
        object_io._store.cache_clear()


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_two_servers_of_two_regions_hold_one_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: TwoServers, home: str
) -> None:
    commit_in(home, monkeypatch)
    lake = StoredLake(spark, tmp_path, CONFIG.replace("SHARD", REGIONS), "s3://lake/staging", "s3://lake/warehouse")
    committed(lake)
    assert tables_in("s3://acme-eu/lake") == {"eu/orders"}
    assert tables_in("s3://lake/ohio") == {"us/orders"}
    assert tables_in("s3://lake/warehouse") == {"rest/orders", "rest/orders__deletes"}
    looked = open_catalog(lake.catalog_uri, lake.warehouse, read_only=True)
    assert looked.load_table(("eu", "orders")).metadata.location == "s3://acme-eu/lake/eu/orders"
    # From one server to the other, and care for what lies there.
    change_map(lake, lambda now: shard_changes.move(now, "us", "big.us", "frankfurt"))
    for n in range(5):
        lake.land([row(300 + n, 10 + n, "de", f"v{n}")])
    servers.put_old("lake/eu/orders/data/left.parquet")
    lines: list[dict[str, Any]] = []
    kinds: Any = ("compact", "expire", "orphans")
    request = maintenance_job.Request("r1", kinds, (TableName("eu", "orders"),), all=True)
    where = (lake.staging, lake.warehouse, lake.catalog_uri)
    assert maintenance_job.run(request, *where, spark=lake.spark, log=lines.append) == 0, lines
    found = {line["kind"]: line for line in lines if line["table"] == "eu.orders"}
    assert found["orphans"]["sample"] == ["data/left.parquet"]
    assert found["compact"]["status"] == "done", found
    wanted = {"eu": WANTED["eu"] | {10 + n: ("de", f"v{n}") for n in range(5)}, "big": WANTED["us"]}
    assert rows_at(lake) == wanted | {"rest": WANTED["rest"]}
    assert tables_in("s3://acme-eu/lake") == {"eu/orders", "big/us"}
    files = {one.path for one in objects(open_store("s3://acme-eu/lake"), "")}
    assert "eu/orders/data/left.parquet" not in files
    whole = Reader(lake.catalog, lambda: lake.store).table(f"{lake.stream}.orders")
    assert {one["id"] for one in whole.read(filter="w = 'de'").pylist()} == {3, *range(10, 15)}
