"""Locks of killed committers in a Hive Metastore, before a job commits there (firn.tables.abandoned_locks says why).

Iceberg's Java side waits for a table's lock, and gives up; it never asks who holds it.
"""

from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from firn.tables.abandoned_locks import DEFAULT_TIMEOUT, TIMEOUT, Lock, abandoned
from firn_spark.tables.java import elements, java_class

_API: Final = "org.apache.hadoop.hive.metastore"
_HIVE: Final = "org.apache.iceberg.hive.HiveCatalog"


def is_hive(catalog: Any) -> bool:
    """Whether an org.apache.iceberg.catalog.Catalog is a Hive Metastore's."""
    return bool(catalog.getClass().getName() == _HIVE)


def release_abandoned(spark: SparkSession, catalog: Any, database: str, table: str) -> list[int]:
    """Gives back the locks of a table whose holders have said nothing for the metastore's own time. -> their ids; none
    where the metastore does not answer: whoever commits next is told so."""
    try:
        client = java_class(spark, f"{_API}.HiveMetaStoreClient")(_settings(spark, catalog.getConf()))
    except Py4JError:  # or another Hive's client, which is made otherwise
        return []
    try:
        locks = _locks(spark, client, database, table)
        if not locks:
            return []
        return _release(spark, client, database, table)
    except Py4JError:
        return []
    finally:
        client.close()


def _settings(spark: SparkSession, conf: Any) -> Any:
    """The catalog's settings (a Configuration), its address among them, as a HiveConf."""
    settings = java_class(spark, "org.apache.hadoop.hive.conf.HiveConf")(conf, conf.getClass())
    settings.addResource(conf)
    settings.set("hive.metastore.connect.retries", "1")
    return settings


def _release(spark: SparkSession, client: Any, database: str, table: str) -> list[int]:
    mine = client.lock(_request(spark, database, table)).getLockid()  # whose heartbeat tells the metastore's clock
    try:
        timeout = client.getConfigValue(TIMEOUT, DEFAULT_TIMEOUT)
        found = abandoned(_locks(spark, client, database, table), mine, timeout)
        for one in found:
            _unlock(client, one)
        return found
    finally:
        _unlock(client, mine)


def _locks(spark: SparkSession, client: Any, database: str, table: str) -> list[Lock]:
    asked = java_class(spark, f"{_API}.api.ShowLocksRequest")()
    asked.setDbname(database)
    asked.setTablename(table)
    there = client.showLocks(asked).getLocks()
    return [Lock(one.getLockid(), one.getLastheartbeat(), one.getTxnid()) for one in elements(there)] if there else []


def _request(spark: SparkSession, database: str, table: str) -> Any:
    part = java_class(spark, f"{_API}.api.LockComponent")(
        java_class(spark, f"{_API}.api.LockType").EXCLUSIVE,
        java_class(spark, f"{_API}.api.LockLevel").TABLE,
        database,
    )
    part.setTablename(table)
    parts = java_class(spark, "java.util.ArrayList")()
    parts.add(part)
    return java_class(spark, f"{_API}.api.LockRequest")(parts, "firn", "firn")


def _unlock(client: Any, lock: int) -> None:
    try:
        client.unlock(lock)
    except Py4JJavaError:  # it has ended by itself
        return
