"""PyIceberg's files in buckets of other regions and at other endpoints."""

import pickle
from typing import Any

import pytest

from firn_lake.catalogs.bucket_io import BucketIO
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.reading.cold_cache import ColdCacheIO
from firn_spark.session import catalog_settings

TOLD = "eu=s3://acme-eu/lake?region=eu-central-1,dc=s3://acme/x?region=dc-1&endpoint=http://127.0.0.1:2"
ENVIRONMENT = {
    "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "FIRN_WAREHOUSES": TOLD
}  # fmt: skip


def io_of(environment: dict[str, str]) -> Any:
    return open_catalog("sqlite:///:memory:", "s3://lake", environment)._load_file_io()  # type: ignore[attr-defined]


def asked(io: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Arrow's file system of a bucket is told."""
    told: dict[str, Any] = {}
    monkeypatch.setattr("pyarrow.fs.S3FileSystem", lambda **how: told.update(how))
    io.fs_by_scheme("s3", bucket)
    return {name: told[name] for name in ("region", "endpoint_override", "access_key")}


def test_each_bucket_is_asked_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    io = io_of(ENVIRONMENT)
    assert type(io) is BucketIO
    for one in (io, pickle.loads(pickle.dumps(io))):
        found = [asked(one, bucket, monkeypatch) for bucket in ("lake", "acme-eu", "acme")]
        assert [(how["region"], how["endpoint_override"]) for how in found] == [
            ("us-east-1", None), ("eu-central-1", None), ("dc-1", "http://127.0.0.1:2")
        ]  # fmt: skip
        assert {how["access_key"] for how in found} == {"a"}
    emulated = io_of(ENVIRONMENT | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    assert asked(emulated, "acme-eu", monkeypatch)["endpoint_override"] == "http://127.0.0.1:1"
    assert asked(emulated, "acme", monkeypatch)["endpoint_override"] == "http://127.0.0.1:2"


def test_cold_files_are_too_and_without_other_buckets_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = io_of(ENVIRONMENT | {"FIRN_COLD_CACHE": "/nowhere"})
    assert type(cold) is ColdCacheIO
    assert asked(cold, "acme-eu", monkeypatch)["region"] == "eu-central-1"
    plain = io_of({name: value for name, value in ENVIRONMENT.items() if name != "FIRN_WAREHOUSES"})
    assert "py-io-impl" not in plain.properties


def test_spark_follows_buckets_to_their_regions_where_aws_is_asked() -> None:
    name = "spark.sql.catalog.firn.s3.cross-region-access-enabled"
    assert catalog_settings("glue://", "s3://lake", ENVIRONMENT)[name] == "true"
    for other in ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, {"FIRN_WAREHOUSES": "us=s3://acme-us"}):
        assert name not in catalog_settings("glue://", "s3://lake", ENVIRONMENT | other)
