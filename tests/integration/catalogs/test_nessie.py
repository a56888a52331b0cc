"""A real Nessie: why nothing is committed to it, and that nothing is."""

from collections.abc import Iterator
from dataclasses import dataclass

import boto3
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from firn.errors import ConfigError
from firn_cli.catalog_check import CatalogCheck
from firn_lake.catalogs.catalog import open_catalog, storage_properties
from firn_local.aws import AwsEndpoint
from tests.integration.catalogs.test_contract import SCHEMA, ids, rows
from tests.nessie import missing, nessie

pytestmark = pytest.mark.stack
WAREHOUSE = "s3://lake/w"


@dataclass
class Place:
    url: str
    env: dict[str, str]

    def plain(self) -> Catalog:
        """Without Firn: what any client of Iceberg's REST may do."""
        told = storage_properties(self.env)
        return load_catalog("plain", **{"type": "rest", "uri": self.url, "warehouse": "w", **told})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if why := missing():
        pytest.skip(why)
    endpoint = AwsEndpoint()
    endpoint.start()
    try:
        env = dict(endpoint.credentials)
        boto3.client(
            "s3", endpoint_url=env["AWS_ENDPOINT_URL"], region_name=env["AWS_REGION"],
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        ).create_bucket(Bucket="lake")  # fmt: skip
        with nessie(tmp_path_factory.mktemp("nessie"), env, WAREHOUSE) as url:
            yield Place(url, env)
    finally:
        endpoint.stop()


def test_of_two_first_commits_that_are_answered_ok_one_is_gone(place: Place) -> None:
    """The reason. If this fails, this Nessie keeps both: look whether docs/adr/0074-hive-and-nessie.md still holds."""
    catalog = place.plain()
    catalog.create_namespace("race")
    catalog.create_table("race.t", SCHEMA)
    one, other = catalog.load_table("race.t"), catalog.load_table("race.t")
    one.append(rows(1))
    other.append(rows(2))
    assert ids(catalog.load_table("race.t")) == [2]


def test_its_metadata_shows_one_snapshot(place: Place) -> None:
    catalog = place.plain()
    catalog.create_namespace("seen")
    table = catalog.create_table("seen.t", SCHEMA)
    table.append(rows(1))
    table.append(rows(2))
    now = catalog.load_table("seen.t")
    assert ids(now) == [1, 2]
    assert len(now.metadata.snapshots) == 1


@pytest.mark.parametrize("marked", ["nessie+", ""])
def test_firn_reads_it_and_commits_nothing_and_says_why(place: Place, marked: str) -> None:
    name = f"refused{len(marked)}"
    plain = place.plain()
    plain.create_namespace(name)
    plain.create_table(f"{name}.t", SCHEMA).append(rows(1))
    address = f"{marked}{place.url}#warehouse=w"
    catalog = open_catalog(address, WAREHOUSE, place.env)
    table = catalog.load_table(f"{name}.t")
    assert ids(table) == [1]
    for write in (lambda: table.append(rows(2)), lambda: catalog.create_table(f"{name}.other", SCHEMA)):
        with pytest.raises(ConfigError, match=r"Firn only reads from it: .* one is lost"):
            write()
    assert ids(plain.load_table(f"{name}.t")) == [1]
    found = {one.name: one for one in CatalogCheck(address, WAREHOUSE, place.env, "firn_check").checks()}
    assert (found["reach"].ok, found["create"].ok, found["drop"].found) == (True, False, "not tried")
    assert "Firn only reads from it" in found["create"].found
    assert not plain.namespace_exists("firn_check")
