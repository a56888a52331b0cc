"""The AWS region, said by the environment and never assumed; and the endpoint of S3. Pure."""

from collections.abc import Mapping
from typing import Final

from firn.errors import ConfigError

WAREHOUSES: Final = "FIRN_WAREHOUSES"
"""What a deployment says of warehouses beside its own (firn.config.warehouses)."""
NO_NETWORK: Final = "none"
"""What a deployment says of its jobs' network (FIRN_NETWORK, the output Network) where they have none."""


def region_of(environment: Mapping[str, str]) -> str:
    """AWS_REGION, or AWS_DEFAULT_REGION where that is missing. Raises ConfigError if both are: a job that guesses asks
    the wrong region's Glue for its tables, finds none, and makes them there."""
    found = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if found:
        return found
    raise ConfigError(
        "no AWS region is set, and none is assumed: set AWS_REGION, such as eu-central-1 (for jobs on EMR Serverless "
        "as template.yaml does, by spark.emr-serverless.driverEnv.AWS_REGION and spark.executorEnv.AWS_REGION)"
    )


def s3_endpoint(environment: Mapping[str, str]) -> str:
    """The endpoint that S3 is asked at, "" for AWS's own. AWS_ENDPOINT_URL is of all services."""
    return environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
