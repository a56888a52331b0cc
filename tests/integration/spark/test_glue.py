"""Tables in AWS Glue's catalog, on the embedded endpoint: written by Spark, read by PyIceberg."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession

from firn_lake.catalogs.catalog import open_catalog
from firn_local.aws import AwsEndpoint
from firn_spark.session import catalog_settings
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.integration.stack.granted import forget_aws

pytestmark = pytest.mark.spark


class GlueLake(Lake):
    """The same with its tables in S3 and Glue."""

    def __init__(self, spark: SparkSession, folder: Path, text: str) -> None:
        super().__init__(spark, folder, text)
        self.warehouse, self.catalog_uri = "s3://lake/warehouse", "glue://"
        self.spark = spark.newSession()
        for name, value in catalog_settings(self.catalog_uri, self.warehouse, os.environ).items():
            if name.startswith("spark.sql.catalog."):
                self.spark.conf.set(name, value)
        self.catalog: Any = open_catalog(self.catalog_uri, self.warehouse)


@pytest.fixture
def glue(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GlueLake]:
    forget_aws()  # another test of this process may have left a table of the same name
    endpoint = AwsEndpoint()
    endpoint.start()
    for name, value in endpoint.credentials.items():
        monkeypatch.setenv(name, value)
    # The JVM has the environment that it was started in: its credentials are properties of the system.
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    for name in ("aws.accessKeyId", "aws.secretAccessKey"):
        system.setProperty(name, "test")
    boto3.client("s3").create_bucket(Bucket="lake")
    yield GlueLake(spark, tmp_path, config())
    endpoint.stop()


def test_tables_of_glue_are_committed_to_and_read(glue: GlueLake) -> None:
    glue.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(4)])
    glue.land([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
    assert {row["id"]: row["v"] for row in glue.rows("lake.t")} == {0: "v0", 1: "b", 3: "v3"}
    assert glue.spark.table("firn.lake.t").count() == 3
    tables = boto3.client("glue").get_tables(DatabaseName="lake")["TableList"]
    assert {one["Name"] for one in tables} == {"t", "t__deletes"}
    assert all(one["Parameters"]["table_type"] == "ICEBERG" for one in tables)
    assert [one["firn.epoch.spec"] for one in glue.snapshots("lake.t")] == ["1", "2"]
