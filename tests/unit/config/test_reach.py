"""What a deployment refuses of firn.yaml, because its jobs could not reach it."""

from fnmatch import fnmatchcase
from itertools import product

import pytest

from firn.config.reach import Reach, barred, databases_in, unreachable
from firn.config.reader import parse
from firn.errors import ConfigError

HERE = "eu-central-1"
TABLES = "streams: {shop: {tables: {'%s': {to: '%s', key: [id]}, 'app.log': {ignore: true}}}}"
POSTGRES = "catalog: {type: sql, uri: 'postgresql://firn@db.example.org/lake'}\n"


def refused(text: str, reach: Reach) -> str | None:
    try:
        reach.check(parse(text))
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("uri", "reached"),
    [
        ("glue://", True),
        ("glue://123456789012", True),
        ("glue://#client.region=eu-central-1", True),
        ("glue://#client.region=us-east-1", False),
        ("glue://#glue.region=us-east-1", False),
        ("https://glue.eu-central-1.amazonaws.com/iceberg", True),
        ("https://s3tables.eu-central-1.amazonaws.com/iceberg", True),
        ("https://abc123.execute-api.eu-central-1.amazonaws.com/prod", False),  # anybody's, on the internet
        ("https://glue.cn-north-1.amazonaws.com.cn/iceberg", False),
        ("https://glue.us-east-1.amazonaws.com/iceberg", False),
        ("https://glue.eu-central-1.amazonaws.com/iceberg,https://catalog.example.org/", False),
        ("https://eu-central-1.amazonaws.com.example.org/", False),
        ("https://catalog.example.org/", False),
        ("nessie+https://nessie.example.org/iceberg", False),
        ("thrift://metastore:9083", False),
        ("postgresql://firn@lake.abc.eu-central-1.rds.amazonaws.com/lake", False),
        ("sqlite:////tmp/catalog.db", False),
        ("", True),  # of which others say that it is missing
    ],
)
def test_without_a_network_jobs_reach_aws_own_catalogs_of_their_region_only(uri: str, reached: bool) -> None:
    assert (unreachable(uri, HERE) is None) == reached
    assert unreachable(uri, "") is None, "jobs in a VPC, or of another application: that is for its network to say"


def test_the_field_the_reason_and_what_to_do_are_said_and_no_password() -> None:
    said = refused(POSTGRES + TABLES % ("app.orders", "shop.orders"), Reach(region=HERE)) or ""
    assert said.startswith("catalog in firn.yaml: postgresql://firn@db.example.org/lake can't be reached")
    for word in (HERE, "SubnetIds", "SecurityGroupIds", "docs/deploy-aws.md", "glue"):
        assert word in said
    own = Reach(catalog="postgresql://firn@db.example.org/lake", region=HERE)
    said = refused(TABLES % ("app.orders", "shop.orders"), own) or ""
    assert said.startswith("CatalogUri of the deployment: postgresql://firn@db")


def test_the_deployments_catalog_counts_where_it_has_one() -> None:
    text = POSTGRES + TABLES % ("app.orders", "shop.orders")
    assert refused(text, Reach(catalog="glue://", region=HERE)) is None
    assert refused(text, Reach()) is None


@pytest.mark.parametrize(
    ("source", "to", "databases", "taken"),
    [
        ("app.orders", "shop.orders", "shop,crm_*", True),
        ("app.orders", "crm_eu.orders", "shop,crm_*", True),
        ("app.orders", "sales.orders", "shop,crm_*", False),
        ("app.orders", "shopping.orders", "shop", False),
        ("app.orders", "sho.orders", "shop", False),
        ("app.orders", "shop.orders", "sho?", True),
        ("app.orders", "{schema}.orders", "shop", False),  # it is `app`
        ("app.*", "shop.{table}", "shop", True),
        ("app.*", "sales.{table}", "shop", False),
        ("*", "{schema}.{table}", "shop", True),  # only the change says which
        ("app.*", "{schema}.{table}", "shop", False),  # it is `app`
        ("app.*", "{schema}.{table}", "shop,app", True),
        ("app.*", "{table}.{schema}", "shop", True),
        ("app.log_*", "{table}.{schema}", "shop", False),
        ("app*.orders", "{schema}.{table}", "apple", True),
        ("app*.orders", "{schema}.{table}", "shop", False),
        ("app*s.orders", "{schema}.{table}", "app", True),  # app.items.orders
        ("app*", "{schema}.{table}", "shop", True),
        ("*", "dev_{schema}.{table}", "dev_*", True),
        ("*", "dev_{schema}.{table}", "prod_*,shop", False),
        ("*", "{schema}_dev.{table}", "prod_*", True),
        ("*", "{schema}_dev.{table}", "prod_?", False),
        ("app.orders", "sales.orders", "", True),
    ],
)
def test_namespaces_are_held_against_the_deployments_databases(
    source: str, to: str, databases: str, taken: bool
) -> None:
    said = refused(TABLES % (source, to), Reach("glue://", HERE, databases_in(databases)))
    assert (said is None) == taken, said
    if said is not None:
        for word in ("stream shop", repr(source), repr(to), "GlueDatabases", databases.split(",")[0]):
            assert word in said


def test_a_name_fits_a_pattern_as_in_iams_arns() -> None:
    letters = ["".join(one) for n in range(4) for one in product("ab", repeat=n)]
    patterns = ["".join(one) for n in range(1, 4) for one in product("ab*?", repeat=n)]
    for pattern, name in product(patterns, letters):
        assert (barred(name, [pattern]) is None) == fnmatchcase(name, pattern), (pattern, name)


def test_two_patterns_meet_where_one_name_fits_both() -> None:
    letters = ["".join(one) for n in range(7) for one in product("ab", repeat=n)]
    patterns = ["".join(one) for n in range(1, 4) for one in product("ab*", repeat=n)]
    fits = {pattern: {name for name in letters if fnmatchcase(name, pattern)} for pattern in patterns}
    for one, other in product(patterns, patterns):
        assert (barred(one, [other]) is None) == bool(fits[one] & fits[other]), (one, other)


SHARDED = """
streams:
  shop:
    tables:
      orders:
        to: '{shard}.orders'
        key: [id]
        columns: {w: string}
        shard: {by: tenant(w), tenants: [acme], warehouses: {acme: eu}}
"""


def test_shards_lie_in_warehouses_that_jobs_know_and_reach() -> None:
    told = "eu=s3://acme-eu/lake?region=eu-west-3"
    assert refused(SHARDED, Reach(warehouses=told)) is None
    assert refused(SHARDED, Reach(warehouses="*=s3://acme")) is None
    assert refused(SHARDED, Reach(catalog="glue://", region="eu-west-3", warehouses=told)) is None
    said = refused(SHARDED, Reach(warehouses=told.replace("eu=", "us="))) or ""
    assert "table 'orders', shard.warehouses: this deployment knows no warehouse eu (us): say where it is in" in said
    said = refused(SHARDED, Reach(catalog="glue://", region=HERE, warehouses=told)) or ""
    assert "the warehouse eu is in eu-west-3, and this deployment's jobs have no network" in said
