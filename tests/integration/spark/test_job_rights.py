"""Jobs of every kind do what the template's JobRole allows, with S3 and Glue as their only places; and tables that are
another's are not looked into."""

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import boto3
import pytest
from moto.moto_server.werkzeug_app import create_backend_app
from moto.s3.models import s3_backends
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs
from firn.log.store import open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_local.aws import ACCOUNT, REGION, AwsEndpoint
from firn_local.calls import Call
from firn_local.environment import TEMPLATE
from firn_local.serving import json_response
from firn_spark import maintenance_job, rebuild
from firn_spark.session import catalog_settings
from firn_spark.tables.evolve import Tables
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.integration.stack.granted import BY_EMR, differences, forget_aws, grants, with_what_holds_it

pytestmark = pytest.mark.spark

STAGING, LAKE = (f"firn-local-{of}-{ACCOUNT}-{REGION}" for of in ("staging", "lake"))
T = TableName("lake", "t")
THEIRS = "theirs"


class DeployedLake(Lake):
    """A lake whose every part is where the template puts it: staging and warehouse in S3, tables in Glue."""

    def __init__(self, spark: SparkSession, folder: Path, text: str) -> None:
        super().__init__(spark, folder, text)
        self.staging, self.warehouse, self.catalog_uri = f"s3://{STAGING}", f"s3://{LAKE}/warehouse", "glue://"
        self.store = open_store(self.staging)
        self.config = published_configs.publish(self.store, text)
        self.spark = spark.newSession()
        for name, value in catalog_settings(self.catalog_uri, self.warehouse, os.environ).items():
            if name.startswith("spark.sql.catalog."):
                self.spark.conf.set(name, value)
        self.catalog: Any = open_catalog(self.catalog_uri, self.warehouse)
        self.seen: list[Call] = []

    @contextmanager
    def watched(self, calls: list[Call]) -> Iterator[None]:
        """What a job asks for within goes to `seen`."""
        calls.clear()
        yield
        self.seen += calls

    def care(self, *kinds: Any) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        request = maintenance_job.Request("r1", kinds, (T,), all=True)
        code = maintenance_job.run(
            request, self.staging, self.warehouse, self.catalog_uri, spark=self.spark, log=lines.append
        )
        assert code == 0, lines
        return lines

    def rebuild(self, **how: Any) -> None:
        lines: list[dict[str, Any]] = []
        request = rebuild.Request("r2", T, **how)
        code = rebuild.run(request, self.staging, self.warehouse, self.catalog_uri, spark=self.spark, log=lines.append)
        assert code == 0, lines


def closed_to_others(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Glue as it answers a role that was given other databases than `theirs`."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if environ["HTTP_X_AMZ_TARGET"] == "AWSGlue.GetTables" and THEIRS.encode() in body:
        name = "AccessDeniedException"
        return json_response(400, {"__type": name, "Message": "no"}, {"x-amzn-ErrorType": name}).send(start_response)
    answer: Callable[..., Iterable[bytes]] = create_backend_app("glue")
    return answer({**environ, "wsgi.input": io.BytesIO(body)}, start_response)


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def deployed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[Call]
) -> Iterator[DeployedLake]:
    forget_aws()
    endpoint = AwsEndpoint(others={"glue": closed_to_others}, observe=calls.append)
    endpoint.start()
    for name, value in endpoint.credentials.items():
        monkeypatch.setenv(name, value)
    # The JVM has the environment that it was started in: its credentials are properties of the system.
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    for name in ("aws.accessKeyId", "aws.secretAccessKey"):
        system.setProperty(name, "test")
    # And so have its Python workers.
    workers = spark.sparkContext.environment
    monkeypatch.setattr(spark.sparkContext, "environment", {**workers, **endpoint.credentials})
    for bucket in (STAGING, LAKE):
        boto3.client("s3", region_name=REGION).create_bucket(Bucket=bucket)
    yield DeployedLake(spark, tmp_path, config() + "  all: {tables: {'*': {to: '{schema}.{table}'}}}\n")
    endpoint.stop()


def beyond_the_role(calls: Iterable[Call]) -> list[str]:
    role = grants(TEMPLATE, "JobRole", {"Environment": "local", "GlueDatabases": "lake"})
    told = differences(role, with_what_holds_it(calls), BY_EMR)
    return [one for one in told if one.startswith("used")]


