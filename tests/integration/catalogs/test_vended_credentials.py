"""A REST catalog that gives the keys to a table's files with the table: whoever reads and writes it has no others."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import firn_lake
from firn_lake.catalogs.catalog import open_catalog
from firn_local.aws import AwsEndpoint
from firn_local.calls import Call
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows
from tests.rest_catalog import RestServer, rest_server

pytestmark = pytest.mark.stack
WAREHOUSE = "s3://lake/w"
VENDED = "VENDED-WITH-THE-TABLE"


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def endpoint(calls: list[Call], monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsEndpoint]:
    running = AwsEndpoint(observe=calls.append)
    running.start()
    env = dict(running.credentials)
    boto3.client(
        "s3", endpoint_url=env["AWS_ENDPOINT_URL"], region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    ).create_bucket(Bucket="lake")  # fmt: skip
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    yield running
    running.stop()


@pytest.fixture
def vending(jvm: Any, endpoint: AwsEndpoint, tmp_path: Path) -> Iterator[RestServer]:
    env = dict(endpoint.credentials)
    own = {"s3.endpoint": env["AWS_ENDPOINT_URL"], "s3.path-style-access": "true", "client.region": env["AWS_REGION"]}
    own |= {"s3.access-key-id": "THE-SERVERS-OWN", "s3.secret-access-key": "s"}
    with rest_server(tmp_path, jvm, WAREHOUSE, own) as running:
        running.vends = {
            "s3.endpoint": env["AWS_ENDPOINT_URL"], "s3.region": env["AWS_REGION"], "s3.access-key-id": VENDED,
            "s3.secret-access-key": "vended", "s3.session-token": "vended",
        }  # fmt: skip
        yield running


def test_a_table_is_read_and_written_with_the_keys_that_come_with_it(vending: RestServer, calls: list[Call]) -> None:
    catalog = open_catalog(f"{vending.url}#s3.region=us-east-1", WAREHOUSE, {})
    catalog.create_namespace("lake")
    catalog.create_table("lake.t", SCHEMA)
    calls.clear()
    table = firn_lake.connect(catalog).table("lake.t")
    table.append(rows(1, 2), id="load-1")
    assert ids(catalog.load_table("lake.t")) == [1, 2]
    assert sorted(row["id"] for row in table.read().pylist()) == [1, 2]
    mine = {one.who for one in calls if "/data/" in one.resource}
    assert mine == {VENDED}
    assert {one.who for one in calls} <= {VENDED, "THE-SERVERS-OWN"}
