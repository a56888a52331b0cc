"""Who finds AWS credentials for the object store: obstore itself, or boto3 where obstore would not.

obstore knows static keys, a web identity, a container's endpoint and the instance's, all by the environment, and no
more: no profiles, no endpoint whose token stands in the environment
(https://docs.rs/object_store/latest/object_store/aws/struct.AmazonS3Builder.html). Lambda gives static keys. AWS's
documents do not say which of them EMR Serverless gives its jobs: whichever it is, boto3's chain knows it.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from firn.config.region import WAREHOUSES, region_of, s3_endpoint
from firn.errors import ConfigError, StorageUnavailable

if TYPE_CHECKING:
    from firn.config.warehouses import Warehouse

_STATIC: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# Each of these by itself is enough for obstore.
_KNOWN: Final = (
    _STATIC,
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    ("AWS_SKIP_SIGNATURE",),
)
# boto3 gives none that end within 10 minutes, and obstore asks again 5 minutes before they seem to.
_SHOWN_AS_VALID: Final = timedelta(minutes=10)


def s3_options(environment: Mapping[str, str], bucket: str = "") -> dict[str, Any]:
    """What obstore is told of S3: region, endpoint, and who gives out credentials. `bucket`: whose own region and
    endpoint count, where FIRN_WAREHOUSES has any. Raises as `provider_of`, and ConfigError if no region is set."""
    own = _of_bucket(bucket, told_of) if bucket and (told_of := environment.get(WAREHOUSES)) else None
    if own is not None and own.endpoint and environment.get("AWS_ENDPOINT_URL_S3"):
        raise ConfigError(  # obstore would ask there, whatever it is told
            f"AWS_ENDPOINT_URL_S3 is of all buckets, and {WAREHOUSES} says that {bucket} is at {own.endpoint}: set "
            "AWS_ENDPOINT_URL in place of it"
        )
    told: dict[str, Any] = {"region": (own.region if own else "") or region_of(environment)}
    if (provider := provider_of(environment)) is not None:
        told["credential_provider"] = provider
    if endpoint := (own.endpoint if own else "") or s3_endpoint(environment):
        told["endpoint"] = endpoint
    return told


def _of_bucket(bucket: str, told: str) -> "Warehouse | None":
    from firn.config.warehouses import on_bucket  # few deployments have any

    return on_bucket(bucket, told)


def provider_of(environment: Mapping[str, str]) -> Any | None:
    """What obstore asks for credentials; None where it finds them itself.

    Raises ConfigError if there are none, or if what there is of them is half of a pair or can't be read;
    StorageUnavailable if who gives them out does not answer.
    """
    if len(said := [name for name in _STATIC if environment.get(name)]) == 1:
        (lacking,) = {*_STATIC} - {*said}
        raise ConfigError(f"{said[0]} is set and {lacking} is not: set both, or neither")
    if any(all(environment.get(name) for name in names) for names in _KNOWN):
        return None
    return _of_boto3()


@cache
def _of_boto3() -> Any | None:
    try:
        from botocore.exceptions import BotoCoreError, CredentialRetrievalError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:  # it is not installed everywhere
        return None
    try:
        return Boto3CredentialProvider(ttl=_SHOWN_AS_VALID)
    except ValueError as error:
        raise ConfigError(
            "no AWS credentials are found for the staging store: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY; in a job, look whether its role can be assumed by emr-serverless.amazonaws.com"
        ) from error
    except CredentialRetrievalError as error:
        raise StorageUnavailable(f"AWS credentials for the staging store are not given out: {error}") from error
    except BotoCoreError as error:  # no such profile, a file of which boto3 can make nothing
        raise ConfigError(f"AWS credentials for the staging store can't be read: {error}") from error
