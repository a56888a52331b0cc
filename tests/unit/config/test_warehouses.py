"""Warehouses beside the deployment's own, as FIRN_WAREHOUSES says where they are."""

import pytest

from firn.config.warehouses import (
    Warehouse,
    address_of,
    addresses,
    beside,
    known_warehouses,
    on_bucket,
    read_warehouses,
)
from firn.errors import ConfigError
from firn.log.credentials import s3_options

TOLD = "eu=s3://acme-eu/lake?region=eu-central-1,dc=s3://acme/x?region=dc-1&endpoint=https://s3.dc/,us=s3://lake/us"
OWN = "s3://lake/warehouse"
ENVIRONMENT = {"FIRN_WAREHOUSES": TOLD}


def test_names_have_addresses_and_buckets_what_is_their_own() -> None:
    assert known_warehouses(ENVIRONMENT) == {
        "eu": Warehouse("s3://acme-eu/lake", "eu-central-1"),
        "dc": Warehouse("s3://acme/x", "dc-1", "https://s3.dc"),
        "us": Warehouse("s3://lake/us"),
    }
    assert known_warehouses({}) == {}
    assert addresses(TOLD + ",*=s3://all") == ["s3://all/*", "s3://acme/x", "s3://acme-eu/lake", "s3://lake/us"]
    assert [address_of(name, OWN, "s3://staging", ENVIRONMENT) for name in ("", "eu")] == [OWN, "s3://acme-eu/lake"]
    assert on_bucket("acme-eu", TOLD) == Warehouse("s3://acme-eu/lake", "eu-central-1")
    assert [on_bucket(bucket, TOLD) for bucket in ("lake", "acme-e", "")] == [None, None, None]


def test_a_store_of_a_bucket_is_asked_where_that_is() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    told = keys | ENVIRONMENT
    assert s3_options(told, "acme-eu") == {"region": "eu-central-1"}
    assert s3_options(told, "acme") == {"region": "dc-1", "endpoint": "https://s3.dc"}
    assert s3_options(told | {"AWS_ENDPOINT_URL": "http://x"}, "lake") == {
        "region": "us-east-1",
        "endpoint": "http://x",
    }
    assert s3_options(told | {"AWS_ENDPOINT_URL": "http://x"}, "acme")["endpoint"] == "https://s3.dc"
    assert s3_options(told) == {"region": "us-east-1"}
    with pytest.raises(ConfigError, match=": set AWS_ENDPOINT_URL in place of it"):
        s3_options(told | {"AWS_ENDPOINT_URL_S3": "http://x"}, "acme")


def test_a_stack_on_this_machine_writes_to_none_of_them() -> None:
    told = {"FIRN_WAREHOUSES": beside("file:///data/warehouse")}
    assert address_of("eu", "file:///data/warehouse", "file:///data/staging", told) == "file:///data/warehouses/eu"
    assert beside("gs://lake/warehouse") == ""


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("eu", "eu: has no address; write such as eu=s3://"), ("EU=s3://x", "'EU' is no name of a warehouse"),
        ("own=s3://x", "'own' is no name"), ("=s3://x", "'' is no name"), ("eu=acme", "'acme' is not an address"),
        ("eu=s3://a,eu=s3://b", "eu: is there twice"), ("eu=gs://a", "gs:// is not supported here; write s3://"),
        ("eu=s3a://a", "write s3://bucket/prefix"), ("eu=s3://", "names no bucket"),
        ("eu=s3://a?regin=b", "'regin' is no setting of a bucket; there are region and endpoint"),
        ("eu=s3://a?region=", "'' is no region"), ("eu=s3://a?region=a b", "'a b' is no region"),
        ("eu=s3://a?region", "eu: "), ("eu=file:///a?region=b", "are of s3:// alone"),
        ("eu=s3://a?endpoint=ftp://b", "is no endpoint"), ("eu=s3://a?endpoint=https://me:it@b", "is no endpoint"),
        ("eu=s3://me:AKIAIOSFODNN7EXAMPLE@a", "eu: holds"),
        ("eu=s3://a/x?region=r1,us=s3://a/y?region=r2", "the bucket a has two regions or endpoints"),
    ],
)  # fmt: skip
def test_what_is_wrong_says_what_to_write(told: str, words: str) -> None:
    with pytest.raises(ConfigError) as why:
        read_warehouses(told)
    assert words in str(why.value)
    assert str(why.value).startswith("FIRN_WAREHOUSES: ")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            "eu=s3://lake",
            "the warehouse eu (s3://lake) lies in the deployment's own (s3://lake/warehouse), or holds it",
        ),
        ("eu=s3://lake/warehouse/eu", "lies in the deployment's own"),
        ("eu=s3://staging/a/b", "lies in the staging area (s3://staging/a)"),
        (
            "eu=s3://acme,us=s3://acme/us",
            "the warehouse eu (s3://acme) lies in the warehouse us (s3://acme/us), or holds it",
        ),
    ],
)
def test_warehouses_that_lie_in_one_another_are_refused(told: str, words: str) -> None:
    with pytest.raises(ConfigError) as why:
        address_of("eu", OWN, "s3://staging/a", {"FIRN_WAREHOUSES": told})
    assert words in str(why.value)
    assert "give it a bucket or a prefix of its own" in str(why.value)


def test_a_warehouse_that_the_deployment_does_not_know_is_refused_by_its_name() -> None:
    with pytest.raises(
        ConfigError, match="warehouse mars, and this deployment knows dc, eu, us: say in FIRN_WAREHOUSES"
    ):
        address_of("mars", OWN, "", ENVIRONMENT)
    with pytest.raises(ConfigError, match="knows none beside its own"):
        address_of("eu", OWN, "", {})
    with pytest.raises(ConfigError, match="one catalog's tables lie in one kind of storage"):
        address_of("eu", "file:///data", "", ENVIRONMENT)
