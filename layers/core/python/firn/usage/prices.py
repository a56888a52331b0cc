"""List prices of AWS, and what a request needs: by these benchmarks/aws_cost.py and `firn status --tenants` reckon.

Those of us-east-1, in dollars, before any free tier, as generally quoted on 2026-11-22 (EMR Serverless: 2026-11-21). No
price page was asked: check the current ones.
"""

from typing import Final

from firn.config.storage_classes import S3

API_REQUEST: Final = 3.50e-6  # API Gateway REST API, the first 333 million; a function URL costs nothing
LAMBDA_REQUEST: Final = 0.20e-6
LAMBDA_GB_SECOND: Final = 16.6667e-6  # x86
_S3: Final = S3.of("STANDARD")  # the table that `firn tier` decides by
S3_PUT: Final = _S3.transition / 1000  # PUT, POST, LIST
S3_GET: Final = _S3.get / 1000
S3_GB_MONTH: Final = _S3.storage
LOGS_GB: Final = 0.50  # taken in
EMR_VCPU_HOUR: Final = 0.052624  # EMR Serverless, Linux on x86
EMR_GB_HOUR: Final = 0.0057785

INGEST_GB: Final = 1.0  # memory
INGEST_SECONDS: Final = 0.040  # three round trips to S3 are most of the time
LOG_LINES_BYTES: Final = 1_500  # of a request: one line of ours, one of metrics, three of Lambda's
PUTS_A_REQUEST: Final = 2  # the batch and its receipt
GETS_A_REQUEST: Final = 1  # configuration and state are kept in memory
QUERY_GB: Final = 3008 / 1024  # the query function's memory


def of_requests(count: float) -> float:
    """Dollars for so many requests to ingest over HTTP, each read once by a job."""
    lambdas = LAMBDA_REQUEST + INGEST_GB * INGEST_SECONDS * LAMBDA_GB_SECOND
    storage = PUTS_A_REQUEST * S3_PUT + (GETS_A_REQUEST + 1) * S3_GET
    return count * (API_REQUEST + lambdas + storage + LOG_LINES_BYTES / 1e9 * LOGS_GB)


def of_jobs(vcpu_seconds: float, memory_seconds: float) -> float:
    """Dollars for workers of EMR Serverless."""
    return (vcpu_seconds * EMR_VCPU_HOUR + memory_seconds * EMR_GB_HOUR) / 3600


def of_storage(size: float) -> float:
    """Dollars for so many bytes for a month."""
    return size / 1e9 * S3_GB_MONTH


def of_queries(count: float, seconds: float) -> float:
    """Dollars for queries of readers of some tables, with the object that counts each."""
    return count * (API_REQUEST + LAMBDA_REQUEST + S3_PUT) + seconds * QUERY_GB * LAMBDA_GB_SECOND
