"""What an exception of Spark, of Iceberg or of ours means, and what it says in one line."""

import re
import time
from collections.abc import Sequence

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from firn.config.catalogs import CREDENTIALS, TYPES_ALLOWED, TYPES_REFUSED
from firn.tables.failures import Failure, failure
from firn.tables.failures import first_line as plain_line
from firn_spark import vended_keys

# Words of Java exceptions (class names, JDBC's and SDKs' messages) that speak of the way to a table, not of the table.
_PASSING = (
    # Another writer: Iceberg's ValidationException is also what a wrong schema gives, so it is known by its words.
    "CommitStateUnknownException", "CommitFailedException", "LostRace", "another job was quicker",
    "Found conflicting files", "Found new conflicting", "Missing required files to delete",
    # One whose clock is ahead by more than a minute: by and by ours is there too.
    "Invalid update timestamp", "Expected sorted snapshot log entries",
    # The catalog and its locks.
    "ServiceUnavailableException", "ServiceFailureException", "RESTException", "UncheckedSQLException",
    "UncheckedInterruptedException", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLTransientException", "GlueException",
    "ThrottlingException", "OperationTimeoutException", "InternalServiceException", "TTransportException",
    "RuntimeMetaException",
    # Storage and network.
    "UncheckedIOException", "RuntimeIOException", "java.io.IOException", "java.net.", "SocketTimeoutException",
    "SdkClientException", "SdkException", "S3Exception", "AccessDenied", "StorageUnavailable", "UnknownOutcome",
    "TransientError", "No space left", "SparkContext was shut down",
    # Between the JVM and this process (py4j.CallbackClient).
    "communication channel", "Error while sending a command",
)  # fmt: skip

# Words of those that let nobody in. The table is not at fault, so it is not held; but somebody has to set something.
_REFUSED = (
    "NotAuthorizedException", "ForbiddenException", "to perform: glue:", "invalid_client", "unauthorized_client",
    "invalid_scope", "security token included in the request is",
)  # fmt: skip

# Java asks its next driver after PostgreSQL's has failed, and says what became of that: Spark has Derby's, twice.
_NO_CONNECTION = "sealing violation: package org.apache.derby"
_NO_DATABASE = (
    "the database of the SQL catalog can't be reached, or refuses the connection (Java's drivers don't say which): "
    "look at its address, and at the password, which firn.credential names the place of"
)


def failure_of(error: Exception, tables: Sequence[str] = ()) -> Failure:
    """Whether trying again may help. `tables`: those (by name) whose files were worked on.

    Spark and py4j know Java's exceptions only as text with a stack trace in it, in which the causes are named.
    """
    why = vended_keys.ended(tables, str(error), time.time())
    if why is not None:  # the next job's keys end as these did
        return Failure("terminal", f"{why}. {first_line(error)}")
    if not isinstance(error, Py4JError | PySparkException):
        return failure(error)
    # Without a Java exception it is the JVM itself that is gone.
    passing = isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    said = [line for line in str(error).splitlines() if not line.lstrip().startswith("at ")]  # frames name anything
    passing = passing or any(word in line for word in _PASSING for line in said)
    if any(_NO_CONNECTION in line for line in said):
        return Failure("transient", _NO_DATABASE)
    refused = any(word in line for word in _REFUSED for line in said)
    no_types = any(TYPES_REFUSED in line for line in said)  # what a metastore may refuse is no fault of the table's
    text = first_line(error)
    if refused:
        text = f"{text}. Look at {CREDENTIALS}, and at what these may do there"
    elif no_types:
        text = f"{text}; {TYPES_ALLOWED}"
    return Failure("transient" if passing or refused or no_types else "terminal", text)


def first_line(error: BaseException) -> str:
    """What an error says, in one line: a Java exception's class and message, the last line of a worker's traceback."""
    if isinstance(error, Py4JJavaError):
        java = error.java_exception
        return f"{java.getClass().getSimpleName()}: {str(java.getMessage()).splitlines()[0]}"
    if isinstance(error, PythonException):
        text = str(error).strip()
        raised = [
            line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception|Unavailable|Outcome)?: ", line)
        ]
        return f"{type(error).__name__}: {(raised or text.splitlines())[-1 if raised else 0]}"
    return plain_line(error)
