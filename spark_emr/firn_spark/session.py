"""The Spark session of the commit job: one catalog named `firn`, quiet, and bound to loopback where it runs alone."""

import os
from collections.abc import Mapping
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from firn.auth.catalog_secret import catalog_environment
from firn.config.catalogs import REGION, read_address, spark_properties
from firn.config.region import region_of, s3_endpoint
from firn.config.warehouses import known_warehouses
from firn.log.cloud_stores import (
    AZURE_KEY,
    AZURE_SAS,
    azure_account,
    azure_endpoint,
    azure_options,
    google_emulator,
    google_options,
    with_cloud_secrets,
)
from firn_spark import call_arguments, cloud_identity, forgotten_objects, local_files, versions
from firn_spark.catalog_failover import answering

CATALOG = "firn"
_CATALOG_CONF = f"spark.sql.catalog.{CATALOG}"


def build(catalog_uri: str, warehouse: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Starts the session (or returns the one that runs, with the catalog's settings applied).

    `catalog_uri`: see firn.config.catalogs; of several places the first that answers is taken, for as long as the
    session lives. `warehouse` is a `file://`, `s3://`, `abfss://` or `gs://` URL.
    `conf` adds to or overrides what is set here; jars, cores and memory come from the submit parameters. Raises
    ConfigError or ValueError for a catalog or warehouse that the job can't use, TransientError if no place answers or
    the job was not tested with what it runs with (firn_spark.versions).
    """
    first = SparkConf(loadDefaults=False)
    for name, value in (conf or {}).items():
        first.set(name, value)
    SparkContext._ensure_initialized(conf=first)  # jars count only if the JVM starts with them
    given = SparkConf()
    master = given.get("spark.master", "local[*]") or "local[*]"
    settings = {"spark.master": master} | _engine(local=master.startswith("local"))
    # What spark-submit was told wins over the defaults, never over the catalog: that decides where data goes.
    settings = {name: given.get(name, value) or value for name, value in settings.items()}
    # PySpark's launcher turns the bar on when Python starts the JVM, as tests do.
    settings |= {"spark.ui.showConsoleProgress": "false"}
    environment = with_cloud_secrets(catalog_environment(catalog_uri, os.environ))
    settings |= catalog_settings(answering(catalog_uri), warehouse, environment) | dict(conf or {})
    if not settings["spark.master"].startswith("local"):  # where executors are processes of their own
        settings |= cloud_identity.executor_settings(warehouse, environment)
    builder = SparkSession.builder.appName("firn-commit")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    call_arguments.ask_less(session)
    forgotten_objects.forget_together(session)
    versions.check(session)
    versions.check_storage(session, warehouse)
    cloud_identity.sign_in(session, warehouse, environment)
    if warehouse.startswith("file:"):
        local_files.without_checksums(session)
    return session


def stop() -> None:
    """Stops the session that runs, if one does."""
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()


def _engine(*, local: bool) -> dict[str, str]:
    settings = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        # Rows with documents in them: a batch must fit beside its decoded copy in a Python worker.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
        "spark.sql.caseSensitive": "true",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        # One table's commit generates some 90 classes. Spark keeps 100 by default and then drops the oldest: from the
        # second table on every commit would compile all of its code again, and wait for the JIT again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Spark's own, and what REST catalogs call theirs.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|account[.]?key|credential|authorization",
    }
    if local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "4",
        }
    return settings


def catalog_settings(catalog_uri: str, warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for the catalog `firn`. Pure, but that FIRN_GOOGLE_CREDENTIALS is looked up: `environment`
    supplies AWS_ENDPOINT_URL and AWS_REGION, and what firn.log.cloud_stores names. Raises ConfigError where S3 or Glue
    is used and no region is set.

    AWS credentials never enter Spark's configuration (which is logged): the AWS client reads them from its own chain,
    as Azure's and Google's do with an identity (firn_spark.cloud_identity, where that comes from a place). Those of a
    REST or SQL catalog, and the key or signature of a storage account, have no other way in, and are blacked out in
    logs (spark.redaction.regex).
    """
    settings = {
        # EMR's images say `hive`: Spark would open a metastore, or all of Glue, beside the one catalog that is ours.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        _CATALOG_CONF: "org.apache.iceberg.spark.SparkCatalog",
        f"{_CATALOG_CONF}.warehouse": warehouse.rstrip("/"),
        # A twin job may commit between two of our looks at a table: always look at the catalog.
        f"{_CATALOG_CONF}.cache-enabled": "false",
    }
    of_kind = spark_properties(read_address(catalog_uri), environment)
    settings |= {f"{_CATALOG_CONF}.{name}": value for name, value in of_kind.items()}
    scheme = warehouse.partition("://")[0]
    if scheme == "s3":
        settings[f"{_CATALOG_CONF}.io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        settings[f"{_CATALOG_CONF}.{REGION}"] = of_kind.get(REGION) or region_of(environment)
        if endpoint := s3_endpoint(environment):
            settings[f"{_CATALOG_CONF}.s3.endpoint"] = endpoint
            settings[f"{_CATALOG_CONF}.s3.path-style-access"] = "true"
        elif any(one.region for one in known_warehouses(environment).values()):
            # AWS tells who asks for a bucket in another region where that is; the client remembers it.
            settings[f"{_CATALOG_CONF}.s3.cross-region-access-enabled"] = "true"
    elif scheme in _CLOUD_FILES:
        files = _CLOUD_FILES[scheme](warehouse, environment)
        settings |= {f"{_CATALOG_CONF}.{name}": value for name, value in files.items()}
    elif scheme != "file":
        raise ValueError(f"warehouse {warehouse!r}: write file:///path, s3://bucket/prefix, abfss://… or gs://…")
    return settings


def _azure_files(warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's properties of ADLSFileIO. Without a key or a signature it asks Azure's own chain of identities."""
    azure_options(warehouse, environment)  # which says what is half
    account = azure_account(warehouse, environment)
    host = f"{account}.dfs.core.windows.net"
    told = {"io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO"}
    if environment.get(AZURE_KEY):
        told |= {f"adls.auth.shared-key.account.{name}": value
                 for name, value in (("name", account), ("key", environment[AZURE_KEY]))}  # fmt: skip
    elif environment.get(AZURE_SAS):
        told[f"adls.sas-token.{host}"] = environment[AZURE_SAS].removeprefix("?")
    if endpoint := azure_endpoint(environment):
        told[f"adls.connection-string.{host}"] = endpoint  # an address, whatever its name says
    return told


def _google_files(_warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's properties of GCSFileIO. Google's own chain of identities is asked, but by an emulator."""
    google_options(environment)  # which says what is wrong
    told = {"io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"}
    if emulator := google_emulator(environment):
        told |= {"gcs.service.host": emulator, "gcs.no-auth": "true", "gcs.project-id": "emulated"}
    return told


_CLOUD_FILES: Final = {"abfss": _azure_files, "gs": _google_files}
