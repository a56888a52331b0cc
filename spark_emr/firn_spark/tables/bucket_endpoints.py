"""Buckets of S3 at other endpoints than the deployment's, told to the JVM's FileIO (firn.config.warehouses)."""

import os
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.config.warehouses import known_warehouses
from firn.errors import ConfigError
from firn_spark.tables.java import java_class

_FILE_IO: Final = "org.apache.iceberg.aws.s3.S3FileIO"
# A catalog that makes a FileIO for each table: nothing can be told to it before it reads the table's metadata.
_EACH: Final = ("org.apache.iceberg.aws.glue.GlueCatalog", "org.apache.iceberg.rest.RESTCatalog")


def tell(spark: SparkSession, catalog: Any) -> None:
    """Has the FileIO of an org.apache.iceberg.catalog.Catalog ask for each bucket at its own endpoint. Tasks get it as
    it is then. Raises ConfigError for a catalog that has none to be told."""
    wanted = {one.bucket: one for one in known_warehouses(os.environ).values() if one.endpoint}
    if not wanted:
        return
    if str(catalog.getClass().getName()) in _EACH:
        raise ConfigError(
            "FIRN_WAREHOUSES names an endpoint, and this catalog has files opened as it says: take it out; a REST "
            "catalog says a table's endpoint itself, and Glue's tables lie in AWS's own S3 (docs/configuration.md)"
        )
    io = _file_io(spark, catalog)
    if str(io.getClass().getName()) != _FILE_IO or not io.credentials().isEmpty():
        return
    told = java_class(spark, "java.util.ArrayList")()
    credential = java_class(spark, "org.apache.iceberg.io.StorageCredential")
    for bucket, one in sorted(wanted.items()):
        settings = java_class(spark, "java.util.HashMap")()
        settings.put("s3.endpoint", one.endpoint)
        settings.put("s3.path-style-access", "true")
        if one.region:
            settings.put("client.region", one.region)
        told.add(credential.create(f"s3://{bucket}/", settings))
    io.setCredentials(told)


def _file_io(spark: SparkSession, catalog: Any) -> Any:
    """What all tables of a catalog are opened by. No table is made to get it: the transaction is never committed."""
    gateway: Any = spark.sparkContext._gateway
    levels = gateway.new_array(java_class(spark, "java.lang.String"), 1)
    levels[0] = "firn"
    namespace = java_class(spark, "org.apache.iceberg.catalog.Namespace").of(levels)
    name = java_class(spark, "org.apache.iceberg.catalog.TableIdentifier").of(namespace, "no_such_table__")
    schema = java_class(spark, "org.apache.iceberg.Schema")(java_class(spark, "java.util.ArrayList")())
    return catalog.buildTable(name, schema).createTransaction().table().io()
