"""Which failures pass by themselves: nothing that does may ever quarantine a table."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException, PythonException

from firn.config.storage_classes import RESTORE
from firn.errors import ArchivedObject, StorageUnavailable, UnknownOutcome
from firn.tables.planning import KeyChanged
from firn_spark.failures import failure_of


def spark(text: str) -> PySparkException:
    return PySparkException(
        f"An error occurred while calling o1.append.\n: {text}\n\tat org.apache.spark.X.y(X.scala:1)"
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyChanged("the key is [a]"), "key_changed"),
        (StorageUnavailable("away"), "transient"),
        (UnknownOutcome("no answer"), "transient"),
        (ConnectionResetError("reset"), "transient"),
        (FileNotFoundError("staged/x is missing"), "terminal"),
        (ValueError("a column that is not there"), "terminal"),
        (Py4JNetworkError("Answer from Java side is empty"), "transient"),
        (spark("org.apache.iceberg.exceptions.CommitStateUnknownException: timed out"), "transient"),
        (spark("org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked"), "transient"),
        (spark("software.amazon.awssdk.services.s3.model.S3Exception: 503"), "transient"),
        (spark("org.apache.iceberg.exceptions.ValidationException: Found conflicting files"), "transient"),
        (spark("org.apache.iceberg.exceptions.ValidationException: Cannot find source column: at"), "terminal"),
        (spark("java.lang.IllegalArgumentException: Cannot convert"), "terminal"),
        (spark("java.lang.IllegalArgumentException: Invalid update timestamp 5: before last snapshot log entry at 9"),
         "transient"),
        (spark("java.lang.IllegalArgumentException: [BUG] Expected sorted snapshot log entries."), "transient"),
        (spark("org.apache.iceberg.exceptions.BadRequestException: Malformed request: Cannot add snapshot with "
               "sequence number 3 older than last sequence number 3"), "transient"),
        (spark("org.apache.iceberg.exceptions.BadRequestException: Malformed request: Cannot add a snapshot, "
               "first-row-id is behind table next-row-id: 1 < 2"), "transient"),
        (spark("org.apache.iceberg.exceptions.BadRequestException: Malformed request: no such field"), "terminal"),
        (spark("py4j.Py4JException: Cannot obtain a new communication channel"), "transient"),
        (spark("py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: x"), "terminal"),
        (spark("org.apache.thrift.transport.TTransportException: null"), "transient"),
        (spark("org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: expired"), "transient"),
        (spark("software.amazon.awssdk.services.glue.model.GlueException: Rate exceeded"), "transient"),
        (spark("java.lang.SecurityException: sealing violation: package org.apache.derby.x is sealed"), "transient"),
        (spark("java.lang.OutOfMemoryError: Java heap space"), "terminal"),
    ],
)  # fmt: skip
def test_a_failure_is_the_tables_own_or_passes(error: Exception, kind: str) -> None:
    assert failure_of(error).kind == kind


def test_a_database_that_lets_nobody_in_is_not_told_as_the_trouble_of_another_driver() -> None:
    said = failure_of(
        spark("java.lang.SecurityException: sealing violation: package org.apache.derby.x is sealed")
    ).text
    assert "firn.credential" in said
    assert "derby" not in said


def test_a_failure_is_told_in_one_line() -> None:
    told = PythonException("  File x\nTraceback\nfirn.errors.StorageUnavailable: object storage can't read a\n\n")
    assert failure_of(told).text.endswith("firn.errors.StorageUnavailable: object storage can't read a")
    assert "\n" not in failure_of(ValueError("one\ntwo")).text


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: the token is not known",
        "org.apache.iceberg.exceptions.ForbiddenException: Forbidden: no such right",
        "software.amazon.awssdk.services.glue.model.AccessDeniedException: not authorized to perform: glue:X",
        "software.amazon.awssdk.services.glue.model.GlueException: security token included in the request is old",
        "org.apache.iceberg.exceptions.BadRequestException: Malformed request: invalid_client: no such client",
    ],
)
def test_whoever_is_not_let_in_is_told_what_to_set_and_no_table_is_held_for_it(text: str) -> None:
    found = failure_of(spark(text))
    assert found.kind == "transient"
    assert "PYICEBERG_CATALOG__FIRN__CREDENTIAL" in found.text
    assert "PYICEBERG" not in failure_of(spark("java.net.SocketTimeoutException: Read timed out")).text


@pytest.mark.parametrize("at", ["java.lang.RuntimeException: Metastore operation failed for lake.t\nCaused by: ", ""])
def test_a_metastore_that_refuses_a_columns_type_is_told_with_its_setting_and_no_table_is_held(at: str) -> None:
    said = "The following columns have types incompatible with the existing columns in their respective positions :\nv"
    found = failure_of(spark(f"{at}InvalidOperationException(message:{said})"))
    assert found.kind == "transient"
    assert "set metastore.disallow.incompatible.col.type.changes to false" in found.text


@pytest.mark.parametrize(
    "error",
    [
        spark('com.azure.storage.blob.models.BlobStorageException: Status code 409, "BlobArchived"'),
        spark("software.amazon.awssdk.services.s3.model.InvalidObjectStateException: not valid for the object's class"),
        PythonException(f"Traceback\nfirn.errors.ArchivedObject: object storage can't read a: {RESTORE}\n"),
        ArchivedObject(f"object storage can't read a: {RESTORE}"),
    ],
)
def test_a_file_in_an_archive_is_told_with_the_way_back_and_no_table_is_held(error: Exception) -> None:
    found = failure_of(error)
    assert found.kind == "transient"
    assert found.text.count("firn tier TABLE --warm all") == 1
