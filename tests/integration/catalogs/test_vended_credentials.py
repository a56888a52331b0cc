"""A REST catalog that gives the keys to a table's files with the table: whoever reads and writes it has no others."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import firn_lake
from firn.errors import ConfigError
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


def test_a_table_whose_requests_the_catalog_signs_itself_is_refused_by_name_unless_keys_come_too(
    vending: RestServer, calls: list[Call]
) -> None:
    """Neither with keys of the reader's own: what its catalog is to see would go around it."""
    own = {"AWS_ACCESS_KEY_ID": "THE-READERS-OWN", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    catalog = open_catalog(vending.url, WAREHOUSE, own)
    catalog.create_namespace("lake")
    catalog.create_table("lake.t", SCHEMA)
    keys = dict(vending.vends)
    signer = {"s3.remote-signing-enabled": "true", "s3.signer.uri": vending.url, "s3.signer.endpoint": "v1/aws/s3/sign"}
    vending.vends = {name: value for name, value in keys.items() if "key" not in name and "token" not in name} | signer
    calls.clear()
    for ask in (lambda: catalog.load_table("lake.t"), lambda: firn_lake.connect(catalog).table("lake.t").read()):
        with pytest.raises(ConfigError, match=r"s3\.remote-signing-enabled.*vended-credentials"):
            ask()
    assert {one.who for one in calls} <= {"THE-SERVERS-OWN"}
    vending.vends = keys | signer
    catalog.load_table("lake.t").append(rows(1))
    assert ids(catalog.load_table("lake.t")) == [1]
