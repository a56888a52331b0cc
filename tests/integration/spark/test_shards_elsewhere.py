"""Shards that lie in warehouses beside the deployment's own, by real jobs: each has all of its files there, and all of
them are one table at each cut."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.log.store import objects, open_store
from firn_demo import versitygw
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_shard_commits import CONFIG, fresh_rows, rows_at
from tests.integration.spark.test_storages import StoredLake

pytestmark = pytest.mark.spark

REGIONS = "{by: geographic(w), to: {de: eu, fr: eu, us: us}, warehouses: {eu: frankfurt, us: ohio}}"


def lake_of(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, shard: str = REGIONS) -> Lake:
    told = {name: f"file://{folder}/{name}" for name in ("frankfurt", "ohio")}
    monkeypatch.setenv("FIRN_WAREHOUSES", ",".join(f"{name}={place}" for name, place in told.items()))
    return Lake(spark, folder, CONFIG.replace("SHARD", shard))


def row(lsn: int, id: int, w: str | None, v: str, op: str = "u") -> dict[str, Any]:
    return event(op, lsn, {"id": id, "w": w, "v": v})


def files(folder: Path) -> set[str]:
    """Which tables have files below a warehouse, by their folders."""
    return {"/".join(one.relative_to(folder).parts[:2]) for one in folder.rglob("*") if one.is_file()}


@contextmanager
def two_servers(spark: SparkSession, folder: Path) -> Iterator[None]:
    """An S3 with the deployment's bucket, and another one in another region, which takes no request for the first."""
    if why := versitygw.missing():
        pytest.skip(why)
    key = "one key for both"
    with (
        versitygw.versitygw(folder / "own", "lake", secret_key=key) as own,
        versitygw.versitygw(folder / "other", "acme-eu", secret_key=key, region="eu-central-1") as other,
        pytest.MonkeyPatch.context() as patch,
    ):
        frankfurt = f"s3://acme-eu/lake?region=eu-central-1&endpoint={other['AWS_ENDPOINT_URL_S3']}"
        told = {"AWS_ENDPOINT_URL": own.pop("AWS_ENDPOINT_URL_S3"), **own}
        told |= {"FIRN_WAREHOUSES": f"frankfurt={frankfurt},ohio=s3://lake/ohio"}
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        for name, value in told.items():
            patch.setenv(name, value)
        system = spark._jvm.java.lang.System  # type: ignore[union-attr]
        system.setProperty("aws.accessKeyId", own["AWS_ACCESS_KEY_ID"])
        system.setProperty("aws.secretAccessKey", own["AWS_SECRET_ACCESS_KEY"])
        patch.setattr(spark.sparkContext, "environment", {**spark.sparkContext.environment, **told})
        yield


def tables_in(url: str) -> set[str]:
    """Which tables have files in a warehouse, by their folders."""
    return {"/".join(one.path.split("/")[:2]) for one in objects(open_store(url), "")}


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_each_shard_has_its_files_in_its_warehouse(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    lake = lake_of(spark, tmp_path, monkeypatch)
    lake.land([row(100 + n, n, w, f"v{n}", "c") for n, w in enumerate(["de", "fr", "us", "jp", None])])
    lake.post([row(200, 0, "us", "w0"), row(201, 3, "de", "w3"), event("d", 202, None, {"id": 1, "w": "fr"})])
    fresh = fresh_rows(lake, f"{lake.stream}.orders")
    assert lake.commit(lake.seal()) == 0, lake.lines
    wanted = {"eu": {3: ("de", "w3")}, "us": {0: ("us", "w0"), 2: ("us", "v2")}, "rest": {4: (None, "v4")}}
    assert rows_at(lake) == wanted
    assert fresh == {id: one for some in wanted.values() for id, one in some.items()}
    assert files(tmp_path / "frankfurt") == {"eu/orders"}
    assert files(tmp_path / "ohio") == {"us/orders"}
    assert files(tmp_path / "warehouse") == {"rest/orders", "rest/orders__deletes"}


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_two_servers_of_two_regions_are_one_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    with two_servers(spark, tmp_path):
        text = CONFIG.replace("SHARD", REGIONS)
        lake = StoredLake(spark, tmp_path, text, "s3://lake/staging", "s3://lake/warehouse")
        lake.land([row(100 + n, n, w, f"v{n}", "c") for n, w in enumerate(["de", "fr", "us", "jp", None])])
        lake.post([row(200, 0, "us", "w0"), row(201, 3, "de", "w3"), event("d", 202, None, {"id": 1, "w": "fr"})])
        fresh = fresh_rows(lake, f"{lake.stream}.orders")
        assert lake.commit(lake.seal()) == 0, lake.lines
        wanted = {"eu": {3: ("de", "w3")}, "us": {0: ("us", "w0"), 2: ("us", "v2")}, "rest": {4: (None, "v4")}}
        assert rows_at(lake) == wanted
        assert fresh == {id: one for some in wanted.values() for id, one in some.items()}
        assert tables_in("s3://acme-eu/lake") == {"eu/orders"}
        assert tables_in("s3://lake/ohio") == {"us/orders"}
        assert tables_in("s3://lake/warehouse") == {"rest/orders", "rest/orders__deletes"}
