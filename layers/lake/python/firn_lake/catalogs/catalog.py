"""Open the catalog that the commit job writes to, with PyIceberg."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from firn.auth.catalog_secret import catalog_environment
from firn.config.catalogs import REGION, Address, pyiceberg_properties, read_address, servers
from firn.config.region import WAREHOUSES, region_of, s3_endpoint
from firn.config.storage import is_cloud
from firn.config.warehouses import known_warehouses
from firn.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_NAME = "firn"
"""Spark and PyIceberg store the catalog's name in every row of a SQL catalog: both must use this one."""

READING = "firn_lake.catalogs.object_io.ObjectIO"
"""The FileIO of a catalog that is only read: it needs no pyarrow."""

CACHING = "firn_lake.reading.cold_cache.ColdCacheIO"

BUCKETS = "firn_lake.catalogs.bucket_io.BucketIO"
"""The FileIO where warehouses lie in buckets of other regions, or at other endpoints."""

CLOUDS = "firn_lake.catalogs.cloud_io.CloudIO"
"""The FileIO of a catalog whose warehouse is on Azure or Google: PyIceberg's own need a library of each."""


def open_catalog(
    catalog_uri: str, warehouse: str, env: Mapping[str, str] | None = None, *, read_only: bool = False
) -> "Catalog":
    """The Iceberg catalog at `catalog_uri` (firn.config.catalogs tells the kinds), warehouse at `warehouse`.

    Storage settings come from `env` (the process environment by default): AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION; FIRN_COLD_CACHE (a folder) and
    FIRN_COLD_CACHE_BYTES.
    What is on Azure or Google takes its own names (firn.log.cloud_stores) from the process environment.
    `read_only`: tables' metadata is read, and nothing else can be done. Raises ConfigError for a URL that names no
    known kind, a number of bytes that is none, a secret that is not there, or S3 or Glue without a region;
    TransientError if a catalog that is asked over HTTP, or where its secret is, does not answer.
    """
    environment = os.environ if env is None else env
    address = read_address(catalog_uri)
    properties = {"warehouse": warehouse, **storage_properties(environment)}
    properties |= {"py-io-impl": READING} if read_only else _writing(warehouse, environment)
    properties |= pyiceberg_properties(address, catalog_environment(catalog_uri, environment))
    if warehouse.startswith("s3://") and not any(name in properties for name in ("s3.region", REGION)):
        region_of(environment)  # which says that there is none: PyIceberg would ask us-east-1
    return open_address(address, properties)


_NEEDS = {"sql": "'pyiceberg[sql-sqlite]'", "glue": "boto3", "hive": "'pyiceberg[hive]'"}


def open_address(address: Address, properties: Mapping[str, str]) -> "Catalog":
    """The catalog with PyIceberg's properties of it. Raises ConfigError for what is not installed, TransientError."""
    from firn_lake import variant_type  # noqa: F401 (as it is imported)
    from firn_lake.catalogs import nano_defaults  # noqa: F401 (the same)

    if over := servers(address):
        from firn_lake.catalogs.rest import open_rest

        return open_rest(CATALOG_NAME, over, properties)
    from firn_lake.catalogs.metadata_writer import with_writer

    return with_writer(_open(address, properties))


def _open(address: Address, properties: Mapping[str, str]) -> "Catalog":
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NotInstalledError

    try:
        if address.kind == "glue":
            from firn_lake.catalogs.glue import open_glue

            return open_glue(CATALOG_NAME, properties)
        if address.kind == "hive":
            from firn_lake.catalogs.hive import open_hive

            return open_hive(CATALOG_NAME, properties)
        if properties.get("uri", "").startswith("postgresql+pg8000"):
            from firn_lake.catalogs.postgres import PostgresCatalog

            return PostgresCatalog(CATALOG_NAME, **properties)
        return load_catalog(CATALOG_NAME, **properties)
    except (NotInstalledError, ModuleNotFoundError) as error:
        what = "pg8000" if "pg8000" in str(error) else _NEEDS[address.kind]
        raise ConfigError(f"a {address.kind} catalog needs more than is installed here: pip install {what}") from error


def storage_properties(env: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's `s3.*` properties for the AWS_* settings in `env`; empty where none are set."""
    names = {
        "s3.access-key-id": "AWS_ACCESS_KEY_ID",
        "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
        "s3.session-token": "AWS_SESSION_TOKEN",
    }
    properties = {key: env[name] for key, name in names.items() if env.get(name)}
    if endpoint := s3_endpoint(env):
        properties["s3.endpoint"] = endpoint
    if env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"):
        properties["s3.region"] = region_of(env)
    if "s3.endpoint" in properties:
        # A local endpoint answers to an address, not to bucket.localhost: ask by path.
        properties["s3.force-virtual-addressing"] = "false"
        properties["s3.path-style-access"] = "true"
    return properties


def _writing(warehouse: str, env: Mapping[str, str]) -> dict[str, str]:
    """The FileIO, where it is not the one that PyIceberg takes by itself."""
    if is_cloud(warehouse):
        return {"py-io-impl": CLOUDS}
    told = env.get(WAREHOUSES, "")
    apart = any(one.region or one.endpoint for one in known_warehouses(env).values())
    return ({"py-io-impl": BUCKETS, "firn.warehouses": told} if apart else {}) | _cold_cache(env)


def _cold_cache(env: Mapping[str, str]) -> dict[str, str]:
    """The FileIO that keeps cold files, where a folder for them is named."""
    if not env.get("FIRN_COLD_CACHE"):
        return {}
    most = env.get("FIRN_COLD_CACHE_BYTES", "")
    if most and not (most.isascii() and most.isdigit()):
        raise ConfigError(f"FIRN_COLD_CACHE_BYTES is {most!r}: write a number of bytes, such as 10000000000")
    limit = {"firn.cold-cache-bytes": most} if most else {}
    return {"py-io-impl": CACHING, "firn.cold-cache": env["FIRN_COLD_CACHE"]} | limit