def theirs() -> None:
    """Tables of others in the account: in a database that is closed to us, and beside ours, in a bucket that is."""
    glue = boto3.client("glue", region_name=REGION)
    glue.create_database(DatabaseInput={"Name": THEIRS})
    for database in (THEIRS, "lake"):
        place = f"s3://elsewhere/{database}/foreign"
        parameters = {"table_type": "ICEBERG", "metadata_location": f"{place}/metadata/1.metadata.json"}
        table = {"Name": "foreign", "Parameters": parameters, "StorageDescriptor": {"Location": place}}
        glue.create_table(DatabaseName=database, TableInput=table)


def test_care_and_rebuilds_do_what_the_role_allows_and_look_into_no_table_of_others(
    deployed: DeployedLake, calls: list[Call]
) -> None:
    for n in range(6):
        deployed.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}), event("u", 40 + n, {"id": 0, "v": f"{n}"})])
    theirs()
    boto3.client("s3", region_name=REGION).put_object(Bucket=LAKE, Key="warehouse/lake/t/data/left.parquet", Body=b"x")
    for key in s3_backends[ACCOUNT]["aws"].get_bucket(LAKE).keys.values():
        key.last_modified -= timedelta(days=9)
    with deployed.watched(calls):
        lines = deployed.care("compact", "expire", "orphans")
    found = {line["kind"]: line for line in lines if line["table"] == "lake.t"}
    assert {kind: line["status"] for kind, line in found.items()} == dict.fromkeys(
        ("compact", "expire", "orphans"), "done"
    )
    assert found["orphans"]["sample"] == ["data/left.parquet"]
    with deployed.watched(calls):
        deployed.rebuild(into=TableName("lake", "again"))
        deployed.rebuild(check=True)
        deployed.rebuild(in_place=True)
    assert len(deployed.rows("lake.t")) == 6
    mine = [call for call in deployed.seen if not call.resource.startswith("arn:aws:s3:::elsewhere")]
    assert mine == deployed.seen, "a table of another's was read"
    denied = f"arn:aws:glue:{REGION}:{ACCOUNT}:database/{THEIRS}"
    assert {call.action for call in mine if call.resource == denied} == {"glue:GetTables"}, "a pattern may feed it"
    assert beyond_the_role(call for call in mine if call.resource != denied) == []
    assert {call.action for call in mine} >= {
        "glue:GetDatabases",
        "glue:GetTables",
        "glue:DeleteTable",
        "s3:DeleteObject",
    }


def test_files_in_the_lakes_own_bucket_need_no_further_right(deployed: DeployedLake, calls: list[Call]) -> None:
    sink = f"{{sql: SELECT * FROM app.t, files: {{to: 's3://{LAKE}/files', roll: {{every: 1s}}}}}}"
    text = config().rstrip() + f"\n    pipelines: {{raw: {sink}}}\n"
    deployed.config = published_configs.publish(deployed.store, text)
    for n in (1, 2):
        deployed.post([event("c", 10 + n, {"id": n, "v": "v"})])
        sealed = deployed.seal()
        with deployed.watched(calls):
            assert deployed.commit(sealed) == 0, deployed.lines
    written = {call.resource.rpartition("/")[0] for call in deployed.seen if call.action == "s3:PutObject"}
    assert f"arn:aws:s3:::{LAKE}/files" in written
    assert [call for call in deployed.seen if "/files/" in call.resource and not call.if_absent] == []
    assert beyond_the_role(deployed.seen) == []


def test_a_file_that_can_not_be_finished_is_aborted_as_the_role_allows(
    deployed: DeployedLake, calls: list[Call]
) -> None:
    for name, value in (("part-size-bytes", 5 * 2**20), ("threshold", 1)):
        deployed.spark.conf.set(f"spark.sql.catalog.firn.s3.multipart.{name}", str(value))
    deployed.land([event("c", 10, {"id": 1, "v": "v"})])
    table = Tables(deployed.spark).load(T)
    assert table is not None
    with deployed.watched(calls):
        file = table.java.io().newOutputFile(f"{table.state.location}/data/large").create()
        file.write(bytes(6 * 2**20))
        uploads = s3_backends[ACCOUNT]["aws"].get_bucket(LAKE).multiparts
        deadline = time.monotonic() + 20
        while not any(upload.parts for upload in uploads.values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        uploads.clear()
        with pytest.raises(Py4JJavaError, match="upload"):
            file.close()
    assert "s3:AbortMultipartUpload" in {call.action for call in deployed.seen}
    assert beyond_the_role(deployed.seen) == []
