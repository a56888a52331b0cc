"""Jobs on a REST catalog that gives the keys to a table's files with the table: the job itself has none to them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession

from firn_lake.catalogs.catalog import open_catalog
from firn_local.aws import AwsEndpoint
from firn_local.calls import Call
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.rest_catalog import RestServer, rest_server
from tests.soak import few_cases

pytestmark = pytest.mark.spark

VENDED, SERVER = "VENDED-WITH-THE-TABLE", "THE-SERVERS-OWN"
_SYSTEM = ("aws.accessKeyId", "aws.secretAccessKey")


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def vending(
    spark: SparkSession, calls: list[Call], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RestServer]:
    endpoint = AwsEndpoint(observe=calls.append)
    endpoint.start()
    env = dict(endpoint.credentials)
    boto3.client(
        "s3", endpoint_url=env["AWS_ENDPOINT_URL"], region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    ).create_bucket(Bucket="lake")  # fmt: skip
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    # Whoever asks with the job's own keys is seen to: no file of a table may be read or written by these.
    own = {"AWS_ACCESS_KEY_ID": "THE-JOBS-OWN", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": env["AWS_REGION"]}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(spark.sparkContext, "environment", {**spark.sparkContext.environment, **own})
    system = spark._jvm.java.lang.System
    before = {name: system.getProperty(name) for name in _SYSTEM}
    for name, value in zip(_SYSTEM, ("THE-JOBS-OWN", "x"), strict=True):
        system.setProperty(name, value)
    s3 = {"s3.endpoint": env["AWS_ENDPOINT_URL"], "s3.path-style-access": "true", "client.region": env["AWS_REGION"]}
    servers = {"s3.access-key-id": SERVER, "s3.secret-access-key": "s"}
    with rest_server(tmp_path, spark._jvm, "s3://lake/w", s3 | servers) as running:
        keys = {"s3.access-key-id": VENDED, "s3.secret-access-key": "vended", "s3.session-token": "vended"}
        running.vends = s3 | {"s3.region": env["AWS_REGION"]}
        running.apart = keys
        yield running
    for name, value in before.items():
        system.clearProperty(name) if value is None else system.setProperty(name, value)
    endpoint.stop()


class VendedLake(Lake):
    """The log in a folder, the tables where the catalog has them."""

    def __init__(self, spark: SparkSession, folder: Path, server: RestServer) -> None:
        told = "header.X-Iceberg-Access-Delegation=vended-credentials&client.region=us-east-1"
        super().__init__(spark, folder, config(), catalog_uri=f"{server.url}#{told}")
        self.warehouse = "s3://lake/w"
        name = "spark.sql.catalog.firn"
        self.spark.conf.set(f"{name}.warehouse", self.warehouse)
        self.spark.conf.set(f"{name}.io-impl", "org.apache.iceberg.aws.s3.S3FileIO")
        self.catalog: Any = open_catalog(self.catalog_uri, self.warehouse, {})


@few_cases(1)
@pytest.mark.parametrize("home", ["driver", "slices"])
@pytest.mark.parametrize("how", ["apart", "config"])
def test_a_job_reads_and_writes_a_tables_files_with_the_keys_that_came_with_it(
    spark: SparkSession,
    tmp_path: Path,
    vending: RestServer,
    calls: list[Call],
    home: str,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if how == "config":
        vending.vends, vending.apart = vending.vends | vending.apart, {}
    commit_in(home, monkeypatch)
    lake = VendedLake(spark, tmp_path, vending)
    lake.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(4)])
    keys = vending.vends if how == "config" else vending.apart
    keys["s3.access-key-id"] = f"{VENDED}-NEXT"
    calls.clear()
    lake.land([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
    mine = {one.who for one in calls if "/w/" in one.resource}
    assert mine <= {f"{VENDED}-NEXT", SERVER}, mine
    assert {one.who for one in calls if "/data/" in one.resource} == {f"{VENDED}-NEXT"}
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == {0: "v0", 1: "b", 3: "v3"}


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_a_job_commits_nothing_where_the_catalog_alone_may_sign_and_goes_on_once_keys_come(
    spark: SparkSession,
    tmp_path: Path,
    vending: RestServer,
    calls: list[Call],
    home: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit_in(home, monkeypatch)
    keys, vending.apart = vending.apart, {}
    without = dict(vending.vends)
    vending.vends |= {"s3.remote-signing-enabled": "true", "s3.signer.uri": vending.url}
    lake = VendedLake(spark, tmp_path, vending)
    lake.post([event("c", 10, {"id": 1, "v": "a"})])
    n = lake.seal()
    calls.clear()
    assert lake.commit(n) == 1
    said = " ".join(str(line.get("error")) for line in lake.lines)
    assert "s3.remote-signing-enabled" in said, lake.lines
    assert {line.get("failure") for line in lake.lines} <= {None, "transient"}
    assert not [one for one in calls if "/data/" in one.resource]
    vending.vends, vending.apart = without, keys
    assert lake.commit(n) == 0, lake.lines
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == {1: "a"}
