"""Endpoints of buckets, where the catalog has no way to be told them."""

from types import SimpleNamespace
from typing import Any

import pytest

from firn.errors import ConfigError
from firn_spark.tables.bucket_endpoints import tell


def catalog_of(name: str) -> Any:
    return SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: f"org.apache.iceberg.{name}"))


@pytest.mark.parametrize("name", ["aws.glue.GlueCatalog", "rest.RESTCatalog"])
def test_a_catalog_that_opens_files_as_it_says_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spark: Any = None  # it is not asked
    monkeypatch.setenv("FIRN_WAREHOUSES", "eu=s3://acme-eu?region=eu-central-1")
    tell(spark, catalog_of(name))
    monkeypatch.setenv("FIRN_WAREHOUSES", "eu=s3://acme-eu?region=eu-central-1&endpoint=https://s3.example.com")
    with pytest.raises(ConfigError, match="FIRN_WAREHOUSES names an endpoint, and this catalog has files opened as"):
        tell(spark, catalog_of(name))
