"""Open the catalog that the commit job writes to, with PyIceberg."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from firn.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_NAME = "firn"
"""Spark and PyIceberg store the catalog's name in every row of a SQL catalog: both must use this one."""

GLUE = "glue://"

BUSY_TIMEOUT_SECONDS = 30
"""How long a reader waits for a writer of the same SQLite file; the commit job waits as long."""


READING = "firn_lake.object_io.ObjectIO"
"""The FileIO of a catalog that is only read: it needs no pyarrow."""

CACHING = "firn_lake.cold_cache.ColdCacheIO"


def open_catalog(
    catalog_uri: str, warehouse: str, env: Mapping[str, str] | None = None, *, read_only: bool = False
) -> "Catalog":
    """The Iceberg catalog at `catalog_uri` (`sqlite:///PATH` or another SQLAlchemy URL; `glue://`, or `glue://ACCOUNT`
    for the one of another account), warehouse at `warehouse`.

    Storage settings come from `env` (the process environment by default): AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION; FIRN_COLD_CACHE (a folder) and FIRN_COLD_CACHE_BYTES.
    `read_only`: tables' metadata is read, and nothing else can be done. Raises ConfigError for a URL that names no
    known kind, or a number of bytes that is none.
    """
    environment = os.environ if env is None else env
    if "://" not in catalog_uri:
        raise ConfigError(f"catalog URI {catalog_uri!r} has no scheme: write sqlite:///PATH/TO/catalog.db or glue://")
    properties = {"warehouse": warehouse, **storage_properties(environment)}
    properties |= {"py-io-impl": READING} if read_only else _cold_cache(environment)
    if catalog_uri.startswith(GLUE):
        from pyiceberg.catalog.glue import GlueCatalog

        return GlueCatalog(CATALOG_NAME, **properties, **_glue(catalog_uri, environment))
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(CATALOG_NAME, **properties, uri=_with_busy_timeout(catalog_uri))


def storage_properties(env: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's `s3.*` properties for the AWS_* settings in `env`; empty where none are set."""
    names = {
        "s3.endpoint": "AWS_ENDPOINT_URL",
        "s3.access-key-id": "AWS_ACCESS_KEY_ID",
        "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
        "s3.session-token": "AWS_SESSION_TOKEN",
        "s3.region": "AWS_REGION",
    }
    properties = {key: env[name] for key, name in names.items() if env.get(name)}
    if "s3.region" not in properties and env.get("AWS_DEFAULT_REGION"):
        properties["s3.region"] = env["AWS_DEFAULT_REGION"]
    if "s3.endpoint" in properties:
        # A local endpoint answers to an address, not to bucket.localhost: ask by path.
        properties["s3.force-virtual-addressing"] = "false"
        properties["s3.path-style-access"] = "true"
    return properties


def _cold_cache(env: Mapping[str, str]) -> dict[str, str]:
    """The FileIO that keeps cold files, where a folder for them is named."""
    if not env.get("FIRN_COLD_CACHE"):
        return {}
    most = env.get("FIRN_COLD_CACHE_BYTES", "")
    if most and not (most.isascii() and most.isdigit()):
        raise ConfigError(f"FIRN_COLD_CACHE_BYTES is {most!r}: write a number of bytes, such as 10000000000")
    limit = {"firn.cold-cache-bytes": most} if most else {}
    return {"py-io-impl": CACHING, "firn.cold-cache": env["FIRN_COLD_CACHE"]} | limit


def _glue(catalog_uri: str, env: Mapping[str, str]) -> dict[str, str]:
    names = {
        "glue.endpoint": "AWS_ENDPOINT_URL_GLUE" if env.get("AWS_ENDPOINT_URL_GLUE") else "AWS_ENDPOINT_URL",
        "glue.region": "AWS_REGION" if env.get("AWS_REGION") else "AWS_DEFAULT_REGION",
        "glue.access-key-id": "AWS_ACCESS_KEY_ID",
        "glue.secret-access-key": "AWS_SECRET_ACCESS_KEY",
        "glue.session-token": "AWS_SESSION_TOKEN",
    }
    account = catalog_uri.removeprefix(GLUE)
    return {key: env[name] for key, name in names.items() if env.get(name)} | ({"glue.id": account} if account else {})


def _with_busy_timeout(catalog_uri: str) -> str:
    parts = urlsplit(catalog_uri)
    if not parts.scheme.startswith("sqlite") or "timeout=" in parts.query:
        return catalog_uri
    return f"{catalog_uri}{'&' if parts.query else '?'}timeout={BUSY_TIMEOUT_SECONDS}"
