"""Jobs on a REST catalog that lets in who signs as AWS does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.aws_signatures import Signer
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.rest_catalog import RestServer, rest_server

pytestmark = pytest.mark.spark

REGION, KEY, SECRET = "eu-central-1", "AKIAFIRN", "c4nary/secret+key"
_SYSTEM = {"aws.accessKeyId": KEY, "aws.secretAccessKey": SECRET}


@pytest.fixture
def signed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    # The JVM has the environment that it was started in: its credentials are properties of the system.
    system = spark._jvm.java.lang.System
    before = {name: system.getProperty(name) for name in _SYSTEM}
    for name, value in _SYSTEM.items():
        system.setProperty(name, value)
    with rest_server(tmp_path, spark._jvm) as running:
        running.signer = Signer(KEY, SECRET, REGION, "glue")
        yield running
    for name, value in before.items():
        system.clearProperty(name) if value is None else system.setProperty(name, value)


def lake_at(spark: SparkSession, folder: Path, server: RestServer, service: str = "glue") -> Lake:
    own = f"rest.sigv4-enabled=true&rest.signing-name={service}&rest.signing-region={REGION}"
    return Lake(spark, folder, config(), catalog_uri=f"{server.url}#{own}")


def test_each_request_of_a_job_is_signed_and_one_for_another_service_is_refused(
    spark: SparkSession, tmp_path: Path, signed: RestServer
) -> None:
    lake = lake_at(spark, tmp_path, signed)
    signed.calls.clear()
    lake.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(3)])
    lake.land([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == {0: "v0", 1: "b"}
    assert ("POST", "/v1/namespaces/lake/tables/t") in signed.calls
    assert signed.refused == []
    lake.post([event("c", 30, {"id": 9, "v": "z"})])
    n = lake.seal()
    signed.signer = Signer(KEY, SECRET, REGION, "s3tables")
    assert lake.commit(n) == 1
    said = " ".join(str(line.get("error")) for line in lake.lines)
    assert "AWS_* for Glue and for requests that AWS signs" in said, lake.lines
    assert SECRET not in said
    assert {line.get("failure") for line in lake.lines} <= {None, "transient"}
    signed.signer = Signer(KEY, SECRET, REGION, "glue")
    assert lake.commit(n) == 0, lake.lines
    assert {row["id"] for row in lake.rows("lake.t")} == {0, 1, 9}
